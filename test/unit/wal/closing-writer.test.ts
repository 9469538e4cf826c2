// A partition whose writer is closed is nobody else's before what that took is written.
import t from 'tap';
import { WriteAheadLog } from '../../../wal/log.ts';
import type { Batch, Replica } from '../../../wal/types.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

t.test('what a writer that closes has yet to write is not written over what others wrote', async (t) => {
  const directory = temporaryDirectory(t);
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, batchRecordsMax: 1, onFailure });
  t.teardown(() => log.close());
  const waiting: (() => void)[] = [];
  const replica: Replica = { publish: () => new Promise((resolve) => waiting.push(resolve)) };
  const next = async (): Promise<void> => {
    while (waiting.length === 0) await new Promise((resolve) => setImmediate(resolve));
    waiting.shift()!();
  };
  const durable: Batch[] = [];
  const onDurable = (batch: Batch): void => void durable.push(batch);
  const writer = log.openPartition('accounts', 0, { epoch: 0, replica, onDurable });
  writer.append('on its way');
  writer.append('to be written when that is there');
  const closed = log.closePartition(writer);
  await t.rejects(log.appendForeign('accounts', 0, []), /open for writing/);
  await next();
  await t.rejects(log.truncateAfter('accounts', 0, 0), /open for writing/);
  await next();
  await closed;
  t.hasStrict(log.tip('accounts', 0), { batch: 2, hash: durable[1]!.hash });
  await log.truncateAfter('accounts', 0, 1);
});

t.test('whoever closes a writer a second time closes none that is open in its place', async (t) => {
  const directory = temporaryDirectory(t);
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure });
  t.teardown(() => log.close());
  const options = { epoch: 0, replica: null, onDurable() {} };
  const first = log.openPartition('accounts', 0, options);
  await log.closePartition(first);
  const second = log.openPartition('accounts', 0, options);
  await log.closePartition(first);
  second.append('written');
  await second.drained();
  t.equal(second.durable, 1);
  t.throws(() => log.openPartition('accounts', 0, options), /is open already/);
  await t.rejects(log.appendForeign('accounts', 0, []), /is open for writing/);
});
