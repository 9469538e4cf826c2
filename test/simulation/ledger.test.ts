// The ledger against a naive model: random commands on two accounts, provider outcomes in any order and number, time that
// passes or not. After every step the balances are the model's and the invariants hold; at the end the log alone gives the
// same state again. `SEED=… RUNS=…` reruns or lengthens it.

import { strict as assert } from 'node:assert';
import fc from 'fast-check';
import t from 'tap';
import type { AccountCommand, RecordOutcome } from '../../src/domain/account-command.ts';
import type { AccountEvent } from '../../src/domain/account-event.ts';
import { COUNTRY_FACTS, type Country, CURRENCIES, type Currency } from '../../src/domain/country.ts';
import { decide } from '../../src/domain/decide/decide.ts';
import type { Decision } from '../../src/domain/decide/decision.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { decodeRecord, encodeRecord } from '../../src/domain/event-codec.ts';
import { evolve } from '../../src/domain/evolve.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { zeroCheck } from '../../src/domain/ledger.ts';
import { MemoryState } from '../../src/domain/memory-state.ts';
import { money } from '../../src/domain/money.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { renderAnswer, renderCurrent, renderTransaction } from '../../src/domain/render/render.ts';
import { isFinal, STATUSES, type Status, type TransactionType } from '../../src/domain/transaction.ts';
import { lengthOf, seedOf } from '../seed.ts';

const seed = seedOf(t);
const numRuns = lengthOf(t, 'RUNS', 150);

const START = 1_772_357_400_000;
const MINUTE = 60_000;
const DAY = 86_400_000;
const FOR_EVER = Number.MAX_SAFE_INTEGER;
const ACCOUNTS = [
  makeId('account', `${'A'.repeat(24)}00`),
  makeId('account', `${'B'.repeat(24)}00`),
] as const;
const OWNER = makeId('user', `${'C'.repeat(24)}00`);
const KEY_HASH = 'h'.repeat(43);
const NUMBERS: Readonly<Record<Country, string>> = {
  UG: '256772000001',
  KE: '254732000001',
  GH: '233242000001',
};

const POLICY: Policy = {
  ...DEFAULT_POLICY,
  approvalThresholds: { UGX: money(60_000), KES: money(60_000), GHS: money(60_000) },
  routes: { 'UG:MTN': 'mtn_ug', 'KE:AIRTEL': 'airtel_ke', 'GH:MTN': 'mtn_gh' },
};

// --- The naive model: one number per balance, one row per transaction, written from the specification alone ----------

interface ModelTransaction {
  readonly id: string;
  readonly account: string;
  readonly type: TransactionType;
  readonly amount: number;
  readonly currency: Currency;
  readonly fee: number;
  readonly createdAt: number;
  state: 'waiting' | 'in progress' | 'successful' | 'failed' | 'reversed';
  releaseAt: number;
  released: boolean;
  furthest: number;
  answer: string | null;
}

interface ModelBalance {
  pending: number;
  available: number;
}

class Model {
  readonly transactions: ModelTransaction[] = [];
  readonly #balances = new Map<string, ModelBalance>();

  balance(account: string, currency: Currency): ModelBalance {
    const key = `${account} ${currency}`;
    const existing = this.#balances.get(key);
    if (existing !== undefined) return existing;
    const balance = { pending: 0, available: 0 };
    this.#balances.set(key, balance);
    return balance;
  }

  of(transaction: ModelTransaction): ModelBalance {
    return this.balance(transaction.account, transaction.currency);
  }

  /** The default fees, once more, in exact arithmetic: 2.5 % of a charge; 1 % of a cash-out between floor and cap. */
  fee(type: TransactionType, amount: number, currency: Currency): number {
    if (type === 'DEPOSIT') return 0;
    const points = type === 'CHARGE' ? 250n : 100n;
    const exact = Number((BigInt(amount) * points * 2n + 10_000n) / 20_000n);
    if (type === 'CHARGE') return exact;
    const [floor, cap] = { UGX: [500, 10_000], KES: [1_000, 30_000], GHS: [50, 1_500] }[currency] as [
      number,
      number,
    ];
    return Math.min(cap, Math.max(floor, exact));
  }

