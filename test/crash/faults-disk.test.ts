// What a disk does to a service that runs: it gets short, it fills up, a sync hangs or fails. Writes stop, and nobody is told that
// something was done which was not. Short: reads go on, and writes when there is room. Hanging: all goes on when it answers.
// Full or failing: the process ends with a failure; started again with a disk that works, nothing acknowledged is missing.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { leaveFree, mountSmallDisk } from '../small-disk.ts';
import { disturbSyncs, hangDisk, traced } from '../tracer.ts';
import { until } from '../until.ts';
import { answerTo, post, type ServiceProcess, startProcess } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const CONNECTIONS = 16;
const root = temporaryDirectory(t);
const small = join(root, 'small');
mkdirSync(small);
const canMount = mountSmallDisk(small, 24);
t.teardown(() => {
  if (canMount) spawnSync('umount', [small]);
});

interface Sent {
  readonly key: string;
  readonly body: string;
  readonly answer: string;
}

interface Load {
  /** Answered with 201. */
  readonly acknowledged: readonly Sent[];
  /** How often each other status came. */
  readonly refused: ReadonlyMap<number, number>;
  /** Sent, and the connection closed without an answer. */
  readonly unanswered: number;
}

const wallet = { currency: 'UGX', country: 'UG', msisdn: '256772000001', amount: '5000' };
/** Makes a record as large as they come, so that a small disk is soon full. */
const metadata = Object.fromEntries(
  Array.from({ length: 20 }, (_, index) => [`field-${index}`, 'x'.repeat(200)]),
);

/** Creates until the process is gone. */
async function loadUntilGone(service: ServiceProcess, name: string): Promise<Load> {
  const acknowledged: Sent[] = [];
  const refused = new Map<number, number>();
  let unanswered = 0;
  const one = async (connection: number): Promise<void> => {
    for (let n = 0; ; n += 1) {
      const key = `${name}-${connection}-${n}`;
      const body = JSON.stringify({ ...wallet, reference: key, metadata });
      try {
        const response = await create(service, key, body);
        const answer = await response.text();
        if (response.status === 201) acknowledged.push({ key, body, answer });
        else refused.set(response.status, (refused.get(response.status) ?? 0) + 1);
      } catch {
        // Closed without a status, or nobody listens any more: the process is going, or gone.
        unanswered += 1;
        if (service.gone) return;
      }
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, connection) => one(connection)));
  return { acknowledged, refused, unanswered };
}

function create(service: ServiceProcess, key: string, body: string): Promise<Response> {
  return post(service, '/v1/charges', key, body);
}

/** Sending each again gives, byte for byte, what was answered. */
async function checkKept(t: Test, service: ServiceProcess, { acknowledged }: Load): Promise<void> {
  let kept = 0;
  const toCheck = acknowledged.values();
  const check = async (): Promise<void> => {
    for (const { key, body, answer } of toCheck) {
      const { status, text, replayed } = await answerTo(service, '/v1/charges', key, body);
      if (status === 201 && replayed && text === answer) kept += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, check));
  t.equal(kept, acknowledged.length);
  const trial = `${service.demo.operator_url}/operator/v1/accounts/${service.demo.account_id}/trial_balance`;
  const response = await fetch(trial, {
    headers: { authorization: `Bearer ${service.demo.operator_token}` },
  });
  t.hasStrict(await response.json(), { balanced: true });
}

function checkLoad(t: Test, { acknowledged, refused, unanswered }: Load): void {
  t.ok(acknowledged.length > 0, `${acknowledged.length} were acknowledged`);
  t.ok(unanswered > 0, `${unanswered} were not answered`);
  t.strictSame(
    [...refused.keys()].filter((status) => status !== 503),
    [],
    'no other refusal than 503',
  );
}

t.test(
  'a disk that is short serves reads, and changes when it has room again',
  { skip: canMount ? false : 'mounting a small file system needs root' },
  async (t) => {
    const dataDir = join(small, 'short');
    const reserve = { DISK_RESERVE_MB: '6' };
    const service = await startProcess(dataDir, reserve);
    t.teardown(() => service.end('SIGKILL'));
    let creates = 0;
    const createOne = (): Promise<Response> => {
      creates += 1;
      const key = `short-disk-${creates}`;
      return create(service, key, JSON.stringify({ ...wallet, reference: key }));
    };
    const { id } = (await (await createOne()).json()) as { id: string };
    const giveBack = leaveFree(small, 5);

    const refused = await until(createOne, ({ status }) => status !== 201);
    t.equal(refused.status, 503);
    t.ok(refused.headers.has('retry-after'));
    t.hasStrict(await refused.json(), { error: { code: 'service_unavailable' } });
    const get = (url: string): Promise<Response> =>
      fetch(url, { headers: { authorization: `Bearer ${service.demo.secret_key}` } });
    const read = await get(`${service.demo.base_url}/v1/charges/${id}`);
    t.hasStrict([read.status, await read.json()], [200, { id }]);
    const ready = await get(`${service.demo.operator_url}/readyz`);
    t.equal(ready.status, 503);
    t.match(await ready.text(), /less than the reserve of 6 MiB/);
    const metrics = await get(`${service.demo.operator_url}/metrics`);
    const free = Number(/^daftari_disk_free_bytes (\S+)$/m.exec(await metrics.text())?.[1]);
    t.ok(free > 0 && free < 6 * 1024 * 1024, `${free} bytes are free`);

    giveBack();
    await until(createOne, ({ status }) => status === 201);
    t.equal((await get(`${service.demo.operator_url}/readyz`)).status, 200);
    t.equal(await service.end('SIGTERM'), 0);

    const giveBackAgain = leaveFree(small, 5);
    const restarted = await startProcess(dataDir, reserve);
    t.teardown(() => restarted.end('SIGKILL'));
    const readAgain = await fetch(`${restarted.demo.base_url}/v1/charges/${id}`, {
      headers: { authorization: `Bearer ${restarted.demo.secret_key}` },
    });
    t.hasStrict([readAgain.status, await readAgain.json()], [200, { id }], 'it starts, to be read');
    t.equal(await restarted.end('SIGTERM'), 0);
    const elsewhere = join(small, 'new');
    await t.rejects(
      startProcess(elsewhere, reserve),
      /make room, or choose another disk/,
      'nothing is begun',
    );
    giveBackAgain();
    for (const each of [dataDir, elsewhere]) rmSync(each, { recursive: true });
  },
);

