// What an account partition is to do, said naively and from the specification alone: lists of transactions, users and wallets,
// every balance a sum over them. `expected` says what a command comes to; what was logged is taken in by partition-applied.ts.

import type { AccountSettings, Role } from '../../src/domain/account.ts';
import type {
  AccountCommand,
  ApproveWithdrawal,
  CollectInput,
  CreateCommand,
  CreateDashboardDeposit,
  BeginSubmission,
  RecordOutcome,
  RejectWithdrawal,
  ResolveReconciliation,
  SettleCashOut,
  WithdrawalInput,
} from '../../src/domain/account-command.ts';
import type { AccountEvent } from '../../src/domain/account-event.ts';
import {
  COUNTRIES,
  COUNTRY_FACTS,
  type Country,
  type Currency,
  type Network,
} from '../../src/domain/country.ts';
import type { Policy } from '../../src/domain/policy.ts';
import type { ApprovalStatus, Source, Status } from '../../src/domain/transaction.ts';
import { MINUTE } from '../unit/domain/scenario.ts';
import { goes, refusedByRoute } from './partition-routes.ts';
import { expectedOfUser, isOnePerson, type ModelUser, ownersOf } from './partition-users.ts';

type Type = 'CHARGE' | 'PAYOUT' | 'DEPOSIT' | 'WITHDRAWAL';

export interface ModelTransaction {
  readonly id: string;
  readonly account: string;
  readonly type: Type;
  readonly amount: number;
  readonly currency: Currency;
  readonly country: Country;
  readonly network: Network;
  readonly fee: number;
  readonly appId: string | null;
  readonly key: string | null;
  readonly hash: string | null;
  /** Where a withdrawal goes. */
  readonly wallet: string | null;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly statuses: Status[];
  status: Status;
  approval: ApprovalStatus;
  submitted: boolean;
  /** Its first submit was recorded. */
  begun: boolean;
  updatedAt: number;
  releaseAt: number | null;
  released: boolean;
  failure: string | null;
  /** What the provider calls it, once it succeeded. */
  providerId: string | null;
}

interface ModelWallet {
  readonly id: string;
  readonly country: Country;
  readonly network: Network;
  readonly msisdn: string;
  readonly label: string;
  readonly by: string;
  status: 'PENDING_APPROVAL' | 'COOLING_OFF' | 'ACTIVE' | 'REVOKED';
  activeAt: number;
}

interface ModelAccount {
  settings: AccountSettings;
  readonly users: ModelUser[];
  readonly apps: {
    readonly id: string;
    readonly keyHash: string;
    isRemoved: boolean;
    webhookUrl: string | null;
  }[];
  readonly wallets: ModelWallet[];
}

interface ModelItem {
  readonly account: string;
  readonly kind: string;
  readonly transaction: string | null;
  /** Without what we had ourselves. */
  readonly said: string;
  resolution: string | null;
  by: string | null;
}

/** Plain, so that it can be cloned. */
export interface Model {
  readonly accounts: Record<string, ModelAccount>;
  /** Oldest first. */
  readonly transactions: Map<string, ModelTransaction>;
  /** Of idempotency: `account key` to transaction. */
  readonly keys: Map<string, string>;
  readonly items: Map<string, ModelItem>;
}

export const emptyModel = (): Model => ({
  accounts: {},
  transactions: new Map(),
  keys: new Map(),
  items: new Map(),
});

/** What a command is to come to. `events` null: nothing, or its one event. */
export type Expected =
  | { readonly code: string }
  | { readonly replay: string }
  | {
      readonly events: readonly AccountEvent['type'][] | null;
      readonly created?: ModelTransaction;
      /** Who ended a transaction. */
      readonly source?: Source;
    };

/** When something is decided, and by which rules. */
export interface At {
  readonly now: number;
  readonly policy: Policy;
  readonly writeFormat: number;
  /** Of each account: when it asked for cash-outs in the minute before. */
  readonly cashOuts: Map<string, number[]>;
}

