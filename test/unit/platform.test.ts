// The registry of accounts and the audit log: what is refused, what is logged once, and that pages are the same
// whether rows are in memory, checkpointed, or replayed from the log's text.
import { deepStrictEqual, doesNotMatch, ok } from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { platformGroup } from '../../actors/platform/group.ts';
import { decodePlatformRecord, encodePlatformRecord } from '../../actors/platform/record.ts';
import type { PlatformRecord } from '../../actors/platform/record.ts';
import { firstThatFit } from '../../actors/runtime/page.ts';
import { COUNTRIES } from '../../src/domain/country.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { AUDIT_OUTCOMES } from '../../src/domain/platform-message.ts';
import type {
  BeginAudit,
  EndAudit,
  PlatformCommand,
  PlatformQuery,
  RegisterAccount,
} from '../../src/domain/platform-message.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Row, Views } from '../../wal/types.ts';
import { seedOf } from '../seed.ts';

const seed = seedOf(t);

const DEADLINE = 10_000;

function id(kind: 'account' | 'audit', n: number): string {
  return makeId(kind, `${encodeTime(n)}${'0'.repeat(16)}`);
}

function register(n: number): RegisterAccount {
  const flags = { live: true, payoutsEnabled: n % 2 === 0, withdrawalsEnabled: false };
  const accountId = id('account', n);
  return {
    type: 'RegisterAccount',
    deadline: DEADLINE,
    accountId,
    name: `Shop ${n}`,
    country: 'UG',
    ...flags,
    operator: 'amina',
  };
}
function begin(n: number): BeginAudit {
  const action = 'POST /operator/v1/accounts';
  const what = { operator: 'amina', action, target: '/operator/v1/accounts', body: '{"name":"Shop"}' };
  return { type: 'BeginAudit', deadline: DEADLINE, auditId: id('audit', n), ...what };
}
function end(n: number): EndAudit {
  const auditId = id('audit', n);
  return { type: 'EndAudit', deadline: DEADLINE, auditId, outcome: 'done', status: 201, code: null };
}

function markOpened(n: number): PlatformCommand {
  return { type: 'MarkAccountOpened', deadline: DEADLINE, accountId: id('account', n) };
}

