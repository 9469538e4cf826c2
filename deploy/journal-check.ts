// Whether what the service shows is what it told its callers, and whether the money of it adds up.
//
// A journal has one entry for each create call: what was sent, and the reply that was received. Everything is read as merchants and
// operators read it, over HTTP.

import { isDeepStrictEqual } from 'node:util';
import { LEDGER_ACCOUNTS, type LedgerAccount } from '../src/domain/ledger.ts';
import { pause } from '../src/pause.ts';
import { CouldNotTell, reasonOf } from './could-not-tell.ts';
import { severalAtOnce } from '../src/several-at-once.ts';

/** How often a call is tried, and how long the first pause in between is, ms: each further one is as much longer. */
const TRIES_MAX = 8;
const RETRY_MS = 200;
/** How long an answer may take, ms: longer than any that a service gives. */
const ANSWER_MS = 20_000;
/** How often it is looked whether nothing is on its way any more, and the pause in between, ms. */
const SETTLE_TRIES_MAX = 60;
const SETTLE_MS = 500;
/** How often the entries of an account are read that changes meanwhile. */
const READ_TRIES_MAX = 10;
/** Transactions. */
const READ_AT_ONCE = 16;
const FINAL_STATUSES = new Set(['SUCCESSFUL', 'FAILED', 'REVERSED']);

export interface JournalEntry {
  readonly account_id: string;
  readonly secret_key: string;
  /** e.g. "/v1/charges" */
  readonly path: string;
  /** Idempotency-Key. */
  readonly key: string;
  /** Its `reference` names the create of this key and no other. */
  readonly body: { readonly reference: string; readonly amount: string; readonly currency: string };
  readonly status: number | null;
  /** Body of the reply; null: none. */
  readonly reply: { readonly id?: string } | null;
}

export interface Service {
  readonly baseUrl: string;
  readonly operatorUrl: string;
  readonly operatorToken: string;
  /** Default: ANSWER_MS. */
  readonly answerMs?: number;
}

interface Transaction {
  readonly id: string;
  readonly type: 'CHARGE' | 'PAYOUT' | 'DEPOSIT' | 'WITHDRAWAL' | 'REFUND';
  readonly status: string;
  readonly amount: string;
  readonly net: string;
  readonly currency: string;
  readonly reference: string;
}

interface Entry {
  readonly account: LedgerAccount;
  readonly side: 'DEBIT' | 'CREDIT';
  readonly amount: string;
  readonly currency: string;
  readonly journal_id: string;
}

/** Findings, in words; none: everything holds. Rejects with CouldNotTell where an account cannot be read; all others are. */
export async function checkJournal(journal: readonly JournalEntry[], service: Service): Promise<string[]> {
  const findings: string[] = [];
  const untold: string[] = [];
  for (const [accountId, entries] of Map.groupBy(journal, (entry) => entry.account_id)) {
    try {
      const secretKey = await keyOf(service, entries);
      const transactions = await settledTransactions(service, secretKey);
      // One by one: a call takes no 100,000 arguments.
      for (const finding of checkCreates(entries, transactions)) findings.push(`${accountId}: ${finding}`);
      await checkMoney(service, accountId, secretKey, (finding) => findings.push(finding));
    } catch (error) {
      untold.push(`${accountId}: ${reasonOf(error)}`);
      // Where nobody answers, nobody answers of the others.
      if (!(error instanceof Unread)) break;
    }
  }
  if (untold.length > 0) throw new CouldNotTell(untold, findings);
  return findings;
}

/** Of one account: it is refused, or never stands still. */
class Unread extends Error {}

/** One that opens the account still, each of which shows all of it: an app may have been removed since. Where none does, the first. */
async function keyOf(service: Service, entries: readonly JournalEntry[]): Promise<string> {
  const [first = '', ...others] = new Set(entries.map((entry) => entry.secret_key));
  if (others.length === 0) return first;
  for (const key of [first, ...others]) {
    const { status } = await get(`${service.baseUrl}/v1/balances`, key, service.answerMs);
    if (status !== 401) return key;
  }
  return first;
}

