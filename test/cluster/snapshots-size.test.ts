// Snapshots of any size: what a save has on its way and what a restore has not written yet are bounded, since the log's batches
// travel on the same connection and many partitions are restored at once.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import type { NatsLink } from '../../src/nats/connection.ts';
import { Snapshots } from '../../src/nats/snapshots/snapshots.ts';
import { SNAPSHOT_STREAM } from '../../src/nats/subjects.ts';
import type { Row } from '../../wal/types.ts';
import { startNats, temporaryLog } from './adapters.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const MIB = 1024 * 1024;
/** Far fewer than the snapshot has. */
const BYTES_MAX = 12 * MIB;
const SNAPSHOT_BYTES_MIN = 24 * MIB;

const { servers, nats } = await startNats(t);
const full = temporaryLog();
t.teardown(() => full.remove());
const partition = full.log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
await partition.drained();
// What is random does not get smaller.
const rows: Row[] = Array.from({ length: 60_000 }, (_, i) => ({
  table: 'accounts',
  key: String(i).padStart(6, '0'),
  value: randomBytes(500).toString('base64'),
}));
await full.views.commit('accounts', 0, partition.tip, rows);

const bytesOf = (one: NatsLink, way: 'inBytes' | 'outBytes'): number => one.connection.stats()[way];

t.test('a save has little on its way, however slowly it is taken', async (t) => {
  const { log, views } = full;
  const snapshots = new Snapshots({ link: nats, log, views, replicas: 1 });
  const before = bytesOf(nats, 'outBytes');
  const sent = (): number => bytesOf(nats, 'outBytes') - before;
  const saving = snapshots.save('accounts', 0);
  await waitFor('it goes', 30_000, () => sent() > MIB);
  await servers.kill(0, 'SIGSTOP');
  let [gone, looks] = [0, 0];
  await waitFor('nothing more goes', 30_000, () => {
    looks = sent() === gone ? looks + 1 : 0;
    gone = sent();
    return looks > 20;
  });
  await servers.kill(0, 'SIGCONT');
  t.ok(gone < BYTES_MAX, `${gone} bytes went to a server that takes nothing`);
  t.equal(await saving, partition.tip.batch);
  const { state } = await nats.manager.streams.info(SNAPSHOT_STREAM);
  t.ok(state.bytes > SNAPSHOT_BYTES_MIN, `${state.bytes} bytes were saved`);
});

t.test('a restore reads no further than it writes', async (t) => {
  const empty = temporaryLog();
  t.teardown(() => empty.remove());
  const { log, views } = empty;
  const { promise: writes, resolve: write } = Promise.withResolvers<void>();
  let isWriting = false;
  const commit = views.commit.bind(views);
  views.commit = async (...written) => {
    isWriting = true;
    await writes;
    await commit(...written);
  };
  const before = bytesOf(nats, 'inBytes');
  const restoring = new Snapshots({ link: nats, log, views, replicas: 1 }).restore('accounts', 0);
  await waitFor('the first rows are to be written', 30_000, () => isWriting);
  // Whatever the server has sent by then comes before its answer.
  let [come, looks] = [0, 0];
  await waitFor('nothing more comes', 30_000, async () => {
    await nats.connection.flush();
    const now = bytesOf(nats, 'inBytes') - before;
    looks = now - come < 1_000 ? looks + 1 : 0;
    come = now;
    return looks > 5;
  });
  t.ok(come < BYTES_MAX, `${come} bytes came before the first rows were written`);
  write();
  t.strictSame((await restoring)?.hash, partition.tip.hash);
  t.equal([...views.rows('accounts', 0)].length, rows.length);
});
