// The partition that lists, gets and decides are simulated on, three times over: the pure core over a state that holds
// everything, one that keeps everything in memory, and one whose state leaves memory for views.

import { strict as assert } from 'node:assert';
import { AccountsPartition } from '../../actors/accounts/group.ts';
import { decodeOpen, isEmptyBucket, type OpenTable } from '../../actors/accounts/rows.ts';
import type {
  AccountCommand,
  AccountQuery,
  GetTransaction,
  TransactionFilter,
} from '../../src/domain/account-command.ts';
import { matches } from '../../src/domain/transaction-filter.ts';
import { RECONCILIATION_KINDS, type AccountEvent } from '../../src/domain/account-event.ts';
import { CURRENCIES } from '../../src/domain/country.ts';
import { decide } from '../../src/domain/decide/decide.ts';
import type { Decision } from '../../src/domain/decide/decision.ts';
import { decodeRecord, encodeRecord } from '../../src/domain/event-codec.ts';
import { evolve } from '../../src/domain/evolve.ts';
import { bodyOf } from '../../src/domain/id.ts';
import { MemoryState } from '../../src/domain/memory-state.ts';
import { money } from '../../src/domain/money.ts';
import { renderBalances } from '../../src/domain/render/account.ts';
import { renderAnswer, renderCurrent, renderDetail, renderTimeline } from '../../src/domain/render/render.ts';
import { compareRows } from '../../src/log-tools/compare.ts';
import { isFinal, STATUSES, type Transaction, TRANSACTION_TYPES } from '../../src/domain/transaction.ts';
import type { Views } from '../../wal/types.ts';
import { body, KEY_HASH, MINUTE, Scenario, START } from '../unit/domain/scenario.ts';
import { Rows } from './rows.ts';

/** How long after its time the partition itself expires what no poller has. */
const EXPIRY_GRACE_MS = MINUTE;
/** And how long after it was opened, at the most: 10 minutes from its first tick. */
const RETURN_GRACE_MS = 11 * MINUTE;
/** Timers are looked at this often, however long the step. */
const TICK_MS = MINUTE;
/** More than one step takes: what a scan for timers meets has its row. */
export const CHECKPOINT_MS = 5 * MINUTE;
export const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const POLICY = {
  ...new Scenario().policy,
  approvalThresholds: { UGX: money(15_000), KES: money(15_000), GHS: money(15_000) },
  cashOutPerMinute: 1_000_000,
  chargeReleaseMs: HOUR,
  walletCoolingOffMs: 40 * MINUTE,
};
const NO_VIEWS: Views = { get: () => undefined, range: () => [] };

export function isCashOut({ type }: Transaction): boolean {
  return type === 'PAYOUT' || type === 'WITHDRAWAL';
}

export class Run {
  readonly state = new MemoryState();
  readonly commands: AccountCommand[] = [];
  now = START;
  readonly #log: string[] = [];
  readonly #rows = new Rows();
  readonly #whole = new AccountsPartition(POLICY, NO_VIEWS, { sequence: 0, writesRows: false });
  #served = new AccountsPartition(POLICY, this.#rows, { sequence: 0, writesRows: false });
  #follower = new AccountsPartition(POLICY, this.#rows, { sequence: 0, writesRows: true });
  /** Sequence that the views reach, and when they did. */
  #reached = 0;
  #reachedAt = START;
  #openedAt = START;
  #fresh = 0;
  /** How often what had expired was more than a page. */
  expiredPages = 0;
  /** Of each transaction, and of each account's money: the last record that changed it. */
  readonly #changedAt = new Map<string, number>();

