// The developer's tools against the running service: every event type can be triggered, is received, checked, passed on
// unchanged, and the app's own URL is put back.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import net from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Stripe } from 'stripe';
import t from 'tap';
import { listen } from '../../actors/webhooks/listen.ts';
import { ServiceClient } from '../../actors/webhooks/service-client.ts';
import { TRIGGERS } from '../../actors/webhooks/trigger.ts';
import { freePorts } from '../../deploy/free-ports.ts';
import { FORMAT, writeIdentity } from '../../src/data-directory/identity.ts';
import { STOP_SIGNALS } from '../../src/end-process.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Demo } from '../../src/operator/demo.ts';
import { until } from '../until.ts';
import { startService } from './start.ts';
import { Receiver } from './webhooks-receiver.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const root = new URL('../../', import.meta.url);

function start(
  file: string,
  args: readonly string[],
  env: Record<string, string>,
): ChildProcess & { text: string } {
  const child = Object.assign(
    spawn(process.execPath, [file, ...args], { cwd: root, env: { ...ENVIRONMENT, ...env } }),
    { text: '' },
  );
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      child.text += chunk.toString('utf8');
    });
  }
  return child;
}

/** Unless the child ends before. */
async function reached(
  isReached: () => boolean,
  child: { text: string; exitCode: number | null },
): Promise<void> {
  await until(() => {
    if (isReached()) return true;
    if (child.exitCode !== null) throw new Error(`ended: ${child.text}`);
    return false;
  });
}

function clientOf(demo: Demo): ServiceClient {
  return new ServiceClient({
    baseUrl: demo.base_url,
    operatorUrl: demo.operator_url,
    operatorToken: demo.operator_token,
    secretKey: demo.secret_key,
    accountId: demo.account_id,
    appId: demo.app_id,
  });
}

const directory = temporaryDirectory(t);
const [port, operatorPort, simulatorPort] = await freePorts(3);
const env = {
  DATA_DIR: directory,
  PORT: String(port),
  OPERATOR_PORT: String(operatorPort),
  SIMULATOR_PORT: String(simulatorPort),
  SIMULATOR_APPROVE_AFTER_MS: '20',
  WALLET_COOLING_OFF_SECONDS: '0',
  WEBHOOK_ALLOW_PRIVATE: 'true',
  PARTITIONS: '2',
  LOG_LEVEL: 'error',
};

void t.test('listen and trigger', async (t) => {
  const service = start('src/main.ts', [], env);
  t.teardown(() => service.kill('SIGKILL'));
  await reached(() => existsSync(join(directory, 'demo.json')), service);
  const demo = JSON.parse(readFileSync(join(directory, 'demo.json'), 'utf8')) as Demo;
  const client = clientOf(demo);
  const receiver = new Receiver(null);
  await receiver.listen();
  t.teardown(() => receiver.close());

  const forwardTo = `http://127.0.0.1:${receiver.port}/hook`;
  const listener = start('actors/webhooks/cli.ts', ['listen', '--forward-to', forwardTo], {
    DATA_DIR: directory,
  });
  t.teardown(() => listener.kill('SIGKILL'));
  await reached(() => listener.text.includes('Listening'), listener);

  // As a "trigger" leaves it that was stopped before it could have it approved.
  const users = await client.operator<{ data: readonly { id: string }[] }>('GET', '/users');
  const wallet = { label: 'trigger 001', msisdn: '+256772000001', by: users.data[0]!.id };
  await client.operator('POST', '/wallets', wallet);
  for (const type of Object.keys(TRIGGERS)) {
    const child = start('actors/webhooks/cli.ts', ['trigger', type], { DATA_DIR: directory });
    const [code] = (await once(child, 'close')) as [number];
    t.equal(code, 0, child.text.trim());
  }
  const typesSeen = (): Set<unknown> =>
    new Set(receiver.received.map(({ headers }) => headers['service-event-type']));
  await receiver.until(() => Object.keys(TRIGGERS).every((type) => typesSeen().has(type)));
  t.equal(typesSeen().size, Object.keys(TRIGGERS).length, 'and no other');
  const stripe = new Stripe('sk_test_unused');
  for (const { body, headers } of receiver.received) {
    stripe.webhooks.constructEvent(body, String(headers['service-signature']), demo.signing_secret, 300);
  }
  for (const type of Object.keys(TRIGGERS)) {
    await reached(() => listener.text.includes(`  ${type}  evt_`), listener);
  }

  listener.kill('SIGINT');
  const [code] = (await once(listener, 'exit')) as [number];
  t.equal(code, 0);
  t.hasStrict(
    await client.operator('GET', '/apps'),
    { data: [{ id: demo.app_id, webhook_url: null }] },
    'the URL is as it was',
  );
});

