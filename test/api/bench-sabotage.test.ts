// A service that loses, doubles or invents what it acknowledges does not pass the checks that follow a load. Between the bench and
// the real service stands a proxy that does so to a few requests of many.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import {
  checkAnswers,
  checkIds,
  checkListed,
  checkMade,
  checkReplays,
  checkTrialBalances,
} from '../../bench/check.ts';
import { drive, type Driven } from '../../bench/load/drive.ts';
import type { Work } from '../../bench/load/work.ts';
import { operatorApi, type OperatorApi } from '../../bench/servers/operator-api.ts';
import type { Service } from '../../bench/servers/start-service.ts';
import { startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

interface Create {
  readonly headers: Record<string, string>;
  readonly body: string;
}
type Answer = Pick<Response, 'status'> & { readonly replayed: boolean; readonly text: string };
type Forward = (create: Create) => Promise<Answer>;
/** What becomes of the n-th create. */
type Mischief = (n: number, create: Create, forward: Forward) => Promise<Answer>;

const CREATES = 100;
/** One of them, which no sample is likely to have. */
const VICTIM = 45;
const SAMPLE = 10;
const CONNECTIONS = 4;
/** So many that the victim is not among the last, whose answers wrk does not wait for. */
const ENOUGH = 80;

const running = await startService({ SIMULATOR_APPROVE_AFTER_MS: '1' });
t.teardown(() => running.stop());
const { demo } = running;
const keys = [demo.secret_key, await anotherMerchant()];
let works = 0;

/** Its secret key. */
async function anotherMerchant(): Promise<string> {
  const api = operatorApi(demo.operator_url, demo.operator_token);
  const account = { name: 'Another', country: 'UG', live: true, payouts_enabled: true };
  const { id } = (await api.operator('POST', '/accounts', account)) as { id: string };
  const app = { name: 'Another', domain: 'another.test' };
  return ((await api.operator('POST', `/accounts/${id}/apps`, app)) as { secret_key: string }).secret_key;
}

/** The names of the checks that fail. */
async function failedChecks(
  t: Test,
  mischief: Mischief,
  {
    spoil = (api) => api,
    byWrk = false,
  }: { readonly spoil?: (api: OperatorApi) => OperatorApi; readonly byWrk?: boolean } = {},
): Promise<string[]> {
  let creates = 0;
  const forward = async ({ headers, body }: Create, path: string, method: string): Promise<Answer> => {
    const response = await fetch(demo.base_url + path, {
      method,
      headers,
      ...(method === 'POST' ? { body } : {}),
    });
    const replayed = response.headers.get('idempotent-replayed') === 'true';
    return { status: response.status, replayed, text: await response.text() };
  };
  const proxy = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const { method = '', url = '' } = request;
      const wanted = ['authorization', 'idempotency-key', 'content-type'];
      const headers = Object.fromEntries(
        wanted.flatMap((name) =>
          request.headers[name] === undefined ? [] : [[name, request.headers[name]]],
        ),
      ) as Record<string, string>;
      const create = { headers, body: Buffer.concat(pieces).toString() };
      const pass: Forward = (each) => forward(each, url, method);
      void (method === 'POST' ? mischief(creates++, create, pass) : pass(create)).then((answer) => {
        response.writeHead(answer.status, {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(answer.text),
          ...(answer.replayed ? { 'idempotent-replayed': 'true' } : {}),
        });
        response.end(answer.text);
      });
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => proxy.close());

  const directory = temporaryDirectory(t);
  const [keysFile, acknowledgedFile] = [join(directory, 'keys'), join(directory, 'acknowledged')];
  writeFileSync(keysFile, keys.join('\n'));
  const { port } = proxy.address() as AddressInfo;
  const api = spoil(operatorApi(demo.operator_url, demo.operator_token));
  const service: Service = {
    name: 'service',
    host: '127.0.0.1',
    port,
    baseUrl: `http://127.0.0.1:${port}`,
    readyMs: 0,
    processes: [],
    ...api,
    readMetrics: () => api.metrics(),
    stop: async () => {},
  };
  const driveFor = async (seconds: number): Promise<{ readonly work: Work; readonly waited: Driven }> => {
    creates = 0;
    const work: Work = {
      kinds: ['charge'],
      keysFile,
      idsFile: null,
      lists: [],
      msisdn: '+256772000065',
      prefix: `sabotage-${++works}`,
    };
    const waited = await drive({
      label: 'sabotaged',
      server: service,
      work,
      connections: CONNECTIONS,
      ratePerSecond: CREATES,
      warmUpSeconds: 0.1,
      seconds,
      acknowledgedFile,
      wrk: false,
      onProgress: () => {},
    });
    // Where the machine is slow, or stood still: once more, for longer.
    return waited.sent < ENOUGH ? driveFor(seconds * 2) : { work, waited };
  };
  const { work, waited } = await driveFor(0.9);
  const { sent } = waited;
  // It keeps no ids, and does not wait for its last answers.
  const driven = byWrk ? { ...waited, answered: sent - CONNECTIONS, brokeOffAt: [sent] } : waited;
  const checks = [
    checkAnswers(driven.load),
    checkMade(work, driven),
    ...(byWrk ? [] : [await checkIds('acknowledged', service, work, acknowledgedFile, SAMPLE)]),
    await checkListed(service, [{ work, driven }]),
    await checkReplays(service, work, driven, SAMPLE),
    await checkTrialBalances(service, keysFile),
  ];
  return checks.filter(({ passed }) => !passed).map(({ what }) => what);
}

