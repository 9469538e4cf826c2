// What `verify` says of a damaged batch: which records are at fault, and whose transactions they are, as far as that can still be told.
import { cpSync } from 'node:fs';
import t from 'tap';
import { encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import { encodeWebhookRecord } from '../../actors/webhooks/record.ts';
import { makeId } from '../../src/domain/id.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { openLogDatabase } from '../../wal/lmdb.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { LogReader } from '../../wal/log-reader.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import { walTools } from '../../wal/tools/all.ts';
import { ViewStore } from '../../wal/views.ts';
import { ACCOUNT, APP, body, charge, merchant, START } from './domain/scenario.ts';
import { runTool } from './wal/run-tool.ts';
import { next } from './wal/tool-logs.ts';

const account = merchant();
/** Records before the first charge. */
const before = account.lines.length;
const ids = Array.from(
  { length: 7 },
  (_, n) => account.create(charge({}, { idempotencyKey: `order-${n}` })).id,
);
/** Of the n-th charge. */
const sequenceOf = (n: number): number => before + 1 + n;
// Batches of accounts/0 by number, and the charges that they have.
const [OF_EPOCH, OF_ACCOUNT, OF_THREE, OF_TWO, OF_ONE, OF_NEXT_EPOCH, LAST] = [1, 2, 3, 4, 5, 6, 7];
const heard = {
  type: 'EventsTaken',
  at: START,
  upstreamSequence: sequenceOf(1),
  idBody: body(90),
  endpoints: [],
  events: [0, 1].map((n) => ({
    id: makeId('event', body(91 + n)),
    accountId: ACCOUNT,
    transactionId: ids[n]!,
    eventType: 'charge.failed',
    body: '{}',
    at: START,
    appIds: [APP],
  })),
};

const sound = next();
t.before(async () => {
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory: sound, now: () => START, onFailure });
  const open = (group: string, epoch: number): PartitionLog =>
    log.openPartition(group, 0, { epoch, replica: null, onDurable: () => {} });
  const [first, webhooks, unknown] = [open('accounts', 1), open('webhooks', 1), open('others', 1)];
  const { lines } = account;
  const ends = [0, before, before + 3, before + 5, before + 6];
  for (const [n, from] of ends.slice(0, -1).entries()) {
    await first.drained();
    for (const line of lines.slice(from, ends[n + 1])) first.append(line);
  }
  await log.closePartition(first);
  const second = open('accounts', 2);
  await second.drained();
  second.append(lines.at(-1)!);
  webhooks.append(encodeWebhookRecord(heard as never));
  unknown.append('a record of nobody');
  await Promise.all([second, webhooks, unknown].map((each) => each.drained()));
  await log.close();
  const views = ViewStore.open({ directory: sound });
  const tip = { batch: LAST, sequence: account.lines.length };
  const hash = await hashOfLast();
  await views.commit('accounts', 0, { ...tip, hash }, [
    { table: 'other', key: 'a', value: 'no transaction' },
    { table: 'transaction', key: 'chg_damaged', value: 'no transaction either' },
    ...ids.map((id) => ({
      table: 'transaction',
      key: id,
      value: encodeTransaction(account.transaction(id)),
    })),
  ]);
  await views.close();
});

async function hashOfLast(): Promise<Buffer> {
  const database = openLogDatabase({ directory: sound });
  const bytes = Buffer.from(database.getBinary(['accounts', 0, LAST])!);
  await database.close();
  return bytes.subarray(-32);
}

type Change = (bytes: Buffer) => Buffer | null;
interface Told {
  readonly batch: number;
  readonly explanation: string;
  readonly firstSequence: number | null;
  readonly lastSequence: number | null;
  readonly transactions: readonly string[];
}

/** What verify says of the batches that were changed. */
async function explained(changes: Readonly<Record<number, Change>>, group = 'accounts'): Promise<Told[]> {
  const data = next();
  cpSync(sound, data, { recursive: true });
  const database = openLogDatabase({ directory: data });
  for (const [batch, change] of Object.entries(changes)) {
    const key: [string, number, number] = [group, 0, Number(batch)];
    const changed = change(Buffer.from(database.getBinary(key)!));
    await (changed === null ? database.remove(key) : database.put(key, changed));
  }
  await database.close();
  const place = ['--group', group, '--partition', '0'];
  const tools = [...walTools, ...logTools];
  const { status, out } = await runTool(tools, 'verify', '--data', data, ...place, '--json');
  t.equal(status, 1);
  const { faults } = JSON.parse(out) as { readonly faults: readonly Told[] };
  return faults.map(({ batch, explanation, firstSequence, lastSequence, transactions }) => {
    return { batch, explanation, firstSequence, lastSequence, transactions };
  });
}

const turned =
  (at: (bytes: Buffer) => number, bit: number): Change =>
  (bytes) => {
    bytes.writeUInt8(bytes.readUInt8(at(bytes)) ^ (1 << bit), at(bytes));
    return bytes;
  };