void t.test('listen outlives a request that breaks off, and ends though the service has gone', async (t) => {
  const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true' });
  const client = clientOf(service.demo);
  const printed: string[] = [];
  const listening = await listen({ client, forwardTo: null, print: (line) => void printed.push(line) });
  const { data } = await client.operator<{ data: { webhook_url: string }[] }>('GET', '/apps');
  const { webhook_url } = data[0]!;
  const socket = net.connect(Number(new URL(webhook_url).port), '127.0.0.1');
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\nhalf');
  // Its answer to the head: it reads on.
  await once(socket, 'data');
  socket.destroy();
  while (!printed.some((line) => line.includes('broke off'))) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  const refused = await fetch(webhook_url, { method: 'POST', body: '{}' });
  t.equal(refused.status, 400, 'it goes on');
  await service.stop();
  await t.rejects(listening.stop(), { message: /URL of app_\w+ was not put back \(it was none\): http/ });
  await t.rejects(fetch(webhook_url, { method: 'POST', body: '{}' }), 'nobody listens any more');
});

void t.test('listen says why an event could not be passed on', async (t) => {
  const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true', RAILS: 'loopback' });
  t.teardown(() => service.stop());
  const [nobody] = await freePorts(1);
  const listener = start(
    'actors/webhooks/cli.ts',
    ['listen', '--forward-to', `http://localhost:${nobody}/hook`],
    { DATA_DIR: service.dataDir },
  );
  t.teardown(() => listener.kill('SIGKILL'));
  await until(() => listener.text.includes('Listening'));
  await once(
    start('actors/webhooks/cli.ts', ['trigger', 'charge.failed'], { DATA_DIR: service.dataDir }),
    'close',
  );
  await until(() => listener.text.includes('failed: '));
  t.match(listener.text, /→ failed: .*ECONNREFUSED/);
});

void t.test("listen has the developer's terminal obey nothing of what was described", async (t) => {
  const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true' });
  t.teardown(() => service.stop());
  const listener = start('actors/webhooks/cli.ts', ['listen'], { DATA_DIR: service.dataDir });
  t.teardown(() => listener.kill('SIGKILL'));
  await reached(() => listener.text.includes('Listening'), listener);
  const wallet = { amount: '5000', currency: 'UGX', msisdn: '+256772000001' };
  const body = { ...wallet, reference: 'order-1', description: 'up\u009b2J \u202eback' };
  t.equal((await service.merchant('POST', '/v1/charges', { body })).status, 201);
  await reached(() => listener.text.includes('"description"'), listener);
  t.match(listener.text, '"description": "up\\u009b2J \\u202eback"');
  t.notMatch(listener.text, /[\u009b\u202e]/);
});

void t.test('listen puts the URL back whatever asks it to stop, also when it is asked twice', async (t) => {
  const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true' });
  t.teardown(() => service.stop());
  const { operator_url, account_id } = service.demo;
  const url = async (): Promise<string | null> =>
    (await service.operator('GET', `/operator/v1/accounts/${account_id}/apps`)).body.data[0].webhook_url;
  for (const signal of STOP_SIGNALS) {
    // In front of the operator API: asks once more when the URL is being put back, as npm does.
    const relay = createServer((request, response) => {
      void (async () => {
        const body = Buffer.concat(await request.toArray());
        if (body.includes('"webhook_url":null')) listener.kill(signal);
        const { method = '', headers } = request;
        const answer = await fetch(operator_url + request.url, {
          method,
          headers: {
            authorization: headers.authorization ?? '',
            'content-type': headers['content-type'] ?? '',
          },
          ...(body.length === 0 ? {} : { body }),
        });
        response.writeHead(answer.status).end(await answer.text());
      })();
    }).listen(0, '127.0.0.1');
    t.teardown(() => relay.close());
    await once(relay, 'listening');
    const listener = start('actors/webhooks/cli.ts', ['listen'], {
      DATA_DIR: service.dataDir,
      OPERATOR_URL: `http://127.0.0.1:${(relay.address() as AddressInfo).port}`,
    });
    t.teardown(() => listener.kill('SIGKILL'));
    await reached(() => listener.text.includes('Listening'), listener);
    t.type(await url(), 'string');
    listener.kill(signal);
    const [code] = (await once(listener, 'close')) as [number];
    t.equal(code, 0, `${signal}: ${listener.text}`);
    t.match(listener.text, /The webhook URL of the app is as it was/);
    t.equal(await url(), null, signal);
  }
});

