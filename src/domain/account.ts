// The account: what one merchant owns and may do. Its balances are sums of ledger entries; its apps, users and
// wallets decide who may act. Held in memory by its partition; nothing but `evolve` writes here.

import type { Country, Currency, Network } from './country.ts';
import type { LedgerBalances } from './ledger.ts';
import type { Money } from './money.ts';
import type { FeePolicy, LimitPolicy } from './policy.ts';
import type { TransactionType } from './transaction.ts';

export const ROLES = ['OWNER', 'ADMIN', 'FINANCE', 'MEMBER'] as const;
export type Role = (typeof ROLES)[number];

export interface User {
  readonly id: string;
  readonly email: string;
  readonly role: Role;
  /** A removed user stays, and may do nothing: what they did names them, and the same person may come back as another user. */
  readonly removedAt: number | null;
  readonly createdAt: number;
}

/** The same for all users that are one person: an address in other capitals is the same mailbox. An account may have two of them. */
export function personOf({ email }: Pick<User, 'email'>): string {
  return email.toLowerCase();
}

export interface App {
  readonly id: string;
  readonly name: string;
  readonly domain: string;
  readonly publishableKey: string;
  /** SHA-256 of the secret key, base64url. */
  readonly secretKeyHash: string;
  /** The webhook signing secret, encrypted with MASTER_KEY at the edge; opaque here. */
  readonly signingSecretSealed: string;
  webhookUrl: string | null;
  /** A removed app stays: its transactions name it, operators are shown it, and a ConnectApp or RemoveApp that is sent again is
   *  recognised by it. */
  removedAt: number | null;
  readonly createdAt: number;
}

export const WALLET_STATUSES = ['PENDING_APPROVAL', 'COOLING_OFF', 'ACTIVE', 'REVOKED'] as const;
export type WalletStatus = (typeof WALLET_STATUSES)[number];

export interface PayoutWallet {
  readonly id: string;
  readonly label: string;
  readonly country: Country;
  readonly network: Network;
  readonly msisdn: string;
  readonly addedBy: string;
  readonly createdAt: number;
  status: WalletStatus;
  /** When cooling-off ends, once approved. */
  activeAt: number | null;
}

/** Amounts counted against daily and monthly limits, UTC calendar. */
export interface Usage {
  /** Days since 1970 to which `daily` belongs. */
  day: number;
  daily: Money;
  /** year * 12 + month to which `monthly` belongs. */
  month: number;
  monthly: Money;
}

export type UsageKey = `${TransactionType}:${Currency}`;

/** Joined once, so that the hot path builds no strings. */
export const USAGE_KEYS = {
  CHARGE: { UGX: 'CHARGE:UGX', KES: 'CHARGE:KES', GHS: 'CHARGE:GHS' },
  PAYOUT: { UGX: 'PAYOUT:UGX', KES: 'PAYOUT:KES', GHS: 'PAYOUT:GHS' },
  DEPOSIT: { UGX: 'DEPOSIT:UGX', KES: 'DEPOSIT:KES', GHS: 'DEPOSIT:GHS' },
  WITHDRAWAL: { UGX: 'WITHDRAWAL:UGX', KES: 'WITHDRAWAL:KES', GHS: 'WITHDRAWAL:GHS' },
  REFUND: { UGX: 'REFUND:UGX', KES: 'REFUND:KES', GHS: 'REFUND:GHS' },
} as const satisfies { [T in TransactionType]: { [C in Currency]: `${T}:${C}` } };

export interface AccountSettings {
  live: boolean;
  payoutsEnabled: boolean;
  withdrawalsEnabled: boolean;
  /** Overrides of the service's policy; absent fields take the policy's value. */
  approvalThresholds: Partial<Record<Currency, Money>>;
  cashOutPerMinute: number | null;
  fees: Partial<Record<UsageKey, FeePolicy>>;
  limits: Partial<Record<UsageKey, LimitPolicy>>;
}

export interface Account {
  readonly id: string;
  readonly name: string;
  readonly country: Country;
  readonly createdAt: number;
  settings: AccountSettings;
  readonly users: Map<string, User>;
  readonly apps: Map<string, App>;
  readonly wallets: Map<string, PayoutWallet>;
  readonly balances: Map<Currency, LedgerBalances>;
  readonly usage: Map<UsageKey, Usage>;
  /** Log sequence of the last record that touched it. */
  sequence: number;
}