function checkCreates(entries: readonly JournalEntry[], transactions: readonly Transaction[]): string[] {
  const findings: string[] = [];
  const byReference = Map.groupBy(transactions, ({ reference }) => reference);
  // Sent again under its key, as one does after a 503, a create may be there by another of its calls. Not so what was refused
  // because another create has the key.
  const nameOf = ({ key, body }: JournalEntry): string => `${body.reference} (key ${key})`;
  const mayExist = new Set(entries.filter(({ status }) => status === 201 || status === null).map(nameOf));
  for (const entry of entries) {
    const { body, status, reply } = entry;
    const found = byReference.get(body.reference) ?? [];
    const what = nameOf(entry);
    if (found.length > 1) findings.push(`${what} exists ${found.length} times`);
    const [transaction] = found;
    if (status === 201) {
      if (transaction === undefined) findings.push(`${what} was acknowledged and does not exist`);
      else if (transaction.id !== reply?.id) {
        findings.push(`${what} was acknowledged as ${reply?.id}, is ${transaction.id}`);
      } else if (transaction.amount !== body.amount || transaction.currency !== body.currency) {
        findings.push(`${what} was acknowledged with another amount`);
      }
    } else if (transaction !== undefined && !mayExist.has(what)) {
      findings.push(`${what} was refused with ${status} and exists as ${transaction.id}`);
    }
  }
  return findings;
}

/** Entries are what their transactions say, and balance; balances and the account's trial balance are what they add up to.
 *  An account that serves changes between two calls: a balance is wrong where nothing did from before the entries were read until
 *  after, and read again otherwise; what one transaction says of itself is wrong in any case. */
async function checkMoney(
  service: Service,
  accountId: string,
  secretKey: string,
  found: (finding: string) => void,
): Promise<void> {
  const stands = (): Promise<Standing> => standingOf(service, accountId, secretKey);
  const told = (finding: string): void => found(`${accountId}: ${finding}`);
  let standing = await stands();
  for (let tries = 1; tries <= READ_TRIES_MAX; tries++) {
    const { sums, findings } = await readEntries(service, secretKey, standing.transactions);
    const wrong = [
      ...balanceFindings(sums, standing.balances),
      ...trialBalanceFindings(sums, standing.trialBalance),
    ];
    const after = wrong.length === 0 ? standing : await stands();
    const isQuiet = isDeepStrictEqual(standing, after);
    if (isQuiet || tries === READ_TRIES_MAX) {
      findings.forEach(found);
      offBalanceFindings(standing.trialBalance).forEach(told);
    }
    if (isQuiet) return wrong.forEach(told);
    standing = after;
  }
  throw new Unread(
    `it changed each of ${READ_TRIES_MAX} times while being read: try again when less goes on there; ` +
      '`npm run wal -- replay` adds up a log that is written',
  );
}

interface Standing {
  readonly transactions: readonly Transaction[];
  readonly balances: readonly Balance[];
  readonly trialBalance: readonly TrialBalance[];
}

async function standingOf(service: Service, accountId: string, secretKey: string): Promise<Standing> {
  const transactions = await allTransactions(service, secretKey);
  const { data } = await merchantGet<{ data: readonly Balance[] }>(service, secretKey, '/v1/balances');
  return { transactions, balances: data, trialBalance: await trialBalanceOf(service, accountId) };
}

/** `sums` as balanceFindings takes them. */
async function readEntries(
  service: Service,
  secretKey: string,
  transactions: readonly Transaction[],
): Promise<{ sums: Map<string, bigint>; findings: string[] }> {
  const findings: string[] = [];
  const sums = new Map<string, bigint>();
  await severalAtOnce(READ_AT_ONCE, transactions, async ({ id }) => {
    const { transaction, ledger } = await merchantGet<Detail>(service, secretKey, `/v1/transactions/${id}`);
    const totals = new Map<string, bigint>();
    for (const entry of ledger) {
      add(sums, `${entry.currency} ${entry.account}`, signed(entry));
      add(totals, entry.journal_id, signed(entry));
    }
    for (const [journal, total] of totals) {
      if (total !== 0n) findings.push(`${id}: journal ${journal} is off by ${total}`);
    }
    findings.push(...entryFindings(transaction, ledger));
  });
  return { sums, findings };
}