void t.test(
  'listen puts the URL back where nobody reads it any more, or a disk has no room for it',
  async (t) => {
    const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true', RAILS: 'loopback' });
    t.teardown(() => service.stop());
    const path = `/operator/v1/accounts/${service.demo.account_id}/apps`;
    const own = 'http://127.0.0.1:9/hook';
    await service.operator('PATCH', `${path}/${service.demo.app_id}`, { webhook_url: own });
    const listenInto = async (stdout: number | 'pipe'): Promise<[number, string]> => {
      const env = { ...ENVIRONMENT, DATA_DIR: service.dataDir };
      const args = ['actors/webhooks/cli.ts', 'listen'];
      const child = spawn(process.execPath, args, { cwd: root, env, stdio: ['ignore', stdout, 'pipe'] });
      t.teardown(() => child.kill('SIGKILL'));
      child.stdout?.destroy();
      const [said, [status]] = await Promise.all([text(child.stderr!), once(child, 'close')]);
      const { body } = await service.operator('GET', path);
      t.equal(body.data[0].webhook_url, own);
      return [status as number, said];
    };
    t.strictSame(await listenInto('pipe'), [0, '']);
    if (!existsSync('/dev/full')) return;
    const full = openSync('/dev/full', 'w');
    const [status, said] = await listenInto(full);
    closeSync(full);
    t.equal(status, 1);
    t.match(said, /^What it found could not be written to standard output: ENOSPC: .*\n$/);
  },
);

void t.test(
  'listen puts back what one that was killed replaced, and leaves one that lives alone',
  async (t) => {
    const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true', RAILS: 'loopback' });
    t.teardown(() => service.stop());
    const path = `/operator/v1/accounts/${service.demo.account_id}/apps`;
    const url = async (): Promise<string> => (await service.operator('GET', path)).body.data[0].webhook_url;
    const own = 'http://127.0.0.1:9/hook?a=1&b=ü';
    const change = (webhook_url: string): Promise<unknown> =>
      service.operator('PATCH', `${path}/${service.demo.app_id}`, { webhook_url });
    await change(own);
    const begin = (): ReturnType<typeof start> => {
      const listener = start('actors/webhooks/cli.ts', ['listen'], { DATA_DIR: service.dataDir });
      t.teardown(() => listener.kill('SIGKILL'));
      return listener;
    };
    const end = async (listener: ReturnType<typeof start>, signal: NodeJS.Signals): Promise<void> => {
      listener.kill(signal);
      await once(listener, 'close');
    };
    const killed = begin();
    await reached(() => killed.text.includes('Listening'), killed);
    const second = begin();
    t.same(await once(second, 'close'), [1, null]);
    t.match(second.text, /Another "listen" receives the events of app_/);
    await end(killed, 'SIGKILL');
    const after = begin();
    await reached(() => after.text.includes('Listening'), after);
    t.not(await url(), own);
    await end(after, 'SIGINT');
    t.equal(await url(), own);

    const changed = begin();
    await reached(() => changed.text.includes('Listening'), changed);
    await change('http://127.0.0.1:9/new');
    await end(changed, 'SIGINT');
    t.match(changed.text, /was changed by somebody else/);
    t.equal(await url(), 'http://127.0.0.1:9/new');

    const long = `http://127.0.0.1:9/${'x'.repeat(LIMITS.webhookUrlLengthMax - 19)}`;
    await change(long);
    const last = begin();
    await reached(() => last.text.includes('Listening'), last);
    await end(last, 'SIGINT');
    t.equal(await url(), long);
  },
);

void t.test('trigger says whether anybody will hear of it', async (t) => {
  const service = await startService({ WEBHOOK_ALLOW_PRIVATE: 'true', RAILS: 'loopback' });
  t.teardown(() => service.stop());
  const trigger = async (...more: string[]): Promise<string> => {
    const env = { DATA_DIR: service.dataDir, BASE_URL: service.demo.base_url };
    const child = start('actors/webhooks/cli.ts', ['trigger', 'charge.failed', ...more], env);
    await once(child, 'close');
    return child.text;
  };
  const { account_id, app_id } = service.demo;
  t.match(await trigger(), `; nobody hears of it: ${app_id} has no webhook URL`);
  const path = `/operator/v1/accounts/${account_id}/apps/${app_id}`;
  await service.operator('PATCH', path, { webhook_url: 'http://127.0.0.1:9/' });
  t.match(await trigger(), /; charge\.failed will follow\.$/m);
  const { body } = await service.operator('POST', `/operator/v1/accounts/${account_id}/apps`, {
    name: 'other',
    domain: 'other.test',
  });
  const other = body.secret_key as string;
  t.match(await trigger('--key', other), /will follow if the app of the key has a webhook URL/);
});

