// A machine that was killed between its own disk and the stream, back before another has taken its partition over: what it wrote
// and the stream never accepted is cut off, while the stream goes on.
import t from 'tap';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { logSubject } from '../../src/nats/subjects.ts';
import { emptyTip, tipAt } from '../../wal/batch.ts';
import type { Batch, Tip } from '../../wal/types.ts';
import { needs } from '../needs.ts';
import { batchAfter, partitionMaker, startNats, temporaryLog } from './adapters.ts';

needs('nats-server');

const { nats } = await startNats(t);
const newPartition = partitionMaker(nats);

async function publish({ partition, bytes }: Batch): Promise<void> {
  await nats.connection.jetstream().publish(logSubject('accounts', partition), bytes);
}

/** By the next owner. */
async function publishAfter(previous: Tip, partition: number, record: string): Promise<Tip> {
  const batch = batchAfter(previous, partition, 2, record);
  await publish(batch);
  return tipAt(batch);
}

/** On an empty machine, to the end. */
async function follow(partition: number): Promise<void> {
  const temporary = temporaryLog();
  const follower = new LogFollower({ link: nats, log: temporary.log, group: 'accounts', partition });
  await follower.reachEnd();
  await follower.close();
  await temporary.remove();
}

t.test('nothing goes with it that the stream has accepted meanwhile', async (t) => {
  const partition = await newPartition();
  const temporary = temporaryLog();
  const { log } = temporary;
  const accepted = batchAfter(emptyTip, partition, 1, 'accepted');
  const never = batchAfter(tipAt(accepted), partition, 1, 'never accepted');
  await publish(accepted);
  await log.appendForeign('accounts', partition, [accepted.bytes, never.bytes]);

  // The first cut takes long.
  const [cutting, cut] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let cuts = 0;
  const beforeCut = async (): Promise<void> => {
    cuts += 1;
    cutting.resolve();
    if (cuts === 1) await cut.promise;
  };
  const follower = new LogFollower({ link: nats, log, group: 'accounts', partition, beforeCut });
  t.teardown(async () => {
    await follower.close();
    await temporary.remove();
  });
  const reached = follower.reachEnd();
  await cutting.promise;
  let tip = tipAt(accepted);
  for (const record of ['opened', 'second', 'third']) tip = await publishAfter(tip, partition, record);
  // Whoever follows has had time to hear of it.
  await follow(partition);
  cut.resolve();
  await reached;
  tip = await publishAfter(tip, partition, 'fourth');
  t.strictSame((await follower.reachEnd()).tip.hash, tip.hash);
  const read = [...log.read('accounts', partition, { afterBatch: 0 })].flatMap(({ records }) => records);
  t.strictSame(read, ['accepted', 'opened', 'second', 'third', 'fourth']);
});