/** Each number that is used: in which country, and whose it is by its prefix. */
const NUMBERS: Readonly<Record<string, { country: Country; network: Network | null }>> = {
  '+256772123456': { country: 'UG', network: 'MTN' },
  '+256702123456': { country: 'UG', network: 'AIRTEL' },
  '+254733123456': { country: 'KE', network: 'AIRTEL' },
  '+233242123456': { country: 'GH', network: 'MTN' },
  '+254722123456': { country: 'KE', network: null },
};
export const MSISDNS = Object.keys(NUMBERS);
/** In any form that people write it in; a local one is read against a country. */
export const NUMBERS_AS_WRITTEN: Readonly<Record<string, { msisdn: string; country: Country }[]>> =
  Object.fromEntries(
    Object.entries(NUMBERS).map(([number, { country }]) => {
      const digits = number.slice(1);
      const national = digits.slice(3);
      const forms = [
        number,
        digits,
        `00${digits}`,
        `+256 ${national}`,
        `0${national}`,
        national,
        `${national}0`,
      ];
      return [number, forms.map((msisdn) => ({ msisdn, country }))];
    }),
  );

/** A number of none of the known is of no known network. */
function readNumber(
  text: string,
  against: Country,
): { msisdn: string; country: Country; network: Network | null } | null {
  const plain = text.replaceAll(/[ -]/g, '');
  const local = /^0?([1-9]\d{8})$/.exec(plain);
  const digits =
    local === null
      ? /^(?:\+|00)?(\d{12})$/.exec(plain)?.[1]
      : `${COUNTRY_FACTS[against].dialingCode}${local[1]}`;
  if (digits === undefined) return null;
  const country = COUNTRIES.find((one) => digits.startsWith(COUNTRY_FACTS[one].dialingCode));
  const isMobile =
    country !== undefined && { UG: /^7/, KE: /^[17]/, GH: /^[25]/ }[country].test(digits.slice(3));
  return isMobile ? { msisdn: digits, country, network: NUMBERS[`+${digits}`]?.network ?? null } : null;
}

const NOTHING: Expected = { events: [] };
const does = (...events: AccountEvent['type'][]): Expected => ({ events });
const ends = (outcome: RecordOutcome['outcome'], source: Source): Expected => ({
  events: [outcome === 'SUCCESSFUL' ? 'TransactionSucceeded' : 'TransactionFailed'],
  source,
});
const refused = (code: string): Expected => ({ code });

export const isFinal = (status: Status): boolean => ['SUCCESSFUL', 'FAILED', 'REVERSED'].includes(status);
const isInProgress = (status: Status): boolean =>
  status === 'PENDING_PROVIDER' || status === 'AWAITING_CUSTOMER';
export const isCashOut = (type: Type): boolean => type === 'PAYOUT' || type === 'WITHDRAWAL';
export const isToBeReleased = ({ status, releaseAt, released }: ModelTransaction): boolean =>
  status === 'SUCCESSFUL' && releaseAt !== null && !released;
export const currencyOf = (msisdn: string): Currency => COUNTRY_FACTS[NUMBERS[msisdn]!.country].currency;

export function balances(transactions: Iterable<ModelTransaction>) {
  const sums = {
    MERCHANT_PENDING: 0,
    MERCHANT_AVAILABLE: 0,
    FEES_REVENUE: 0,
    PROVIDER_FLOAT: 0,
    SETTLEMENT_CLEARING: 0,
  };
  for (const { type, status, amount, fee, released } of transactions) {
    const isOut = isCashOut(type);
    if (status === 'SUCCESSFUL') {
      sums.FEES_REVENUE += fee;
      sums.PROVIDER_FLOAT += isOut ? -amount : amount;
      const isPending = type === 'CHARGE' && !released;
      sums[isPending ? 'MERCHANT_PENDING' : 'MERCHANT_AVAILABLE'] += isOut ? -amount - fee : amount - fee;
    } else if (isOut && status !== 'FAILED') {
      sums.MERCHANT_AVAILABLE -= amount + fee;
      sums.SETTLEMENT_CLEARING += amount + fee;
    }
  }
  return sums;
}

export function transactionsOf(model: Model, account: string, currency?: Currency): ModelTransaction[] {
  return [...model.transactions.values()].filter(
    (one) => one.account === account && (currency === undefined || one.currency === currency),
  );
}