void t.test('wrong usage is explained', async (t) => {
  for (const [args, says] of [
    [['trigger', 'charge.pending'], /no event type/],
    [['listen', '--wrong'], /Unknown option/],
    [['listen', '--forward-to', 'nonsense'], /not a URL/],
    [['listen', '--forward-to', 'localhost:3000/hook'], /not a URL that starts with http:/],
    [['listen', 'http://localhost:3000/hook'], /"http:\S+" is one too many/],
    [['trigger', 'charge.failed', 'now'], /"now" is one too many/],
    [[], /trigger <event type>/],
  ] as const) {
    const child = start('actors/webhooks/cli.ts', args, { DATA_DIR: directory });
    const [code] = (await once(child, 'close')) as [number];
    t.equal(code, 2);
    t.match(child.text, says);
  }
});

void t.test('a key that is none, and an address of something else, are told in words', async (t) => {
  const page = new Receiver(null);
  await page.listen();
  t.teardown(() => page.close());
  const key = `sk_live_${'0'.repeat(26)}${'a'.repeat(43)}`;
  for (const [args, env, says] of [
    [[], {}, /^There is no \/.*\/demo\.json: set DATA_DIR /],
    [['--key', 'sk_live_1'], {}, /^The key is not one of this service\.$/],
    [[], { SECRET_KEY: 'sk_live_1' }, /^The key is not one of this service\.$/],
    [[], { SECRET_KEY: key }, /^POST http\S+\/v1\/charges: HTTP 200, and what it says is no JSON/],
    [
      ['--key', key],
      { SECRET_KEY: 'sk_live_1' },
      /^POST http\S+\/v1\/charges: HTTP 200, and what it says is no JSON/,
    ],
    [
      ['--key', key],
      { BASE_URL: `http://127.0.0.1:${page.port}/` },
      /^POST http:\/\/[^/]+\/v1\/charges: HTTP 200, and/,
    ],
    [['--key', key], { BASE_URL: '127.0.0.1:9' }, /^"127\.0\.0\.1:9" is not a URL that starts with http:/],
    [['--key', key], { OPERATOR_URL: '' }, /^"" is not a URL that starts with http:/],
  ] as const) {
    const child = start('actors/webhooks/cli.ts', ['trigger', 'charge.failed', ...args], {
      DATA_DIR: temporaryDirectory(t),
      BASE_URL: `http://127.0.0.1:${page.port}`,
      ...env,
    });
    const [code] = (await once(child, 'close')) as [number];
    t.equal(code, 1);
    t.match(child.text.trim(), says);
  }
});

void t.test('trigger moves no real money: strangers have the numbers that the simulator knows', async (t) => {
  const service = new Receiver(null);
  await service.listen();
  t.teardown(() => service.close());
  const url = `http://127.0.0.1:${service.port}`;
  const secret_key = `sk_live_${'0'.repeat(26)}${'a'.repeat(43)}`;
  for (const [money, asks] of [
    ['real', 0],
    ['simulated', 1],
  ] as const) {
    const DATA_DIR = temporaryDirectory(t);
    const identity = { format: FORMAT, partitions: 2, masterKey: null, records: 0, money, cluster: false };
    writeIdentity(DATA_DIR, identity);
    const demo = { secret_key, base_url: url, operator_url: url, operator_token: 'token' };
    writeFileSync(join(DATA_DIR, 'demo.json'), JSON.stringify(demo));
    const child = start('actors/webhooks/cli.ts', ['trigger', 'deposit.successful'], { DATA_DIR });
    t.same(await once(child, 'close'), [1, null]);
    t.match(child.text, asks === 0 ? /daftari\.json says that money is real there: / : /is no JSON/);
    t.equal(service.received.length, asks);
  }
});

void t.test('a service that does not answer, or not to the end, is told in words', async (t) => {
  let begun = '';
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.write(begun);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const service = {
    baseUrl: url,
    operatorUrl: url,
    operatorToken: '',
    secretKey: '',
    accountId: '',
    appId: null,
  };
  const client = new ServiceClient(service, 200);
  for (begun of ['', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{']) {
    await t.rejects(client.get('/v1/balances'), {
      name: 'ServiceRefused',
      message: `GET ${url}/v1/balances: no answer within 200 ms.`,
    });
  }
});