async function trialBalanceOf(service: Service, accountId: string): Promise<readonly TrialBalance[]> {
  const { status, body } = await get(
    `${service.operatorUrl}/operator/v1/accounts/${accountId}/trial_balance`,
    service.operatorToken,
    service.answerMs,
  );
  if (status !== 200) throw new Unread(`its trial balance answers ${status}: ${body}`);
  return (JSON.parse(body) as { readonly data: readonly TrialBalance[] }).data;
}

interface Detail {
  readonly transaction: Transaction;
  readonly ledger: readonly Entry[];
}

/** Whether the entries of one transaction are what it says of itself: the provider's part its amount, the merchant's its net,
 *  the fee what is between; of what failed or was taken back nothing is left. */
export function entryFindings(
  transaction: Pick<Transaction, 'id' | 'type' | 'status' | 'amount' | 'net' | 'currency'>,
  ledger: readonly Entry[],
): string[] {
  const { id, type, status, currency } = transaction;
  const sum = (...accounts: readonly LedgerAccount[]): bigint =>
    ledger
      .filter(({ account }) => accounts.includes(account))
      .reduce((total, entry) => total + signed(entry), 0n);
  const found = {
    merchant: sum('MERCHANT_PENDING', 'MERCHANT_AVAILABLE'),
    provider: sum('PROVIDER_FLOAT'),
    fees: sum('FEES_REVENUE'),
    held: sum('SETTLEMENT_CLEARING'),
  };
  const expected = partsOf(transaction, found.held);
  const wrong = PARTS.filter((part) => found[part] !== expected[part]);
  const told = (of: Parts): string => PARTS.map((part) => `${part} ${of[part]}`).join(', ');
  return [
    ...(wrong.length === 0
      ? []
      : [`${id}: ${type} is ${status}, its entries say ${told(found)}, and not ${told(expected)}`]),
    ...(ledger.every((entry) => entry.currency === currency)
      ? []
      : [`${id}: not all entries are in ${currency}`]),
  ];
}

const PARTS = ['merchant', 'provider', 'fees', 'held'] as const;
/** Credits minus debits. */
type Parts = Readonly<Record<(typeof PARTS)[number], bigint>>;
const NOTHING: Parts = { merchant: 0n, provider: 0n, fees: 0n, held: 0n };

/** `held`: by its entries. How much that is of a payout on its way only the service knows: its fee is shown when it has ended. */
function partsOf(
  { type, status, ...told }: Pick<Transaction, 'type' | 'status' | 'amount' | 'net'>,
  held: bigint,
): Parts {
  const amount = BigInt(told.amount);
  const net = BigInt(told.net);
  const isOut = type === 'PAYOUT' || type === 'WITHDRAWAL';
  if (status === 'SUCCESSFUL') {
    return isOut
      ? { merchant: -net, provider: amount, fees: net - amount, held: 0n }
      : { merchant: net, provider: -amount, fees: amount - net, held: 0n };
  }
  if (!isOut || FINAL_STATUSES.has(status)) return NOTHING;
  const holds = held < amount ? amount : held;
  return { ...NOTHING, merchant: -holds, held: holds };
}

function signed({ side, amount }: Pick<Entry, 'side' | 'amount'>): bigint {
  return side === 'CREDIT' ? BigInt(amount) : -BigInt(amount);
}

interface Balance {
  readonly currency: string;
  readonly available: string;
  readonly pending: string;
}

/** `sums`: credits minus debits of the entries, by currency and ledger account. A currency with entries has a balance. */
export function balanceFindings(sums: ReadonlyMap<string, bigint>, balances: readonly Balance[]): string[] {
  const differing = balances.flatMap(({ currency, available, pending }) => {
    const expected = [
      sums.get(`${currency} MERCHANT_AVAILABLE`) ?? 0n,
      sums.get(`${currency} MERCHANT_PENDING`) ?? 0n,
    ];
    if (expected[0] === BigInt(available) && expected[1] === BigInt(pending)) return [];
    return [`${currency} is ${available} + ${pending}, its entries say ${expected.join(' + ')}`];
  });
  return [...absentIn(sums, balances, 'balance'), ...differing];
}

