// What a partition decides and answers does not depend on how far its checkpoint has got, nor on when it was opened: one whose
// state leaves memory for views at random moments, and that is opened again now and then, against the pure core over a state
// that holds everything, and against a partition that keeps everything in memory. All get the same random commands, and what
// falls due.

import { strict as assert } from 'node:assert';
import fc from 'fast-check';
import t from 'tap';
import { AccountsPartition } from '../../actors/accounts/group.ts';
import { decodeOpen, type OpenTable } from '../../actors/accounts/rows.ts';
import type {
  AccountCommand,
  AccountQuery,
  GetTransaction,
  TransactionFilter,
} from '../../src/domain/account-command.ts';
import { matches } from '../../src/domain/account-queries.ts';
import { RECONCILIATION_KINDS, type AccountEvent } from '../../src/domain/account-event.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from '../../src/domain/country.ts';
import { decide } from '../../src/domain/decide.ts';
import type { Decision } from '../../src/domain/decision.ts';
import { decodeRecord, encodeRecord } from '../../src/domain/event-codec.ts';
import { evolve } from '../../src/domain/evolve.ts';
import { bodyOf } from '../../src/domain/id.ts';
import { MemoryState } from '../../src/domain/memory-state.ts';
import { money } from '../../src/domain/money.ts';
import { renderBalances } from '../../src/domain/render-account.ts';
import { renderAnswer, renderCurrent, renderDetail, renderTimeline } from '../../src/domain/render.ts';
import {
  APPROVAL_STATUSES,
  createdAt,
  isFinal,
  STATUSES,
  type Transaction,
  TRANSACTION_TYPES,
} from '../../src/domain/transaction.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import {
  activateWallet,
  ADMIN,
  APP,
  appConnected,
  body,
  byOperator,
  charge,
  deposit,
  due,
  KEY_HASH,
  MEMBER,
  MINUTE,
  opened,
  outcome,
  OWNER,
  payout,
  Scenario,
  START,
  submission,
  WALLET,
  walletAdded,
  withdrawal,
} from '../unit/domain/scenario.ts';
import { Rows } from './rows.ts';

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
t.comment(`SEED=${SEED}`);

const QUIET = `acc_${'Q'.repeat(24)}00`;
const ACCOUNTS = [`acc_${'A'.repeat(24)}00`, `acc_${'B'.repeat(24)}00`] as const;
/** How long after its time the partition itself expires what no poller has. */
const EXPIRY_GRACE_MS = MINUTE;
/** More than one step takes: what a scan for timers meets has its row. */
const CHECKPOINT_MS = 5 * MINUTE;
const HOUR = 60 * MINUTE;
const POLICY = {
  ...new Scenario().policy,
  approvalThresholds: { UGX: money(15_000), KES: money(15_000), GHS: money(15_000) },
  cashOutPerMinute: 1_000_000,
  chargeReleaseMs: HOUR,
  walletCoolingOffMs: 40 * MINUTE,
};
const WALLETS = [
  { currency: 'UGX', msisdn: '+256772123456' },
  { currency: 'UGX', msisdn: '+256702123456' },
  { currency: 'KES', msisdn: '+254733123456' },
  { currency: 'GHS', msisdn: '+233242123456' },
] as const;

const NO_VIEWS: Views = { get: () => undefined, range: () => [] };

class Run {
  readonly state = new MemoryState();
  readonly commands: AccountCommand[] = [];
  now = START;
  readonly #log: string[] = [];
  readonly #rows = new Rows();
  readonly #whole = new AccountsPartition(POLICY, NO_VIEWS, { sequence: 0, timers: true });
  #served = new AccountsPartition(POLICY, this.#rows, { sequence: 0, timers: true });
  #follower = new AccountsPartition(POLICY, this.#rows, { sequence: 0, timers: false });
  /** Sequence that the views reach, and when they did. */
  #reached = 0;
  #reachedAt = START;
  #fresh = 0;
  /** Of each transaction, and of each account's money: the last record that changed it. */
  readonly #changedAt = new Map<string, number>();

