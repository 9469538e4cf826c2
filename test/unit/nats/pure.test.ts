// What of the cluster needs no server: the wire format, the timer wheel, which messages may be sent twice, who ranks first, a snapshot's
// bytes.
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { natsOf } from '../../../deploy/operator-link.ts';
import { type Message, type Reply, UNKNOWN } from '../../../src/bus/bus.ts';
import type { ErrorCode } from '../../../src/domain/error-code.ts';
import { LogChain } from '../../../src/nats/log/log-chain.ts';
import { isRepeatable, provesNothingDone } from '../../../src/nats/bus/repeatable.ts';
import { SnapshotReader, snapshotLines } from '../../../src/nats/snapshots/snapshot-format.ts';
import { streamFirst } from '../../../src/cluster/stream-first.ts';
import { LIMITS } from '../../../src/limits.ts';
import { rankNodes } from '../../../src/nats/leases/rendezvous.ts';
import { assertToken } from '../../../src/nats/subjects.ts';
import { TimerWheel } from '../../../src/nats/bus/timer-wheel.ts';
import { commandLine, readCommands, readReplies, replyLine } from '../../../src/nats/bus/wire.ts';
import type { WireReply } from '../../../src/nats/bus/wire.ts';
import { emptyTip, tipAt } from '../../../wal/batch.ts';
import type { Batch, Row, Tip } from '../../../wal/types.ts';
import { batchAfter } from '../../cluster/adapters.ts';
import { seedOf } from '../../seed.ts';
import { until } from '../../until.ts';

const SEED = seedOf(t);

t.test('any messages survive the wire, in order, with their numbers', async (t) => {
  const id = fc.integer({ min: 1, max: 2 ** 40 });
  const message = fc.record({ type: fc.string({ unit: 'grapheme' }), deadline: fc.nat(), x: fc.jsonValue() });
  const survives = fc.property(fc.array(fc.tuple(id, fc.integer({ min: 1, max: 99 }), message)), (sent) => {
    const text = sent.map(([n, attempt, each]) => commandLine(n, attempt, each as Message)).join('');
    const read: unknown[] = [];
    readCommands(text, (n, attempt, each) => read.push([n, attempt, each]));
    return JSON.stringify(read) === JSON.stringify(sent);
  });
  t.doesNotThrow(() => fc.assert(survives, { seed: SEED }));
});

t.test('to a command of operators an empty setting is an absent one, as it is to a node', async (t) => {
  t.equal(natsOf({ NATS_URL: '' }), null);
  const given = {
    NATS_URL: 'nats://127.0.0.1:4222',
    NATS_CA_FILE: '',
    NATS_CERT_FILE: '',
    NATS_KEY_FILE: '',
  };
  const absent = { caFile: undefined, certFile: undefined, keyFile: undefined, credentialsFile: undefined };
  t.strictSame(natsOf({ ...given, NATS_CREDENTIALS_FILE: '' }), { url: given.NATS_URL, ...absent });
});

t.test('every reply survives the wire', async (t) => {
  const replies: WireReply[] = [
    { type: 'done', body: '{"a":"é 😀"}', replayed: false },
    { type: 'done', body: '{}', replayed: true },
    {
      type: 'rejected',
      rejection: { code: 'conflict', param: 'x', message: null, retryAfterSeconds: 3 },
    },
    { type: 'unavailable' },
    { type: 'not_owner' },
    { type: 'unknown' },
  ];
  const read: WireReply[] = [];
  readReplies(replies.map((reply, n) => replyLine(n, 1, reply)).join(''), (_, __, reply) => read.push(reply));
  t.strictSame(read, replies);
  t.throws(() => replyLine(1, 1, { type: 'done', body: '{\n}', replayed: false }), /line feed/);
  readReplies('1 1 ?later\n', (_, __, reply) =>
    t.strictSame(reply, { type: 'unknown' }, 'a code of a later version'),
  );
});

t.test('a line that cannot be read is a message that nobody knows, and the others are read', async (t) => {
  const readable = { type: 'GetAccount', deadline: 5 };
  for (const text of [
    '',
    '{',
    'null',
    '7',
    '"GetAccount"',
    '{}',
    '{"type":3,"deadline":5}',
    '{"type":"A"}',
  ]) {
    const read: unknown[] = [];
    const lines = `1 2 ${text}\n${commandLine(2, 1, readable)}`;
    readCommands(lines, (id, attempt, message) => read.push([id, attempt, message]));
    t.strictSame(
      read,
      [
        [1, 2, { type: '', deadline: 0 }],
        [2, 1, readable],
      ],
      text,
    );
  }
});

t.test('what is no line at all is of no request', async (t) => {
  for (const text of ['x', '1 1', '1 1 {"type":"A","deadline":5}', '\n', 'hello world']) {
    const ids: number[] = [];
    readCommands(text, (id, _, { type }) => type === '' && ids.push(id));
    readReplies(text, (id, _, { type }) => type === 'unknown' && ids.push(id));
    t.strictSame(ids, [0, 0], text);
  }
});

