// The bench's checks say no where they should: a check that cannot fail proves nothing of what was measured.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createRawServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { Bench } from '../../bench/bench.ts';
import { checkIds, checkAnswers, checkReplays, spread } from '../../bench/check.ts';
import { parseCommand } from '../../bench/options.ts';
import { latencyAt, type Load } from '../../bench/result.ts';
import { childrenOf } from '../../deploy/stop-signal.ts';
import type { Driven } from '../../bench/load/drive.ts';
import { isHeld } from '../../bench/scenarios/peaks.ts';
import { operatorApi } from '../../bench/servers/operator-api.ts';
import { run } from '../../bench/run.ts';
import { sinceAt, startReceiver } from '../../bench/servers/start-receiver.ts';
import { driveOn, portOf } from './bench-endpoint.ts';
import { startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

t.test('an acknowledged id that is not there is told, and so is that there was none', async (t) => {
  const service = await startService();
  t.teardown(() => service.stop());
  const body = { amount: '1000', currency: 'UGX', msisdn: '256772000001', reference: 'kept' };
  const { body: charge } = await service.merchant('POST', '/v1/charges', { body });
  const directory = temporaryDirectory(t);
  const [keysFile, idsFile] = [join(directory, 'keys'), join(directory, 'ids')];
  writeFileSync(keysFile, service.demo.secret_key);
  const { hostname, port } = new URL(service.demo.base_url);
  const stop = () => service.stop();
  const server = {
    name: 'service',
    host: hostname,
    port: Number(port),
    processes: [],
    readMetrics: null,
    stop,
  };
  const work = { kinds: ['charge'], keysFile, idsFile: null, lists: [], msisdn: '', prefix: '' } as const;
  const check = (ids: readonly string[]) => {
    writeFileSync(idsFile, ids.map((id) => `0 ${id}`).join('\n'));
    return checkIds('acknowledged', server, work, idsFile, 10);
  };
  t.hasStrict(await check([charge.id]), { passed: true, detail: '1 of 1 found, of 1 acknowledged' });
  const lost = `${charge.id.slice(0, -1)}${charge.id.endsWith('0') ? '1' : '0'}`;
  t.hasStrict(await check([charge.id, lost]), {
    passed: false,
    detail: `1 of 2 found, of 2 acknowledged; first: ${lost}`,
  });
  t.hasStrict(await check([]), { passed: false, detail: '0 of 0 found, of 0 acknowledged' });
});

t.test('creates of which none can be sent again do not pass', async (t) => {
  const keysFile = join(t.testdir({ keys: 'key' }), 'keys');
  const work = { kinds: ['charge'], keysFile, idsFile: null, lists: [], msisdn: '', prefix: '' } as const;
  const stop = async () => {};
  const server = {
    name: 'service',
    host: 'nowhere.invalid',
    port: 1,
    processes: [],
    readMetrics: null,
    stop,
  };
  const load = { connections: 16 } as Load;
  const driven = { sent: 100, answered: 0, made: 0, brokeOffAt: [100], load, atEnd: null } satisfies Driven;
  t.hasStrict(await checkReplays(server, work, driven, 10), {
    passed: false,
    detail:
      'none of 100 sent is certain to have been answered: measure longer (--seconds), or with fewer connections',
  });
});

t.test('a load with a refusal, an error or no answer at all does not pass', async (t) => {
  const checked = (statuses: Load['statuses'], errors: Load['errors']) =>
    checkAnswers({ label: 'rate', statuses, errors } as Load);
  t.hasStrict(checked({ 201: 5 }, {}), { passed: true, detail: 'none refused, no error' });
  t.hasStrict(checked({ 201: 5, 503: 1 }, {}), { passed: false, detail: '503: 1' });
  t.hasStrict(checked({ 201: 5 }, { timeout: 2 }), { passed: false, detail: 'timeout: 2' });
  t.hasStrict(checked({}, {}), { passed: false, detail: 'there was none' });
  t.hasStrict(checked({ '2xx': 0 }, {}), { passed: false, detail: 'there was none' });
});

t.test('what is refused after the load has ended is told, what is done by then does not count', async (t) => {
  for (const late of [201, 503]) {
    const firsts = 5;
    let count = 0;
    const waiting: (() => void)[] = [];
    const endpoint = createServer((request, response) => {
      request.resume();
      const answer = (status: number): void => void response.writeHead(status).end();
      if (++count <= firsts) answer(201);
      else waiting.push(() => answer(late));
    });
    const { load, sent } = await driveOn(t, await portOf(t, endpoint), {
      connections: 20,
      ratePerSecond: 20,
      seconds: 1,
      // Asked when the load begins and when it has ended.
      readMetrics: async () => {
        for (const answer of waiting.splice(0)) answer();
        return [];
      },
    });
    t.strictSame(load.errors, {});
    t.ok(sent > firsts);
    t.equal(load.perSecond, firsts);
    t.equal(checkAnswers(load).passed, late === 201);
  }
});

t.test(
  'each connection is used in its turn, and none that a service may be closing as too long idle',
  async (t) => {
    const answered: number[] = [];
    const endpoint = createServer((request, response) => {
      request.resume();
      const place = places.indexOf(request.socket);
      answered[place] = (answered[place] ?? 0) + 1;
      response.writeHead(201).end('{}');
    });
    const places: Socket[] = [];
    endpoint.on('connection', (socket) => places.push(socket));
    const port = await portOf(t, endpoint);
    const busy = await driveOn(t, port, { connections: 4, ratePerSecond: 20, seconds: 1 });
    t.strictSame(busy.load.errors, {});
    t.equal(answered.length, 4);
    t.ok(Math.max(...answered) - Math.min(...answered) <= 1, `in turn: ${answered.join(', ')}`);
    const before = places.length;
    // One request at its begin, and one after both connections have been idle for five seconds.
    const quiet = await driveOn(t, port, { connections: 2, ratePerSecond: 0.16, seconds: 7 });
    t.strictSame(quiet.load.errors, {});
    t.equal(quiet.sent, 2);
    t.equal(places.length - before, 4);
    t.strictSame(answered.slice(before + 2).filter(Boolean), [1], 'the second on a new connection');
  },
);

t.test(
  'what could not be sent has waited until a connection was free, also beyond the end of its load',
  async (t) => {
    const held: (() => void)[] = [];
    const firsts = 25;
    const afterwardsMs = 500;
    let count = 0;
    const endpoint = createServer((request, response) => {
      request.resume();
      const answer = (): void => void response.writeHead(201).end();
      if (++count <= firsts) answer();
      else held.push(answer);
    });
    let asked = 0;
    const { load } = await driveOn(t, await portOf(t, endpoint), {
      connections: 2,
      ratePerSecond: 2 * firsts,
      seconds: 1,
      // Twice before the load, when it begins, and when it has ended.
      readMetrics: async () => {
        if (++asked === 4) setTimeout(() => held.splice(0).forEach((answer) => answer()), afterwardsMs);
        return [];
      },
    });
    t.ok(load.unsent > 15);
    t.ok(latencyAt(load.latency, 75) > afterwardsMs, `p75 ${latencyAt(load.latency, 75)} ms`);
  },
);

/** Milliseconds. Whoever drives a load on this process does nothing meanwhile. */
function stopDriver(ms: number, meanwhile = (): void => {}): void {
  const [driver] = childrenOf(process.pid);
  process.kill(driver!, 'SIGSTOP');
  setTimeout(() => {
    meanwhile();
    process.kill(driver!, 'SIGCONT');
  }, ms);
}

t.test('how late the driver was is of the measured time, not of the warm-up', async (t) => {
  const stoppedMs = 1_000;
  let count = 0;
  const endpoint = createServer((request, response) => {
    request.resume();
    response.writeHead(201).end();
    if (++count === 1) stopDriver(stoppedMs);
  });
  const counts: number[] = [];
  const { load } = await driveOn(t, await portOf(t, endpoint), {
    connections: 4,
    ratePerSecond: 50,
    warmUpSeconds: 1.5,
    onBegin: () => counts.push(count),
  });
  t.ok(counts.length === 1 && counts[0]! > 4, `it began after ${counts.join(' and ')}`);
  t.ok(load.driverLateMsP99! < stoppedMs / 2, `${load.driverLateMsP99} ms`);
});

t.test('an answer is done of a load that has not yet ended when it comes', async (t) => {
  const firsts = 4;
  const connections = 4;
  const held: (() => void)[] = [];
  let count = 0;
  const endpoint = createServer((request, response) => {
    request.resume();
    const answer = (): void => void response.writeHead(201).end();
    count++;
    if (count <= firsts || count > firsts + connections) return answer();
    // All that it has, until its time is over: it hears of the answers before it looks at its clock.
    if (held.push(answer) === connections) {
      stopDriver(1_200, () => held.forEach((each) => each()));
    }
  });
  const { load } = await driveOn(t, await portOf(t, endpoint), { connections, ratePerSecond: 20 });
  t.strictSame(load.errors, {});
  t.strictSame([load.statuses, load.perSecond], [{ 201: firsts }, firsts]);
});

t.test('a second that a load ends in is none of its seconds', async (t) => {
  const endpoint = createServer((request, response) => {
    request.resume();
    response.writeHead(201).end();
  });
  const { load } = await driveOn(t, await portOf(t, endpoint), { ratePerSecond: 20, seconds: 1.5 });
  t.equal(load.series.length, 1);
});

t.test('an answer that nobody asked for is told, and answers no request', async (t) => {
  const answer = 'HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n';
  const firsts = 5;
  let count = 0;
  const endpoint = createRawServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => socket.write(answer.repeat(++count <= firsts ? 1 : 2)));
  });
  const { load } = await driveOn(t, await portOf(t, endpoint), { ratePerSecond: 20 });
  t.notOk(checkAnswers(load).passed);
  t.match(Object.keys(load.errors), ['unasked']);
});

