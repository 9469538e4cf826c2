// What happens to a machine with little room on its disk: none is left, or less than its reserve.
import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { lastWords } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { leaveFree, mountSmallDisk } from '../small-disk.ts';
import { Cluster, SMALL } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

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
    const tight = await cluster.addOwner('ledger3', onDisk(full, 0));
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

  const tight = await cluster.addOwner('ledger2', onDisk(short, RESERVE_MIB));

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
    await waitFor('with room it owns partitions again', 60_000, () => cluster.ownsSome('ledger2'));
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