export function expected(model: Model, command: AccountCommand, at: At): Expected {
  const account = model.accounts[command.accountId];
  const { now } = at;
  const named = 'transactionId' in command ? model.transactions.get(command.transactionId ?? '') : undefined;
  const own = named?.account === command.accountId ? named : undefined;
  const acting = 'by' in command ? account?.users.find(({ id }) => id === command.by) : undefined;
  if (acting?.isRemoved === true) return refused('not_permitted');
  switch (command.type) {
    case 'OpenAccount':
      return does('AccountOpened');
    case 'AddUser':
    case 'ChangeUserRole':
    case 'RemoveUser':
      return expectedOfUser(account!.users, command, acting, at.writeFormat);
    case 'ConnectApp':
      if (!account!.settings.live) return refused('live_mode_not_enabled');
      return appOf(account!, command.secretKeyHash) === undefined ? does('AppConnected') : NOTHING;
    case 'RemoveApp':
      return account!.apps.find(({ id }) => id === command.appId)!.isRemoved ? NOTHING : does('AppRemoved');
    case 'ChangeAppWebhook': {
      const app = account!.apps.find(({ id }) => id === command.appId)!;
      if (app.isRemoved) return refused('conflict');
      return app.webhookUrl === command.webhookUrl ? NOTHING : does('AppWebhookChanged');
    }
    case 'ChangeAccountSettings':
      return does('AccountSettingsChanged');
    case 'CreateCharge':
    case 'CreateDeposit':
    case 'CreatePayout':
    case 'CreateWithdrawal':
      return expectedOfCreate(model, command, at);
    case 'CreateDashboardDeposit':
      return expectedOfDashboardDeposit(model, command, at);
    case 'BeginSubmission':
      return expectedOfBegin(account!, command, own);
    case 'RecordSubmission':
      return own?.status === 'PENDING_PROVIDER' && !own.submitted ? does('SubmissionAccepted') : NOTHING;
    case 'RecordOutcome':
      return expectedOfOutcome(model, command, own);
    case 'SettleCashOut':
      return expectedOfSettle(command, own);
    case 'RaiseReconciliation':
      return raised(model, command.transactionId, command.kind, (said) => said === command.detail);
    case 'NoteCallback':
      return expectedOfNote(model, own);
    case 'ResolveReconciliation':
      return expectedOfResolve(model.items.get(command.reconciliationId), command);
    case 'ExpireTransaction':
    case 'ReleaseCharge':
      return expectedOfDue(command.type, own, now);
    case 'FixAnswer':
      return { events: own === undefined ? [] : null };
    case 'ActivateWallet': {
      const wallet = account?.wallets.find(({ id }) => id === command.walletId);
      return wallet?.status === 'COOLING_OFF' && now >= wallet.activeAt ? does('WalletActivated') : NOTHING;
    }
    case 'AddWallet':
    case 'ApproveWallet':
    case 'RevokeWallet':
      return expectedOfWallet(account!, command);
    case 'ApproveWithdrawal':
    case 'RejectWithdrawal':
      return expectedOfApproval(account!, command, own, at);
  }
}

function roleOf(account: ModelAccount | undefined, user: string): Role | undefined {
  return account?.users.find(({ id }) => id === user)?.role;
}

const appOf = ({ apps }: ModelAccount, keyHash: string | null) => apps.find((app) => app.keyHash === keyHash);

/** Null: nothing was created under its key. */
function repeated(model: Model, { account, key, hash, type }: Made): Expected | null {
  const known = model.transactions.get(model.keys.get(`${account} ${key}`) ?? '');
  if (known === undefined) return null;
  const isSame = known.hash === hash && known.type === type;
  return isSame ? { replay: known.id } : refused('idempotency_key_reused');
}

const createdOnce: typeof created = (model, made, input, at) =>
  repeated(model, made) ?? created(model, made, input, at);

function expectedOfCreate(model: Model, command: CreateCommand, at: At): Expected {
  const { accountId, idempotencyKey: key, requestHash: hash } = command;
  const type = command.type.slice('Create'.length).toUpperCase() as Type;
  const { settings } = model.accounts[accountId]!;
  const app = appOf(model.accounts[accountId]!, command.keyHash);
  const { problem } = command;
  if (problem?.code === 'secret_key_required') {
    return refused(settings.live ? problem.code : 'live_mode_not_enabled');
  }
  if (app === undefined || app.isRemoved) return refused('invalid_api_key');
  if (!settings.live) return refused('live_mode_not_enabled');
  if (problem?.code === 'idempotency_key_invalid') return refused(problem.code);
  const made = { type, account: accountId, key, hash, appId: app.id };
  const before = repeated(model, made);
  if (before !== null) return before;
  if (isCashOut(type)) {
    const recent = (at.cashOuts.get(accountId) ?? []).filter((time) => time > at.now - MINUTE);
    if (recent.length >= (settings.cashOutPerMinute ?? at.policy.cashOutPerMinute)) {
      return refused('rate_limit_exceeded');
    }
    at.cashOuts.set(accountId, [...recent, at.now]);
    if (type === 'PAYOUT' && !settings.payoutsEnabled) return refused('payouts_not_enabled_live');
    if (type === 'WITHDRAWAL' && !settings.withdrawalsEnabled) return refused('withdrawals_not_enabled_live');
  }
  if (problem !== null) return refused(problem.code);
  return created(model, made, command.input!, at);
}