t.test(
  'a full disk stops writes; with room again nothing acknowledged is missing',
  { skip: canMount ? false : 'mounting a small file system needs root' },
  async (t) => {
    const dataDir = join(small, 'data');
    const noReserve = { DISK_RESERVE_MB: '0' };
    const service = await startProcess(dataDir, noReserve);
    t.teardown(() => service.end('SIGKILL'));
    // The rest of the disk is somebody else's.
    const giveBack = leaveFree(small, 6);
    const load = await loadUntilGone(service, 'full');
    checkLoad(t, load);
    // Null: the log's library can fall over its own heap when a commit finds no room; that is a crash like any other.
    t.ok([1, null].includes(await service.ended), 'it ends with a failure');

    giveBack();
    const again = await startProcess(dataDir, noReserve);
    t.teardown(() => again.end('SIGKILL'));
    await checkKept(t, again, load);
    t.equal(await again.end('SIGTERM'), 0);
  },
);

t.test('a disk that does not answer is told of, and when it does everything goes on', traced, async (t) => {
  const service = await startProcess(join(root, 'hung'));
  t.teardown(() => service.end('SIGKILL'));
  const goOn = await hangDisk(service.pid);
  t.teardown(goOn);
  const ask = async (path: string): Promise<readonly [number, string]> => {
    const response = await fetch(service.demo.operator_url + path);
    return [response.status, await response.text()];
  };
  const waiting = create(service, 'hung-disk-1', JSON.stringify({ ...wallet, reference: 'hung-disk-1' }));

  const openSeconds = async (): Promise<number> => {
    const [, metrics] = await ask('/metrics');
    return Number(/^daftari_log_flush_open_seconds (\S+)$/m.exec(metrics)?.[1]);
  };
  await until(openSeconds, (seconds) => seconds > 0);
  // While the process is stopped itself the disk cannot be blamed.
  process.kill(service.pid, 'SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, LIMITS.diskStallMs + 1_000));
  process.kill(service.pid, 'SIGCONT');
  t.equal((await ask('/readyz'))[0], 200);

  const [, problem] = await until(
    () => ask('/readyz'),
    ([code]) => code === 503,
  );
  t.match(problem, /the disk of \S+ has not answered for \d+ s/);
  t.ok((await openSeconds()) >= 4);
  goOn();
  t.equal((await waiting).status, 201);
  t.equal((await ask('/readyz'))[0], 200);
  t.equal(await service.end('SIGTERM'), 0);
});

for (const [which, when, part] of [
  ['log', 100, 'the log'],
  // They are synced more seldom.
  ['views', 10, 'writing checkpoints'],
] as const) {
  t.test(
    `a sync of the ${which} that fails stops writes; the next start has all that was acknowledged`,
    traced,
    async (t) => {
      const dataDir = join(root, `fsync-${which}`);
      const file = join(dataDir, which, 'data.mdb');
      const service = await startProcess(dataDir);
      t.teardown(() => service.end('SIGKILL'));
      t.teardown(await disturbSyncs(service.pid, `error=EIO:when=${when}+`, file));
      const load = await loadUntilGone(service, `fsync-${which}`);
      checkLoad(t, load);
      t.equal(await service.ended, 1, 'it ends with a failure');
      // What was answered in the same moment may be told behind it.
      const last = service.printed.findLast((line) => line.includes('"level":"fatal"'));
      t.match(last, new RegExp(`"message":"${part} has failed; stopping"}$`));
      t.match(
        last,
        new RegExp(`LMDB did not commit to ${file}: Input/output error \\(its disk has \\d+ MiB free\\)`),
      );

      const again = await startProcess(dataDir);
      t.teardown(() => again.end('SIGKILL'));
      await checkKept(t, again, load);
      t.equal(await again.end('SIGTERM'), 0);
    },
  );
}

t.test(
  'a disk without room for a new log, or for the views that a tool makes, ends nothing but the start, with a reason',
  { skip: canMount ? false : 'mounting a small file system needs root' },
  async (t) => {
    const sound = join(root, 'sound');
    await (await startProcess(sound)).end('SIGTERM');
    const giveBack = leaveFree(small, 1 / 32);
    t.teardown(giveBack);
    const dataDir = join(small, 'no-room');
    await t.rejects(
      startProcess(dataDir, { DISK_RESERVE_MB: '0' }),
      /^ENOSPC: no space left on .*\/no-room.*: make room on its disk/m,
    );
    const replay = ['wal/cli.ts', 'replay', '--data', sound, '--scratch', small, '--full-speed'];
    const { status, signal, stderr } = spawnSync(process.execPath, replay, { encoding: 'utf8' });
    t.match({ status, signal, stderr }, { status: 1, signal: null, stderr: /replay: ENOSPC: no space left/ });
    t.strictSame(
      readdirSync(small).filter((name) => name.startsWith('daftari-replay-')),
      [],
    );
  },
);