function absentIn(
  sums: ReadonlyMap<string, bigint>,
  rows: readonly { readonly currency: string }[],
  what: string,
): string[] {
  const currencies = new Set([...sums.keys()].map((key) => key.split(' ')[0] ?? ''));
  const told = new Set(rows.map(({ currency }) => currency));
  const absent = [...currencies].filter((currency) => !told.has(currency));
  return absent.map((currency) => `there are entries in ${currency}, and no ${what}`);
}

interface TrialBalance {
  readonly currency: string;
  readonly accounts: Readonly<Record<LedgerAccount, string>>;
  readonly sum: string;
}

/** As balanceFindings. The provider's part is debits minus credits there. */
function trialBalanceFindings(
  sums: ReadonlyMap<string, bigint>,
  trialBalance: readonly TrialBalance[],
): string[] {
  const differing = trialBalance.flatMap(({ currency, accounts }) =>
    LEDGER_ACCOUNTS.flatMap((account) => {
      const sum = sums.get(`${currency} ${account}`) ?? 0n;
      const expected = account === 'PROVIDER_FLOAT' ? -sum : sum;
      if (BigInt(accounts[account]) === expected) return [];
      return [
        `the trial balance of ${currency} has ${account} ${accounts[account]}, its entries say ${expected}`,
      ];
    }),
  );
  return [...absentIn(sums, trialBalance, 'trial balance'), ...differing];
}

function offBalanceFindings(trialBalance: readonly TrialBalance[]): string[] {
  return trialBalance
    .filter(({ sum }) => sum !== '0')
    .map(({ currency, sum }) => `the trial balance of ${currency} is off by ${sum}`);
}

/** Once nothing is on its way any more, or as it stands after a while. */
async function settledTransactions(service: Service, secretKey: string): Promise<Transaction[]> {
  for (let tries = 1; ; tries++) {
    const transactions = await allTransactions(service, secretKey);
    const settled = transactions.every(({ status }) => FINAL_STATUSES.has(status));
    if (settled || tries >= SETTLE_TRIES_MAX) return transactions;
    await pause(SETTLE_MS);
  }
}

async function allTransactions(service: Service, secretKey: string): Promise<Transaction[]> {
  const found: Transaction[] = [];
  for (let cursor = ''; ;) {
    const page = await merchantGet<{
      data: readonly Transaction[];
      has_more: boolean;
      next_cursor: string | null;
    }>(service, secretKey, `/v1/transactions?limit=100${cursor}`);
    found.push(...page.data);
    if (!page.has_more || page.next_cursor === null) return found;
    cursor = `&starting_after=${encodeURIComponent(page.next_cursor)}`;
  }
}

async function merchantGet<Body>(service: Service, secretKey: string, path: string): Promise<Body> {
  const { status, body } = await get(service.baseUrl + path, secretKey, service.answerMs);
  if (status !== 200) throw new Unread(`GET ${path} answers ${status}: ${body}`);
  return JSON.parse(body) as Body;
}

/** A service that is being repaired may be away for a moment. One that stands still says nothing, for ever. */
async function get(
  url: string,
  bearer: string,
  answerMs = ANSWER_MS,
): Promise<{ status: number; body: string }> {
  for (let tries = 1; ; tries++) {
    try {
      const signal = AbortSignal.timeout(answerMs);
      const answer = await fetch(url, { headers: { authorization: `Bearer ${bearer}` }, signal });
      const body = await answer.text();
      if (answer.status < 500 || tries >= TRIES_MAX) return { status: answer.status, body };
    } catch (error) {
      if (tries >= TRIES_MAX) throw error;
    }
    await pause(RETRY_MS * tries);
  }
}

function add(sums: Map<string, bigint>, key: string, amount: bigint): void {
  sums.set(key, (sums.get(key) ?? 0n) + amount);
}