  succeed(transaction: ModelTransaction, now: number): void {
    transaction.state = 'successful';
    const balance = this.of(transaction);
    if (transaction.type === 'DEPOSIT') balance.available += transaction.amount;
    if (transaction.type !== 'CHARGE') return;
    balance.pending += transaction.amount - transaction.fee;
    transaction.releaseAt = now + DAY;
  }

  fail(transaction: ModelTransaction): void {
    transaction.state = 'failed';
    if (isCashOut(transaction.type)) this.of(transaction).available += transaction.amount + transaction.fee;
  }

  reverse(transaction: ModelTransaction): void {
    transaction.state = 'reversed';
    const balance = this.of(transaction);
    if (transaction.released) balance.available -= transaction.amount - transaction.fee;
    else balance.pending -= transaction.amount - transaction.fee;
  }

  release(transaction: ModelTransaction): void {
    transaction.released = true;
    const balance = this.of(transaction);
    balance.pending -= transaction.amount - transaction.fee;
    balance.available += transaction.amount - transaction.fee;
  }

  openHolds(account: string, currency: Currency): number {
    return this.transactions
      .filter((row) => row.account === account && row.currency === currency && isCashOut(row.type))
      .filter(({ state }) => state === 'waiting' || state === 'in progress')
      .reduce((sum, { amount, fee }) => sum + amount + fee, 0);
  }
}

function isCashOut(type: TransactionType): boolean {
  return type === 'PAYOUT' || type === 'WITHDRAWAL';
}

// --- The real thing --------------------------------------------------------------------------------------------------

class Ledger {
  readonly state = new MemoryState();
  readonly lines: string[] = [];
  now = START;
  /** Off in long runs: it grows with the state. */
  watchesDecide = true;
  #fresh = 0;

  record(accountId: string, events: readonly AccountEvent[]): void {
    const line = encodeRecord({ accountId, at: this.now, events });
    this.lines.push(line);
    evolve(this.state, decodeRecord(line), this.lines.length);
  }

  send(command: AccountCommand): Decision {
    const freshBody = `${encodeTime(this.now)}${String(++this.#fresh).padStart(14, '0')}00`;
    const context = {
      now: this.now,
      freshBody,
      policy: POLICY,
      writeFormat: 3,
      cashOutsInWindow: 0,
      cashOutWindowFreesAt: 0,
      unknownReferencesLeft: 10_000,
      appsMax: 100,
      walletsMax: 2_000,
      accountListBytesMax: 300 * 1024,
    };
    const before = this.#snapshot();
    const decision = decide(this.state, command, context);
    assert.equal(this.#snapshot(), before, 'to decide changes nothing');
    if (decision.record !== null) this.record(decision.record.accountId, decision.record.events);
    return decision;
  }

  #snapshot(): string {
    if (!this.watchesDecide) return '';
    const { accounts, transactions, reconciliations } = this.state;
    const maps = (_: string, value: unknown): unknown => (value instanceof Map ? [...value] : value);
    return JSON.stringify([accounts, transactions, reconciliations], maps);
  }
}

function openAccounts(ledger: Ledger): void {
  for (const accountId of ACCOUNTS) {
    ledger.record(accountId, [
      {
        type: 'AccountOpened',
        name: 'Shop',
        country: 'UG',
        settings: {
          live: true,
          payoutsEnabled: true,
          withdrawalsEnabled: true,
          approvalThresholds: {},
          cashOutPerMinute: null,
          fees: {},
          limits: {},
        },
      },
      {
        type: 'AppConnected',
        id: makeId('app', `${accountId.charAt(4).repeat(24)}00`),
        name: 'Shop',
        domain: 'shop.example',
        webhookUrl: null,
        publishableKey: 'pk_live_1',
        secretKeyHash: KEY_HASH,
        signingSecretSealed: 'sealed',
        by: 'operator',
      },
      { type: 'UserAdded', id: OWNER, email: 'o@shop.example', role: 'OWNER', by: 'operator' },
    ]);
    for (const [country, msisdn] of Object.entries(NUMBERS) as [Country, string][]) {
      const id = walletOf(country);
      const network = country === 'KE' ? 'AIRTEL' : 'MTN';
      ledger.record(accountId, [
        { type: 'WalletAdded', id, label: country, country, network, msisdn, by: OWNER },
        { type: 'WalletApproved', id, activeAt: START, by: OWNER },
        { type: 'WalletActivated', id },
      ]);
    }
  }
}