/** Answers one request, closes all its connections, and takes no more than two others from then on. */
const DEAF = `
  const sockets = [];
  const server = require('node:net').createServer((socket) => {
    sockets.push(socket.on('error', () => {}));
    socket.once('data', () => {
      socket.end('HTTP/1.1 201 Created\\r\\nContent-Length: 2\\r\\n\\r\\n{}', () => {
        for (const each of sockets) each.destroy();
        setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
      });
    });
  });
  server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => process.stdout.write(String(server.address().port)));
`;

t.test('a load ends with its time, whatever connection of it has not come about yet', async (t) => {
  const endpoint = spawn(process.execPath, ['-e', DEAF], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => endpoint.kill('SIGKILL'));
  const [port] = (await once(endpoint.stdout, 'data')) as [Buffer];
  const signal = AbortSignal.timeout(20_000);
  const { load } = await driveOn(t, Number(port), { connections: 6, ratePerSecond: 0.9, signal });
  t.strictSame(load.statuses, { 201: 1 });
  t.notOk(signal.aborted, 'its driver ends by itself');
});

t.test('a rate is held by whoever does all of it in time, not by refusing quickly', async (t) => {
  const load = (changes: Partial<Load>, p99Ms = 10): Load => {
    const latency = { meanMs: 1, maxMs: p99Ms, percentiles: [[99, p99Ms]] } as const;
    return { label: 'search', statuses: { 201: 500 }, errors: {}, unsent: 0, latency, ...changes } as Load;
  };
  t.ok(isHeld(load({})));
  t.notOk(isHeld(load({}, 10.1)));
  t.notOk(isHeld(load({ unsent: 1 })));
  t.notOk(isHeld(load({ statuses: { 201: 250, 503: 250 } })));
  t.notOk(isHeld(load({ errors: { reset: 1 } })));
  t.notOk(isHeld(load({ statuses: {} })));
});

