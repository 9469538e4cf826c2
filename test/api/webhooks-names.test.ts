// Where one delivery attempt goes: names that lead to several addresses, to slow or dead ones, to none, or to where no delivery may
// go; literal addresses and ports.

import dgram from 'node:dgram';
import { createServer } from 'node:http';
import net from 'node:net';
import t from 'tap';
import type { Test } from 'tap';
import { resolveByDns, type SendResult } from '../../actors/webhooks/sender.ts';
import { readConfig } from '../../src/config.ts';
import { LIMITS } from '../../src/limits.ts';
import { createLog } from '../../src/observability/log.ts';
import { guardOf, refusedAddressesTo } from '../../src/wiring/outbound.ts';
import { inThreeTries, listenSlowly, SLOW_AND_REFUSED } from './slow-listener.ts';
import { LONG_MS, receiverFor, send, senderFor, SHORT_MS } from './webhooks-attempt.ts';

// Each test has endpoints and a sender of its own, and the long ones only wait.
t.jobs = 6;

void t.test('an endpoint that never takes the connection, by its name or its address', async (t) => {
  const { port } = await listenSlowly(t);
  const resolve = () => Promise.resolve(SLOW_AND_REFUSED.slice(0, 1));
  const sender = senderFor(t, { attemptMs: 500, resolve });
  const excerpt = 'No answer within 500 ms: it had not accepted the connection.';
  for (const host of ['https://hooks.example.com', 'https://127.0.0.1', 'http://hooks.example.com']) {
    t.hasStrict(await send(sender, `${host}:${port}/`), {
      error: 'timeout',
      statusCode: null,
      excerpt,
    });
  }
});

void t.test(
  'an address that takes a second to accept is waited for, though its name has another',
  async (t) => {
    const attempt = async (): Promise<SendResult> => {
      const { port, letGo } = await listenSlowly(t);
      const resolve = () => {
        // Comes after the first SYN: from the answer to it there is no turn of the event loop.
        setImmediate(letGo);
        return Promise.resolve([...SLOW_AND_REFUSED]);
      };
      const sender = senderFor(t, { resolve, attemptMs: LIMITS.webhookAttemptMs });
      return send(sender, `http://hooks.example.com:${port}/`);
    };
    const result = await inThreeTries(attempt, ({ error }) => error === null);
    t.hasStrict(result, { error: null, statusCode: 200 });
  },
);

void t.test('of a name whose first address is dead, the next is tried in time', async (t) => {
  const { port } = await listenSlowly(t);
  const other = createServer((_request, response) => response.end('ok'));
  await new Promise<void>((resolve) => {
    other.listen(port, '127.0.0.2', resolve);
  });
  t.teardown(() => other.close());
  const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
  const sender = senderFor(t, {
    resolve: () => Promise.resolve(addresses),
    attemptMs: LIMITS.webhookAttemptMs,
  });
  t.hasStrict(await send(sender, `http://hooks.example.com:${port}/`), { error: null, statusCode: 200 });
});

void t.test('of a name whose first address refuses, the next is tried', async (t) => {
  const receiver = await receiverFor(t);
  // Nobody listens at the first: the receiver is at 127.0.0.1 alone.
  const addresses = ['127.0.0.9', '127.0.0.1'].map((address) => ({ address, family: 4 }));
  const sender = senderFor(t, { resolve: () => Promise.resolve(addresses) });
  t.hasStrict(await send(sender, `https://hooks.example.com:${receiver.port}/`), {
    error: null,
    statusCode: 200,
  });
});

void t.test(
  'of a name that leads to thousands of hosts a few are tried, and the others are none of its business',
  async (t) => {
    const receiver = await receiverFor(t);
    const url = `https://hooks.example.com:${receiver.port}/`;
    // Nobody listens at them: the next is tried at once.
    const others = Array.from({ length: 5_000 }, (_, i) => `127.1.${i >> 8}.${i & 255}`);
    const ending = async (before: number): Promise<SendResult> => {
      const names = [...others.slice(0, before), '127.0.0.1', ...others];
      const addresses = names.map((address) => ({ address, family: 4 }));
      return send(senderFor(t, { resolve: () => Promise.resolve(addresses) }), url);
    };
    t.hasStrict(await ending(LIMITS.webhookAddressesMax - 1), { error: null, statusCode: 200 });
    t.hasStrict(await ending(LIMITS.webhookAddressesMax), { error: 'connect', statusCode: null });
    t.equal(receiver.connections, 1);
  },
);

void t.test('a literal address needs no name, in brackets or not', async (t) => {
  const receiver = await receiverFor(t);
  t.hasStrict(await send(senderFor(t), `https://127.0.0.1:${receiver.port}/`), { error: null });
  t.hasStrict(await send(senderFor(t), `https://[::1]:${receiver.port}/`), { error: 'connect' });
});