function walletOf(country: Country): string {
  return makeId('wallet', `${'W'.repeat(22)}${country.replace('U', 'V')}00`);
}

// --- Random steps ----------------------------------------------------------------------------------------------------

type Word = RecordOutcome['outcome'];
type Step =
  | {
      do: 'create';
      type: 'CHARGE' | 'PAYOUT' | 'DEPOSIT' | 'WITHDRAWAL';
      account: number;
      country: Country;
      amount: number;
    }
  | { do: 'repeat'; pick: number; changed: boolean }
  | { do: 'submit' | 'expire' | 'fix' | 'release' | 'approve' | 'reject'; pick: number }
  | { do: 'outcome'; pick: number; word: Word; times: number; wrongAmount: boolean }
  | { do: 'wait'; ms: number };

const pick = fc.nat(1_000);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('create' as const),
      type: fc.constantFrom('CHARGE', 'CHARGE', 'PAYOUT', 'DEPOSIT', 'WITHDRAWAL'),
      account: fc.nat(1),
      country: fc.constantFrom('UG', 'UG', 'KE', 'GH'),
      amount: fc.oneof(fc.integer({ min: 400, max: 90_000 }), fc.integer({ min: 1, max: 3_000_000 })),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('repeat' as const), pick, changed: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('submit', 'expire', 'fix', 'release', 'approve', 'reject'),
      pick,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('outcome' as const),
      pick,
      word: fc.constantFrom<Word[]>('SUCCESSFUL', 'SUCCESSFUL', 'SUCCESSFUL', 'FAILED', 'REVERSED'),
      times: fc.integer({ min: 1, max: 3 }),
      wrongAmount: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(0, 1, MINUTE, 31 * MINUTE, DAY),
    }),
  },
);

class Run {
  readonly ledger = new Ledger();
  readonly model = new Model();
  readonly commands: AccountCommand[] = [];

  take(next: Step): void {
    const { transactions } = this.model;
    if (next.do === 'wait') {
      this.ledger.now += next.ms;
      return;
    }
    if (next.do === 'create') return this.create(next);
    const index = next.pick % Math.max(1, transactions.length);
    const target = transactions[index];
    if (target === undefined) return;
    if (next.do === 'repeat') return this.repeat(target, this.commands[index], next.changed);
    if (next.do === 'outcome') {
      for (let i = 0; i < next.times; i++) this.outcome(target, next.word, next.wrongAmount);
      return;
    }
    return this.tick(target, next.do);
  }

