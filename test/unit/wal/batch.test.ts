// The batch format: what goes in comes out, and no change to a stored batch goes unseen.
import fc from 'fast-check';
import t from 'tap';
import {
  checkFollows,
  decodeBatch,
  decodeForeignBatch,
  emptyTip,
  encodeBatch,
  LogCorruption,
  tipAt,
} from '../../../wal/batch.ts';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { encodeStart, LogReader } from '../../../wal/log-reader.ts';
import type { Batch, Tip } from '../../../wal/types.ts';
import { seedOf } from '../../seed.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';
import { faultLine } from '../../../wal/tools/verify.ts';

const SEED = seedOf(t);

function encode(records: readonly string[], after: Tip = emptyTip, epoch: number = after.epoch): Batch {
  return encodeBatch({
    group: 'accounts',
    partition: 513,
    batch: after.batch + 1,
    epoch,
    firstSequence: after.sequence + 1,
    records,
    recordsBytes: records.reduce((sum, record) => sum + Buffer.byteLength(record), 0),
    timeMs: 1_795_219_200_000,
    previousHash: after.hash,
  });
}

const place = { group: 'accounts', partition: 513, batch: 1 };

t.test('any records come back as they were', async (t) => {
  const record = fc
    .string({ unit: 'grapheme' })
    .filter((text) => !text.includes('\n') && text.isWellFormed());
  fc.assert(
    fc.property(fc.array(record), fc.nat(), fc.maxSafeNat(), (records, epoch, batch) => {
      const after = { ...emptyTip, batch: Math.min(batch, Number.MAX_SAFE_INTEGER - 1), sequence: batch };
      if (batch === Number.MAX_SAFE_INTEGER) return;
      const encoded = encode(records, after, epoch);
      const decoded = decodeBatch(Buffer.from(encoded.bytes), { ...place, batch: batch + 1 });
      checkFollows(decoded, after);
      t.strictSame(decoded, encoded);
      t.strictSame(decodeForeignBatch(encoded.bytes), encoded);
      t.equal(encoded.bytes.length, 100 + Buffer.byteLength(records.map((text) => `${text}\n`).join('')));
    }),
    { seed: SEED, numRuns: 200 },
  );
});

t.test('a batch without records opens an epoch', async (t) => {
  const opening = encode([], emptyTip, 7);
  const next = encode(['a'], tipAt(opening));
  t.hasStrict(tipAt(opening), { batch: 1, sequence: 0, epoch: 7 });
  t.hasStrict(next, { batch: 2, firstSequence: 1, epoch: 7 });
  checkFollows(decodeBatch(next.bytes, { ...place, batch: 2 }), tipAt(opening));
});

t.test('every single flipped bit is found', async (t) => {
  const { bytes } = encode(['{"a":1}', 'ü', '']);
  const sequences = new Set<number>();
  let found = 0;
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const broken = Buffer.from(bytes);
    broken.writeUInt8(broken.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    try {
      checkFollows(decodeBatch(broken, place), emptyTip);
      t.fail(`bit ${bit} was flipped unseen`);
    } catch (error) {
      if (!(error instanceof LogCorruption)) throw error;
      found += 1;
      sequences.add(error.sequence);
    }
  }
  t.equal(found, bytes.length * 8);
  t.strictSame([...sequences], [0, 1], 'its sequence is told where the CRC proves it alone');
});

t.test('every shorter and longer batch is found', async (t) => {
  const { bytes } = encode(['one', 'two']);
  for (let length = 0; length < bytes.length; length += 1) {
    t.throws(() => decodeBatch(bytes.subarray(0, length), place), { name: 'LogCorruption' });
    t.throws(() => decodeForeignBatch(bytes.subarray(0, length)), { name: 'LogCorruption' });
  }
  t.throws(() => decodeBatch(Buffer.concat([bytes, Buffer.alloc(1)]), place), { name: 'LogCorruption' });
});

t.test('what is wrong is told with the place that is known, and no other', async (t) => {
  const messageAt = (batch: number, sequence: number): string =>
    new LogCorruption({ group: 'accounts', partition: 3, batch, sequence }, 'it is odd').message;
  t.equal(messageAt(11, 10), 'log corrupt: accounts/3 batch 11 (sequence 10): it is odd');
  t.equal(messageAt(11, 0), 'log corrupt: accounts/3 batch 11: it is odd');
  t.equal(messageAt(0, 0), 'log corrupt: accounts/3: it is odd');
  const lineAt = (batch: number, sequence: number): string =>
    faultLine({ group: 'accounts', partition: 3, batch, sequence, problem: 'it is odd' });
  t.equal(lineAt(11, 10), 'accounts/3 batch 11 sequence 10: it is odd');
  t.equal(lineAt(11, 0), 'accounts/3 batch 11: it is odd');
  t.equal(lineAt(0, 0), 'accounts/3: it is odd');
});