  /** What the core decides that sees everything. */
  decide(command: AccountCommand, freshBody = body(++this.#fresh, this.now)): Decision {
    const soft = { cashOutsInWindow: 0, cashOutWindowFreesAt: 0, appsMax: 100 };
    return decide(this.state, command, { now: this.now, freshBody, policy: POLICY, ...soft });
  }

  /** Decided as the core would that sees everything. */
  send(command: AccountCommand): Decision {
    const freshBody = body(++this.#fresh, this.now);
    const tick = { now: this.now, freshBody, elapsedMs: 0, writeFormat: 1 };
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
    const isCashOut = transaction.type === 'PAYOUT' || transaction.type === 'WITHDRAWAL';
    assert.equal(answer?.sequence, isCashOut ? 0 : transaction.sequence);
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

  checkpointPart(part: number): void {
    this.checkpoint(this.#reached + Math.ceil((this.#log.length - this.#reached) * part));
  }

  /** As after a restart: from the views, then the rest of the log. */
  open(): void {
    const sequence = this.#reached;
    this.#served = new AccountsPartition(POLICY, this.#rows, { sequence, timers: true });
    this.#follower = new AccountsPartition(POLICY, this.#rows, { sequence, timers: false });
    for (let i = sequence; i < this.#log.length; i++) {
      this.#served.evolve(decodeRecord(this.#log[i]!), i + 1);
    }
  }

  /** Time passes, and what falls due is done: no more, and nothing is left. */
  pass(ms: number): void {
    this.now += ms;
    if (this.now - this.#reachedAt >= CHECKPOINT_MS) this.checkpoint();
    for (let i = 0; i < 1_000 && this.#served.nextDue() <= this.now; i++) {
      for (const command of this.#served.takeDue(this.now, 10)) this.send(command);
    }
    assert(this.#served.nextDue() > this.now);
    for (const { status, expiresAt, releaseAt, released } of this.state.transactions.values()) {
      const isExpired = expiresAt !== null && expiresAt + EXPIRY_GRACE_MS <= this.now;
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

function openAccounts(run: Run): void {
  // One to which nothing ever happens again: it is there all the same.
  run.record(QUIET, [opened]);
  run.checkpoint();
  run.open();
  for (const accountId of ACCOUNTS) {
    run.record(accountId, [
      opened,
      appConnected,
      { type: 'UserAdded', id: OWNER, email: 'o@shop.example', role: 'OWNER', by: 'operator' },
      { type: 'UserAdded', id: MEMBER, email: 'm@shop.example', role: 'MEMBER', by: 'operator' },
      { type: 'UserAdded', id: ADMIN, email: 'a@shop.example', role: 'ADMIN', by: 'operator' },
      walletAdded,
      { type: 'WalletApproved', id: WALLET, activeAt: START, by: OWNER },
      { type: 'WalletActivated', id: WALLET },
    ]);
    for (const [n, { currency, msisdn }] of WALLETS.entries()) {
      const key = { accountId, idempotencyKey: `funding-${n}` };
      const { outcome: made } = run.send(deposit({ amount: '5000000', currency, msisdn }, key));
      assert(made.type === 'answer');
      run.send({ ...outcome(made.transactionId, 'SUCCESSFUL'), accountId });
    }
  }
}

/** The core's outcome in the runtime's words. */
function asTold({ outcome: of }: Decision): object {
  if (of.type === 'answer') return { type: 'wait', key: of.transactionId, replayed: of.replayed };
  return { type: 'reply', reply: of.type === 'done' ? { ...of, replayed: false } : of };
}

/** In one record each, as they come. */
function createMany(run: Run, accountId: string, count: number): string[] {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const { record } = run.decide(charge({}, { accountId, idempotencyKey: `many-${n}` }));
    run.record(accountId, record!.events);
    ids.push((record!.events[0] as { id: string }).id);
  }
  return ids;
}

type Pick = (below: number) => number;

/** One random command: new, again, or about what there is. */
function next(run: Run, pick: Pick, n: number): AccountCommand {
  const accountId = ACCOUNTS[pick(2)]!;
  const transactions = [...run.state.transactions.values()].filter((one) => one.accountId === accountId);
  // Mostly one of the newest: it is not at rest yet.
  const back = pick(4) === 0 ? pick(transactions.length) : pick(Math.min(12, transactions.length));
  const { id: transactionId, status } = transactions[transactions.length - 1 - back]!;
  const choice = pick(26);
  if (choice < 9 || run.commands.length === 0) return create(accountId, pick, n);
  if (choice < 12) return { ...submission(transactionId), accountId };
  if (choice < 18) {
    const good = status === 'SUCCESSFUL' ? 'REVERSED' : 'SUCCESSFUL';
    const word = pick(4) === 0 ? 'FAILED' : good;
    return { ...outcome(transactionId, word, { amount: pick(9) === 0 ? 7 : null }), accountId };
  }
  const byMember = { ...byOperator, accountId, by: MEMBER };
  if (choice === 18 || choice === 19) {
    const type = choice === 18 ? 'ApproveWithdrawal' : 'RejectWithdrawal';
    const waiting = transactions.find((one) => one.status === 'INITIATED');
    return { ...byMember, type, transactionId: waiting?.id ?? transactionId };
  }
  if (choice === 20) return { ...due('FixAnswer', transactionId), accountId } as AccountCommand;
  if (choice === 21) {
    // Again; mostly soon, as a front does that lost the answer.
    const first = pick(4) === 0 ? 0 : Math.max(0, run.commands.length - 4);
    return run.commands[first + pick(run.commands.length - first)]!;
  }
  if (choice === 22) return ofAccount(run, accountId, pick, n);
  const items = [...run.state.reconciliations.values()].filter((item) => item.accountId === accountId);
  const reconciliationId = items[items.length - 1 - pick(3)]?.id ?? 'rec_none';
  const resolution = `Seen ${pick(2)}.`;
  return { ...byOperator, accountId, type: 'ResolveReconciliation', reconciliationId, resolution };
}

function create(accountId: string, pick: Pick, n: number): AccountCommand {
  const { currency, msisdn } = WALLETS[pick(WALLETS.length)]!;
  const fields = { amount: String(1_000 + pick(40) * 1_000), currency, reference: `order-${pick(3)}` };
  const over = { accountId, idempotencyKey: `key-${n}` };
  const type = pick(6);
  if (type < 3) return charge({ ...fields, msisdn }, over);
  if (type === 3) return deposit({ ...fields, msisdn }, over);
  if (type === 4) return payout({ ...fields, msisdn }, over);
  return withdrawal({ ...fields, currency: 'UGX' }, over);
}

function ofAccount(run: Run, accountId: string, pick: Pick, n: number): AccountCommand {
  const by = { ...byOperator, accountId };
  const wallets = [...(run.state.account(accountId)?.wallets.values() ?? [])];
  const { id: walletId } = wallets[pick(wallets.length)]!;
  const wallet = { network: null, country: null, by: ADMIN } as const;
  switch (pick(6)) {
    case 0:
      return { ...by, type: 'AddWallet', label: `Till ${n}`, msisdn: '0772000222', ...wallet };
    case 1:
    case 2:
      return { ...by, type: 'ApproveWallet', walletId, by: OWNER };
    case 3:
      return { ...activateWallet(walletId), accountId } as AccountCommand;
    case 4:
      return {
        ...by,
        type: 'ChangeAppWebhook',
        appId: APP,
        webhookUrl: pick(2) === 0 ? null : `https://${n}/`,
      };
    default:
      return {
        ...by,
        type: 'RaiseReconciliation',
        kind: 'CONTRADICTION',
        transactionId: null,
        detail: `${n}`,
      };
  }
}

const maybe = <T>(...values: T[]): fc.Arbitrary<T | undefined> =>
  fc.option(fc.constantFrom(...values), { nil: undefined, freq: 3 });
/** Times are those of transactions: bounds are inclusive. */
const filterArbitrary = (run: Run): fc.Arbitrary<TransactionFilter> => {
  const often = <T>(values: fc.Arbitrary<T | undefined>): fc.Arbitrary<T | undefined> =>
    fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: values });
  const time = maybe(...[...run.state.transactions.values()].map(createdAt));
  return fc.record({
    type: often(maybe(...TRANSACTION_TYPES)),
    status: often(maybe(...STATUSES)),
    approvalStatus: often(maybe(...APPROVAL_STATUSES)),
    country: often(maybe(...COUNTRIES)),
    network: often(maybe(...NETWORKS)),
    currency: often(maybe(...CURRENCIES)),
    reference: maybe('order-0', 'order-1', 'none', undefined, undefined),
    createdAfter: often(time),
    createdBefore: often(time),
  });
};

t.test('every answer is the same wherever the checkpoint is, and whenever it was opened', async (t) => {
  const run = new Run();
  openAccounts(run);
  const random = fc.sample(fc.nat(1_000_000), { seed: SEED, numRuns: 20_000 });
  const pick: Pick = (below) => random.pop()! % below;
  let listed = 0;
  for (let n = 0; n < 500; n++) {
    const command = next(run, pick, n);
    if ('requestHash' in command) run.commands.push(command);
    run.send(command);
    if (pick(4) === 0) run.send(command);
    run.pass(pick(4) === 0 ? pick(CHECKPOINT_MS) : pick(3));
    if (pick(12) === 0) {
      run.checkpointPart(pick(5) / 4);
      run.compareObjects(12);
    }
    if (pick(40) === 0) run.open();
    if (n % 50 === 0) run.compareObjects();
    if (n % 2 !== 0) continue;
    const accountId = ACCOUNTS[pick(2)]!;
    const [filter] = fc.sample(filterArbitrary(run), { seed: SEED + n, numRuns: 1 });
    listed += run.list(accountId, filter!, 1 + pick(20)).length;
  }
  run.compareObjects();
  t.ok(listed > 500, `${listed} rows listed`);
  const { transactions, reconciliations } = run.state;
  const verdicts = new Set([...transactions.values()].map(({ approvalStatus }) => approvalStatus));
  t.ok(verdicts.has('APPROVED') && verdicts.has('REJECTED'), [...verdicts].join(', '));
  t.ok(reconciliations.size > 5, `${transactions.size} transactions, ${reconciliations.size} items`);

  run.open();
  for (let passed = 0; passed < 3 * HOUR; passed += MINUTE) run.pass(MINUTE);
  run.compareObjects();
  for (const { balances } of run.state.accounts.values()) {
    for (const { MERCHANT_PENDING } of balances.values()) t.equal(MERCHANT_PENDING, 0, 'all is released');
  }
});

t.test('a page that would look at too many rows ends there, and the next one goes on', async (t) => {
  const run = new Run();
  openAccounts(run);
  const [accountId] = ACCOUNTS;
  const ids = createMany(run, accountId, LIMITS.listRowsScannedMax + 10);
  const rare = ids[3]!;
  run.send({ ...submission(rare), accountId });
  run.checkpoint();
  const filters: TransactionFilter[] = [
    { status: 'AWAITING_CUSTOMER' },
    { status: 'AWAITING_CUSTOMER', reference: 'order-1' },
  ];
  for (const filter of filters) {
    const first = run.page(accountId, filter, null);
    t.strictSame(first.ids, [], 'nothing yet');
    const looked = ids.length - ids.indexOf(first.next!);
    t.equal(looked, LIMITS.listRowsScannedMax + 1, 'as many as may be looked at');
    t.strictSame(run.page(accountId, filter, first.next), { ids: [rare], next: null });
  }
});

t.test('what the views do not yet know is on its page, also where a page ends', async (t) => {
  const run = new Run();
  openAccounts(run);
  const [accountId] = ACCOUNTS;
  const ids = createMany(run, accountId, LIMITS.listRowsScannedMax + 10);
  run.checkpoint();
  const filters: TransactionFilter[] = [
    { status: 'AWAITING_CUSTOMER' },
    { status: 'AWAITING_CUSTOMER', reference: 'order-1' },
  ];
  const newest = ids.at(-1)!;
  const end = run.page(accountId, filters[0]!, null).next!;
  run.send({ ...submission(newest), accountId });
  for (const filter of filters) {
    t.strictSame(run.page(accountId, filter, null), { ids: [newest], next: end }, 'goes on from the end');
  }
  run.send({ ...submission(end), accountId });
  for (const filter of filters) {
    t.strictSame(run.page(accountId, filter, null), { ids: [newest, end], next: end }, 'the end is on it');
    t.strictSame(run.page(accountId, filter, end), { ids: [], next: null });
  }
});