function expectedOfDashboardDeposit(model: Model, command: CreateDashboardDeposit, at: At): Expected {
  const { accountId, by, input, repeatable = null } = command;
  const account = model.accounts[accountId]!;
  if (roleOf(account, by) === 'MEMBER') return refused('not_permitted');
  if (!account.settings.live) return refused('live_mode_not_enabled');
  const key = repeatable === null ? null : `dashboard→${repeatable.idempotencyKey}`;
  const made = { key, hash: repeatable?.requestHash ?? null, appId: null } as const;
  return createdOnce(model, { ...made, type: 'DEPOSIT', account: accountId }, input, at);
}

type Made = Pick<ModelTransaction, 'type' | 'account' | 'key' | 'hash' | 'appId'>;

function created(model: Model, made: Made, input: CollectInput | WithdrawalInput, at: At): Expected {
  const { type, account: accountId } = made;
  const { now, policy } = at;
  const account = model.accounts[accountId]!;
  const { settings } = account;
  let to: { country: Country; network: Network | null };
  if ('destination' in input) {
    const wallet = account.wallets.find(({ id }) => id === input.destination);
    if (wallet === undefined) return refused('destination_not_found');
    if (wallet.status !== 'ACTIVE') return refused('destination_not_active');
    to = wallet;
  } else {
    const number = readNumber(input.msisdn, input.country ?? 'UG');
    if (number === null) return refused('invalid_msisdn');
    to = { ...number, network: input.network ?? number.network };
  }
  const { currency } = input;
  if (COUNTRY_FACTS[to.country].currency !== currency) return refused('currency_mismatch');
  if (to.network === null) return refused('network_required');
  const unrouted = refusedByRoute(policy, type, input.amount, `${to.country}:${to.network}`);
  if (unrouted !== null) return refused(unrouted);
  const amount = Number(input.amount);
  if (amount < policy.minimums[currency]) return refused('amount_below_minimum');
  const limits = settings.limits[`${type}:${currency}`] ?? policy.limits[type][currency];
  if (amount > limits.maximum) return refused('amount_above_maximum');
  const used = transactionsOf(model, accountId, currency).filter(
    (one) => one.type === type && one.status !== 'FAILED',
  );
  const usedSince = (length: number): number =>
    used
      .filter(({ createdAt }) => isoStart(createdAt, length) === isoStart(now, length))
      .reduce((sum, one) => sum + one.amount, 0);
  if (usedSince('2026-01-01'.length) + amount > limits.daily) return refused('daily_limit_exceeded');
  if (usedSince('2026-01'.length) + amount > limits.monthly) return refused('monthly_limit_exceeded');
  const fee = type === 'DEPOSIT' ? 0 : feeOf(type, amount, feeTerms(type, currency, settings, policy));
  const isOut = isCashOut(type);
  const available = balances(transactionsOf(model, accountId, currency)).MERCHANT_AVAILABLE;
  if (isOut && available < amount + fee) return refused('insufficient_balance');
  const threshold = settings.approvalThresholds[currency] ?? policy.approvalThresholds[currency];
  const waits = type === 'WITHDRAWAL' && amount > threshold;
  const transaction: ModelTransaction = {
    ...made,
    id: '',
    amount,
    currency,
    country: to.country,
    network: to.network,
    fee,
    wallet: 'destination' in input ? input.destination : null,
    createdAt: now,
    expiresAt: isOut ? null : now + policy.chargeExpiryMs,
    statuses: waits ? ['INITIATED'] : ['INITIATED', 'PENDING_PROVIDER'],
    status: waits ? 'INITIATED' : 'PENDING_PROVIDER',
    approval: waits ? 'PENDING' : 'NOT_REQUIRED',
    submitted: false,
    begun: at.writeFormat < 2,
    updatedAt: now,
    releaseAt: null,
    released: false,
    failure: null,
    providerId: null,
  };
  return { events: [CREATED[type]], created: transaction };
}