/** A batch as somebody else would have written it, whole by its CRC. */
function resealed(bytes: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(bytes);
  change(copy);
  const covered = copy.length - 36;
  let crc = ~0;
  for (const byte of copy.subarray(0, covered)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  copy.writeUInt32LE(~crc >>> 0, covered);
  return copy;
}

t.test('a whole batch of a format that is not known, or that contradicts itself, is refused', async (t) => {
  const { bytes } = encode(['one', 'two']);
  t.ok(
    decodeBatch(
      resealed(bytes, () => {}),
      place,
    ),
  );
  const wrong: [(copy: Buffer) => void, RegExp][] = [
    [(copy) => copy.write('x'), /does not start as a batch does/],
    [(copy) => copy.writeUInt8(2, 4), /format version 2 is not known/],
    [(copy) => copy.writeUInt8(1, 5), /flags 1 are not known/],
    [(copy) => copy.writeUInt32LE(3, 56), /2 records where the header says 3/],
    [(copy) => copy.writeUInt32LE(9, 60), /another length than the header says/],
    [(copy) => copy.write('x', copy.length - 37), /does not end with a newline/],
  ];
  for (const [change, problem] of wrong) {
    t.throws(() => decodeBatch(resealed(bytes, change), place), { name: 'LogCorruption', message: problem });
  }
});

t.test('a sound batch in the wrong place is found', async (t) => {
  const first = encode(['a', 'b']);
  const second = encode(['c'], tipAt(first), 2);
  const third = encode(['d'], tipAt(second));
  const forged = encode(['x', 'y']);
  const wrong: [string, () => void, RegExp][] = [
    ['group', () => decodeBatch(first.bytes, { ...place, group: 'webhooks' }), /belongs to group accounts/],
    ['partition', () => decodeBatch(first.bytes, { ...place, partition: 1 }), /belongs to partition 513/],
    ['number', () => decodeBatch(first.bytes, { ...place, batch: 2 }), /says it is batch 1/],
    ['removed', () => checkFollows(third, tipAt(first)), /batch 2 is missing/],
    ['replaced', () => checkFollows(second, tipAt(forged)), /hash chain breaks/],
    ['repeated', () => checkFollows(first, tipAt(first)), /batch 2 is missing/],
    ['sequence', () => checkFollows(second, { ...tipAt(first), sequence: 1 }), /starts at sequence 3, not 2/],
    ['epoch', () => checkFollows(second, { ...tipAt(first), epoch: 3 }), /epoch 2 after epoch 3/],
  ];
  for (const [what, check, message] of wrong) t.throws(check, message, what);
  t.hasStrict(
    (() => {
      try {
        return decodeBatch(second.bytes, { ...place, batch: 1 });
      } catch (error) {
        return error;
      }
    })(),
    { group: 'accounts', partition: 513, batch: 1, sequence: 3, problem: 'it says it is batch 2' },
    'the error says where and what',
  );
});

t.test(
  'the start of a trimmed log comes back as it was, and one that says what none can is damage',
  async (t) => {
    const directory = temporaryDirectory(t);
    const stored = async (start: Buffer): Promise<Tip> => {
      const database = openLogDatabase({ directory });
      await database.put(['accounts', 513, 0], start);
      await database.close();
      const reader = LogReader.openReader({ directory });
      try {
        return reader.startOf('accounts', 513);
      } finally {
        await reader.close();
      }
    };
    const start = tipAt(encode(['a', 'b'], { ...emptyTip, batch: 7, sequence: 30, epoch: 2 }));
    const bytes = encodeStart(start);
    t.strictSame(await stored(bytes), start);
    const said = JSON.parse(bytes.toString()) as object;
    for (const wrong of [{ sequence: -1 }, { epoch: 1.5 }, { batch: '8' }, { hash: 'ab' }]) {
      const text = JSON.stringify({ ...said, ...wrong });
      await t.rejects(stored(Buffer.from(text)), { message: /start of the trimmed log is unreadable/ }, text);
    }
  },
);
