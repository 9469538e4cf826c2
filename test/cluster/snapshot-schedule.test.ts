// Owners save snapshots by themselves as their logs grow, and a machine that begins with nothing begins with them.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { partitionOf } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { Cluster, PARTITIONS, SMALL, startsOf } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

needs('nats-server');

const EVERY_BATCHES = 20;
/** The schedule may find too little at its first look. */
const SCHEDULE_MS = LIMITS.snapshotLookMs * 2 + 15_000;

interface Saved {
  readonly group: string;
  readonly partition: number;
  readonly batch: number;
}

/** Snapshots of the accounts that the nodes say they have saved, oldest first, by partition. */
function savedBy(cluster: Cluster): number[][] {
  const batches: number[][] = Array.from({ length: PARTITIONS }, () => []);
  const files = new Set(cluster.nodes.map(({ logFile }) => logFile));
  const lines = [...files].flatMap((file) => readFileSync(file, 'utf8').split('\n'));
  for (const line of lines) {
    if (!line.includes('"message":"snapshot saved"')) continue;
    const { group, partition, batch } = JSON.parse(line) as Saved;
    if (group === 'accounts') batches[partition]!.push(batch);
  }
  return batches;
}

t.test('an empty machine begins with what the schedule has saved', async (t) => {
  const environment = { SNAPSHOT_EVERY_BATCHES: String(EVERY_BATCHES) };
  const cluster = await Cluster.start({ ...SMALL, environment });
  t.teardown(() => cluster.stop());
  // Soon enough batches for a snapshot, and no more work than that until the schedule looks.
  const load = cluster.load(2, 100);
  const written = new Set(cluster.accounts.map(({ id }) => partitionOf(id, PARTITIONS)));
  await waitFor('each partition that is written to has a snapshot', SCHEDULE_MS, () => {
    const saved = savedBy(cluster);
    return [...written].every((partition) => saved[partition]!.length > 0);
  });
  const before = load.answered;
  await waitFor('there is a tail', 60_000, () => load.answered > before + 50);

  const lost = cluster.node('ledger1');
  lost.signal('SIGKILL');
  await lost.exited();
  await removeDirectory(lost.dataDir);
  const empty = await cluster.add('ledger1', 'ledger');
  await untilReady([empty]);
  // Nobody else is left to ask: what it says of the past is from the snapshots.
  const other = cluster.node('ledger2');
  other.signal('SIGTERM');
  t.equal(await other.exited(), 0);
  await waitFor('the new machine has everything', 60_000, () => cluster.ownsAll('ledger1'));
  const report = await load.stop();
  t.strictSame(notCreated(report.journal), []);
  t.strictSame(await cluster.check(report), []);

  const saved = savedBy(cluster);
  const starts = await startsOf(empty);
  for (const partition of written) {
    const start = starts[partition]!;
    t.ok(
      saved[partition]!.includes(start),
      `accounts/${partition} begins after batch ${start}, of the snapshots ${saved[partition]!.join(', ')}`,
    );
  }
});
