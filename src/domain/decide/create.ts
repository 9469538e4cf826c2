// Decisions on what merchants create: charges, deposits, payouts, withdrawals. Each function is the list of checks in
// their fixed order (decide.ts), then the one event that says everything `evolve` needs.

import type { Account, App } from '../account.ts';
import type {
  CollectInput,
  CreateCharge,
  CreateCommand,
  CreateDeposit,
  CreatePayout,
  CreateWithdrawal,
  PayoutInput,
  Repeatable,
  WithdrawalInput,
} from '../account-command.ts';
import type { AccountEvent } from '../account-event.ts';
import { authorise } from './authorisation.ts';
import { checkLimits } from '../amount-limits.ts';
import { assert } from '../assert.ts';
import { COUNTRY_FACTS, type Country, CURRENCY_DECIMALS, type Currency, type Network } from '../country.ts';
import { type Decision, refuse } from './decision.ts';
import { isRejection, type Rejection, rejection } from '../error-code.ts';
import { quoteFee } from '../fees.ts';
import { makeId, PREFIX_OF_TYPE } from '../id.ts';
import type { CashOutType } from '../ledger.ts';
import { add, hasAtMostDecimals, type Money, parseAmount } from '../money.ts';
import { networkOf, parseMsisdn } from '../msisdn.ts';
import { carries, decimalsOf, type Policy, routeOf } from '../policy.ts';
import { SUBMISSION_BEGUN_FORMAT } from '../record-format.ts';
import type { Context, LedgerState } from '../state.ts';
import type { CreatableType } from '../transaction.ts';

// --- Charges and deposits --------------------------------------------------------------------------------------------

export function decideCollection(
  state: LedgerState,
  command: CreateCharge | CreateDeposit,
  type: 'CHARGE' | 'DEPOSIT',
  context: Context,
): Decision {
  const access = authorise(state, command);
  if (access.type === 'refused') return refuse(access.rejection);
  const repeated = checkIdempotency(state, command, type);
  if (repeated !== null) return repeated;
  const { problem, input } = command;
  if (problem !== null) return refuse(problem);
  assert(input !== null, 'a command without a problem has an input');
  return collect(access.account, input, type, { app: access.app, user: null, request: command }, context);
}

/** Who asked, and under which idempotency key: an app's key, or a member in the dashboard. */
interface Origin {
  readonly app: App | null;
  /** User id. */
  readonly user: string | null;
  readonly request: {
    readonly idempotencyKey: string | null;
    readonly requestHash: string;
  } | null;
}

/** From the field rules on; the dashboard's deposits start here. */
export function collect(
  account: Account,
  input: CollectInput,
  type: 'CHARGE' | 'DEPOSIT',
  { app, user, request }: Origin,
  { policy, now, freshBody }: Context,
): Decision {
  const target = readTarget(account, type, input, policy);
  if (isRejection(target)) return refuse(target);
  const { amount, country, network, msisdn, provider } = target;
  const { currency } = input;
  const limit = checkLimits(account, type, amount, currency, policy, now);
  if (limit !== null) return refuse(limit);

  const id = makeId(type === 'CHARGE' ? 'charge' : 'deposit', freshBody);
  const event: AccountEvent = {
    type: type === 'CHARGE' ? 'ChargeCreated' : 'DepositCreated',
    id,
    appId: app === null ? null : app.id,
    requestedBy: user,
    amount,
    currency,
    country,
    network,
    msisdn,
    reference: input.reference,
    metadata: input.metadata ?? null,
    provider,
    fee: quoteFee(type, amount, currency, account.settings, policy),
    idempotencyKey: request === null ? null : request.idempotencyKey,
    requestHash: request === null ? null : request.requestHash,
    description: input.description ?? null,
    expiresAt: now + policy.chargeExpiryMs,
  };
  return created(account, id, event, now, false);
}

// --- Payouts and withdrawals -----------------------------------------------------------------------------------------

export function decidePayout(state: LedgerState, command: CreatePayout, context: Context): Decision {
  const checked = checkCashOut(state, command, 'PAYOUT', readTarget, context);
  if (checked.type === 'decided') return checked.decision;
  const { account, app, input, target, fee } = checked;
  const { amount, country, network, msisdn, provider } = target;
  const id = makeId('payout', context.freshBody);
  const event: AccountEvent = {
    type: 'PayoutCreated',
    id,
    appId: app.id,
    requestedBy: null,
    amount,
    currency: input.currency,
    country,
    network,
    msisdn,
    reference: input.reference,
    metadata: input.metadata ?? null,
    provider,
    fee,
    idempotencyKey: command.idempotencyKey,
    requestHash: command.requestHash,
    narration: input.narration ?? null,
  };
  return created(account, id, event, context.now, true);
}

