// Timers of an accounts partition: what falls due soon is in memory, the rest in its row, and nothing is missed between.

import t from 'tap';
import { encodeOpen, openKey, type OpenRow } from '../../actors/accounts/rows.ts';
import { Timers } from '../../actors/accounts/timers.ts';
import type { AccountEvent, AccountRecord } from '../../src/domain/account-event.ts';
import { LIMITS } from '../../src/limits.ts';
import type { RangeOptions, Views } from '../../wal/types.ts';

const START = Date.UTC(2026, 10, 21);
const MINUTE = 60_000;
const TICK = 10_000;
const ACCOUNT = 'acc_0000000000000000000000000A';
const always = (): boolean => true;

class Rows implements Views {
  read = 0;
  readonly #tables = { open: new Map<string, string>(), timer: new Map<string, string>() };

  put(table: 'open' | 'timer', row: OpenRow): void {
    this.#tables[table].set(openKey(row.accountId, row.id), encodeOpen(row));
  }

  delete(table: 'open' | 'timer', id: string): void {
    this.#tables[table].delete(openKey(ACCOUNT, id));
  }

  get(): undefined {
    return undefined;
  }

  *range(table: string, { start, end, limit = Infinity }: RangeOptions) {
    const rows = [...this.#tables[table as 'open']].sort(([a], [b]) => (a < b ? -1 : 1));
    const found = rows.filter(([key]) => key >= start && key < end).slice(0, limit);
    for (const [key, value] of found) {
      this.read += 1;
      yield { key, value };
    }
  }
}

function idAt(n: number): string {
  return `chg_${String(n).padStart(26, '0')}`;
}

function created(n: number, at: number, expiresAt: number): AccountRecord {
  const event = { type: 'ChargeCreated', id: idAt(n), expiresAt } as AccountEvent;
  return { accountId: ACCOUNT, at, events: [event] } as unknown as AccountRecord;
}

function inFlight(n: number, dueAt: number): OpenRow {
  return { accountId: ACCOUNT, id: idAt(n), kind: 'provider', bucket: '01----', dueAt };
}

/** Ticks up to `until`; says when each id was raised. */
function run(timers: Timers, from: number, until: number, raised = new Map<string, number>()) {
  for (let now = from; now <= until; now += TICK) {
    for (const command of timers.takeDue(now, 1_000, always)) {
      if (command.type === 'ExpireTransaction') raised.set(command.transactionId, now);
    }
  }
  return raised;
}

/** Opened a while ago: nothing is left to the pollers alone any more. */
function served(rows: Rows): Timers {
  const timers = new Timers(rows);
  run(timers, START - 11 * MINUTE, START);
  return timers;
}

t.test('what expires late is kept in its row alone: when the row is gone, nothing is left', async (t) => {
  const rows = new Rows();
  const timers = served(rows);
  run(timers, START, START + MINUTE);
  const due = START + 30 * MINUTE;
  for (let n = 0; n < 1_000; n++) timers.follow(created(n, START + MINUTE, due));
  t.ok(timers.nextDue() < due, 'it has nothing to wait for but the next scan');
  t.equal(run(timers, START + MINUTE, due + 10 * MINUTE).size, 0);
});

t.test('what is still there is raised in time, wherever its creation falls between scans', async (t) => {
  const rows = new Rows();
  const timers = served(rows);
  const raised = new Map<string, number>();
  const dues: number[] = [];
  let n = 0;
  const lifeMs = [1, 4, 6, 9, 10, 11, 14, 30, 60].map((minutes) => minutes * MINUTE);
  for (let now = START; now < START + 40 * MINUTE; now += 70_000) {
    for (const life of lifeMs) {
      dues[n] = now + life;
      timers.follow(created(n, now, now + life));
      n += 1;
    }
    run(timers, now, now + 60_000, raised);
    // The checkpoint comes a while after.
    for (let i = n - lifeMs.length; i < n; i++) rows.put('open', inFlight(i, dues[i]!));
  }
  run(timers, START + 40 * MINUTE, START + 120 * MINUTE, raised);
  t.equal(raised.size, n);
  const late = dues.filter((due, i) => {
    const at = raised.get(idAt(i)) ?? Infinity;
    return at < due || at > due + 3 * MINUTE;
  });
  t.strictSame(late, [], 'none before its time, none long after');
});

t.test('more rows than one tick looks at are all found', async (t) => {
  const rows = new Rows();
  const count = 2 * LIMITS.timerRowsPerTickMax + 1;
  for (let n = 0; n < count; n++) rows.put('open', inFlight(n, START + MINUTE));
  const timers = new Timers(rows);
  const raised = new Map<string, number>();
  let readMost = 0;
  for (let now = START; now < START + 15 * MINUTE; now += TICK) {
    rows.read = 0;
    run(timers, now, now, raised);
    readMost = Math.max(readMost, rows.read);
  }
  t.equal(raised.size, count);
  t.equal(readMost, LIMITS.timerRowsPerTickMax);
});

t.test('what no time ends raises nothing: a payout, a withdrawal that waits for its approval', async (t) => {
  const rows = new Rows();
  rows.put('open', { ...inFlight(1, 0), dueAt: null });
  rows.put('open', { ...inFlight(2, 0), kind: 'approval', dueAt: null });
  const timers = new Timers(rows);
  const raised: unknown[] = [];
  for (let now = START; now < START + 15 * MINUTE; now += TICK) {
    raised.push(...timers.takeDue(now, 1_000, always));
  }
  t.same(raised, []);
});

t.test('what waits in its row for days is raised, too, though nothing is due soon', async (t) => {
  const rows = new Rows();
  const due = START + 24 * 60 * MINUTE;
  const row = { accountId: ACCOUNT, bucket: '01----', dueAt: due };
  rows.put('timer', { ...row, id: idAt(1), kind: 'release' });
  rows.put('timer', { ...row, id: 'wal_00000000000000000000000002', kind: 'cooling' });
  const timers = new Timers(rows);
  const raised: string[] = [];
  for (let now = START; now <= due; now += MINUTE) {
    if (timers.nextDue() > now) continue;
    for (const { type } of timers.takeDue(now, 1_000, always)) raised.push(`${type} ${now - due}`);
  }
  t.strictSame(raised.toSorted(), ['ActivateWallet 0', 'ReleaseCharge 0']);
});

t.test('no more are taken than may be, and of those none that applies no more', async (t) => {
  const timers = served(new Rows());
  for (let n = 0; n < 5; n++) timers.follow(created(n, START, START));
  const due = START + 2 * MINUTE;
  t.equal(timers.takeDue(due, 2, always).length, 2);
  t.equal(timers.takeDue(due, 2, () => false).length, 0);
  t.equal(timers.takeDue(due, 2, always).length, 1, 'what does not apply is gone');
});

t.test('what falls due soon needs no row: charges and deposits, their money, and wallets', async (t) => {
  const timers = served(new Rows());
  const due = START + MINUTE;
  const events = [
    { type: 'ChargeCreated', id: idAt(1), expiresAt: due },
    { type: 'TransactionSucceeded', id: idAt(2), releaseAt: due },
    { type: 'TransactionSucceeded', id: idAt(3), releaseAt: null },
    { type: 'WalletApproved', id: 'wal_1', activeAt: due },
    { type: 'DepositCreated', id: idAt(4), expiresAt: due },
  ];
  timers.follow({ accountId: ACCOUNT, at: START, events: events as unknown as AccountEvent[] });
  t.same(timers.takeDue(due - 1, 10, always), []);
  const sent = { accountId: ACCOUNT, deadline: due + MINUTE };
  t.strictSame(timers.takeDue(due, 10, always), [
    { type: 'ReleaseCharge', ...sent, transactionId: idAt(2) },
    { type: 'ActivateWallet', ...sent, walletId: 'wal_1' },
  ]);
  const sentLater = { accountId: ACCOUNT, deadline: due + 3 * MINUTE };
  t.strictSame(timers.takeDue(due + 2 * MINUTE, 10, always), [
    { type: 'ExpireTransaction', ...sentLater, transactionId: idAt(1) },
    { type: 'ExpireTransaction', ...sentLater, transactionId: idAt(4) },
  ]);
});

t.test('rows are looked through now and then, not at every tick', async (t) => {
  for (const table of ['open', 'timer'] as const) {
    const rows = new Rows();
    let scans = 0;
    const range = rows.range.bind(rows);
    rows.range = (name, options) => {
      if (name === table) scans++;
      return range(name, options);
    };
    const timers = new Timers(rows);
    const everyMs = LIMITS.timerScanEveryMs[table];
    for (let now = START; now < START + 3 * everyMs; now += TICK) timers.takeDue(now, 10, always);
    t.equal(scans, 3, table);
  }
});

t.test('what expired while nothing was taken may have been paid: pollers have time to ask', async (t) => {
  const rows = new Rows();
  rows.put('open', inFlight(1, START - 40 * MINUTE));
  const timers = new Timers(rows);
  timers.follow(created(2, START, START + MINUTE));
  const raised = run(timers, START, START + 15 * MINUTE);
  const afterMs = (n: number): number => raised.get(idAt(n))! - START;
  t.strictSame([afterMs(1), afterMs(2)], [10 * MINUTE, 10 * MINUTE], 'after a start or a take-over');

  timers.follow(created(3, START + 15 * MINUTE, START + 16 * MINUTE));
  const goesOn = START + 30 * MINUTE;
  run(timers, goesOn, goesOn + 15 * MINUTE, raised);
  t.equal(raised.get(idAt(3)), goesOn + 10 * MINUTE, 'after a pause');
  timers.follow(created(4, goesOn, goesOn + 16 * MINUTE));
  run(timers, goesOn + 15 * MINUTE, goesOn + 20 * MINUTE, raised);
  t.equal(raised.get(idAt(4)), goesOn + 17 * MINUTE, 'otherwise a minute');
});