const honest: Mischief = (_, create, forward) => forward(create);
const toOne =
  (what: Mischief): Mischief =>
  (n, create, forward) =>
    (n === VICTIM ? what : honest)(n, create, forward);

function underAnotherKey(create: Create): Create {
  return { ...create, headers: { ...create.headers, 'idempotency-key': `another-${works}` } };
}

/** A create that was not made may be in the sample that is sent again, or not; `alsoSampled`: nor need these checks come upon it. */
function exceptReplays(failed: readonly string[], ...alsoSampled: readonly string[]): string[] {
  const sampled = ['creates sent again are replays', ...alsoSampled];
  return failed.filter((what) => !sampled.includes(what));
}

t.test('an honest service passes', async (t) => {
  t.strictSame(await failedChecks(t, honest), []);
});

t.test('one create of many that is answered 201 and was not made', async (t) => {
  let before: Answer | null = null;
  // As another was: its id is there.
  const invented: Mischief = async (n, create, forward) =>
    n === VICTIM ? before! : (before = await forward(create));
  t.strictSame(exceptReplays(await failedChecks(t, invented)), [
    'every create was made once',
    'acknowledged ids exist',
    'every create is listed once',
  ]);
});

t.test('one create of many that is made twice', async (t) => {
  const doubled = toOne(async (_, create, forward) => {
    await forward(underAnotherKey(create));
    return forward(create);
  });
  t.strictSame(await failedChecks(t, doubled), ['every create was made once', 'every create is listed once']);
});

t.test('creates of which the answers name others', async (t) => {
  const misnamed: Mischief = async (_, create, forward) => {
    const answer = await forward(create);
    return { ...answer, text: answer.text.replace(/chg_\w{25}/, `chg_${'0'.repeat(25)}`) };
  };
  t.strictSame(await failedChecks(t, misnamed), ['acknowledged ids exist']);
});

t.test('one create of many of which the answer names another that was made', async (t) => {
  let before: Answer | null = null;
  const confused: Mischief = async (n, create, forward) => {
    const answer = await forward(create);
    return n === VICTIM ? before! : (before = answer);
  };
  t.strictSame(await failedChecks(t, confused), ['acknowledged ids exist']);
});

t.test('one create of many of which the answer names none', async (t) => {
  const nameless = toOne(async (_, create, forward) => ({ ...(await forward(create)), text: '{}' }));
  t.strictSame(await failedChecks(t, nameless), ['acknowledged ids exist']);
});

t.test('one create of many that is made for another merchant', async (t) => {
  const misbooked = toOne((_, create, forward) => {
    const whose = keys.find((key) => create.headers['authorization'] !== `Bearer ${key}`);
    return forward({ ...create, headers: { ...create.headers, authorization: `Bearer ${whose}` } });
  });
  t.strictSame(exceptReplays(await failedChecks(t, misbooked), 'acknowledged ids exist'), [
    'every create is listed once',
  ]);
});

t.test('one create of many that is not made, and one that is made twice', async (t) => {
  const evened = (): Mischief => {
    let before: Answer | null = null;
    return async (n, create, forward) => {
      if (n === VICTIM) return before!;
      if (n === VICTIM + 1) {
        await forward(underAnotherKey(create));
      }
      return (before = await forward(create));
    };
  };
  const listed = 'every create is listed once';
  t.strictSame(exceptReplays(await failedChecks(t, evened())), ['acknowledged ids exist', listed]);
  t.strictSame(exceptReplays(await failedChecks(t, evened(), { byWrk: true })), [listed]);
});

t.test('one create of many that is not made, where as many more may not have been answered', async (t) => {
  let before: Answer | null = null;
  const lost: Mischief = async (n, create, forward) =>
    n === VICTIM ? before! : (before = await forward(create));
  t.strictSame(exceptReplays(await failedChecks(t, lost, { byWrk: true })), ['every create is listed once']);
});

t.test('creates sent again that are made again', async (t) => {
  const forgetful: Mischief = (n, create, forward) => {
    const headers = { ...create.headers, 'idempotency-key': `key-${works}-${String(n).padStart(9, '0')}` };
    return forward({ ...create, headers });
  };
  t.strictSame(await failedChecks(t, forgetful), ['creates sent again are replays']);
});

t.test('a trial balance that is off by one', async (t) => {
  const spoiled = (api: OperatorApi): OperatorApi => ({
    ...api,
    operator: async (method, path, body) => {
      const answer = await api.operator(method, path, body);
      return path.endsWith('/trial_balance') ? { data: [{ currency: 'UGX', sum: '-1' }] } : answer;
    },
  });
  t.strictSame(await failedChecks(t, honest, { spoil: spoiled }), ['trial balances are zero']);
});