export function decideWithdrawal(state: LedgerState, command: CreateWithdrawal, context: Context): Decision {
  const checked = checkCashOut(state, command, 'WITHDRAWAL', readDestination, context);
  if (checked.type === 'decided') return checked.decision;
  const { account, app, input, target, fee } = checked;
  const { amount, country, network, msisdn, provider } = target;
  const { currency } = input;
  const threshold =
    account.settings.approvalThresholds[currency] ?? context.policy.approvalThresholds[currency];
  const id = makeId('withdrawal', context.freshBody);
  const event: AccountEvent = {
    type: 'WithdrawalCreated',
    id,
    appId: app.id,
    requestedBy: null,
    amount,
    currency,
    country,
    network,
    msisdn,
    reference: input.reference,
    metadata: input.metadata ?? null,
    provider,
    fee,
    idempotencyKey: command.idempotencyKey,
    requestHash: command.requestHash,
    narration: input.narration ?? null,
    destination: input.destination,
    approvalRequired: amount > threshold,
    unsent: context.writeFormat >= SUBMISSION_BEGUN_FORMAT,
  };
  return created(account, id, event, context.now, true);
}

type CheckedCashOut<Input> =
  | { readonly type: 'decided'; readonly decision: Decision }
  | {
      readonly type: 'passed';
      readonly account: Account;
      readonly app: App;
      readonly input: Input;
      readonly target: Target;
      readonly fee: Money;
    };

/** All checks of a payout or a withdrawal. `read` has the field rules. */
function checkCashOut<Input extends PayoutInput | WithdrawalInput>(
  state: LedgerState,
  command: (CreatePayout | CreateWithdrawal) & { readonly input: Input | null },
  type: CashOutType,
  read: (account: Account, type: CashOutType, input: Input, policy: Policy) => Target | Rejection,
  context: Context,
): CheckedCashOut<Input> {
  const access = authorise(state, command);
  if (access.type === 'refused') return decided(refuse(access.rejection));
  const repeated = checkIdempotency(state, command, type);
  if (repeated !== null) return decided(repeated);
  const { account, app } = access;
  const tooMany = checkRate(account, context);
  if (tooMany !== null) return decided(refuse(tooMany));

  // From here on the request counts against the rate, whatever becomes of it.
  const disabled = checkEnabled(account, type);
  if (disabled !== null) return decided(refuseCashOut(disabled));
  const { problem, input } = command;
  if (problem !== null) return decided(refuseCashOut(problem));
  assert(input !== null, 'a command without a problem has an input');
  const target = read(account, type, input, context.policy);
  if (isRejection(target)) return decided(refuseCashOut(target));
  const fee = feeOfCashOut(account, type, target.amount, input.currency, context);
  if (typeof fee !== 'number') return decided(refuseCashOut(fee));
  return { type: 'passed', account, app, input, target, fee };
}

function checkEnabled({ settings }: Account, type: CashOutType): Rejection | null {
  if (type === 'PAYOUT') return settings.payoutsEnabled ? null : rejection('payouts_not_enabled_live');
  return settings.withdrawalsEnabled ? null : rejection('withdrawals_not_enabled_live');
}

function decided(decision: Decision): CheckedCashOut<never> {
  return { type: 'decided', decision };
}

// --- The checks, in their order --------------------------------------------------------------------------------------

/** Null: a new request. Otherwise a replay of the first answer, or a refusal. */
function checkIdempotency(state: LedgerState, command: CreateCommand, type: CreatableType): Decision | null {
  const { idempotencyKey: key, problem } = command;
  if (problem?.code === 'idempotency_key_invalid') return refuse(problem);
  if (key === null) return refuse(rejection('idempotency_key_required'));
  return repeatedUnder(
    state,
    command.accountId,
    { idempotencyKey: key, requestHash: command.requestHash },
    type,
  );
}

/** Null: nothing was created under this key. */
export function repeatedUnder(
  state: LedgerState,
  accountId: string,
  { idempotencyKey, requestHash }: Repeatable,
  type: CreatableType,
): Decision | null {
  const entry = state.idempotency(accountId, idempotencyKey);
  if (entry === undefined) return null;
  if (entry.requestHash !== requestHash || !entry.transactionId.startsWith(PREFIX_OF_TYPE[type])) {
    return refuse(rejection('idempotency_key_reused'));
  }
  const { transactionId } = entry;
  return { record: null, outcome: { type: 'answer', transactionId, replayed: true }, countsAsCashOut: false };
}

function checkRate(account: Account, context: Context): Rejection | null {
  const limit = account.settings.cashOutPerMinute ?? context.policy.cashOutPerMinute;
  if (context.cashOutsInWindow < limit) return null;
  const waitMs = context.cashOutWindowFreesAt - context.now;
  const message = `At most ${limit} payouts and withdrawals a minute.`;
  return rejection('rate_limit_exceeded', message, null, Math.max(1, Math.ceil(waitMs / 1_000)));
}

