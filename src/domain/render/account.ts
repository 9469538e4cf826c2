// JSON text of what belongs to an account: balances and payout destinations for merchants; the account, its trial balance
// and reconciliation items for operators. Hashes, sealed secrets and full phone numbers never appear.

import type { Account, AccountSettings, App, PayoutWallet, UsageKey, User } from '../account.ts';
import { NO_LIMIT } from '../amount-limits.ts';
import { COUNTRY_FACTS, CURRENCIES } from '../country.ts';
import { nullable, quote } from './json-text.ts';
import { LEDGER_ACCOUNTS, zeroCheck } from '../ledger.ts';
import { maskMsisdn } from '../msisdn.ts';
import type { FeePolicy, LimitPolicy } from '../policy.ts';
import type { ReconciliationItem } from '../state.ts';
import { formatTime } from '../time.ts';

function list(rows: readonly string[]): string {
  return `{"object":"list","data":[${rows.join(',')}]}`;
}

function timeOrNull(time: number | null): string {
  return time === null ? 'null' : `"${formatTime(time)}"`;
}

/** GET /v1/balances: one row per currency transacted in. */
export function renderBalances(account: Account): string {
  return list(balanceRows(account));
}

function balanceRows(account: Account): string[] {
  const rows: string[] = [];
  for (const currency of CURRENCIES) {
    const balances = account.balances.get(currency);
    if (balances === undefined) continue;
    const { MERCHANT_AVAILABLE: available, MERCHANT_PENDING: pending } = balances;
    rows.push(`{"currency":"${currency}","available":"${available}","pending":"${pending}"}`);
  }
  return rows;
}

/** GET /v1/payout_destinations, in the order they were added. `listBytesMax`: as for renderAccount. */
export function renderPayoutDestinations(account: Account, listBytesMax = Infinity): string {
  return list(wallets(account, listBytesMax));
}

export function renderWallet(wallet: PayoutWallet): string {
  const { id, label, status, country, network, msisdn, createdAt, activeAt } = wallet;
  return (
    `{"id":"${id}","object":"payout_destination","label":${quote(label)},"status":"${status}","country":"${country}",` +
    `"network":"${network}","currency":"${COUNTRY_FACTS[country].currency}","msisdn_masked":"${maskMsisdn(msisdn)}",` +
    `"created_at":"${formatTime(createdAt)}","active_at":${timeOrNull(activeAt)}}`
  );
}

/**
 * GET /operator/v1/accounts/:id. `listBytesMax`: for its users, its apps and its wallets each. What is in use is always told: `decide`
 * sees to it that it fits. Of what was removed or revoked the newest are told, as far as there is room.
 */
export function renderAccount(account: Account, listBytesMax = Infinity): string {
  const { id, name, country, createdAt, settings } = account;
  return (
    `{"id":"${id}","object":"account","name":${quote(name)},"country":"${country}",${renderSettings(settings)},` +
    `"users":[${told([...account.users.values()], isNotRemoved, renderUser, listBytesMax).join(',')}],` +
    `"apps":[${told([...account.apps.values()], isNotRemoved, renderApp, listBytesMax).join(',')}],` +
    `"wallets":[${wallets(account, listBytesMax).join(',')}],` +
    `"balances":[${balanceRows(account).join(',')}],"created_at":"${formatTime(createdAt)}"}`
  );
}

function wallets(account: Account, bytesMax: number): string[] {
  return told([...account.wallets.values()], mayBeUsed, renderWallet, bytesMax);
}

/** In the order of `items`. Of the others no more are made text than there is room for: there is no end to them. */
function told<T>(
  items: readonly T[],
  isInUse: (item: T) => boolean,
  render: (item: T) => string,
  bytesMax: number,
): string[] {
  const inUse = items.filter(isInUse).map(render);
  let bytes = bytesOf(inUse);
  const texts: string[] = [];
  for (const item of items.toReversed()) {
    if (isInUse(item)) {
      texts.push(inUse.pop()!);
    } else if (bytes <= bytesMax) {
      const text = render(item);
      // Also of one that found no room: older ones find none either.
      bytes += bytesOf([text]);
      if (bytes <= bytesMax) texts.push(text);
    }
  }
  return texts.reverse();
}

/** Of a user or an app. */
export function isNotRemoved({ removedAt }: Pick<User | App, 'removedAt'>): boolean {
  return removedAt === null;
}