  create(next: Extract<Step, { do: 'create' }>): void {
    const { ledger, model } = this;
    const { type, amount, country } = next;
    const { currency } = COUNTRY_FACTS[country];
    const accountId = ACCOUNTS[next.account] ?? ACCOUNTS[0];
    const key = `key-${this.commands.length}-${ledger.lines.length}-${ledger.now}`;
    const common = {
      accountId,
      deadline: FOR_EVER,
      keyHash: KEY_HASH,
      problem: null,
      requestHash: 'same',
      idempotencyKey: key,
    };
    const fields = { amount: String(amount), currency, reference: 'r' };
    const command: AccountCommand =
      type === 'WITHDRAWAL'
        ? { ...common, type: 'CreateWithdrawal', input: { ...fields, destination: walletOf(country) } }
        : { ...common, type: COMMANDS[type], input: { ...fields, msisdn: NUMBERS[country] } };
    const decision = ledger.send(command);

    const fee = model.fee(type, amount, currency);
    const balance = model.balance(accountId, currency);
    const refusal = expectedRefusal(type, amount, currency, balance.available - amount - fee);
    if (refusal !== null) {
      assert(decision.outcome.type === 'rejected', `${refusal} expected`);
      assert.equal(decision.outcome.rejection.code, refusal);
      return;
    }
    assert(decision.outcome.type === 'answer', JSON.stringify(decision.outcome));
    const id = decision.outcome.transactionId;
    if (isCashOut(type)) balance.available -= amount + fee;
    const state = type === 'WITHDRAWAL' && amount > 60_000 ? 'waiting' : 'in progress';
    const row = {
      id,
      account: accountId,
      type,
      amount,
      currency,
      fee,
      createdAt: ledger.now,
      state,
    } as const;
    model.transactions.push({ ...row, releaseAt: Infinity, released: false, furthest: 0, answer: null });
    this.commands.push(command);
  }

  repeat(target: ModelTransaction, command: AccountCommand | undefined, changed: boolean): void {
    assert(command !== undefined && 'requestHash' in command);
    const { record, outcome } = this.ledger.send(changed ? { ...command, requestHash: 'other' } : command);
    assert.equal(record, null);
    if (changed) assert(outcome.type === 'rejected' && outcome.rejection.code === 'idempotency_key_reused');
    else assert.deepEqual(outcome, { type: 'answer', transactionId: target.id, replayed: true });
  }

  outcome(target: ModelTransaction, word: Word, wrongAmount: boolean): void {
    const { ledger, model } = this;
    const isWrong = wrongAmount && word === 'SUCCESSFUL';
    ledger.send({
      type: 'RecordOutcome',
      accountId: target.account,
      deadline: FOR_EVER,
      transactionId: target.id,
      outcome: word,
      source: 'PROVIDER_POLL',
      failureCode: word === 'FAILED' ? 'unknown' : null,
      failureMessage: null,
      providerStatus: word,
      providerTransactionId: null,
      amount: isWrong ? target.amount + 1 : target.amount,
      currency: target.currency,
    });
    if (isWrong) return;
    if (target.state === 'in progress') {
      if (word === 'SUCCESSFUL') model.succeed(target, ledger.now);
      else model.fail(target);
    } else if (target.state === 'successful' && target.type === 'CHARGE' && word === 'REVERSED') {
      model.reverse(target);
    }
  }

  tick(target: ModelTransaction, what: 'submit' | 'expire' | 'fix' | 'release' | 'approve' | 'reject'): void {
    const { ledger, model } = this;
    const common = { accountId: target.account, deadline: FOR_EVER, transactionId: target.id };
    const byOwner = { ...common, operator: 'operator', by: OWNER };
    const inProgress = target.state === 'in progress';
    const due = ledger.now >= target.createdAt + 30 * MINUTE;
    switch (what) {
      case 'submit':
        ledger.send({ ...common, type: 'RecordSubmission', providerStatus: null });
        return;
      case 'fix':
        ledger.send({ ...common, type: 'FixAnswer' });
        return;
      case 'expire':
        ledger.send({ ...common, type: 'ExpireTransaction' });
        if (inProgress && !isCashOut(target.type) && due) model.fail(target);
        return;
      case 'release':
        ledger.send({ ...common, type: 'ReleaseCharge' });
        if (target.state !== 'successful' || target.released) return;
        if (ledger.now >= target.releaseAt) model.release(target);
        return;
      case 'approve':
        ledger.send({ ...byOwner, type: 'ApproveWithdrawal' });
        if (target.state === 'waiting') target.state = 'in progress';
        return;
      case 'reject':
        ledger.send({ ...byOwner, type: 'RejectWithdrawal' });
        if (target.state === 'waiting') model.fail(target);
        return;
    }
  }