t.test('what is looked at is spread over all, with the last', async (t) => {
  t.strictSame(spread([1, 2, 3], 3), [1, 2, 3]);
  t.strictSame(spread([1, 2, 3, 4, 5, 6, 7], 3), [2, 4, 7]);
  t.strictSame(spread([], 3), []);
});

t.test('the times of webhooks are of what was created when the warm-up was over', async (t) => {
  const receiver = await startReceiver(0);
  t.teardown(() => receiver.stop());
  const deliver = async (id: string, createdAgoMs: number): Promise<void> => {
    const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();
    const event = { id, created_at: ago(0), data: { object: { created_at: ago(createdAgoMs) } } };
    const headers = { 'service-event-id': id };
    await fetch(receiver.webhookUrl.replace('#', '1'), {
      method: 'POST',
      headers,
      body: JSON.stringify(event),
    });
  };
  await deliver('evt_1', 600_000);
  await receiver.begin();
  await deliver('evt_2', 500_000);
  const { events, timed, sinceCreate } = await receiver.stats();
  t.equal(events, 2);
  t.equal(timed, 0);
  t.equal(sinceAt(sinceCreate, 100), 0);
  const before = Date.now();
  await deliver('evt_3', -1_000);
  const after = await receiver.stats();
  t.hasStrict(after, { events: 3, timed: 1 });
  t.ok(after.firstAt >= before, 'nor is the time from which a rate is told');
  t.equal(after.lastAt, after.firstAt);
  await deliver('evt_2', 500_000);
  t.equal((await receiver.stats()).lastAt, after.lastAt);
});