void t.test('a name that does not resolve, or for ever', async (t) => {
  const fails = senderFor(t, { resolve: () => Promise.reject(new Error('queryA ENOTFOUND')) });
  t.match(await send(fails, 'https://hooks.example.com/'), { error: 'dns', excerpt: /ENOTFOUND/ });
  const empty = senderFor(t, { resolve: () => Promise.resolve([]) });
  t.hasStrict(await send(empty, 'https://hooks.example.com/'), { error: 'dns' });
  const hangs = senderFor(t, { resolve: () => new Promise(() => {}), attemptMs: SHORT_MS });
  const result = await send(hangs, 'https://hooks.example.com/');
  t.match(result, { error: 'timeout', excerpt: /: its name was being looked up\.$/ });
  t.ok(result.durationMs < LONG_MS, 'DNS is within the time-out');
});

const A = 1;
const AAAA = 28;

/** A name server that answers questions of the given types alone, with an address of this machine. `ipv6AfterMs`: the name has no other
 *  address than that for IPv6, which is told so late. */
async function nameServerFor(
  t: Test,
  types: readonly number[],
  ipv6AfterMs: number | null = null,
): Promise<string> {
  const server = dgram.createSocket('udp4');
  server.on('message', (question, { port, address }) => {
    const type = question.readUInt16BE(question.indexOf(0, HEAD_BYTES) + 1);
    if (!types.includes(type)) return;
    const isThere = ipv6AfterMs === null || type === AAAA;
    const end = question.indexOf(0, HEAD_BYTES) + 5;
    const head = Buffer.from(question.subarray(0, end));
    head.set([0x81, 0x80, 0, 1, 0, isThere ? 1 : 0, 0, 0, 0, 0], 2);
    const where = type === A ? [127, 0, 0, 1] : [...Array<number>(15).fill(0), 1];
    const record = [0xc0, HEAD_BYTES, 0, type, 0, 1, 0, 0, 0, 60, 0, where.length, ...where];
    const answer = Buffer.concat([head, Buffer.from(isThere ? record : [])]);
    const tell = (): void => server.send(answer, port, address);
    if (type === AAAA && ipv6AfterMs !== null) setTimeout(tell, ipv6AfterMs);
    else tell();
  });
  await new Promise<void>((resolve) => {
    server.bind(0, '127.0.0.1', resolve);
  });
  t.teardown(() => server.close());
  return `127.0.0.1:${server.address().port}`;
}
const HEAD_BYTES = 12;

void t.test('a name is found though its name server never answers for IPv6', async (t) => {
  const receiver = await receiverFor(t);
  const both = await nameServerFor(t, [A, AAAA]);
  const whole = resolveByDns(() => [both]);
  t.same(await whole('hooks.example.com'), [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ]);
  // Both are asked twice, and for longer the second time: longer than an attempt lasts.
  const one = await nameServerFor(t, [A]);
  const other = await nameServerFor(t, [A]);
  const half = resolveByDns(() => [one, other]);
  const sender = senderFor(t, { resolve: half, attemptMs: LIMITS.webhookAttemptMs });
  t.hasStrict(await send(sender, `https://hooks.example.com:${receiver.port}/`), { error: null });
});

void t.test('a name that has an address for IPv6 alone is found, however late that is told', async (t) => {
  const server = await nameServerFor(t, [A, AAAA], LIMITS.webhookDnsIpv6Ms + 200);
  const found = await resolveByDns(() => [server])('hooks.example.com');
  t.strictSame(found, [{ address: '::1', family: 6 }]);
});

void t.test('names are asked of the name servers that the system has by now', async (t) => {
  const [silent, speaks] = [await nameServerFor(t, []), await nameServerFor(t, [A, AAAA])];
  const resolverFor = (attemptMs: number, resolverMs?: number) => {
    const servers = [silent];
    const resolve = resolveByDns(() => servers, resolverMs);
    servers[0] = speaks;
    return senderFor(t, { resolve, attemptMs });
  };
  const receiver = await receiverFor(t);
  const url = `https://hooks.example.com:${receiver.port}/`;
  t.hasStrict(await send(resolverFor(SHORT_MS), url), { error: 'timeout' });
  t.hasStrict(await send(resolverFor(LONG_MS, 0), url), { error: null });
});

