// An empty machine joins: it reads a snapshot and the tail of the stream, not the whole history, and serves all of it. What it
// lacks to make its views anew it reads when it must.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { Cluster, PARTITIONS, saveSnapshots, SMALL, startsOf } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

needs('nats-server');

const NONE = Array.from({ length: PARTITIONS }, () => 0);

t.test('it reads a snapshot and the tail, and serves all of it', async (t) => {
  const cluster = await Cluster.start(SMALL);
  t.teardown(() => cluster.stop());
  const load = cluster.load(16, 50);
  await waitFor('creates are answered', 60_000, () => load.answered > 300);
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
  await waitFor('there is a tail', 60_000, () => load.answered > before + 300);

  const lost = cluster.node('ledger1');
  lost.signal('SIGKILL');
  await lost.exited();
  await removeDirectory(lost.dataDir);
  const empty = await cluster.add('ledger1', 'ledger');
  await untilReady([empty]);
  // Nobody else is left to ask: what it says of the past is from the snapshot.
  const other = cluster.node('ledger2');
  other.signal('SIGTERM');
  t.equal(await other.exited(), 0);
  await waitFor('the new machine has everything', 60_000, () => cluster.ownsAll('ledger1'));
  const then = load.answered;
  await waitFor('creates are answered', 60_000, () => load.answered > then + 100);
  const report = await load.stop();
  t.strictSame(notCreated(report.journal), []);
  t.strictSame(await cluster.check(report), []);

  t.strictSame(await startsOf(empty), saved, 'its logs begin where the snapshots end');
  t.strictSame(await startsOf(other), NONE, 'those of the other node at the beginning');

  await t.test('it goes on without its views, which a log that begins later cannot make', async (t) => {
    empty.signal('SIGTERM');
    t.equal(await empty.exited(), 0);
    rmSync(join(empty.dataDir, 'views'), { recursive: true });
    const back = await cluster.add('ledger1', 'ledger');
    await untilReady([back]);
    await waitFor('it has everything again', 60_000, () => cluster.ownsAll('ledger1'));
    t.strictSame(await cluster.check(report), []);
    t.strictSame(await startsOf(back), NONE, 'it has read what its logs lacked from the streams');
  });
});