  /** What must hold after every step. */
  check(): void {
    const { state } = this.ledger;
    for (const accountId of ACCOUNTS) {
      for (const currency of CURRENCIES) {
        const balances = state.account(accountId)?.balances.get(currency);
        const expected = this.model.balance(accountId, currency);
        assert.equal(balances?.MERCHANT_PENDING ?? 0, expected.pending);
        assert.equal(balances?.MERCHANT_AVAILABLE ?? 0, expected.available);
        if (balances === undefined) continue;
        assert.equal(zeroCheck(balances), 0, 'money is neither made nor lost');
        assert.equal(
          balances.SETTLEMENT_CLEARING,
          this.model.openHolds(accountId, currency),
          'no hold is lost',
        );
      }
    }
    for (const row of this.model.transactions) this.checkTransaction(row);
  }

  checkTransaction(row: ModelTransaction): void {
    const transaction = this.ledger.state.transaction(row.id);
    assert(transaction !== undefined);
    const { status, answeredAt } = transaction;
    assert.equal(isFinal(status), row.state !== 'waiting' && row.state !== 'in progress');
    if (isFinal(status)) assert.equal(status, row.state.toUpperCase());
    const rank = RANKS[status];
    assert(rank >= row.furthest, `${status} is not behind`);
    row.furthest = rank;
    if (row.answer !== null) assert.equal(renderAnswer(transaction), row.answer, 'an answer never changes');
    else if (answeredAt !== null) row.answer = renderAnswer(transaction);
    if (isFinal(status)) assert.notEqual(answeredAt, null, 'a final transaction is answered');
    JSON.parse(renderCurrent(transaction));
    JSON.parse(renderTransaction(transaction));
  }

  /** The log alone gives the same state, and nothing was raised twice. */
  checkReplay(): void {
    const replayed = new MemoryState();
    this.ledger.lines.forEach((line, index) => {
      assert.equal(encodeRecord(decodeRecord(line)), line);
      evolve(replayed, decodeRecord(line), index + 1);
    });
    assert.deepEqual(replayed, this.ledger.state);
  }
}

const COMMANDS = { CHARGE: 'CreateCharge', DEPOSIT: 'CreateDeposit', PAYOUT: 'CreatePayout' } as const;
const RANKS = Object.fromEntries(STATUSES.map((status, rank) => [status, rank])) as Record<Status, number>;

function expectedRefusal(
  type: TransactionType,
  amount: number,
  currency: Currency,
  left: number,
): string | null {
  if (amount < { UGX: 500, KES: 1_000, GHS: 100 }[currency]) return 'amount_below_minimum';
  const ofCustomer = type === 'CHARGE' || type === 'PAYOUT';
  if (currency === 'GHS' && ofCustomer && amount > 2_500_000) return 'amount_above_maximum';
  return isCashOut(type) && left < 0 ? 'insufficient_balance' : null;
}

t.test('random commands: the model and the ledger agree, and the log gives it all again', async (t) => {
  let records = 0;
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 120, size: 'max' }), (steps) => {
      const run = new Run();
      openAccounts(run.ledger);
      for (const next of steps) {
        run.take(next);
        run.check();
      }
      run.checkReplay();
      records += run.ledger.lines.length;
    }),
    { seed, numRuns },
  );
  t.ok(records > 0, `${records} records`);
});

t.test(
  'a flood: many transactions, all outcomes shuffled and tripled, end at what the model says',
  async (t) => {
    const run = new Run();
    run.ledger.watchesDecide = false;
    openAccounts(run.ledger);
    const [steps] = fc.sample(fc.array(step, { minLength: 4_000, maxLength: 4_000, size: 'max' }), {
      seed,
      numRuns: 1,
    });
    for (const [index, next] of (steps ?? []).entries()) {
      run.take(next);
      if (index % 500 === 0) run.check();
    }
    run.check();
    run.checkReplay();
    const states = new Set(run.model.transactions.map(({ state }) => state));
    t.ok(states.size >= 4, `${run.model.transactions.length} transactions: ${[...states].join(', ')}`);
  },
);
