// What happens to machines: cut off from the rest, replaced by an empty one, a disk that is full.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import type { NodeProcess } from '../../deploy/cluster-processes.ts';
import { hasNatsServer, waitFor } from '../../deploy/nats-servers.ts';
import { Snapshots } from '../../src/nats/snapshots.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { ViewStore } from '../../wal/views.ts';
import { link } from './adapters.ts';
import { Cluster, SMALL } from './cluster.ts';

if (!hasNatsServer()) t.bailout('nats-server is not installed: apt-get install -y nats-server');

/** A proxy to NATS that can go silent: it takes what comes and passes nothing on, as a cut cable does. */
class Cable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cut = false;

  private constructor(target: URL) {
    this.#server = createServer((near) => {
      const far = connect(Number(target.port), target.hostname);
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from);
        from.on('data', (bytes) => {
          if (!this.#cut) to.write(bytes);
        });
        from.on('error', () => {});
        from.on('close', () => {
          this.#sockets.delete(from);
          if (!this.#cut) to.destroy();
        });
      }
    });
  }

  static async lay(url: string): Promise<{ cable: Cable; url: string }> {
    const cable = new Cable(new URL(url));
    await new Promise<void>((resolve) => {
      cable.#server.listen(0, '127.0.0.1', resolve);
    });
    const address = cable.#server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    return { cable, url: `nats://127.0.0.1:${address.port}` };
  }

  cut(): void {
    this.#cut = true;
  }

  /** Connections of before the cut stay dead. */
  mend(): void {
    this.#cut = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  remove(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

async function ownsAll(cluster: Cluster, name: string): Promise<boolean> {
  const owners = (await cluster.partitions()).filter(({ group }) => group === 'accounts');
  return owners.every(({ node }) => node === name);
}

async function ownsSome(cluster: Cluster, name: string): Promise<boolean> {
  return (await cluster.partitions()).some(({ group, node }) => group === 'accounts' && node === name);
}

t.test('an owner is cut off from the rest, and comes back', async (t) => {
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1 });
  t.teardown(() => cluster.stop());
  const { cable, url } = await Cable.lay(cluster.nats.urls[0]!);
  t.teardown(() => cable.remove());
  const far: NodeProcess = await cluster.add('ledger2', 'ledger', { NATS_URL: url });
  await untilReady([far]);
  await waitFor('it owns partitions', 20_000, () => ownsSome(cluster, 'ledger2'));
  const load = cluster.load(16, 5);
  await waitFor('creates are answered', 20_000, () => load.answered > 300);

  cable.cut();
  await waitFor('the other ledger has everything', 20_000, () => ownsAll(cluster, 'ledger1'));
  const before = load.answered;
  await waitFor('creates are answered without it', 20_000, () => load.answered > before + 300);
  cable.mend();
  await waitFor('it owns partitions again', 40_000, () => ownsSome(cluster, 'ledger2'));
  const report = await load.stop();
  t.ok(report.journal.every(({ status }) => status === 201));
  t.strictSame(await cluster.check(report), []);
});

t.test('a machine is replaced by an empty one', async (t) => {
  const cluster = await Cluster.start(SMALL);
  t.teardown(() => cluster.stop());
  const load = cluster.load(16, 5);
  await waitFor('creates are answered', 20_000, () => load.answered > 300);
  const lost = cluster.node('ledger1');
  lost.signal('SIGKILL');
  await lost.exited();
  rmSync(lost.dataDir, { recursive: true });
  await untilReady([await cluster.add('ledger1', 'ledger')]);
  await waitFor('it owns partitions', 30_000, () => ownsSome(cluster, 'ledger1'));
  const before = load.answered;
  await waitFor('creates are answered', 20_000, () => load.answered > before + 300);
  const report = await load.stop();
  t.ok(report.journal.every(({ status }) => status === 201));
  t.strictSame(await cluster.check(report), []);
});

/** Snapshots of what a node that has ended left on its disk, as the owner of a partition saves them; batches they reach. */
async function saveSnapshots(cluster: Cluster, { dataDir: directory }: NodeProcess): Promise<number[]> {
  const nats = await link(cluster.nats.url, 'snapshots');
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure: fail });
  const views = ViewStore.open({ directory });
  const snapshots = new Snapshots({ link: nats, log, views, replicas: 1 });
  const batches: number[] = [];
  for (const { partition } of log.partitionNames().filter(({ group }) => group === 'accounts')) {
    batches[partition] = await snapshots.save('accounts', partition);
  }
  await Promise.all([views.close(), log.close(), nats.close()]);
  return batches;
}

function fail(error: Error): never {
  throw error;
}

