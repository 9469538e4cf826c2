// What happens to machines: cut off from the rest, replaced by an empty one, a disk that is full or does not answer.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { lastWords, untilReady } from '../../deploy/cluster-processes.ts';
import type { NodeProcess } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { leaveFree, mountSmallDisk } from '../small-disk.ts';
import { Cable } from './cable.ts';
import { Cluster, SMALL } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';
import { hangDisk, traced } from '../tracer.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

async function ownsSome(cluster: Cluster, name: string): Promise<boolean> {
  return (await cluster.partitions()).some(({ group, node }) => group === 'accounts' && node === name);
}

async function flushesOf({ operatorUrl }: NodeProcess): Promise<number> {
  const response = await fetch(`${operatorUrl}/metrics`);
  return Number(/^daftari_log_flush_seconds_count (\d+)$/m.exec(await response.text())?.[1]);
}

/** Adds a ledger; resolves when it owns partitions. */
async function addOwner(
  cluster: Cluster,
  name: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<NodeProcess> {
  const node = await cluster.add(name, 'ledger', environment);
  await untilReady([node]);
  await waitFor(`${name} owns partitions`, 60_000, () => ownsSome(cluster, name));
  return node;
}

/** Has five of six partitions by its name, and so some account's. */
const OTHER = 'ledger3';

t.test('beside a machine that stays', async (t) => {
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1 });
  t.teardown(() => cluster.stop());
  const { cable, url } = await Cable.lay(cluster.nats.urls[0]!);
  t.teardown(() => cable.remove());

  await t.test('an owner is cut off from the rest, and comes back', async (t) => {
    const far: NodeProcess = await cluster.add(OTHER, 'ledger', { NATS_URL: url });
    await untilReady([far]);
    await waitFor('it owns partitions', 60_000, () => ownsSome(cluster, OTHER));
    const load = cluster.load(16, 60);
    await waitFor('creates are answered', 60_000, () => load.answered > 300);

    cable.cut();
    await waitFor('the other ledger has everything', 60_000, () => cluster.ownsAll('ledger1'));
    const before = load.answered;
    await waitFor('creates are answered without it', 60_000, () => load.answered > before + 300);
    cable.mend();
    await waitFor('it owns partitions again', 40_000, () => ownsSome(cluster, OTHER));
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('a machine is replaced by an empty one', async (t) => {
    const lost = cluster.node(OTHER);
    const load = cluster.load(16, 60);
    await waitFor('creates are answered', 60_000, () => load.answered > 300);
    lost.signal('SIGKILL');
    await lost.exited();
    await removeDirectory(lost.dataDir);
    await addOwner(cluster, OTHER);
    const before = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('a disk does not answer: its node ends, and others take its partitions', traced, async (t) => {
    const hung = cluster.node(OTHER);
    const before = await flushesOf(hung);
    const load = cluster.load(16, 60);
    await waitFor('it writes', 60_000, async () => (await flushesOf(hung)) > before + 50);
    const goOn = await hangDisk(hung.pid);
    t.teardown(goOn);
    await waitFor('it says what it does', 60_000, () => {
      return /has not answered for \d+ s; other nodes take what is here/.test(lastWords(hung));
    });
    await waitFor('the other ledger has everything', 60_000, () => cluster.ownsAll('ledger1'));
    const answered = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > answered + 300);
    goOn();
    t.equal(await hung.exited(), 1);
    const report = await load.stop();
    t.strictSame(
      report.journal.filter(({ status }) => status !== 201 && status !== null),
      [],
    );
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('a port that is taken leaves the next start no views to suspect', async (t) => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const taken = String((server.address() as AddressInfo).port);
    for (const setting of ['OPERATOR_PORT', 'PORT']) {
      const node = await cluster.add(OTHER, 'front,ledger', { [setting]: taken });
      t.equal(await node.exited(), 1);
      t.match(lastWords(node), /cannot listen on .*: the port is taken/);
      t.notOk(existsSync(join(node.dataDir, 'starting')), setting);
    }
  });
});

t.test('with REPLICATION=async', async (t) => {
  const environment = { REPLICATION: 'async' };
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1, environment });
  t.teardown(() => cluster.stop());
  // What it acknowledges is not in its stream yet.
  const { cable, url } = await Cable.lay(cluster.nats.urls[0]!, 10);
  t.teardown(() => cable.remove());
  const far = { NATS_URL: url };

  await t.test('a node that leaves takes nothing with it', async (t) => {
    const node = await addOwner(cluster, 'ledger2', far);
    const load = cluster.load(16, 20);
    await waitFor('creates are answered', 60_000, () => load.answered > 500);
    node.signal('SIGTERM');
    t.equal(await node.exited(), 0, lastWords(node));
    const before = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('nor does one that dies and is back before another has what it had', async (t) => {
    const node = await addOwner(cluster, 'ledger2', far);
    const stays = cluster.node('ledger1');
    stays.signal('SIGTERM');
    t.equal(await stays.exited(), 0, lastWords(stays));
    const load = cluster.load(16, 20);
    await waitFor('creates are answered', 60_000, () => load.answered > 500);
    node.signal('SIGKILL');
    await node.exited();
    await addOwner(cluster, 'ledger2', far);
    const before = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });
});

const smallDisks = [1, 2].map(() => temporaryDirectory(t));
const canMount = smallDisks.every((directory) => mountSmallDisk(directory, 96));
t.teardown(() => {
  for (const directory of smallDisks) spawnSync('umount', ['-l', directory]);
});
const onSmallDisks = { skip: canMount ? false : 'mounting a small file system needs root' };

/** Half of it is what a slow machine may write while its partitions go to others: below that, changes are refused. */
const RESERVE_MIB = 24;

function onDisk(disk: string, reserveMib: number): Record<string, string> {
  return { DATA_DIR: join(disk, 'data'), DISK_RESERVE_MB: String(reserveMib) };
}

t.test('beside a machine with a large disk', onSmallDisks, async (t) => {
  const [full, short] = smallDisks as [string, string];
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1 });
  t.teardown(() => cluster.stop());

  await t.test('a disk is full: its node ends, the other goes on', async (t) => {
    const tight = await addOwner(cluster, 'ledger3', onDisk(full, 0));
    const filler = join(full, 'filler');
    const load = cluster.load(16, 60);
    await waitFor('creates are answered', 60_000, () => load.answered > 100);
    fill(filler);
    await waitFor('the node has ended', 40_000, () => tight.exitStatus() !== null);
    // SIGABRT: the log's library can fall over its own heap when a commit finds no room; that is a crash like any other.
    const status = tight.exitStatus();
    t.ok(status === 1 || status === 'SIGABRT', `${status}: ${lastWords(tight)}`);
    await waitFor('the other ledger has everything', 60_000, () => cluster.ownsAll('ledger1'));
    const before = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
    const report = await load.stop();
    // 503 is what a node says whose log has just failed: nothing was decided.
    const refused = report.journal.filter(
      ({ status }) => status !== 201 && status !== 503 && status !== null,
    );
    t.strictSame(refused, []);
    rmSync(filler);
    t.strictSame(await cluster.check(report), []);
  });

  const tight = await addOwner(cluster, 'ledger2', onDisk(short, RESERVE_MIB));

  await t.test('a disk gets short: others take its partitions, and no create is refused', async (t) => {
    const load = cluster.load(16, 60);
    await waitFor('creates are answered', 60_000, () => load.answered > 100);
    const giveBack = leaveFree(short, RESERVE_MIB - 1);
    await waitFor('the other ledger has everything', 60_000, () => cluster.ownsAll('ledger1'));
    const ready = await fetch(`${tight.operatorUrl}/readyz`);
    t.match([ready.status, await ready.text()], [503, /less than the reserve of 24 MiB/]);
    const before = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
    giveBack();
    await waitFor('with room it owns partitions again', 60_000, () => ownsSome(cluster, 'ledger2'));
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('every disk is short: what is there is read, and changes wait for room', async (t) => {
    const gone = cluster.node('ledger1');
    gone.signal('SIGTERM');
    t.equal(await gone.exited(), 0);
    await waitFor('the ledger on the small disk has everything', 60_000, () => cluster.ownsAll('ledger2'));
    const [account] = cluster.accounts;
    let creates = 0;
    const create = (): Promise<Response> => {
      creates += 1;
      return fetch(`${cluster.service.baseUrl}/v1/charges`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${account!.secretKey}`,
          'content-type': 'application/json',
          'idempotency-key': `on-a-short-disk-${creates}`,
        },
        body: JSON.stringify({
          amount: '5000',
          currency: 'UGX',
          msisdn: '+256772000001',
          reference: 'short',
        }),
      });
    };
    t.equal((await create()).status, 201);
    const giveBack = leaveFree(short, RESERVE_MIB - 1);
    await waitFor('changes are refused', 60_000, async () => (await create()).status === 503);
    const balances = await fetch(`${cluster.service.baseUrl}/v1/balances`, {
      headers: { authorization: `Bearer ${account!.secretKey}` },
    });
    t.equal(balances.status, 200);
    giveBack();
    await waitFor('changes are taken', 60_000, async () => (await create()).status === 201);
  });
});

function fill(path: string): void {
  for (let kilobytes = 16_384; kilobytes > 0;) {
    try {
      writeFileSync(path, Buffer.alloc(kilobytes * 1024), { flag: 'a' });
    } catch {
      kilobytes = Math.floor(kilobytes / 2);
    }
  }
}