// Where the name leads decides, whatever it is called. Addresses of the test's own machine: were one let through, the
// receiver would hear of it.
const PUBLIC = ['8.8.8.8', '2606:4700:4700::1111'];
const DNS_ANSWERS: readonly (readonly [what: string, addresses: readonly string[]])[] = [
  ['loopback', ['127.0.0.1']],
  ['another loopback', ['127.8.8.8']],
  ['a public address and loopback', ['8.8.8.8', '127.0.0.1']],
  ['loopback and a public address', ['127.0.0.1', '8.8.8.8']],
  ['public IPv6 and loopback', ['2606:4700:4700::1111', '127.0.0.1']],
  ['a public address and IPv6 loopback', ['8.8.8.8', '::1']],
  ['IPv6 loopback', ['::1']],
  ['mapped loopback', ['::ffff:127.0.0.1']],
  ['IPv4-compatible loopback', ['::7f00:1']],
  ['NAT64 of loopback', ['64:ff9b::7f00:1']],
  ['6to4 of loopback', ['2002:7f00:1::1']],
  ['Teredo', ['2001:0:4136:e378:8000:63bf:3fff:fdd2']],
  ['cloud metadata', ['169.254.169.254']],
  ['AWS metadata', ['fd00:ec2::254']],
  ['private', ['10.0.0.5']],
  ['unspecified', ['0.0.0.0']],
  ['link-local with a zone', ['fe80::1%eth0']],
  ['multicast', ['224.0.0.251']],
  ['not assigned', ['4000::1']],
  ['not an address', ['localhost']],
];

for (const [what, addresses] of DNS_ANSWERS) {
  void t.test(`a name that resolves to ${what} is refused before a byte is sent`, async (t) => {
    const receiver = await receiverFor(t);
    const told: string[][] = [];
    const sender = senderFor(t, {
      guard: { allowPrivate: false, ports: [receiver.port] },
      onRefused: (...refused) => told.push(refused),
      resolve: () =>
        Promise.resolve(addresses.map((address) => ({ address, family: net.isIP(address) || 4 }))),
    });
    const result = await send(sender, `https://hooks.example.com:${receiver.port}/`);
    const excerpt = 'The URL leads to an address that is not public.';
    t.hasStrict(
      result,
      { error: 'url_refused', statusCode: null, excerpt },
      'merchants read this, and not which',
    );
    t.strictSame(
      told,
      [['hooks.example.com', addresses.find((address) => !PUBLIC.includes(address))]],
      'operators are told',
    );
    t.equal(receiver.connections, 0);
  });
}

void t.test(
  'however many attempts go to an address that is not public, the log has a line a second',
  async (t) => {
    const lines: Record<string, unknown>[] = [];
    const stream = { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) };
    const sender = senderFor(t, {
      guard: { allowPrivate: false, ports: [] },
      onRefused: refusedAddressesTo(createLog({ level: 'info', node: 'n1', stream })),
      resolve: () => Promise.resolve([{ address: '10.0.0.5', family: 4 }]),
    });
    const since = performance.now();
    for (let i = 0; i < 20; i++) await send(sender, 'https://hooks.example.com/');
    t.ok(lines.length <= 1 + (performance.now() - since) / 1_000, `${lines.length} lines`);
    t.hasStrict(lines[0], { hostname: 'hooks.example.com', address: '10.0.0.5', refused_since_last_line: 0 });
  },
);

void t.test('a refused URL is not even resolved, literal addresses included', async (t) => {
  const receiver = await receiverFor(t);
  let asked = 0;
  const sender = senderFor(t, {
    guard: { allowPrivate: false, ports: [receiver.port] },
    resolve: () => {
      asked++;
      return Promise.resolve([]);
    },
  });
  for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]', 'localhost']) {
    t.hasStrict(await send(sender, `https://${host}:${receiver.port}/`), { error: 'url_refused' }, host);
  }
  t.hasStrict(await send(sender, 'http://example.com/'), { error: 'url_refused' });
  t.equal(asked, 0);
  t.equal(receiver.connections, 0);
});

void t.test('a port of WEBHOOK_PORTS is connected to, any other is refused', async (t) => {
  let asked = 0;
  const sender = senderFor(t, {
    guard: guardOf(readConfig({ WEBHOOK_PORTS: '8443' })),
    resolve: () => {
      asked++;
      return Promise.resolve([]);
    },
  });
  t.match(await send(sender, 'https://hooks.example.com:8444/'), {
    error: 'url_refused',
    excerpt: /port 8444/,
  });
  t.equal(asked, 0);
  t.hasStrict(await send(sender, 'https://hooks.example.com:8443/'), { error: 'dns' });
  t.equal(asked, 1, 'it went on to the name');
});

void t.test(
  'the connection goes to the address that was checked: a name is asked once per connection',
  async (t) => {
    const receiver = await receiverFor(t);
    const answers = ['127.0.0.1', '127.0.0.99'];
    const sender = senderFor(t, {
      resolve: () => Promise.resolve([{ address: answers.shift() ?? '127.0.0.99', family: 4 }]),
    });
    t.hasStrict(await send(sender, `https://hooks.example.com:${receiver.port}/`), { error: null });
    t.same(answers, ['127.0.0.99'], 'asked once');
    receiver.dropConnections();
    t.hasStrict(
      await send(sender, `https://hooks.example.com:${receiver.port}/`),
      { error: 'connect' },
      'asked again',
    );
  },
);