const CREATED = {
  CHARGE: 'ChargeCreated',
  DEPOSIT: 'DepositCreated',
  PAYOUT: 'PayoutCreated',
  WITHDRAWAL: 'WithdrawalCreated',
} as const;

/** The first characters of a time: its day, its month. */
const isoStart = (time: number, length: number): string => new Date(time).toISOString().slice(0, length);

type FeeTerms = Policy['fees']['CHARGE']['UGX'];
type Charged = keyof Policy['fees'];

/** An account's own terms of payouts hold for its withdrawals, too, where nothing is said of these. */
function feeTerms(type: Charged, currency: Currency, { fees }: AccountSettings, policy: Policy): FeeTerms {
  const asPayout = fees[`PAYOUT:${currency}`] ?? policy.fees.PAYOUT[currency];
  return fees[`${type}:${currency}`] ?? policy.fees[type][currency] ?? asPayout;
}

function feeOf(type: Charged, amount: number, terms: FeeTerms): number {
  const exact = terms.fixed + Math.floor((amount * terms.basisPoints + 5_000) / 10_000);
  const fee = Math.min(terms.cap ?? Infinity, Math.max(terms.floor ?? 0, exact));
  return type === 'CHARGE' ? Math.min(fee, amount) : fee;
}

const ITEMS_MAX = 5;

function raised(
  model: Model,
  transaction: string | null,
  kind: string,
  isSaid: (said: string) => boolean,
): Expected {
  const items = [...model.items.values()].filter(
    (one) => transaction !== null && one.transaction === transaction && one.kind === kind && !isNote(one),
  );
  const isKnown = items.some((one) => one.resolution === null || isSaid(one.said));
  return isKnown || items.length === ITEMS_MAX ? NOTHING : does('ReconciliationRaised');
}

const isNote = ({ said }: ModelItem): boolean => said.startsWith('The provider called back');

function expectedOfNote(model: Model, own: ModelTransaction | undefined): Expected {
  if (own === undefined) return refused('transaction_not_found');
  const notes = [...model.items.values()].filter((one) => one.transaction === own.id && isNote(one));
  if (notes.some(({ resolution }) => resolution === null)) return NOTHING;
  return notes.length === ITEMS_MAX ? refused('conflict') : does('ReconciliationRaised');
}

/** A revoked wallet receives nothing, as long as nothing may have been sent. */
function expectedOfBegin(
  { wallets }: ModelAccount,
  { neverTaken = false }: BeginSubmission,
  own: ModelTransaction | undefined,
): Expected {
  if (own === undefined) return refused('transaction_not_found');
  if (own.status !== 'PENDING_PROVIDER' || own.type !== 'WITHDRAWAL') return NOTHING;
  const isActive = wallets.find(({ id }) => id === own.wallet)?.status === 'ACTIVE';
  if (own.begun && (isActive || own.submitted || !neverTaken)) return NOTHING;
  return isActive ? does('SubmissionBegun') : ends('FAILED', 'SYSTEM');
}

function expectedOfOutcome(
  model: Model,
  command: RecordOutcome,
  own: ModelTransaction | undefined,
): Expected {
  const { outcome, source, amount, currency, transactionId } = command;
  const raise = (kind: string): Expected => raised(model, transactionId, kind, isRepeated(command));
  if (own === undefined) return raise('UNKNOWN_REFERENCE');
  const isSame = (amount ?? own.amount) === own.amount && (currency ?? own.currency) === own.currency;
  switch (own.status) {
    case 'INITIATED':
      return raise('CONTRADICTION');
    case 'PENDING_PROVIDER':
    case 'AWAITING_CUSTOMER':
      if (outcome !== 'FAILED' && !isSame) return raise('AMOUNT_MISMATCH');
      return ends(outcome, source === 'API' && own.appId === null ? 'DASHBOARD' : source);
    case 'SUCCESSFUL': {
      const isPossible = outcome === 'SUCCESSFUL' || (outcome === 'REVERSED' && own.type === 'CHARGE');
      if (!isPossible) return raise('CONTRADICTION');
      if (!isSame) return raise('AMOUNT_MISMATCH');
      return outcome === 'REVERSED' ? does('ChargeReversed') : NOTHING;
    }
    case 'FAILED':
      return outcome === 'SUCCESSFUL' ? raise('SUCCESS_AFTER_FINAL') : NOTHING;
    case 'REVERSED':
      return NOTHING;
  }
}