/** From the end of the batch: the CRC is before the hash, and the newline of the last record before that. */
const fromEnd =
  (count: number) =>
  (bytes: Buffer): number =>
    bytes.length - count;
const within =
  (id: string) =>
  (bytes: Buffer): number =>
    bytes.indexOf(id.slice(4, 28)) + 3;
const gone: Change = () => null;
const unknown = { firstSequence: null, lastSequence: null, transactions: [] };

t.test('of one bit it says which record it is in, and that the others are as they were', async (t) => {
  const [, second = '', third = ''] = ids;
  const inRecord = async (change: Change, n: number): Promise<void> => {
    const [told] = await explained({ [OF_THREE]: change });
    const sequence = sequenceOf(n);
    const words = `in the record of sequence ${sequence}; all others in the batch are as they were`;
    t.match(told, { batch: OF_THREE, explanation: words, transactions: [ids[n]] });
    t.match(told, { firstSequence: sequence, lastSequence: sequence });
  };
  await inRecord(turned(within(second), 0), 1);
  await inRecord(turned(within(third), 7), 2);
  await inRecord(
    turned(() => 64, 3),
    0,
  );
  await inRecord(turned(fromEnd(37), 2), 2);
  t.match(await explained({ [OF_THREE]: turned(() => 40, 4) }), [
    {
      ...unknown,
      explanation: 'one bit turned over: bit 4 of byte 40, in its header; its records are as they were',
    },
  ]);
  t.match(await explained({ [OF_THREE]: turned(fromEnd(36), 0) }), [
    { ...unknown, explanation: 'one bit of its stored CRC turned over; its records are as they were' },
  ]);
  const [inWebhooks] = await explained({ 2: turned(within(second), 1) }, 'webhooks');
  t.match(inWebhooks, { explanation: /in the record of sequence 1;/, firstSequence: 1 });
});

t.test('of more it names whom it still reads there', async (t) => {
  const torn: Change = (bytes) => bytes.fill(0xff, within(ids[1]!)(bytes) - 20, within(ids[1]!)(bytes) + 2);
  t.strictSame(await explained({ [OF_THREE]: torn }), [
    {
      ...unknown,
      batch: OF_THREE,
      explanation: 'more than one bit changed; these transactions can still be read in it',
      transactions: [ids[0], ids[2]],
    },
  ]);
  const tornCount: Change = (bytes) => bytes.fill(0xff, 56, 60);
  const [inWebhooks] = await explained({ 2: tornCount }, 'webhooks');
  t.strictSame(inWebhooks?.transactions, ids.slice(0, 2));
  t.match(await explained({ 2: tornCount }, 'others'), [{ ...unknown, explanation: '' }]);
});

t.test('of one that is gone it says what was in it, also beside others that are damaged', async (t) => {
  const lost = (first: number, last: number | null, transactions: readonly (string | undefined)[]) => ({
    explanation:
      `lost: sequences ${first}${last === null ? ' on' : ` to ${last}`}` +
      (transactions.length === 0 ? '' : '; by the checkpoint, these were last changed in it'),
    firstSequence: first,
    lastSequence: last,
    transactions,
  });
  const ofTwo = { batch: OF_TWO, ...lost(sequenceOf(3), sequenceOf(4), ids.slice(3, 5)) };
  t.strictSame(await explained({ [OF_TWO]: gone }), [ofTwo]);
  // What is left of it is none.
  t.strictSame(await explained({ [OF_TWO]: (bytes) => bytes.subarray(0, 9) }), [ofTwo]);
  t.strictSame(await explained({ [OF_ACCOUNT]: gone }), [{ batch: OF_ACCOUNT, ...lost(1, before, []) }]);
  t.strictSame(await explained({ [LAST]: gone }), [{ batch: LAST, ...lost(sequenceOf(6), null, [ids[6]]) }]);

  for (const beside of [turned(() => 40, 4), turned(within(ids[2]!), 1), turned(fromEnd(36), 5)]) {
    t.strictSame((await explained({ [OF_THREE]: beside, [OF_TWO]: gone }))[1], ofTwo);
  }
  for (const beside of [turned(() => 40, 4), turned(within(ids[5]!), 1), turned(fromEnd(33), 7)]) {
    t.strictSame((await explained({ [OF_TWO]: gone, [OF_ONE]: beside }))[0], ofTwo);
  }
  // Of these nothing is believed.
  const torn: Change = (bytes) => bytes.fill(0xff, 40, 48);
  const upToNext = { batch: OF_TWO, ...lost(sequenceOf(3), sequenceOf(5), ids.slice(3, 6)) };
  t.strictSame((await explained({ [OF_TWO]: gone, [OF_ONE]: torn }))[0], upToNext);
  const elsewhere = { batch: OF_TWO, ...lost(sequenceOf(0), sequenceOf(4), ids.slice(0, 5)) };
  t.strictSame((await explained({ [OF_THREE]: torn, [OF_TWO]: gone }))[1], elsewhere);
});

