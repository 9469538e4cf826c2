// Decider specifications: given events, when a command, then events or a rejection. Every event goes through the codec on
// its way to `evolve`, as it does through the log.

import { strict as assert } from 'node:assert';
import type { AccountSettings } from '../../../src/domain/account.ts';
import type {
  AccountCommand,
  CollectInput,
  CreateCharge,
  CreateDeposit,
  CreatePayout,
  CreateWithdrawal,
  PayoutInput,
  RecordOutcome,
  SettleCashOut,
  WithdrawalInput,
} from '../../../src/domain/account-command.ts';
import type { AccountEvent, AccountOpened, WalletAdded } from '../../../src/domain/account-event.ts';
import { decide } from '../../../src/domain/decide/decide.ts';
import type { Decision } from '../../../src/domain/decide/decision.ts';
import { DEFAULT_POLICY } from '../../../src/domain/default-policy.ts';
import type { ErrorCode } from '../../../src/domain/error-code.ts';
import { decodeRecord, encodeRecord } from '../../../src/domain/event-codec.ts';
import { evolve } from '../../../src/domain/evolve.ts';
import { encodeTime, type IdKind, makeId } from '../../../src/domain/id.ts';
import { MemoryState } from '../../../src/domain/memory-state.ts';
import type { Policy } from '../../../src/domain/policy.ts';
import { RECORD_FORMATS } from '../../../src/domain/record-format.ts';
import type { Context } from '../../../src/domain/state.ts';
import type { Transaction } from '../../../src/domain/transaction.ts';

/** 2026-03-01T09:30:00.000Z */
export const START = 1_772_357_400_000;
export const MINUTE = 60_000;
export const DAY = 86_400_000;

const POLICY: Policy = {
  ...DEFAULT_POLICY,
  routes: {
    'UG:MTN': 'mtn_ug',
    'UG:AIRTEL': 'airtel_ug',
    'KE:AIRTEL': 'airtel_ke',
    'GH:MTN': 'mtn_gh',
    'GH:AIRTEL': 'airtel_gh',
  },
};

/** A fresh id body of that time, `n` in place of the counter and the random part. */
export function body(n: number, time: number = START): string {
  return `${encodeTime(time)}${String(n).padStart(14, '0')}00`;
}

/** An id made in the fixture, outside of any decision. */
function fixed(kind: IdKind, n: number): string {
  return makeId(kind, body(n, START - DAY));
}

export const ACCOUNT = fixed('account', 1);
export const APP = fixed('app', 1);
export const KEY_HASH = 'kY3x'.repeat(10) + 'abc';
export const OWNER = fixed('user', 1);
export const SECOND_OWNER = fixed('user', 2);
export const ADMIN = fixed('user', 3);
export const FINANCE = fixed('user', 4);
export const MEMBER = fixed('user', 5);
export const WALLET = fixed('wallet', 1);

export const SETTINGS: AccountSettings = {
  live: true,
  payoutsEnabled: true,
  withdrawalsEnabled: true,
  approvalThresholds: {},
  cashOutPerMinute: null,
  fees: {},
  limits: {},
};

export class Scenario {
  readonly state = new MemoryState();
  readonly lines: string[] = [];
  now = START;
  policy: Policy = POLICY;
  writeFormat = RECORD_FORMATS.newest;
  cashOutsInWindow = 0;
  cashOutWindowFreesAt = 0;
  unknownReferencesLeft = 10_000;
  appsMax = 100;
  walletsMax = 2_000;
  accountListBytesMax = 300 * 1024;
  #fresh = 0;

  /** Records events of the account at `now`. */
  given(...events: AccountEvent[]): this {
    for (const event of events) this.#record(ACCOUNT, [event]);
    return this;
  }

  at(time: number): this {
    this.now = time;
    return this;
  }

  later(ms: number): this {
    return this.at(this.now + ms);
  }