/** Batches of the accounts' logs that a node began after, because a snapshot had what was before. */
async function startsOf({ dataDir: directory }: NodeProcess): Promise<number[]> {
  const log = LogReader.openReader({ directory });
  const starts: number[] = [];
  for (const { group, partition } of log.partitionNames()) {
    if (group === 'accounts') starts[partition] = log.startOf(group, partition).batch;
  }
  await log.close();
  return starts;
}

t.test('an empty machine reads a snapshot and the tail, and serves all of it', async (t) => {
  const cluster = await Cluster.start(SMALL);
  t.teardown(() => cluster.stop());
  const load = cluster.load(16, 5);
  await waitFor('creates are answered', 20_000, () => load.answered > 300);
  const leaving = cluster.node('ledger2');
  leaving.signal('SIGTERM');
  t.equal(await leaving.exited(), 0);
  const saved = await saveSnapshots(cluster, leaving);
  t.ok(
    saved.some((batch) => batch > 0),
    `snapshots reach batches ${saved.join(', ')}`,
  );
  await untilReady([await cluster.add('ledger2', 'ledger')]);
  const before = load.answered;
  await waitFor('there is a tail', 20_000, () => load.answered > before + 300);

  const lost = cluster.node('ledger1');
  lost.signal('SIGKILL');
  await lost.exited();
  rmSync(lost.dataDir, { recursive: true });
  const empty = await cluster.add('ledger1', 'ledger');
  await untilReady([empty]);
  // Nobody else is left to ask: what it says of the past is from the snapshot.
  const other = cluster.node('ledger2');
  other.signal('SIGTERM');
  t.equal(await other.exited(), 0);
  await waitFor('the new machine has everything', 20_000, () => ownsAll(cluster, 'ledger1'));
  const then = load.answered;
  await waitFor('creates are answered', 20_000, () => load.answered > then + 100);
  const report = await load.stop();
  t.ok(report.journal.every(({ status }) => status === 201));
  t.strictSame(await cluster.check(report), []);

  t.strictSame(await startsOf(empty), saved, 'its logs begin where the snapshots end');
  t.strictSame(
    await startsOf(other),
    saved.map(() => 0),
    'those of the other node at the beginning',
  );

  await t.test('also without its views, which a log that begins later cannot make', async (t) => {
    empty.signal('SIGTERM');
    t.equal(await empty.exited(), 0);
    rmSync(join(empty.dataDir, 'views'), { recursive: true });
    const back = await cluster.add('ledger1', 'ledger');
    await untilReady([back]);
    await waitFor('it has everything again', 20_000, () => ownsAll(cluster, 'ledger1'));
    t.strictSame(await cluster.check(report), []);
    t.strictSame(
      await startsOf(back),
      saved.map(() => 0),
      'it has read what its logs lacked from the streams',
    );
  });
});

const isRoot = process.getuid?.() === 0;
t.test(
  'a disk is full: its node ends, the other goes on',
  { skip: isRoot ? false : 'needs root' },
  async (t) => {
    const small = mkdtempSync(join(tmpdir(), 'daftari-small-disk-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', small]);
    t.teardown(() => {
      execFileSync('umount', ['-l', small]);
      rmSync(small, { recursive: true });
    });
    const cluster = await Cluster.start({ ...SMALL, ledgers: 1 });
    t.teardown(() => cluster.stop());
    mkdirSync(join(small, 'data'));
    const tight = await cluster.add('ledger2', 'ledger', { DATA_DIR: join(small, 'data') });
    await untilReady([tight]);
    await waitFor('it owns partitions', 20_000, () => ownsSome(cluster, 'ledger2'));
    const load = cluster.load(16, 5);
    await waitFor('creates are answered', 20_000, () => load.answered > 100);
    fill(join(small, 'filler'));
    await waitFor('the node has ended', 40_000, () => tight.exitStatus() !== null);
    t.equal(tight.exitStatus(), 1, readFileSync(tight.logFile, 'utf8').split('\n').at(-2) ?? '');
    await waitFor('the other ledger has everything', 20_000, () => ownsAll(cluster, 'ledger1'));
    const before = load.answered;
    await waitFor('creates are answered', 20_000, () => load.answered > before + 300);
    const report = await load.stop();
    // 503 is what a node says whose log has just failed: nothing was decided.
    const refused = report.journal.filter(
      ({ status }) => status !== 201 && status !== 503 && status !== null,
    );
    t.strictSame(refused, []);
    rmSync(join(small, 'filler'));
    t.strictSame(await cluster.check(report), []);
  },
);

function fill(path: string): void {
  for (let kilobytes = 16_384; kilobytes > 0;) {
    try {
      writeFileSync(path, Buffer.alloc(kilobytes * 1024), { flag: 'a' });
    } catch {
      kilobytes = Math.floor(kilobytes / 2);
    }
  }
}