/** A partition as the runtime drives it, with its log as text and its views as a sorted table. */
class Driven {
  readonly log: string[] = [];
  readonly rows = new Map<string, string>();
  rowsRead = 0;
  /** Serves; the follower writes the rows. */
  readonly logic = platformGroup.open(0, this.#views(), { writesRows: false, sequence: 0 });
  readonly follower = platformGroup.open(0, this.#views(), { writesRows: true, sequence: 0 });

  /** `writeFormat`: that of the cluster, where nodes of older versions may read it. */
  send(command: PlatformCommand, now = 1, writeFormat = 1) {
    const { record, outcome } = this.logic.decide(command, {
      now,
      freshBody: '',
      elapsedMs: 0,
      writeFormat,
    });
    if (record !== null) this.apply(platformGroup.encode(record)!);
    return outcome.type === 'reply' ? outcome.reply : outcome;
  }
  apply(line: string): void {
    this.log.push(line);
    this.logic.evolve(platformGroup.decode(line), this.log.length);
    this.follower.evolve(platformGroup.decode(line), this.log.length);
  }
  ask(query: PlatformQuery) {
    const { reply } = this.logic.query(query, 1);
    return reply.type === 'done' ? (JSON.parse(reply.body) as Page) : reply;
  }
  checkpoint(): void {
    for (const { table, key, value } of this.follower.takeRows()) {
      if (value === null) this.rows.delete(`${table} ${key}`);
      else this.rows.set(`${table} ${key}`, value);
    }
    this.follower.evict(this.log.length);
    this.logic.evict(this.log.length);
  }
  #views(): Views {
    const { rows } = this;
    const count = (): void => void this.rowsRead++;
    return {
      get: (table, key) => rows.get(`${table} ${key}`),
      *range(table, { start, end, reverse = false }) {
        const all = Array.from(rows, ([name, value]) => ({
          table: name.split(' ')[0],
          key: name.split(' ')[1]!,
          value,
        }))
          .filter((row) => row.table === table && row.key >= start && row.key < end)
          .sort((a, b) => (a.key < b.key ? -1 : 1));
        for (const row of reverse ? all.reverse() : all) {
          count();
          yield row;
        }
      },
    };
  }
}
interface Page {
  readonly data: readonly { readonly id: string; readonly outcome?: string; readonly opened?: boolean }[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
}

t.test('an account is registered once and opened once', async (t) => {
  const platform = new Driven();
  const unopened: PlatformQuery = { type: 'ListUnopenedAccounts', deadline: DEADLINE, limit: 10 };
  const mark = markOpened(1);
  t.hasStrict(platform.send(mark), { type: 'rejected', rejection: { code: 'not_found' } });
  for (let i = 0; i < 2; i++) {
    t.hasStrict(platform.send(register(1)), { body: JSON.stringify({ id: id('account', 1) }) });
  }
  const { accountId, name, country, live, payoutsEnabled, withdrawalsEnabled, operator } = register(1);
  t.strictSame(
    platform.ask(unopened),
    { data: [{ id: accountId, name, country, live, payoutsEnabled, withdrawalsEnabled, operator }] },
    'with all that it is opened with',
  );
  for (let i = 0; i < 2; i++) t.hasStrict(platform.send(mark), { type: 'done' });
  t.strictSame(platform.ask(unopened), { data: [] });
  t.equal(platform.log.length, 2, 'what comes twice is logged once');
});

t.test('an audit entry is begun, then ended, once each', async (t) => {
  const platform = new Driven();
  const audit: PlatformQuery = { type: 'GetAudit', deadline: DEADLINE, limit: 10, startingAfter: null };
  t.hasStrict(platform.send(end(1)), { type: 'rejected', rejection: { code: 'not_found' } });
  for (let i = 0; i < 2; i++) t.hasStrict(platform.send(begin(1), 5), { type: 'done' });
  t.hasStrict(platform.ask(audit), {
    data: [{ id: id('audit', 1), outcome: null, body: { name: 'Shop' }, ended_at: null }],
  });
  t.hasStrict(platform.send(end(1), 6), { type: 'done' });
  t.hasStrict(platform.send({ ...end(1), outcome: 'refused', status: 409 }, 7), { type: 'done' });
  t.hasStrict(platform.ask(audit), {
    data: [
      {
        outcome: 'done',
        status: 201,
        created_at: '1970-01-01T00:00:00.005Z',
        ended_at: '1970-01-01T00:00:00.006Z',
      },
    ],
  });
  t.equal(platform.log.length, 2);
});

t.test('no record has a field that older nodes pass over before the cluster writes its format', async (t) => {
  const repeatable = { idempotencyKey: 'shop-1', requestHash: 'a' };
  const keyed = { ...register(1), type: 'RegisterKeyedAccount', repeatable } as const;
  const ended = { ...end(1), objectId: id('account', 1) };
  const old = new Driven();
  const refused = { type: 'rejected', rejection: { code: 'conflict', message: /format 3.*raise it first/ } };
  t.match(old.send(keyed, 1, 3), refused);
  for (const command of [register(1), begin(1), ended]) old.send(command, 1, 3);
  const lengths = ({ log }: Driven) => log.map((line) => (JSON.parse(line) as unknown[]).length);
  t.strictSame(lengths(old), [9, 7, 6], 'as the versions of format 3 wrote them');

  const raised = new Driven();
  for (const command of [keyed, begin(1), ended]) raised.send(command, 1, 4);
  t.strictSame(lengths(raised), [11, 7, 7]);
  t.hasStrict(raised.send({ ...keyed, accountId: id('account', 2) }, 1, 4), {
    body: JSON.stringify({ id: id('account', 1) }),
  });
});

t.test('a cursor of something else is refused', async (t) => {
  const platform = new Driven();
  for (const startingAfter of ['', 'x', id('audit', 1), `${id('account', 1)}\0`]) {
    t.hasStrict(platform.ask({ type: 'ListAccounts', deadline: DEADLINE, limit: 10, startingAfter }), {
      rejection: { code: 'invalid_cursor', param: 'starting_after' },
    });
  }
});

t.test('every record is read back as it was written', async (t) => {
  const at = fc.nat();
  const text = fc.string({ unit: 'binary' });
  const record: fc.Arbitrary<PlatformRecord> = fc.oneof(
    fc.record({
      type: fc.constant('AccountRegistered' as const),
      at,
      id: text,
      name: text,
      country: fc.constantFrom(...COUNTRIES),
      live: fc.boolean(),
      payoutsEnabled: fc.boolean(),
      withdrawalsEnabled: fc.boolean(),
      operator: text,
      repeatable: fc.option(
        fc.record({ idempotencyKey: text, requestHash: text }, { noNullPrototype: true }),
      ),
    }),
    fc.record({ type: fc.constant('RegisteredAccountOpened' as const), at, id: text }),
    fc.record({
      type: fc.constant('AuditBegun' as const),
      at,
      id: text,
      operator: text,
      action: text,
      target: text,
      body: fc.option(text),
    }),
    fc.record({
      type: fc.constant('AuditEnded' as const),
      at,
      id: text,
      outcome: fc.constantFrom(...AUDIT_OUTCOMES),
      status: fc.option(fc.nat(599)),
      code: fc.option(text),
      objectId: fc.option(text),
    }),
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(record, (written) => {
        const line = encodePlatformRecord(written);
        doesNotMatch(line, /[\n\0]/);
        deepStrictEqual({ ...decodePlatformRecord(line) }, { ...written });
      }),
      { seed, numRuns: 200 },
    ),
  );
  const later = ['["O",1,"a",null]', '["E",1,"a","done",200,null,null,"new"]'];
  for (const line of ['{}', '["X",1,"a"]', '[]', ...later]) {
    t.throws(() => decodePlatformRecord(line), { name: 'AssertionFailure' });
  }
});

t.test('pages are the same in memory, checkpointed and replayed', async (t) => {
  const step = fc.oneof(
    fc.record({ type: fc.constant('begin' as const), n: fc.nat(30) }),
    fc.record({ type: fc.constant('end' as const), n: fc.nat(30) }),
    fc.record({ type: fc.constant('register' as const), n: fc.nat(30) }),
    fc.record({ type: fc.constant('open' as const), n: fc.nat(30) }),
    fc.constant({ type: 'checkpoint' as const }),
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 7 }), (steps, limit) => {
        const platform = new Driven();
        const begun = new Map<number, string | null>();
        const accounts = new Set<number>();
        const opened = new Set<number>();
        for (const taken of steps) {
          if (taken.type === 'checkpoint') platform.checkpoint();
          else if (taken.type === 'register') {
            platform.send(register(taken.n));
            accounts.add(taken.n);
          } else if (taken.type === 'open') {
            platform.send(markOpened(taken.n));
            if (accounts.has(taken.n)) opened.add(taken.n);
          } else if (taken.type === 'begin') {
            platform.send(begin(taken.n));
            if (!begun.has(taken.n)) begun.set(taken.n, null);
          } else {
            platform.send(end(taken.n));
            if (begun.has(taken.n)) begun.set(taken.n, 'done');
          }
        }
        const replayed = new Driven();
        for (const line of platform.log) replayed.apply(line);

        const newestFirst = (numbers: Iterable<number>) => [...numbers].sort((a, b) => b - a);
        const entries = newestFirst(begun.keys()).map((n) => [id('audit', n), begun.get(n)]);
        for (const each of [platform, replayed]) {
          deepStrictEqual(
            readAll(each, 'GetAudit', limit).map((entry) => [entry.id, entry.outcome]),
            entries,
          );
          deepStrictEqual(
            readAll(each, 'ListAccounts', limit).map((account) => [account.id, account.opened]),
            newestFirst(accounts).map((n) => [id('account', n), opened.has(n)]),
          );
          const unopened = each.ask({ type: 'ListUnopenedAccounts', deadline: DEADLINE, limit: 5 }) as Page;
          const left = newestFirst(accounts).filter((n) => !opened.has(n));
          deepStrictEqual(
            unopened.data.map((account) => account.id),
            left
              .reverse()
              .slice(0, 5)
              .map((n) => id('account', n)),
          );
        }
      }),
      { seed, numRuns: 100 },
    ),
  );
});