  /** Decides and changes nothing. */
  decide(command: AccountCommand): Decision {
    return decide(this.state, command, this.#context());
  }

  /** Decides and records. */
  when(command: AccountCommand): Decision {
    const decision = this.decide(command);
    if (decision.record !== null) this.#record(decision.record.accountId, decision.record.events);
    return decision;
  }

  /** Creates and returns the new transaction. */
  create(command: AccountCommand): Transaction {
    const { outcome } = this.when(command);
    assert(outcome.type === 'answer' && !outcome.replayed, JSON.stringify(outcome));
    return this.transaction(outcome.transactionId);
  }

  transaction(id: string): Transaction {
    const transaction = this.state.transaction(id);
    assert(transaction !== undefined, `${id} exists`);
    return transaction;
  }

  account() {
    const account = this.state.account(ACCOUNT);
    assert(account !== undefined);
    return account;
  }

  balances(currency: 'UGX' | 'KES' | 'GHS' = 'UGX') {
    const balances = this.account().balances.get(currency);
    assert(balances !== undefined, `${currency} was transacted in`);
    return balances;
  }

  #context(): Context {
    return {
      now: this.now,
      freshBody: body(++this.#fresh, this.now),
      policy: this.policy,
      writeFormat: this.writeFormat,
      cashOutsInWindow: this.cashOutsInWindow,
      cashOutWindowFreesAt: this.cashOutWindowFreesAt,
      unknownReferencesLeft: this.unknownReferencesLeft,
      appsMax: this.appsMax,
      walletsMax: this.walletsMax,
      accountListBytesMax: this.accountListBytesMax,
    };
  }

  #record(accountId: string, events: readonly AccountEvent[]): void {
    const line = encodeRecord({ accountId, at: this.now, events });
    this.lines.push(line);
    evolve(this.state, decodeRecord(line), this.lines.length);
  }
}

export const opened: AccountOpened = {
  type: 'AccountOpened',
  name: 'Kampala Books',
  country: 'UG',
  settings: SETTINGS,
};

export const appConnected: AccountEvent = {
  type: 'AppConnected',
  id: APP,
  name: 'Shop',
  domain: 'shop.example',
  webhookUrl: 'https://shop.example/hooks',
  publishableKey: 'pk_live_1',
  secretKeyHash: KEY_HASH,
  signingSecretSealed: 'sealed',
  by: 'operator',
};

function userAdded(id: string, role: 'OWNER' | 'ADMIN' | 'FINANCE' | 'MEMBER'): AccountEvent {
  return { type: 'UserAdded', id, email: `${id.slice(-4)}@shop.example`, role, by: 'operator' };
}

export const walletAdded: WalletAdded = {
  type: 'WalletAdded',
  id: WALLET,
  label: 'Till',
  country: 'UG',
  network: 'MTN',
  msisdn: '256772000111',
  by: ADMIN,
};

/** A live account with an app, an owner, an admin, a finance user and a member. */
export function merchant(settings: Partial<AccountSettings> = {}): Scenario {
  return new Scenario().given(
    { ...opened, settings: { ...SETTINGS, ...settings } },
    appConnected,
    userAdded(OWNER, 'OWNER'),
    userAdded(ADMIN, 'ADMIN'),
    userAdded(FINANCE, 'FINANCE'),
    userAdded(MEMBER, 'MEMBER'),
  );
}

export function secondOwner(): AccountEvent {
  return userAdded(SECOND_OWNER, 'OWNER');
}

/** `merchant` with an active payout wallet and 20,000,000 available in UGX and KES. */
export function fundedMerchant(settings: Partial<AccountSettings> = {}): Scenario {
  const scenario = merchant(settings).given(
    walletAdded,
    { type: 'WalletApproved', id: WALLET, activeAt: START, by: OWNER },
    { type: 'WalletActivated', id: WALLET },
  );
  for (const [currency, msisdn] of [
    ['UGX', '256772000111'],
    ['KES', '254732000111'],
  ] as const) {
    const key = `fund-${currency}`;
    const { id } = scenario.create(
      deposit({ amount: '20000000', currency, msisdn }, { idempotencyKey: key }),
    );
    scenario.when(outcome(id, 'SUCCESSFUL'));
  }
  return scenario;
}

// --- Commands --------------------------------------------------------------------------------------------------------

export const FOR_EVER = Number.MAX_SAFE_INTEGER;
const call = {
  accountId: ACCOUNT,
  deadline: FOR_EVER,
  keyHash: KEY_HASH,
  problem: null,
  idempotencyKey: 'key-00000001',
  requestHash: 'r'.repeat(22),
} as const;

const collectInput: CollectInput = {
  amount: '50000',
  currency: 'UGX',
  msisdn: '+256772123456',
  reference: 'order-1',
};