  /** What the core decides that sees everything. */
  decide(command: AccountCommand, freshBody = body(++this.#fresh, this.now)): Decision {
    const soft = {
      cashOutsInWindow: 0,
      cashOutWindowFreesAt: 0,
      unknownReferencesLeft: 10_000,
      appsMax: 100,
      walletsMax: 2_000,
      accountListBytesMax: 300 * 1024,
    };
    return decide(this.state, command, { now: this.now, freshBody, policy: POLICY, writeFormat: 3, ...soft });
  }

  /** Decided as the core would that sees everything. */
  send(command: AccountCommand): Decision {
    const freshBody = body(++this.#fresh, this.now);
    const tick = { now: this.now, freshBody, elapsedMs: 0, writeFormat: 3 };
    const decision = this.decide(command, freshBody);
    const { record, outcome: told, answers } = this.#served.decide(command, tick);
    assert.deepEqual(record, decision.record);
    assert.deepEqual(told, asTold(decision));
    const waited = [...this.state.transactions.values()].filter(({ answeredAt }) => answeredAt === null);
    if (record !== null) this.record(record.accountId, record.events);
    const fixed = waited.filter(({ answeredAt }) => answeredAt !== null).map(({ id }) => id);
    assert.deepEqual(
      fixed,
      fixed.length === 0 ? [] : [answers],
      'who waits for what is answered now is told',
    );
    const answered = answers ?? (told.type === 'wait' && told.replayed ? told.key : null);
    if (answered !== null) this.#compareAnswer(answered);
    return decision;
  }

  #compareAnswer(id: string): void {
    const transaction = this.state.transaction(id)!;
    const answer = this.#served.answer(id, false);
    if (transaction.answeredAt === null) return assert.equal(answer, null);
    const reply = { type: 'done', body: renderAnswer(transaction), replayed: false };
    assert.deepEqual(answer?.reply, reply);
    assert.equal(answer?.sequence, isCashOut(transaction) ? 0 : transaction.sequence);
  }

  record(accountId: string, events: readonly AccountEvent[]): void {
    const line = encodeRecord({ accountId, at: this.now, events });
    const sequence = this.#log.push(line);
    const before = this.#balances(accountId);
    evolve(this.state, decodeRecord(line), sequence);
    if (this.#balances(accountId) !== before) this.#changedAt.set(accountId, sequence);
    for (const event of events) if ('id' in event) this.#changedAt.set(event.id, sequence);
    for (const partition of [this.#served, this.#whole]) partition.evolve(decodeRecord(line), sequence);
  }

  #balances(accountId: string): string {
    const account = this.state.account(accountId);
    return account === undefined ? '' : renderBalances(account);
  }

  /** The views reach a sequence between where they were and the end, and what they have leaves memory. */
  checkpoint(upTo = this.#log.length): void {
    for (let i = this.#reached; i < upTo; i++) this.#follower.evolve(decodeRecord(this.#log[i]!), i + 1);
    this.#rows.put(this.#follower.takeRows());
    this.#follower.evict(upTo);
    assert.deepEqual(this.#follower.takeRows(), [], 'what the views have is let go of');
    this.#served.evict(upTo);
    this.#reached = upTo;
    this.#reachedAt = this.now;
    if (upTo === this.#log.length) this.#compareOpenRows();
  }

  /** In flight and waiting for a time: those that are, and nothing that is at rest. */
  #compareOpenRows(): void {
    const transactions = [...this.state.transactions.values()];
    const inFlight = transactions.filter(({ status }) => !isFinal(status));
    const held = transactions.filter(({ releaseAt, status, released }) => {
      return releaseAt !== null && status === 'SUCCESSFUL' && !released;
    });
    const wallets = [...this.state.accounts.values()].flatMap(({ wallets: of }) => [...of.values()]);
    const cooling = wallets.filter(({ status }) => status === 'COOLING_OFF');
    assert.deepEqual(this.#idsIn('open'), inFlight.map(({ id }) => id).sort());
    assert.deepEqual(this.#idsIn('timer'), [...held, ...cooling].map(({ id }) => id).sort());
  }

  #idsIn(table: OpenTable): string[] {
    const rows = [...this.#rows.range(table, { start: '', end: '~' })];
    return rows.map(({ key, value }) => decodeOpen(key, value).id).sort();
  }

  /** The log alone gives the rows of the views again, however many records are applied before they are written. */
  compareRebuilt(portion: number): void {
    const rebuilt = new Rows();
    const follower = new AccountsPartition(POLICY, rebuilt, { sequence: 0, writesRows: true });
    for (let end = 0; end < this.#reached;) {
      const start = end;
      end = Math.min(this.#reached, start + portion);
      for (let i = start; i < end; i++) follower.evolve(decodeRecord(this.#log[i]!), i + 1);
      rebuilt.put(follower.takeRows());
      follower.evict(end);
    }
    const { differences } = compareRows(rebuilt.all(), this.#rows.all(), ({ table, key }) => {
      return table === 'bucket' && isEmptyBucket(key, rebuilt);
    });
    assert.deepEqual(differences, []);
  }

  checkpointPart(part: number): void {
    this.checkpoint(this.#reached + Math.ceil((this.#log.length - this.#reached) * part));
  }

  /** As after a restart: from the views, then the rest of the log. */
  open(): void {
    const sequence = this.#reached;
    this.#openedAt = this.now;
    this.#served = new AccountsPartition(POLICY, this.#rows, { sequence, writesRows: false });
    this.#follower = new AccountsPartition(POLICY, this.#rows, { sequence, writesRows: true });
    for (let i = sequence; i < this.#log.length; i++) {
      this.#served.evolve(decodeRecord(this.#log[i]!), i + 1);
    }
  }

  /** Time passes, and what falls due is done: no more, and nothing is left. */
  pass(ms: number): void {
    const until = this.now + ms;
    if (until - this.#reachedAt >= CHECKPOINT_MS) this.checkpoint();
    do {
      this.now = Math.min(until, this.now + TICK_MS);
      this.#tick();
    } while (this.now < until);
    for (const { status, expiresAt, releaseAt, released } of this.state.transactions.values()) {
      const fromOpening = this.now - this.#openedAt >= RETURN_GRACE_MS;
      const isExpired = expiresAt !== null && fromOpening && expiresAt + EXPIRY_GRACE_MS <= this.now;
      assert(isFinal(status) || !isExpired, 'what expired has failed');
      const isDue = status === 'SUCCESSFUL' && releaseAt !== null && releaseAt <= this.now;
      assert(released || !isDue, 'what is due is released');
    }
    for (const { wallets } of this.state.accounts.values()) {
      for (const { status, activeAt } of wallets.values()) {
        assert(status !== 'COOLING_OFF' || activeAt! > this.now, 'what has cooled off is active');
      }
    }
  }

  #tick(): void {
    for (let i = 0; i < 1_000 && this.#served.nextDue() <= this.now; i++) {
      for (const command of this.#served.takeDue(this.now, 10)) this.send(command);
    }
    assert(this.#served.nextDue() > this.now);
  }

  /** The answer of both. It must be held back until the last change of all that it is `about` is durable. */
  ask(query: AccountQuery, about: readonly string[] = []): string {
    const served = this.#served.query(query, this.now);
    const whole = this.#whole.query(query, this.now);
    assert.deepEqual(served.reply, whole.reply);
    assert.equal(this.#rows.held, 0, 'a read lets go of the views');
    // It may tell of anything up to `whole.sequence`; what the views have is durable.
    if (whole.sequence > this.#reached) assert.equal(served.sequence, whole.sequence);
    if (served.reply.type !== 'done') return '{}';
    for (const id of about) {
      const changedAt = this.#changedAt.get(id) ?? 0;
      assert(served.sequence >= changedAt || changedAt <= this.#reached);
    }
    return served.reply.body;
  }

  /** `newest`: of the transactions, how many. */
  compareObjects(newest = Infinity): void {
    const transactions = [...this.state.transactions.values()].slice(-newest);
    for (const [accountId, account] of this.state.accounts) {
      const merchant = { accountId, deadline: Infinity, keyHash: KEY_HASH, problem: null };
      const internal = { accountId, deadline: Infinity };
      this.ask({ type: 'GetBalances', ...merchant }, [accountId]);
      this.ask({ type: 'ListPayoutDestinations', ...merchant });
      this.ask({ type: 'GetAccount', ...internal });
      this.ask({ type: 'GetTrialBalance', ...internal }, [accountId]);
      for (const open of [true, false]) {
        for (const asked of [accountId, '']) {
          this.ask({ type: 'ListReconciliation', ...internal, accountId: asked, open, limit: 5 });
        }
      }
      for (const appId of account.apps.keys()) this.ask({ type: 'GetWebhookEndpoint', ...internal, appId });
      for (const { id: transactionId } of transactions) {
        this.compareTransaction(merchant, transactionId);
        this.ask({ type: 'GetPending', ...internal, transactionId });
        this.ask({ type: 'GetPending', ...internal, transactionId, evenFinal: true });
        for (const status of ['SUCCESSFUL', 'FAILED', 'REVERSED'] as const) {
          this.ask({ type: 'GetWebhookObject', ...internal, transactionId, status }, [transactionId]);
        }
      }
    }
    this.comparePending();
    for (const ago of [0, MINUTE, DAY, Infinity]) this.compareExpired(Math.max(0, this.now - ago));
    this.compareLastExpired();
    this.compareCensus();
  }

  compareTransaction(merchant: Omit<GetTransaction, 'type' | 'id' | 'view' | 'kind'>, id: string): void {
    const transaction = this.state.transaction(id)!;
    const get = { type: 'GetTransaction', ...merchant, id } as const;
    const isTheirs = transaction.accountId === merchant.accountId;
    const of = (body: string): string => (isTheirs ? body : '{}');
    assert.equal(this.ask({ ...get, view: 'detail', kind: null }, [id]), of(renderDetail(transaction)));
    assert.equal(this.ask({ ...get, view: 'timeline', kind: null }), of(renderTimeline(transaction)));
    for (const kind of TRANSACTION_TYPES) {
      const expected = kind === transaction.type ? of(renderCurrent(transaction)) : '{}';
      assert.equal(this.ask({ ...get, view: 'object', kind }), expected);
    }
  }

  /** Page by page: each that waits for a provider, once. */
  comparePending(): void {
    const found: string[] = [];
    for (let afterId: string | null = null; ;) {
      const page: { data: { id: string }[] } = JSON.parse(
        this.ask({ type: 'ListPending', accountId: '', deadline: Infinity, afterId, limit: 7 }),
      );
      found.push(...page.data.map(({ id }) => id));
      if (page.data.length < 7) break;
      afterId = page.data[6]!.id;
    }
    const waits = ({ status }: Transaction): boolean => !isFinal(status) && status !== 'INITIATED';
    const expected = [...this.state.transactions.values()].filter(waits).map(({ id }) => id);
    assert.deepEqual(found.toSorted(), expected.toSorted());
  }

  /** Page by page: each that we let expire, or an operator said to have failed, since a time. */
  compareExpired(expiredSince: number): void {
    const limit = 3;
    const query = { type: 'ListExpired', accountId: '', deadline: Infinity, expiredSince, limit } as const;
    const found: { id: string; expiredAt: number }[] = [];
    const expected = this.#endedByUs(expiredSince);
    const inMemory = expected.filter(({ id }) => !this.#isStored(id));
    for (let after: string | null = null; ;) {
      const { reply } = this.#served.query({ ...query, after }, this.now);
      assert.equal(this.#rows.held, 0, 'a read lets go of the views');
      const isTooMany: boolean = after === null && inMemory.length > limit;
      assert.equal(reply.type, isTooMany ? 'unavailable' : 'done');
      if (reply.type !== 'done') return;
      const page: { data: { id: string; expiredAt: number }[]; next: string | null } = JSON.parse(reply.body);
      assert(page.data.length <= 2 * limit);
      for (const { id, expiredAt } of page.data) found.push({ id, expiredAt });
      after = page.next;
      if (after === null) break;
    }
    const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);
    assert.deepEqual(found.toSorted(byId), expected.toSorted(byId));
    if (found.length > limit) this.expiredPages++;
  }

  /** A reader that asks from page to page for what expired later still misses none of that. It hears of what the views lack. */
  compareLastExpired(): void {
    const all = { accountId: '', deadline: Infinity, followedFrom: this.#reached, limit: 7 };
    const query = { type: 'ListExpired', ...all } as const;
    const found = new Set<string>();
    let expiredSince = 0;
    for (let after: string | null = null; ;) {
      const { reply } = this.#served.query({ ...query, expiredSince, after }, this.now);
      assert(reply.type === 'done');
      const page: { data: { id: string; expiredAt: number }[]; next: string | null } = JSON.parse(reply.body);
      for (const { id } of page.data) found.add(id);
      expiredSince = Math.max(expiredSince, ...page.data.map(({ expiredAt }) => expiredAt));
      after = page.next;
      if (after === null) break;
    }
    const missed = this.#endedByUs(expiredSince).filter(({ id }) => !found.has(id) && this.#isStored(id));
    assert.deepEqual(missed, []);
  }

  #endedByUs(since: number): { id: string; expiredAt: number }[] {
    return [...this.state.transactions.values()].flatMap((transaction) => {
      const { id, events, failureCode, approvalStatus } = transaction;
      const failed = events.find(({ status }) => status === 'FAILED');
      if (failed === undefined || failed.at < since) return [];
      const isSettled =
        isCashOut(transaction) && failed.source === 'DASHBOARD' && approvalStatus !== 'REJECTED';
      const hasExpired = failureCode === 'expired' && failed.source === 'SYSTEM';
      return isSettled || hasExpired ? [{ id, expiredAt: failed.at }] : [];
    });
  }

  /** Its last change is in the views. */
  #isStored(id: string): boolean {
    return (this.#changedAt.get(id) ?? 0) <= this.#reached;
  }

  compareCensus(): void {
    const { census } = this.#served;
    const { census: whole } = this.#whole;
    const transactions = [...this.state.transactions.values()];
    for (const status of STATUSES) {
      const count = isFinal(status) ? 0 : transactions.filter((one) => one.status === status).length;
      assert.equal(census!.open(status), count);
    }
    for (const currency of CURRENCIES) {
      const held = transactions
        .filter((one) => one.currency === currency && !isFinal(one.status))
        .filter(({ type }) => type === 'PAYOUT' || type === 'WITHDRAWAL')
        .map(({ amount, fee }) => amount + fee);
      const amount = held.reduce((sum, each) => sum + each, 0);
      assert.deepEqual(census!.holds(currency), { count: held.length, amount });
    }
    const entered = new Map<string, number>();
    for (const { type, approvalStatus, events } of transactions) {
      for (const { status } of events) {
        // What needs no approval is in progress from the beginning.
        if (status === 'INITIATED' && approvalStatus === 'NOT_REQUIRED') continue;
        entered.set(`${type} ${status}`, (entered.get(`${type} ${status}`) ?? 0) + 1);
      }
    }
    const counted = [...whole!.entered()].map(({ type, status, count }) => [`${type} ${status}`, count]);
    assert.deepEqual(new Map(counted as [string, number][]), entered);
    const items = [...this.state.reconciliations.values()];
    for (const kind of RECONCILIATION_KINDS) {
      const raised = items.filter((item) => item.kind === kind);
      const open = raised.filter(({ resolvedAt }) => resolvedAt === null).length;
      assert.deepEqual(whole!.reconciliation(kind), { raised: raised.length, open });
      assert.equal(census!.reconciliation(kind).open, open);
    }
  }

  /** One page of the partition that has views: ids, and where it goes on. */
  page(accountId: string, filter: TransactionFilter, startingAfter: string | null) {
    const call = { accountId, deadline: Infinity, keyHash: KEY_HASH, problem: null } as const;
    const list = { type: 'ListTransactions', ...call, filter, view: 'object', limit: 10 } as const;
    const { reply } = this.#served.query({ ...list, startingAfter }, this.now);
    assert(reply.type === 'done');
    const page: { data: { id: string }[]; next_cursor: string | null } = JSON.parse(reply.body);
    return { ids: page.data.map(({ id }) => id), next: page.next_cursor };
  }

  /** All pages of a list. */
  list(accountId: string, filter: TransactionFilter, limit: number): string[] {
    const call = { accountId, deadline: Infinity, keyHash: KEY_HASH, problem: null };
    const view = limit % 2 === 0 ? 'object' : 'transaction';
    const all = [...this.state.transactions.values()].filter((one) => one.accountId === accountId);
    const about = all.map(({ id }) => id);
    const found: string[] = [];
    for (let startingAfter: string | null = null; ;) {
      const page: { data: { id: string; object: string }[]; next_cursor: string | null } = JSON.parse(
        this.ask({ type: 'ListTransactions', ...call, filter, view, limit, startingAfter }, about),
      );
      for (const { id, object } of page.data) {
        found.push(id);
        assert.equal(object === 'transaction', view === 'transaction');
      }
      assert(page.data.length <= limit);
      if (page.next_cursor === null) break;
      assert.equal(page.data.length, limit, 'a page is full when there is more');
      startingAfter = page.next_cursor;
    }
    const expected = all
      .filter((one) => matches(one, filter))
      .map(({ id }) => id)
      .sort((a, b) => (bodyOf(a) < bodyOf(b) ? 1 : -1));
    assert.deepEqual(found, expected);
    return found;
  }
}

/** The core's outcome in the runtime's words. */
function asTold({ outcome: of }: Decision): object {
  if (of.type === 'answer') return { type: 'wait', key: of.transactionId, replayed: of.replayed };
  return { type: 'reply', reply: of.type === 'done' ? { ...of, replayed: false } : of };
}