/** Of the same outcome, and of the same money as far as that is known. */
function isRepeated({ outcome, amount, currency }: RecordOutcome): (said: string) => boolean {
  return (said) => {
    const told = /^The provider says (\w+) \(\w+\)(?:, (\d+))?(?:,? ([A-Z]{3}))?[,.]/.exec(said);
    if (told?.[1] !== outcome) return false;
    return (amount === null || told[2] === String(amount)) && (currency === null || told[3] === currency);
  };
}

function expectedOfDue(
  type: 'ExpireTransaction' | 'ReleaseCharge',
  own: ModelTransaction | undefined,
  now: number,
): Expected {
  if (own === undefined) return NOTHING;
  if (type === 'ReleaseCharge') {
    return isToBeReleased(own) && now >= own.releaseAt! ? does('ChargeReleased') : NOTHING;
  }
  const isOver = own.expiresAt !== null && now >= own.expiresAt;
  return isOver && isInProgress(own.status) ? ends('FAILED', 'SYSTEM') : NOTHING;
}

function expectedOfResolve(item: ModelItem | undefined, command: ResolveReconciliation): Expected {
  if (item?.account !== command.accountId) return refused('not_found');
  if (item.resolution === null) return does('ReconciliationResolved');
  const isRepeat = item.resolution === command.resolution && item.by === command.operator;
  return isRepeat ? NOTHING : refused('conflict');
}

function expectedOfSettle(
  { outcome, failureCode, providerTransactionId: providerId }: SettleCashOut,
  own: ModelTransaction | undefined,
): Expected {
  if (own === undefined) return refused('transaction_not_found');
  if (!isCashOut(own.type)) return refused('conflict');
  if (own.status === outcome) {
    const isSame =
      outcome === 'FAILED'
        ? ['unknown', own.failure].includes(failureCode)
        : [null, own.providerId].includes(providerId);
    return isSame ? NOTHING : refused('conflict');
  }
  if (own.status !== 'PENDING_PROVIDER') return refused('conflict');
  return ends(outcome, 'DASHBOARD');
}

function expectedOfWallet(
  account: ModelAccount,
  command: Extract<AccountCommand, { type: 'AddWallet' | 'ApproveWallet' | 'RevokeWallet' }>,
): Expected {
  const role = roleOf(account, command.by);
  if (role === 'MEMBER' || role === 'FINANCE') return refused('not_permitted');
  if (command.type === 'AddWallet') {
    const number = readNumber(command.msisdn, command.country ?? 'UG');
    if (number === null) return refused('invalid_msisdn');
    const network = command.network ?? number.network;
    if (network === null) return refused('network_required');
    const isKnown = account.wallets.some(
      (one) =>
        one.status !== 'REVOKED' &&
        one.msisdn === number.msisdn &&
        one.network === network &&
        one.label === command.label,
    );
    return isKnown ? NOTHING : does('WalletAdded');
  }
  if (command.type === 'ApproveWallet' && role !== 'OWNER') return refused('not_permitted');
  const wallet = account.wallets.find(({ id }) => id === command.walletId);
  if (wallet === undefined) return refused('destination_not_found');
  if (command.type === 'RevokeWallet') {
    return wallet.status === 'REVOKED' ? refused('conflict') : does('WalletRevoked');
  }
  if (wallet.status !== 'PENDING_APPROVAL') return refused('conflict');
  return ownersOf(account.users).length > 1 && isOnePerson(account.users, wallet.by, command.by)
    ? refused('not_permitted')
    : does('WalletApproved');
}

function expectedOfApproval(
  { settings, wallets }: ModelAccount,
  { type }: ApproveWithdrawal | RejectWithdrawal,
  own: ModelTransaction | undefined,
  { policy }: At,
): Expected {
  if (own?.type !== 'WITHDRAWAL') return refused('withdrawal_not_found');
  if (own.approval !== 'PENDING') return refused('conflict');
  if (type === 'RejectWithdrawal') return does('WithdrawalRejected');
  if (!settings.live) return refused('live_mode_not_enabled');
  if (!settings.withdrawalsEnabled) return refused('withdrawals_not_enabled_live');
  const wallet = wallets.find(({ id }) => id === own.wallet);
  if (wallet?.status !== 'ACTIVE') return refused('destination_not_active');
  const { country, network } = wallet;
  if (!goes(policy, 'WITHDRAWAL', `${country}:${network}`)) return refused('network_not_supported');
  return does('WithdrawalApproved');
}
