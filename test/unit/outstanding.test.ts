// What all partitions together have decided and the disk does not have yet is bounded, however many they are: a disk that takes
// its time must not end the process. So is what their views lack, and what one batch holds.

import t from 'tap';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Batch } from '../../wal/types.ts';
import { closeGate, openGate } from '../../wal/commit-gate.ts';
import { fill, OPEN_ACCOUNT, openStorage, send, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { until } from '../until.ts';

const PARTITIONS = Math.ceil(LIMITS.logWritesOutstandingMax / LIMITS.mailboxMax) + 1;

t.test(
  'beyond it commands are refused before they are decided, and taken again when there is room',
  async (t) => {
    const storage = openStorage(temporaryDirectory(t));
    t.teardown(() => storage.close());
    for (let partition = 0; partition < PARTITIONS; partition++) await serve(storage, partition);
    const deadline = Date.now() + 600_000;
    let number = 0;
    const open = (partition: number) => {
      const accountId = makeId('account', `${encodeTime(++number)}${'0'.repeat(16)}`);
      return send(storage, partition, { ...OPEN_ACCOUNT, accountId, deadline });
    };
    const openInAll = () =>
      Promise.all(Array.from({ length: PARTITIONS }, (_, partition) => open(partition)));
    // All in one turn of the event loop, in which nothing is written.
    const taken = Array.from({ length: LIMITS.logWritesOutstandingMax }, (_, n) => open(n % PARTITIONS));
    t.equal(storage.log.outstanding, LIMITS.logWritesOutstandingMax, 'no mailbox is full');
    storage.tick();
    for (const { type } of await openInAll()) t.equal(type, 'unavailable');
    t.ok((await Promise.all(taken)).every(({ type }) => type === 'done'));
    storage.tick();
    for (const { type } of await openInAll()) t.equal(type, 'done');
  },
);

t.test('nor is anything decided while the views lack so much of all partitions together', async (t) => {
  const storage = openStorage(temporaryDirectory(t));
  t.teardown(() => storage.close());
  const { checkpointLagMax } = LIMITS;
  t.teardown(() => Object.assign(LIMITS, { checkpointLagMax }));
  Object.assign(LIMITS, { checkpointLagMax: 4 });
  const partitions = [0, 1];
  let number = 0;
  const openInAll = async (): Promise<string[]> => {
    storage.tick();
    const replies = partitions.map((partition) => {
      const accountId = makeId('account', `${encodeTime(++number)}${'0'.repeat(16)}`);
      return send(storage, partition, { ...OPEN_ACCOUNT, accountId });
    });
    return (await Promise.all(replies)).map(({ type }) => type);
  };
  for (const partition of partitions) await serve(storage, partition);
  for (let n = 0; n < 2; n++) t.same(await openInAll(), ['done', 'done']);
  t.same(await openInAll(), ['unavailable', 'unavailable']);
  storage.checkpoint();
  await until(() => partitions.every((each) => storage.partition('accounts', each)!.checkpointLag === 0));
  t.same(await openInAll(), ['done', 'done']);
});

t.test('a disk is at fault for as long as it does not answer while the process runs', async (t) => {
  const storage = openStorage(temporaryDirectory(t));
  const { timerTickMs, diskStallMs } = LIMITS;
  t.teardown(async () => {
    Object.assign(LIMITS, { diskStallMs });
    await storage.close();
  });
  Object.assign(LIMITS, { diskStallMs: 2 * timerTickMs });
  await serve(storage, 0);
  // As while another process opens the file.
  await closeGate('log');
  const reply = send(storage, 0, OPEN_ACCOUNT);
  storage.tick();
  await until(() => storage.log.flushingMs > 5 * timerTickMs);
  t.equal(storage.flushingMs, 0, 'stopped all that time, it cannot tell');
  storage.tick();
  t.equal(storage.flushingMs, timerTickMs);
  t.equal(storage.stall, null);
  storage.tick();
  t.equal(storage.flushingMs, 2 * timerTickMs);
  t.match(storage.stall, /^the disk of \S+ has not answered for 0 s$/);
  for (let n = 0; n < 1_000; n++) storage.tick();
  t.ok(storage.flushingMs < 1_000 * timerTickMs, 'nor for longer than that');
  openGate('log');
  t.equal((await reply).type, 'done');
  t.equal(storage.flushingMs, 0);
  t.equal(storage.stall, null);
});

t.test('a batch holds no more than the bounds of the service say', async (t) => {
  for (const changed of [{ batchRecordsMax: 100 }, { batchBytesMax: 20_000 }]) {
    const before = { ...LIMITS };
    Object.assign(LIMITS, changed);
    const storage = openStorage(temporaryDirectory(t));
    Object.assign(LIMITS, before);
    await fill(storage, 0, 1);
    const { recordsMax, bytesMax } = largest(storage.log.read('accounts', 0, { fromSequence: 1 }));
    await storage.close();
    t.ok(recordsMax <= (changed.batchRecordsMax ?? before.batchRecordsMax), `${recordsMax} records`);
    t.ok(bytesMax <= (changed.batchBytesMax ?? before.batchBytesMax), `${bytesMax} bytes`);
  }
});

function largest(batches: Iterable<Batch>): { readonly recordsMax: number; readonly bytesMax: number } {
  const records = Array.from(batches, (batch) => batch.records);
  return {
    recordsMax: Math.max(...records.map(({ length }) => length)),
    bytesMax: Math.max(...records.map((each) => Buffer.byteLength(each.join('\n')))),
  };
}