t.test('what runs is stopped, also where another cannot be', async (t) => {
  const command = parseCommand(['bare', '--form', 'smoke']);
  if (command.type !== 'run') throw new Error('it names a run');
  const bench = new Bench(command.options, '.', temporaryDirectory(t), () => {});
  const directory = bench.directory();
  const receiver = bench.keep(await startReceiver(0));
  t.teardown(() => receiver.stop());
  bench.keep({ stop: () => Promise.reject(new Error('it does not end')) });
  await t.rejects(bench.clear(), { message: 'it does not end' });
  await t.rejects(receiver.stats(), { message: 'fetch failed' });
  t.notOk(existsSync(directory));
});

t.test('a report has what was measured before something could not be stopped', async (t) => {
  const command = parseCommand(['bare', '--form', 'smoke']);
  if (command.type !== 'run') throw new Error('it names a run');
  const clear = Reflect.get(Bench.prototype, 'clear') as (this: Bench) => Promise<void>;
  t.intercept(Bench.prototype, 'clear', {
    value(this: Bench) {
      this.keep({ stop: () => Promise.reject(new Error('it does not end')) });
      return clear.call(this);
    },
  });
  const told: string[] = [];
  const listener = { progress() {}, finished() {}, failed: (name: string) => void told.push(name) };
  const { report } = await run(command.options, '', listener);
  t.match(report.scenarios, [{ name: 'bare', repeats: [{ figures: [{ unit: '/s' }] }] }]);
  t.strictSame(report.failures, [{ scenario: 'bare', error: 'it does not end' }]);
  t.strictSame(told, ['bare']);
});

t.test('what a service answers that has no metrics to tell is not taken for some', async (t) => {
  const server = createServer((_, response) => response.writeHead(503).end('daftari_log_sequence 0\n'));
  const api = operatorApi(`http://127.0.0.1:${await portOf(t, server)}`, '');
  await t.rejects(api.metrics(), { message: 'GET /metrics: 503 daftari_log_sequence 0\n' });
});