export function charge(input: Partial<CollectInput> = {}, over: Partial<CreateCharge> = {}): CreateCharge {
  return { ...call, type: 'CreateCharge', input: { ...collectInput, ...input }, ...over };
}

export function deposit(input: Partial<CollectInput> = {}, over: Partial<CreateDeposit> = {}): CreateDeposit {
  return { ...call, type: 'CreateDeposit', input: { ...collectInput, ...input }, ...over };
}

export function payout(input: Partial<PayoutInput> = {}, over: Partial<CreatePayout> = {}): CreatePayout {
  return { ...call, type: 'CreatePayout', input: { ...collectInput, ...input }, ...over };
}

export function withdrawal(
  input: Partial<WithdrawalInput> = {},
  over: Partial<CreateWithdrawal> = {},
): CreateWithdrawal {
  const { amount, currency, reference } = collectInput;
  const whole = { amount, currency, reference, destination: WALLET, ...input };
  return { ...call, type: 'CreateWithdrawal', input: whole, ...over };
}

const internal = { accountId: ACCOUNT, deadline: FOR_EVER } as const;

export function beginning(transactionId: string, again = false, neverTaken = false): AccountCommand {
  return { ...internal, type: 'BeginSubmission', transactionId, again, neverTaken };
}

export function submission(transactionId: string, providerStatus: string | null = null): AccountCommand {
  return { ...internal, type: 'RecordSubmission', transactionId, providerStatus };
}

export function outcome(
  transactionId: string,
  result: RecordOutcome['outcome'],
  over: Partial<RecordOutcome> = {},
): RecordOutcome {
  return {
    ...internal,
    type: 'RecordOutcome',
    transactionId,
    outcome: result,
    source: 'PROVIDER_CALLBACK',
    failureCode: result === 'FAILED' ? 'customer_declined' : null,
    failureMessage: result === 'FAILED' ? 'The customer declined.' : null,
    providerStatus: `P_${result}`,
    providerTransactionId: result === 'SUCCESSFUL' ? '998877' : null,
    amount: null,
    currency: null,
    ...over,
  };
}

export function due(
  type: 'ExpireTransaction' | 'FixAnswer' | 'ReleaseCharge',
  transactionId: string,
): AccountCommand {
  return { ...internal, type, transactionId };
}

export function activateWallet(walletId: string = WALLET): AccountCommand {
  return { ...internal, type: 'ActivateWallet', walletId };
}

export const byOperator = { ...internal, operator: 'amina' } as const;

/** What the provider's people say of a payout or withdrawal. */
export function settle(transactionId: string, over: Partial<SettleCashOut> = {}): SettleCashOut {
  return {
    ...byOperator,
    type: 'SettleCashOut',
    transactionId,
    outcome: 'FAILED',
    failureCode: 'provider_rejected',
    providerTransactionId: null,
    ...over,
  };
}

// --- Then ------------------------------------------------------------------------------------------------------------

/** Refused with `code` (and `param`, when given), and nothing recorded. */
export function thenRefused(decision: Decision, code: ErrorCode, param?: string | null): void {
  assert.equal(decision.record, null);
  assert(decision.outcome.type === 'rejected', `expected ${code}, got ${JSON.stringify(decision.outcome)}`);
  assert.equal(decision.outcome.rejection.code, code);
  if (param !== undefined) assert.equal(decision.outcome.rejection.param, param);
}

/** Refused in these words. */
export function thenTold(decision: Decision, message: string): void {
  assert(
    decision.outcome.type === 'rejected',
    `expected "${message}", got ${JSON.stringify(decision.outcome)}`,
  );
  assert.equal(decision.outcome.rejection.message, message);
}

/** These event types recorded, in this order; none: nothing recorded, and not refused. */
export function thenRecorded(decision: Decision, ...types: AccountEvent['type'][]): void {
  assert.notEqual(decision.outcome.type, 'rejected', JSON.stringify(decision.outcome));
  assert.deepEqual(decision.record?.events.map(({ type }) => type) ?? [], types);
}

/** Event `index` of what was recorded. */
export function recorded(decision: Decision, index = 0): AccountEvent {
  const event = decision.record?.events[index];
  assert(event !== undefined, 'an event was recorded');
  return event;
}

export function thenBody(decision: Decision): Record<string, unknown> {
  assert(decision.outcome.type === 'done', JSON.stringify(decision.outcome));
  return JSON.parse(decision.outcome.body) as Record<string, unknown>;
}