t.test('a rejection of a later version says that nothing was decided, and no more', async (t) => {
  for (const text of ['{"code":"later","param":null}', '{"code":"toString"}', '{}', 'null', '{']) {
    readReplies(`1 1 r${text}\n`, (_, __, reply) => t.strictSame(reply, { type: 'unavailable' }, text));
  }
});

t.test("people's acts are not sent twice, facts and keyed creates are", async (t) => {
  const repeatable = (type: string): boolean => isRepeatable({ type, deadline: 0 });
  for (const type of [
    'CreateCharge',
    'CreateDeposit',
    'CreatePayout',
    'CreateWithdrawal',
    'RecordOutcome',
    'GetAccount',
    'ListPending',
    'EndAudit',
    'Hint',
  ]) {
    t.ok(repeatable(type), type);
  }
  for (const type of [
    'CreateDashboardDeposit',
    'ApproveWithdrawal',
    'AddUser',
    'ReplayDelivery',
    'SomethingNew',
  ]) {
    t.notOk(repeatable(type), type);
  }
});

t.test('a create that is refused before its key is looked up may have been made before', async (t) => {
  const proves = (type: string, code: ErrorCode): boolean =>
    provesNothingDone({ type, deadline: 0 }, { code, param: null, message: null, retryAfterSeconds: null });
  for (const code of ['invalid_api_key', 'live_mode_not_enabled'] as const) {
    t.notOk(proves('CreatePayout', code), code);
    t.ok(proves('GetPayout', code), code);
  }
  t.ok(proves('CreatePayout', 'insufficient_balance'));
});

t.test('what is put into the wheel comes out once, not before its time', async (t) => {
  const due = new Map<number, number[]>();
  const wheel = new TimerWheel(5, (id) => due.set(id, [...(due.get(id) ?? []), performance.now()]));
  const start = performance.now();
  const waits = [0, 1, 12, 40, 80];
  for (const [id, wait] of waits.entries()) wheel.add(id, start + wait);
  await until(() => due.size === waits.length);
  wheel.stop();
  for (const [id, wait] of waits.entries()) {
    t.equal(due.get(id)?.length, 1, `${wait} ms`);
    t.ok((due.get(id)?.[0] ?? 0) - start >= wait - 1);
  }
});

t.test('what is beyond the wheel comes early and says its time, so that it can be added again', async (t) => {
  const at = performance.now() + 3_600_000;
  const early = await new Promise((resolve) => {
    const wheel = new TimerWheel(0.05, (...entry) => {
      wheel.stop();
      resolve(entry);
    });
    wheel.add(7, at);
    // Nothing else keeps the process up.
    const waiting = setInterval(() => {}, 1_000);
    t.teardown(() => clearInterval(waiting));
  });
  t.strictSame(early, [7, at]);
});

t.test('shares are even, and the same for everybody', async (t) => {
  const nodes = ['ledger1', 'ledger2', 'ledger3'];
  const counts = new Map<string, number>();
  for (let partition = 0; partition < 300; partition++) {
    const [first] = rankNodes(nodes, 'accounts', partition);
    t.same(rankNodes(nodes.toReversed(), 'accounts', partition)[0], first);
    counts.set(first ?? '', (counts.get(first ?? '') ?? 0) + 1);
  }
  for (const node of nodes) t.ok((counts.get(node) ?? 0) > 70, `${node}: ${counts.get(node)} of 300`);
});

t.test('a name that is no token of a subject is refused', async (t) => {
  for (const name of ['', 'a.b', 'a b', '*', '>', 'x'.repeat(65)]) t.throws(() => assertToken(name));
  t.equal(assertToken('ledger-1_a'), 'ledger-1_a');
});

t.test('of a stream only what continues the chain is the log', async (t) => {
  const next = (tip: Tip, epoch: number, record: string): Batch => batchAfter(tip, 0, epoch, record);
  const a1 = next(emptyTip, 1, 'a1');
  const a2 = next(tipAt(a1), 1, 'a2');
  const b2 = next(tipAt(a1), 2, 'b2');
  const b3 = next(tipAt(b2), 2, 'b3');
  const a3 = next(tipAt(b2), 1, 'stale, on top of the new epoch');
  const taken = (...batches: Batch[]): string[] => {
    const chain = new LogChain(emptyTip);
    return batches.flatMap((batch) => (chain.take(batch) ? batch.records : []));
  };
  t.strictSame(taken(a1, b2, a2, b3), ['a1', 'b2', 'b3'], 'the first at a place wins');
  t.strictSame(taken(a1, a2, b2, b3), ['a1', 'a2'], 'whoever it is: the other must begin again from there');
  t.strictSame(taken(a1, b2, a3, b3), ['a1', 'b2', 'b3'], 'an older epoch never follows a newer one');
  t.strictSame(taken(a1, a1, b2, b2), ['a1', 'b2'], 'twice is once');
});

