// Random commands to the accounts of a model: about what there is, mostly the newest, and mostly what may be done to it.

import type {
  AccountCommand,
  AccountQuery,
  ChangeAccountSettings,
  CollectInput,
  CreateCommand,
  TransactionFilter,
} from '../../src/domain/account-command.ts';
import { COUNTRIES, COUNTRY_FACTS, CURRENCIES, NETWORKS } from '../../src/domain/country.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { type Rejection, rejection } from '../../src/domain/error-code.ts';
import { type Money, money } from '../../src/domain/money.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { APPROVAL_STATUSES, STATUSES } from '../../src/domain/transaction.ts';
import {
  activateWallet,
  beginning,
  byOperator,
  charge,
  DAY,
  deposit,
  due,
  FOR_EVER,
  MINUTE,
  outcome,
  payout,
  submission,
  withdrawal,
} from '../unit/domain/scenario.ts';
import {
  currencyOf,
  isCashOut,
  isFinal,
  type Model,
  type ModelTransaction,
  MSISDNS,
  NUMBERS_AS_WRITTEN,
  transactionsOf,
} from './partition-model.ts';

const HOUR = 60 * MINUTE;
const NO_RATE_LIMIT = 1_000_000;
/** More than there are. */
const MANY = 100_000;
const NONE = '9'.repeat(26);
const AMOUNTS = [100, 500, 999, 1_000, 1_000, 3_333, 7_777, 20_000, 20_001, 49_999, 60_001];

type Create = (
  input: CollectInput,
  over: Pick<CreateCommand, 'accountId' | 'keyHash' | 'idempotencyKey' | 'requestHash'> &
    Partial<{ readonly problem: Rejection; readonly input: null }>,
) => AccountCommand;

export class Choice {
  readonly #random: () => number;
  /** False where time and the clock go apart: the minute of the rate limit is one of the clock. */
  readonly #limitsRate: boolean;
  #created: AccountCommand[] = [];
  #n = 0;

  constructor(random: () => number, limitsRate: boolean) {
    this.#random = random;
    this.#limitsRate = limitsRate;
  }

  below(n: number): number {
    return Math.floor(this.#random() * n);
  }

  /** One time in `n`. */
  once(n: number): boolean {
    return this.below(n) === 0;
  }

  of<T>(...values: readonly [T, ...T[]]): T {
    return values[this.below(values.length)]!;
  }

  #any<T>(values: readonly T[]): T | undefined {
    return values[this.below(values.length)];
  }

  policy(): Policy {
    const policy = structuredClone(DEFAULT_POLICY) as any;
    policy.routes = { 'UG:MTN': 'mtn_ug', 'UG:AIRTEL': 'airtel_ug', 'GH:MTN': 'mtn_gh' };
    if (!this.once(6)) policy.routes['KE:AIRTEL'] = 'airtel_ke';
    if (this.once(4)) policy.oneWay[this.of('UG:MTN', 'UG:AIRTEL', 'GH:MTN')] = this.of('collect', 'send');
    if (this.once(3)) policy.amountDecimals[this.of('KE:AIRTEL', 'GH:MTN')] = this.of(0, 1);
    policy.cashOutPerMinute = this.#limitsRate ? this.of(2, 5, 60) : NO_RATE_LIMIT;
    policy.chargeExpiryMs = this.of(30 * MINUTE, 5 * MINUTE, 3 * HOUR);
    policy.chargeReleaseMs = this.of(DAY, DAY, HOUR, 0);
    policy.walletCoolingOffMs = this.of(DAY, HOUR, 0);
    policy.providerAnswerWaitMs = this.of(5_000, 5_000, 0);
    for (const currency of CURRENCIES) {
      if (this.once(2)) policy.approvalThresholds[currency] = 20_000;
      for (const type of ['CHARGE', 'PAYOUT', 'DEPOSIT', 'WITHDRAWAL'] as const) {
        if (this.once(3) && type !== 'DEPOSIT') policy.fees[type][currency] = this.#fee();
        if (this.once(4)) policy.limits[type][currency] = this.#limits();
      }
    }
    return policy as Policy;
  }