/** The fee of a cash-out that is within its limits and that the balance covers, fee included. */
function feeOfCashOut(
  account: Account,
  type: CashOutType,
  amount: Money,
  currency: Currency,
  { policy, now }: Context,
): Money | Rejection {
  const limit = checkLimits(account, type, amount, currency, policy, now);
  if (limit !== null) return limit;
  const fee = quoteFee(type, amount, currency, account.settings, policy);
  return checkBalance(account, amount, fee, currency) ?? fee;
}

/** Where money comes from or goes to, once the field rules are satisfied. */
interface Target {
  readonly amount: Money;
  readonly country: Country;
  readonly network: Network;
  readonly msisdn: string;
  /** Rail id. */
  readonly provider: string;
}

const AMOUNT_RULE = rejection(
  'validation_failed',
  'amount is a whole number of minor units, as a string of digits.',
  'amount',
);

/** Field rules of a wallet named by its number. */
function readTarget(
  account: Account,
  type: CreatableType,
  input: CollectInput | PayoutInput,
  policy: Policy,
): Target | Rejection {
  const amount = parseAmount(input.amount);
  if (amount === null) return AMOUNT_RULE;
  const number = parseMsisdn(input.msisdn, input.country ?? account.country);
  if (number === null) return rejection('invalid_msisdn', null, 'msisdn');
  const { msisdn, country } = number;
  const mismatch = checkCurrency(input.currency, country);
  if (mismatch !== null) return mismatch;
  const network = input.network ?? networkOf(msisdn);
  if (network === null) return rejection('network_required', null, 'network');
  return carried(policy, type, amount, { country, network, msisdn }, 'network');
}

/** Field rules of a wallet named by its id. */
function readDestination(
  account: Account,
  type: CreatableType,
  input: WithdrawalInput,
  policy: Policy,
): Target | Rejection {
  const amount = parseAmount(input.amount);
  if (amount === null) return AMOUNT_RULE;
  const wallet = account.wallets.get(input.destination);
  if (wallet === undefined) return rejection('destination_not_found', null, 'destination');
  if (wallet.status !== 'ACTIVE') {
    return rejection('destination_not_active', `The payout wallet is ${wallet.status}.`, 'destination');
  }
  const mismatch = checkCurrency(input.currency, wallet.country);
  if (mismatch !== null) return mismatch;
  return carried(policy, type, amount, wallet, 'destination');
}

function checkCurrency(currency: Currency, country: Country): Rejection | null {
  const expected = COUNTRY_FACTS[country].currency;
  if (currency === expected) return null;
  return rejection(
    'currency_mismatch',
    `The wallet is in ${country}, whose currency is ${expected}.`,
    'currency',
  );
}

/** What no rail carries would fail once it is sent, and operators would be told of each. `param`: names the wallet. */
function carried(
  policy: Policy,
  type: CreatableType,
  amount: Money,
  { country, network, msisdn }: Pick<Target, 'country' | 'network' | 'msisdn'>,
  param: string,
): Target | Rejection {
  const provider = routeOf(policy.routes, country, network);
  if (provider === undefined || !carries(policy, type, country, network)) {
    const what = provider === undefined ? '' : ` for a ${type.toLowerCase()}`;
    return rejection('network_not_supported', `${network} in ${country} is not served${what}.`, param);
  }
  const decimals = decimalsOf(policy, country, network);
  const { currency } = COUNTRY_FACTS[country];
  if (!hasAtMostDecimals(decimals, amount, currency)) {
    const unit = 10 ** (CURRENCY_DECIMALS[currency] - decimals);
    const message = `${network} in ${country} takes multiples of ${unit} ${currency} in minor units.`;
    return rejection('validation_failed', message, 'amount');
  }
  return { amount, country, network, msisdn, provider };
}

function checkBalance(account: Account, amount: Money, fee: Money, currency: Currency): Rejection | null {
  const balances = account.balances.get(currency);
  const available = balances === undefined ? 0 : balances.MERCHANT_AVAILABLE;
  const total = add(amount, fee);
  if (available >= total) return null;
  const message = `Amount and fee are ${total} ${currency} in minor units; ${available} are available.`;
  return rejection('insufficient_balance', message);
}

// --- Results ---------------------------------------------------------------------------------------------------------

function refuseCashOut(reason: Rejection): Decision {
  return { record: null, outcome: { type: 'rejected', rejection: reason }, countsAsCashOut: true };
}

function created(
  account: Account,
  transactionId: string,
  event: AccountEvent,
  now: number,
  countsAsCashOut: boolean,
): Decision {
  return {
    record: { accountId: account.id, at: now, events: [event] },
    outcome: { type: 'answer', transactionId, replayed: false },
    countsAsCashOut,
  };
}