t.test('memory holds what is not checkpointed, and rows are taken once', async (t) => {
  const platform = new Driven();
  platform.send(register(1));
  const rows: Row[] = platform.follower.takeRows();
  t.strictSame(
    rows.map(({ table, key }) => [table, key]),
    [
      ['accounts', id('account', 1)],
      ['unopened', id('account', 1)],
    ],
  );
  t.strictSame(platform.follower.takeRows(), []);
  t.strictSame(platform.logic.takeRows(), [], 'none where it serves');
  platform.send(register(2));
  platform.logic.evict(1);
  const { data } = platform.ask({
    type: 'ListAccounts',
    deadline: DEADLINE,
    limit: 10,
    startingAfter: null,
  }) as Page;
  t.strictSame(
    data.map((account) => account.id),
    [id('account', 2)],
    'all but what the checkpoint has',
  );
});

t.test('a page ends early rather than outgrow the bus, and goes on where it ended', async (t) => {
  const platform = new Driven();
  const body = JSON.stringify({ metadata: { note: '€'.repeat(20_000) } });
  for (let n = 1; n <= 100; n++) platform.send({ ...begin(n), body });
  const { reply } = platform.logic.query(
    { type: 'GetAudit', deadline: DEADLINE, limit: 100, startingAfter: null },
    1,
  );
  if (reply.type !== 'done') throw new Error(reply.type);
  t.ok(Buffer.byteLength(reply.body) < LIMITS.busReplyBytesMax, `${Buffer.byteLength(reply.body)} bytes`);
  t.hasStrict(JSON.parse(reply.body), { has_more: true });
  platform.checkpoint();
  const page = platform.ask({ type: 'GetAudit', deadline: DEADLINE, limit: 100, startingAfter: null });
  t.equal(platform.rowsRead, (page as Page).data.length + 1, 'and reads no more than one row behind it');
  t.strictSame(
    readAll(platform, 'GetAudit', 100).map((entry) => entry.id),
    Array.from({ length: 100 }, (_, at) => id('audit', 100 - at)),
  );
  const rows = ['x'.repeat(LIMITS.listPageCharactersMax + 1), 'y', 'z'];
  const sizes = [rows, rows.slice(1)].map((left) => firstThatFit(left, (row) => row).length);
  t.strictSame(sizes, [1, 2], 'it has one row, however long');
});

function readAll(platform: Driven, type: 'GetAudit' | 'ListAccounts', limit: number): Page['data'][number][] {
  const all: Page['data'][number][] = [];
  let startingAfter: string | null = null;
  do {
    const page = platform.ask({ type, deadline: DEADLINE, limit, startingAfter }) as Page;
    ok(page.data.length <= limit);
    all.push(...page.data);
    startingAfter = page.next_cursor;
  } while (startingAfter !== null);
  return all;
}