export function mayBeUsed({ status }: PayoutWallet): boolean {
  return status !== 'REVOKED';
}

/** What they take in a list. */
export function bytesOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0);
}

export function renderUser({ id, email, role, createdAt, removedAt }: User): string {
  return (
    `{"id":"${id}","object":"user","email":${quote(email)},"role":"${role}",` +
    `"created_at":"${formatTime(createdAt)}","removed_at":${timeOrNull(removedAt)}}`
  );
}

export function renderApp(app: App): string {
  const { id, name, domain, publishableKey, webhookUrl, removedAt, createdAt } = app;
  return (
    `{"id":"${id}","object":"app","name":${quote(name)},"domain":${quote(domain)},` +
    `"publishable_key":${quote(publishableKey)},"webhook_url":${nullable(webhookUrl)},` +
    `"created_at":"${formatTime(createdAt)}","removed_at":${timeOrNull(removedAt)}}`
  );
}

/** As a policy file writes them (policy-file.ts): only what the account has of its own. */
function renderSettings(settings: AccountSettings): string {
  const { live, payoutsEnabled, withdrawalsEnabled, approvalThresholds, cashOutPerMinute, fees, limits } =
    settings;
  const thresholds = Object.entries(approvalThresholds).map(
    ([currency, amount]) => `"${currency}":"${amount}"`,
  );
  return (
    `"live":${live},"payouts_enabled":${payoutsEnabled},"withdrawals_enabled":${withdrawalsEnabled},` +
    `"approval_thresholds":{${thresholds.join(',')}},"cash_out_per_minute":${cashOutPerMinute},` +
    `"fees":${renderByTypeAndCurrency(fees, renderFee)},"limits":${renderByTypeAndCurrency(limits, renderLimit)}`
  );
}

function renderByTypeAndCurrency<T>(rows: Partial<Record<UsageKey, T>>, render: (row: T) => string): string {
  const byType = new Map<string, string[]>();
  for (const [key, row] of Object.entries(rows)) {
    const [type = '', currency = ''] = key.split(':');
    const texts = byType.get(type) ?? [];
    texts.push(`"${currency}":${render(row)}`);
    byType.set(type, texts);
  }
  return `{${[...byType].map(([type, texts]) => `"${type}":{${texts.join(',')}}`).join(',')}}`;
}

function renderFee({ fixed, basisPoints, floor, cap }: FeePolicy): string {
  return `{"fixed":"${fixed}","basis_points":${basisPoints},"floor":${amountOrNull(floor)},"cap":${amountOrNull(cap)}}`;
}

function renderLimit({ maximum, daily, monthly }: LimitPolicy): string {
  return `{"maximum":${limitOrNull(maximum)},"daily":${limitOrNull(daily)},"monthly":${limitOrNull(monthly)}}`;
}

function amountOrNull(amount: number | null): string {
  return amount === null ? 'null' : `"${amount}"`;
}

function limitOrNull(amount: number): string {
  return amount === NO_LIMIT ? 'null' : `"${amount}"`;
}

/** GET …/trial_balance: every ledger account per currency; `sum` is debits minus credits over all of them. */
export function renderTrialBalance(account: Account): string {
  const rows: string[] = [];
  let isBalanced = true;
  for (const currency of CURRENCIES) {
    const balances = account.balances.get(currency);
    if (balances === undefined) continue;
    const sum = zeroCheck(balances);
    isBalanced &&= sum === 0;
    const amounts = LEDGER_ACCOUNTS.map((name) => `"${name}":"${balances[name]}"`);
    rows.push(`{"currency":"${currency}","accounts":{${amounts.join(',')}},"sum":"${sum}"}`);
  }
  return `{"object":"trial_balance","account_id":"${account.id}","balanced":${isBalanced},"data":[${rows.join(',')}]}`;
}

/** An item that operators look at. */
export function renderReconciliation(item: ReconciliationItem): string {
  const { id, accountId, kind, transactionId, detail, raisedAt, resolvedAt, resolvedBy, resolution } = item;
  return (
    `{"id":"${id}","object":"reconciliation","account_id":"${accountId}","kind":"${kind}",` +
    `"transaction_id":${nullable(transactionId)},"detail":${quote(detail)},"raised_at":"${formatTime(raisedAt)}",` +
    `"resolved_at":${timeOrNull(resolvedAt)},"resolved_by":${nullable(resolvedBy)},"resolution":${nullable(resolution)}}`
  );
}
