// A stream is led by a server whose copy of it is short, for good, as nats-server 2.9 can come to it: what was acknowledged is with
// another server, and in the logs of the nodes. Whoever takes the partition has others lead, until that one does, and goes on from there.
import { join } from 'node:path';
import t from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { LIMITS } from '../../src/limits.ts';
import { batchAt } from '../../src/nats/log/stream-places.ts';
import { ensureLogStream } from '../../src/nats/streams.ts';
import { logStream } from '../../src/nats/subjects.ts';
import { OPEN_ACCOUNT, openStorage, send, serve } from '../unit/storage-driven.ts';
import type { Batch } from '../../wal/types.ts';
import { leaderOf, publish, putCopies, untilThirdLeadsNone, type Copy } from './copy-of-one.ts';
import { startHostServers } from './host-driven.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const { directory, servers, nats, startHost } = await startHostServers(t, 3);

/** Batches that all three servers have. */
const SHORT = 3;
/** Of the machine's log: fewer than are read again when it is followed, and more; and how it is said that the leader lacks them. */
const LENGTHS: readonly (readonly [number, RegExp])[] = [
  [LIMITS.streamAsyncOutstandingMax + 10, / 39 batches of this machine are not in the stream, /],
  [LIMITS.streamWarmUpMessages + 40, / the stream ends at 3, and this machine has batches up to 104: /],
];

async function writeLog(partition: number, length: number): Promise<readonly Batch[]> {
  const storage = openStorage(directory);
  await serve(storage, partition);
  while (storage.log.lastBatchNumber('accounts', partition) < length) {
    const accountId = `acc_${storage.log.lastBatchNumber('accounts', partition)}`;
    await send(storage, partition, { ...OPEN_ACCOUNT, accountId, deadline: Date.now() + 60_000 });
    storage.log.refresh();
  }
  const count = storage.log.lastBatchNumber('accounts', partition);
  const batches = Array.from({ length: count }, (_, n) => storage.log.batch('accounts', partition, n + 1));
  await storage.close();
  return batches;
}

const copies: Copy[] = [];
for (const [partition, [length]] of LENGTHS.entries()) {
  copies.push({ partition, batches: await writeLog(partition, length) });
}
for (const { partition, batches } of copies) {
  await ensureLogStream(nats.manager, 'accounts', partition, 3);
  await publish(nats, batches.slice(0, SHORT));
}
await putCopies(t, { servers, directory: join(directory, 'nats'), nats }, copies);

for (const { partition, batches } of copies) {
  t.test(`of ${batches.length} batches the leader has ${SHORT}`, async (t) => {
    const stream = logStream('accounts', partition);
    const { lines, host, storage, stop } = startHost();
    t.teardown(stop);
    await untilThirdLeadsNone(nats, [{ partition }]);
    const led = await leaderOf(nats, partition);
    await t.rejects(host.prepare('accounts', partition), {
      name: 'LogDiverged',
      message: LENGTHS[partition]![1],
    });
    t.equal(await leaderOf(nats, partition), led, 'whoever only follows it changes nothing');
    const warned = (): string[] =>
      lines.filter((line) => line.includes(`the leader of ${stream} lacks what this machine has`));
    // Refused as before, or while nobody leads.
    const isTaken = (): Promise<boolean> =>
      host.acquire('accounts', partition, 2).then(
        () => true,
        () => false,
      );
    const isTakenAtOnce = await isTaken();
    t.equal(warned().length, 1, 'others lead while it is taken: its callers wait');
    if (!isTakenAtOnce) await waitFor('it is taken', 120_000, isTaken);
    t.equal(await leaderOf(nats, partition), 'n3');
    t.equal(warned().length, 1, 'it is said once');
    const { batch, hash, epoch } = storage.log.tip('accounts', partition);
    t.strictSame({ batch, epoch }, { batch: batches.length + 1, epoch: 2 });
    const inStream = await batchAt({ link: nats, group: 'accounts', partition }, batch);
    t.ok(inStream?.hash.equals(hash), 'and goes on there');
  });
}