t.test('of one that had no record it says that none is lost', async (t) => {
  const explanation = 'lost: no record, it had opened an epoch';
  for (const batch of [OF_EPOCH, OF_NEXT_EPOCH]) {
    t.strictSame(await explained({ [batch]: gone }), [{ ...unknown, batch, explanation }]);
  }
});

t.test('of one that is whole and in another place it says which it is', async (t) => {
  const database = openLogDatabase({ directory: sound });
  const bytesOf = (batch: number): Buffer => Buffer.from(database.getBinary(['accounts', 0, batch])!);
  const [ofTwo, ofEpoch] = [bytesOf(OF_TWO), bytesOf(OF_NEXT_EPOCH)];
  await database.close();
  const whole = 'the bytes are whole: they say they are batch';
  t.strictSame((await explained({ [OF_ONE]: () => ofTwo }))[0], {
    batch: OF_ONE,
    explanation: `${whole} ${OF_TWO} from sequence ${sequenceOf(3)}`,
    firstSequence: sequenceOf(3),
    lastSequence: sequenceOf(4),
    transactions: ids.slice(3, 5),
  });
  t.strictSame((await explained({ [OF_ONE]: () => ofEpoch }))[0], {
    ...unknown,
    batch: OF_ONE,
    explanation: `${whole} ${OF_NEXT_EPOCH}, without a record`,
  });
});

t.test('of a checkpoint of another log it blames no batch of this one', async (t) => {
  const data = next();
  cpSync(sound, data, { recursive: true });
  const views = ViewStore.open({ directory: data });
  const position = views.position('accounts', 0)!;
  await views.commit('accounts', 0, { ...position, hash: Buffer.alloc(32, 1) }, []);
  await views.close();
  const { status, out } = await runTool([...walTools, ...logTools], 'verify', '--data', data);
  t.equal(status, 1);
  t.match(out, new RegExp(`^accounts/0 batch ${LAST} .*: the checkpoint was made from another log .*\\n\\w`));
  t.notMatch(out, /the bytes are whole/);
  t.notOk(ids.some((id) => out.includes(id)));
});

t.test('the rows of the checkpoint are read once, however many batches are lost', async (t) => {
  const rows = Reflect.get(ViewStore.prototype, 'rows') as ViewStore['rows'];
  const reads = t.capture(ViewStore.prototype, 'rows', function (this: ViewStore, group, partition) {
    return rows.call(this, group, partition);
  });
  const timesOf = async (...lost: number[]): Promise<number> => {
    const told = await explained(Object.fromEntries(lost.map((batch) => [batch, () => Buffer.alloc(3)])));
    t.strictSame(
      told.map(({ batch }) => batch),
      lost,
    );
    return reads().length;
  };
  t.equal(await timesOf(OF_THREE, OF_TWO, OF_ONE), await timesOf(OF_THREE));
});

t.test('of batches that are lost one after the other it says once what they had', async (t) => {
  const lost: Change = () => Buffer.alloc(3);
  const told = await explained({ [OF_ACCOUNT]: lost, [OF_TWO]: lost, [OF_ONE]: lost, [LAST]: gone });
  const again = { explanation: '', transactions: [] };
  const [ofAccount, ofBoth, ofEnd] = [
    { firstSequence: 1, lastSequence: before },
    { firstSequence: sequenceOf(3), lastSequence: sequenceOf(5) },
    { firstSequence: sequenceOf(6), lastSequence: null },
  ];
  const said = '; by the checkpoint, these were last changed in it';
  t.strictSame(told, [
    { batch: OF_ACCOUNT, explanation: `lost: sequences 1 to ${before}`, ...ofAccount, transactions: [] },
    {
      batch: OF_TWO,
      explanation: `lost: sequences ${sequenceOf(3)} to ${sequenceOf(5)}${said}`,
      ...ofBoth,
      transactions: ids.slice(3, 6),
    },
    { batch: OF_ONE, ...again, ...ofBoth },
    {
      batch: LAST,
      explanation: `lost: sequences ${sequenceOf(6)} on${said}`,
      ...ofEnd,
      transactions: [ids[6]],
    },
  ]);
});

t.test('nor is what is damaged behind them read again for each', async (t) => {
  const bytesOf = Reflect.get(LogReader.prototype, 'bytesOf') as LogReader['bytesOf'];
  const reads = t.capture(
    LogReader.prototype,
    'bytesOf',
    function (this: LogReader, group, partition, batch) {
      return bytesOf.call(this, group, partition, batch);
    },
  );
  const timesOf = async (...lost: number[]): Promise<number> => {
    await explained(Object.fromEntries(lost.map((batch) => [batch, () => Buffer.alloc(3)])));
    return reads().length;
  };
  const [one, two] = [await timesOf(LAST), await timesOf(OF_NEXT_EPOCH, LAST)];
  const five = await timesOf(OF_THREE, OF_TWO, OF_ONE, OF_NEXT_EPOCH, LAST);
  t.equal(five - two, 3 * (two - one), 'each costs as much, however many there are');
});