t.test('a snapshot is what was saved of its partition, to its last line, or is refused', async (t) => {
  const tip: Tip = { batch: 9, sequence: 12, epoch: 2, timeMs: 1_764_000_000_000, hash: Buffer.alloc(32, 3) };
  const rows: Row[] = ['a', 'é\n', 'c'].map((value, i) => ({ table: 'accounts', key: `key/${i}`, value }));
  function* each(): Generator<Row, void> {
    yield* rows;
  }
  const all = each();
  const bytes = Buffer.concat([
    ...snapshotLines({ group: 'accounts', partition: 3 }, tip, all.next(), all),
  ]).toString();
  const read = async (text: string): Promise<{ readonly tip: Tip; readonly rows: Row[] }> => {
    const reader = new SnapshotReader('accounts', 3);
    const found: Row[] = [];
    // As it may come: a line in two parts.
    async function* parts(): AsyncGenerator<Buffer> {
      for (let at = 0; at < text.length; at += 100) yield Buffer.from(text.slice(at, at + 100));
    }
    for await (const portion of reader.read(parts())) found.push(...portion);
    return { tip: reader.tip, rows: found };
  };
  t.strictSame(await read(bytes), { tip, rows });
  const [header = '', first = '', second = '', third = '', end = ''] = bytes.split('\n');
  for (const [title, lines, problem] of [
    ['of a later version', [header.replace('"format":1', '"format":2'), first, end], /format 2 is not known/],
    ['of another partition', [header.replace('"partition":3', '"partition":4'), end], /it is of accounts\/4/],
    ['without its last rows', [header, first, second, end], /its digest differs/],
    ['with another row', [header, first.replace('key/0', 'key/9'), second, third, end], /its digest differs/],
    [
      'with another number of rows',
      [header, first, second, third, end.replace('[3', '[4')],
      /its digest differs/,
    ],
    ['without its end', [header, first, second, third], /it is cut short/],
    ['with more after its end', [header, first, second, third, end, third], /it goes on after its end/],
    ['without its beginning', [`[0,"${createHash('sha256').digest('hex')}"]`], /it has no header/],
  ] as const) {
    const refusal = { message: new RegExp(`^snapshot of accounts/3: ${problem.source}`) };
    await t.rejects(read(`${lines.join('\n')}\n`), refusal, title);
  }
  await t.rejects(read(bytes.slice(0, -1)), /it is cut short/, 'nor without its last line feed');
});

t.test('what is read of a snapshot at once is bounded, in rows and in bytes', async (t) => {
  const CHUNK = 16 * 1024;
  const tip: Tip = { batch: 9, sequence: 12, epoch: 2, timeMs: 1_764_000_000_000, hash: Buffer.alloc(32, 3) };
  const { snapshotRowsPerCommit: rowsMax, snapshotBytesPerCommit: bytesMax } = LIMITS;
  for (const [count, value] of [
    [3 * rowsMax, 'x'],
    // Not one character a byte.
    [(3 * bytesMax) / 50_000, 'é'.repeat(25_000)],
  ] as const) {
    function* each(): Generator<Row, void> {
      for (let n = 0; n < count; n++) yield { table: 'accounts', key: String(n), value };
    }
    const all = each();
    const lines = snapshotLines({ group: 'accounts', partition: 3 }, tip, all.next(), all);
    async function* chunks(): AsyncGenerator<Buffer> {
      for (const bytes of lines) {
        for (let at = 0; at < bytes.length; at += CHUNK) yield bytes.subarray(at, at + CHUNK);
      }
    }
    const bytesOf = ({ table, key, value }: Row): number =>
      Buffer.byteLength(`${JSON.stringify([table, key, value])}\n`);
    const longest = bytesOf({ table: 'accounts', key: String(count), value });
    let [read, portions] = [0, 0];
    for await (const rows of new SnapshotReader('accounts', 3).read(chunks())) {
      const bytes = rows.reduce((sum, row) => sum + bytesOf(row), 0);
      t.ok(rows.length <= rowsMax + CHUNK / 15 && bytes <= bytesMax + CHUNK + 2 * longest);
      read += rows.length;
      portions++;
    }
    t.equal(read, Math.ceil(count));
    t.ok(portions > 2 && portions <= 4, `${portions} portions`);
  }
});

t.test('what pollers pay by is not known where the stream will never have it', async (t) => {
  const told: Reply[] = [];
  const inbox = streamFirst((_, onReply) => onReply({ type: 'done', body: '{}', replayed: false }), {
    settled: () => Promise.reject(new Error('another writer exists')),
  });
  for (const type of ['ListPending', 'GetPending', 'BeginSubmission']) {
    inbox({ type, deadline: 0 }, (reply) => told.push(reply));
  }
  t.strictSame(told, []);
  await until(() => told.length === 3);
  t.strictSame(told, [UNKNOWN, UNKNOWN, UNKNOWN]);
});