  #fee() {
    const floor = this.of(null, money(this.below(3_000)));
    const cap = this.of(null, money(3_000 + this.below(10_000)));
    return { fixed: money(this.below(500)), basisPoints: this.below(3_000), floor, cap };
  }

  #limits() {
    const [maximum, daily] = [money(50_000 + this.below(100_000)), money(this.of(100_000, 400_000))];
    return { maximum, daily, monthly: money(900_000) };
  }

  command(model: Model): AccountCommand {
    const accountId = this.#any(Object.keys(model.accounts))!;
    const { users } = model.accounts[accountId]!;
    const by = this.#any(this.once(2) ? users : users.filter(({ role }) => role === 'OWNER'))!.id;
    const operator = { ...byOperator, operator: this.of('amina', 'okello'), accountId };
    const about = this.#about(model, accountId);
    const transactionId = about?.id ?? `pyt_${NONE}`;
    if (!model.accounts[accountId]!.settings.live && this.once(8)) {
      return { ...operator, type: 'ChangeAccountSettings', changes: { live: true } };
    }
    const choice = this.below(102);
    if (choice >= 100) return this.#whoMay(model, accountId, this.of(by, null));
    if (choice < 38) return this.#create(model, accountId);
    if (choice < 45 && this.#created.length > 0) return this.#again();
    if (choice < 49) return { ...operator, ...this.#dashboardDeposit(), by };
    if (choice < 55) {
      const command = this.once(2)
        ? submission(transactionId)
        : beginning(transactionId, this.once(2), this.once(2));
      return { ...command, accountId } as AccountCommand;
    }
    if (choice < 72) return { ...this.#outcome(transactionId, about), accountId };
    if (choice < 76) return { ...operator, ...this.#settlement(model, accountId, transactionId) };
    if (choice < 80) {
      const type = this.of('ExpireTransaction', 'ReleaseCharge', 'FixAnswer');
      return { ...due(type, transactionId), accountId };
    }
    if (choice < 84) {
      const waiting = transactionsOf(model, accountId).find(({ status }) => status === 'INITIATED');
      const type = this.of('ApproveWithdrawal', 'ApproveWithdrawal', 'RejectWithdrawal');
      return { ...operator, type, transactionId: waiting?.id ?? transactionId, by };
    }
    if (choice < 86) {
      return { ...operator, ...this.#item(transactionId, about?.id ?? null) };
    }
    if (choice < 88) {
      const reconciliationId = this.#any([...model.items.keys()]) ?? 'rec_none';
      return {
        ...operator,
        type: 'ResolveReconciliation',
        reconciliationId,
        resolution: this.of('Seen.', 'Paid.'),
      };
    }
    if (choice < 90) return { ...operator, type: 'ChangeAccountSettings', changes: this.#settings() };
    return this.#wallet(model, accountId, by);
  }

  #dashboardDeposit() {
    const input = { ...this.#input(), amount: '90000' };
    const repeatable = { idempotencyKey: `key-${this.below(9)}`, requestHash: `hash-${this.below(2)}` };
    return { type: 'CreateDashboardDeposit', input, repeatable: this.of(null, repeatable) } as const;
  }

  #item(transactionId: string, named: string | null) {
    if (this.once(2)) return { type: 'NoteCallback', transactionId } as const;
    const kind = this.of('UNKNOWN_REFERENCE', 'CONTRADICTION');
    return {
      type: 'RaiseReconciliation',
      kind,
      transactionId: this.of(null, named),
      detail: 'Seen.',
    } as const;
  }

  #settlement(model: Model, accountId: string, otherwise: string) {
    const open = transactionsOf(model, accountId).filter(
      ({ type, status }) => isCashOut(type) && !isFinal(status),
    );
    return {
      type: 'SettleCashOut',
      transactionId: (this.once(4) ? undefined : this.#any(open)?.id) ?? otherwise,
      outcome: this.of('SUCCESSFUL', 'FAILED'),
      failureCode: this.of('unknown', 'wallet_inactive'),
      providerTransactionId: this.of(null, '99'),
    } as const;
  }

  /** Any read of what there is. */
  query(model: Model): AccountQuery {
    const accountId = this.#any(Object.keys(model.accounts))!;
    const { id: appId, keyHash } = this.#appOf(model, accountId);
    const call = { accountId, deadline: FOR_EVER, keyHash, problem: null } as const;
    const internal = { accountId, deadline: FOR_EVER } as const;
    const about = this.#about(model, accountId);
    const transactionId = about?.id ?? `pyt_${NONE}`;
    const all = { startingAfter: null, limit: MANY } as const;
    const some = { startingAfter: this.of(null, about?.id ?? null), limit: 1 + this.below(9) };
    const view = this.of('object', 'transaction');
    const page = { filter: this.#filter(about), ...this.of(all, some) };
    return this.of<AccountQuery>(
      { ...call, type: 'GetTransaction', id: transactionId, view: 'detail', kind: null },
      { ...call, type: 'GetTransaction', id: transactionId, view: 'object', kind: about?.type ?? 'PAYOUT' },
      { ...call, type: 'GetTransaction', id: transactionId, view: 'timeline', kind: 'CHARGE' },
      { ...call, type: 'ListTransactions', view, ...page },
      { ...call, type: 'GetBalances' },
      { ...call, type: 'ListPayoutDestinations' },
      { ...internal, type: 'GetAccount' },
      { ...internal, type: 'GetTrialBalance' },
      {
        ...internal,
        type: 'GetWebhookObject',
        transactionId,
        status: this.of('SUCCESSFUL', 'FAILED', 'REVERSED'),
      },
      { ...internal, type: 'GetWebhookEndpoint', appId },
      { ...internal, type: 'ListPending', afterId: null, limit: MANY },
      { ...internal, type: 'GetPending', transactionId, evenFinal: this.once(2) },
      { ...internal, type: 'ListExpired', expiredSince: 0, after: null, limit: MANY },
      { ...internal, type: 'ListReconciliation', open: this.once(2), ...all },
      {
        ...internal,
        type: 'ListReconciliation',
        accountId: this.of('', accountId),
        open: this.once(2),
        startingAfter: this.#any([...model.items.keys()]) ?? null,
        limit: 1 + this.below(4),
      },
    );
  }

  /** Each of a merchant's filters now and then, mostly so that `about` is named. */
  #filter(about: ModelTransaction | undefined): TransactionFilter {
    const maybe = <T>(...values: readonly [T, ...T[]]): T | undefined =>
      this.once(4) ? this.of(...values) : undefined;
    const at = about?.createdAt;
    return {
      type: maybe(about?.type),
      status: maybe(about?.status, this.of(...STATUSES)),
      approvalStatus: maybe(about?.approval, this.of(...APPROVAL_STATUSES)),
      reference: maybe('order-1'),
      currency: maybe(about?.currency, this.of(...CURRENCIES)),
      country: maybe(about?.country, this.of(...COUNTRIES)),
      network: maybe(about?.network, this.of(...NETWORKS)),
      createdAfter: maybe(at, at === undefined ? at : at + 1),
      createdBefore: maybe(at, at === undefined ? at : at - 1),
    };
  }

  /** Mostly one of the newest, now and then another account's. */
  #about(model: Model, accountId: string): ModelTransaction | undefined {
    if (this.once(40)) return this.#any([...model.transactions.values()]);
    const own = transactionsOf(model, accountId);
    return this.#any(this.once(4) ? own : own.slice(-10));
  }

  #input(): CollectInput {
    const number = this.#any(this.once(6) ? MSISDNS : MSISDNS.slice(0, -1))!;
    const currency = this.once(40) ? 'KES' : currencyOf(number);
    const input = { amount: String(this.#any(AMOUNTS)), currency, reference: `order-${this.below(4)}` };
    return { ...input, ...this.#number(number) };
  }

  /** In any of the forms that it is written in, with or without what is said of it. */
  #number(number: string): Pick<CollectInput, 'msisdn' | 'network' | 'country'> {
    if (!this.once(3)) return { msisdn: number };
    const { msisdn, country } = this.#any(NUMBERS_AS_WRITTEN[number]!)!;
    return {
      msisdn,
      ...(this.once(4) ? {} : { country }),
      ...(this.once(3) ? { network: this.of(...NETWORKS) } : {}),
    };
  }

  #create(model: Model, accountId: string): AccountCommand {
    const n = this.#n++;
    const { keyHash } = this.#appOf(model, accountId);
    const call = { accountId, keyHash, idempotencyKey: `key-${n}`, requestHash: `hash-${n}` };
    if (this.once(20)) return this.#wrong(call);
    const create = this.of<Create | null>(charge, charge, deposit, payout, payout, payout, null, null);
    if (create !== null) return this.#kept(create(this.#input(), call));
    const { wallets } = model.accounts[accountId]!;
    const active = wallets.filter(({ status }) => status === 'ACTIVE');
    const wallet = this.#any(active.length > 0 && !this.once(8) ? active : wallets);
    const { currency } = COUNTRY_FACTS[wallet?.country ?? 'UG'];
    const destination = wallet?.id ?? 'wal_none';
    return this.#kept(withdrawal({ amount: String(this.#any(AMOUNTS)), currency, destination }, call));
  }

  /** What a front finds wrong with a request before it knows the account. */
  #wrong(call: Parameters<Create>[1]): AccountCommand {
    const create = this.of<Create>(charge, deposit, payout, payout);
    const code = this.of(
      'secret_key_required',
      'idempotency_key_invalid',
      'validation_failed',
      'invalid_json',
    );
    const over = { ...call, problem: rejection(code), input: null };
    return create(this.#input(), code === 'secret_key_required' ? { ...over, keyHash: null } : over);
  }

  #kept(command: AccountCommand): AccountCommand {
    this.#created.push(command);
    return command;
  }

  /** What was sent before, mostly soon, as a front does that lost the answer; now and then another request under its key. */
  #again(): AccountCommand {
    const again = this.#any(this.once(2) ? this.#created : this.#created.slice(-5))!;
    return this.once(8) ? ({ ...again, requestHash: 'another' } as AccountCommand) : again;
  }

  #outcome(transactionId: string, about: ModelTransaction | undefined): AccountCommand {
    const likely = about?.status === 'SUCCESSFUL' ? 'REVERSED' : 'SUCCESSFUL';
    const word = this.once(3) ? this.of('SUCCESSFUL', 'FAILED', 'REVERSED') : likely;
    const source = this.of('API', 'PROVIDER_POLL', 'PROVIDER_CALLBACK');
    return outcome(transactionId, word, {
      source,
      amount: this.once(12) ? 7 : this.of(null, about?.amount ?? 5),
      currency: this.once(16) ? 'GHS' : this.of(null, about?.currency ?? 'UGX'),
    });
  }

  #settings(): ChangeAccountSettings['changes'] {
    const key = `${this.of('CHARGE', 'PAYOUT', 'WITHDRAWAL')}:${this.of('UGX', 'KES')}` as const;
    const threshold: Money | null = this.of(null, money(5_000), money(50_000));
    return {
      live: !this.once(3),
      payoutsEnabled: !this.once(5),
      withdrawalsEnabled: !this.once(5),
      cashOutPerMinute: this.#limitsRate ? this.of(null, 1, 3, 100) : null,
      approvalThresholds: { UGX: threshold },
      fees: { [key]: this.of(null, this.#fee()) },
      limits: { [key]: this.of(null, this.#limits()) },
    };
  }

  /** Mostly one that is connected. */
  #appOf(model: Model, accountId: string) {
    const { apps } = model.accounts[accountId]!;
    const connected = apps.filter(({ isRemoved }) => !isRemoved);
    return this.#any(connected.length > 0 && !this.once(20) ? connected : apps)!;
  }

  /** One goes, another comes, or one that is there comes again. */
  #app(model: Model, accountId: string): AccountCommand {
    const operator = { ...byOperator, accountId };
    const { id, keyHash } = this.#appOf(model, accountId);
    if (this.once(3)) return { ...operator, type: 'RemoveApp', appId: id };
    if (this.once(3)) {
      const webhookUrl = this.of(null, 'https://shop.example/a', 'https://shop.example/b');
      return { ...operator, type: 'ChangeAppWebhook', appId: id, webhookUrl };
    }
    const key = this.of(keyHash, `key-hash-${this.below(6)}`);
    const app = { name: 'Shop', domain: 'shop.example', webhookUrl: null, signingSecretSealed: 's' };
    return { ...operator, type: 'ConnectApp', ...app, publishableKey: key, secretKeyHash: key };
  }

  #whoMay(model: Model, accountId: string, by: string | null): AccountCommand {
    return this.once(2) ? this.#app(model, accountId) : this.#user(model, accountId, by);
  }

  /** One goes or becomes another; where few are left, another comes. */
  #user(model: Model, accountId: string, by: string | null): AccountCommand {
    const operator = { ...byOperator, accountId };
    const { users } = model.accounts[accountId]!;
    const role = this.of('OWNER', 'ADMIN', 'FINANCE', 'MEMBER');
    if (this.once(6) || users.filter(({ isRemoved }) => !isRemoved).length < 4) {
      const email = this.#any(users.slice(0, 5))!.email;
      const another = `${users.length}@shop.example`;
      return { ...operator, type: 'AddUser', email: this.of(another, email, email.toUpperCase()), role };
    }
    const userId = this.#any(users)!.id;
    if (this.once(2)) return { ...operator, type: 'RemoveUser', userId, by };
    return { ...operator, type: 'ChangeUserRole', userId, role, by };
  }

  #wallet(model: Model, accountId: string, by: string): AccountCommand {
    const operator = { ...byOperator, accountId };
    const { wallets } = model.accounts[accountId]!;
    const waiting = wallets.filter(({ status }) => status === 'PENDING_APPROVAL');
    const walletId = this.#any(waiting.length > 0 && !this.once(4) ? waiting : wallets)?.id ?? 'wal_none';
    switch (this.below(12)) {
      case 0:
      case 1: {
        const { msisdn, network = null, country = null } = this.#number(this.#any(MSISDNS)!);
        const label = this.of('Till', 'Safe');
        return { ...operator, type: 'AddWallet', label, msisdn, network, country, by };
      }
      case 2:
        return { ...operator, type: 'RevokeWallet', walletId, by };
      case 3:
        return { ...activateWallet(walletId), accountId } as AccountCommand;
      default:
        return { ...operator, type: 'ApproveWallet', walletId, by };
    }
  }
}
