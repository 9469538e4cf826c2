// The checker: decides after an incident whether the service told its callers the truth. A program of its own.
//
//   OPERATOR_TOKEN=… node_modules/.bin/node deploy/checker.ts --journal sent.jsonl --base-url http://… --operator-url http://…
//                          [--data-dir … --data-dir …]
//
// The journal has one line of JSON for each create call: what was sent, and the reply that was received:
//   {"account_id","secret_key","path","key","body","status","reply"}     status null: no reply was ever received
//
// What must hold:
//   - an acknowledged create (201) exists exactly once, as it was acknowledged; a refused one (4xx, 5xx) does not exist;
//     one without a reply exists at most once
//   - each transaction's ledger entries are what its status, amount and net say; each account's balances are what the entries
//     add up to, and its trial balance is zero
//   - the logs of all data directories have one hash chain per partition
//
// Exit status 0 only if all of it holds; 1 if not; 2 if it could not be found out.

import { readFileSync } from 'node:fs';
import { isDeepStrictEqual, parseArgs } from 'node:util';
import { LogReader } from '../wal/log-reader.ts';
import { printable } from '../wal/printable.ts';
import type { Batch, Tip } from '../wal/types.ts';

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

type LedgerAccount =
  'MERCHANT_PENDING' | 'MERCHANT_AVAILABLE' | 'FEES_REVENUE' | 'PROVIDER_FLOAT' | 'SETTLEMENT_CLEARING';

interface Entry {
  readonly account: LedgerAccount;
  readonly side: 'DEBIT' | 'CREDIT';
  readonly amount: string;
  readonly currency: string;
  readonly journal_id: string;
}

/** Findings, in words; none: everything holds. */
export async function checkJournal(journal: readonly JournalEntry[], service: Service): Promise<string[]> {
  const findings: string[] = [];
  const neverQuiet: string[] = [];
  for (const [accountId, entries] of Map.groupBy(journal, (entry) => entry.account_id)) {
    const secretKey = entries[0]?.secret_key ?? '';
    const transactions = await settledTransactions(service, secretKey);
    findings.push(...checkCreates(entries, transactions).map((finding) => `${accountId}: ${finding}`));
    const wrong = await checkMoney(service, accountId, secretKey);
    if (wrong === null) neverQuiet.push(accountId);
    else findings.push(...wrong);
  }
  if (findings.length > 0 || neverQuiet.length === 0) return findings;
  throw new Error(
    `${neverQuiet.join(', ')} changed each of ${readTriesMax} times while being read: try again when less goes on there; ` +
      '`npm run wal -- replay` adds up a log that is written',
  );
}

/** Compares the logs of stopped or running nodes, partition by partition. */
export async function checkReplicas(directories: readonly string[]): Promise<string[]> {
  const findings: string[] = [];
  const readers = await Promise.all(
    directories.map(async (directory) => ({ directory, log: await LogReader.openBeside({ directory }) })),
  );
  const names = new Map(
    readers
      .flatMap(({ log }) => log.partitionNames())
      .map((name) => [`${name.group}/${name.partition}`, name]),
  );
  for (const [key, place] of names) {
    // Every log is read and proved by its own chain; where two have the same batch it must be the same batch.
    const seen = new Map<number, Seen>();
    for (const reader of readers) {
      const finding = compareLog(reader, place, seen);
      if (finding !== null) findings.push(`${key}: ${finding}`);
    }
  }
  for (const { log } of readers) await log.close();
  return findings;
}

interface Seen {
  readonly hash: string;
  readonly directory: string;
}

interface Place {
  readonly group: string;
  readonly partition: number;
}

/** Proven batch by batch. What the log begins after is of the chain, too: from a snapshot on, two logs may have nothing else
 *  in common. */
function* chainOf(log: LogReader, { group, partition }: Place): Generator<Pick<Tip, 'batch' | 'hash'>> {
  const start = log.startOf(group, partition);
  if (start.batch > 0) yield start;
  let last: Batch | null = null;
  for (const batch of log.read(group, partition, { afterBatch: start.batch })) {
    if (last !== null) yield last;
    last = batch;
  }
  // A node that lost the partition as it opened an epoch has that batch alone, until it follows again: nothing is in it.
  if (last !== null && last.records.length > 0) yield last;
}

function compareLog(
  { directory, log }: { readonly directory: string; readonly log: LogReader },
  place: Place,
  seen: Map<number, Seen>,
): string | null {
  try {
    for (const { batch, hash } of chainOf(log, place)) {
      const own = { hash: hash.toString('hex'), directory };
      const other = seen.get(batch) ?? own;
      if (other.hash !== own.hash) {
        return `batch ${batch} differs between ${other.directory} and ${directory}`;
      }
      seen.set(batch, other);
    }
    return null;
  } catch (error) {
    return `${directory}: ${(error as Error).message}`;
  }
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

/** Entries are what their transactions say, and balance; balances are what they add up to; so is the account's trial balance.
 *  An account that serves changes between two calls: a balance is wrong where nothing did from before the entries were read until
 *  after, and read again otherwise. null: it never stood still. */
async function checkMoney(
  service: Service,
  accountId: string,
  secretKey: string,
): Promise<readonly string[] | null> {
  let standing = await standingOf(service, secretKey);
  for (let tries = 1; tries <= readTriesMax; tries++) {
    const { sums, findings } = await readEntries(service, secretKey, standing.transactions);
    const wrong = balanceFindings(sums, standing.balances).map((finding) => `${accountId}: ${finding}`);
    const after = wrong.length === 0 ? standing : await standingOf(service, secretKey);
    if (isDeepStrictEqual(standing, after)) {
      return [...findings, ...wrong, ...(await trialBalanceOf(service, accountId))];
    }
    standing = after;
  }
  return null;
}

interface Standing {
  readonly transactions: readonly Transaction[];
  readonly balances: readonly Balance[];
}

async function standingOf(service: Service, secretKey: string): Promise<Standing> {
  const transactions = await allTransactions(service, secretKey);
  const { data } = await merchantGet<{ data: readonly Balance[] }>(service, secretKey, '/v1/balances');
  return { transactions, balances: data };
}

/** `sums` as balanceFindings takes them. */
async function readEntries(
  service: Service,
  secretKey: string,
  transactions: readonly Transaction[],
): Promise<{ sums: Map<string, bigint>; findings: string[] }> {
  const findings: string[] = [];
  const sums = new Map<string, bigint>();
  await inParallel(transactions, async ({ id }) => {
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

async function trialBalanceOf(service: Service, accountId: string): Promise<string[]> {
  const { status, body } = await get(
    `${service.operatorUrl}/operator/v1/accounts/${accountId}/trial_balance`,
    service.operatorToken,
  );
  if (status !== 200) throw new Error(`the trial balance of ${accountId} answers ${status}: ${body}`);
  return trialBalanceFindings(accountId, JSON.parse(body) as TrialBalance);
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
  const wrong = parts.filter((part) => found[part] !== expected[part]);
  const told = (of: Parts): string => parts.map((part) => `${part} ${of[part]}`).join(', ');
  return [
    ...(wrong.length === 0
      ? []
      : [`${id}: ${type} is ${status}, its entries say ${told(found)}, and not ${told(expected)}`]),
    ...(ledger.every((entry) => entry.currency === currency)
      ? []
      : [`${id}: not all entries are in ${currency}`]),
  ];
}

/** Credits minus debits. */
type Parts = Readonly<Record<'merchant' | 'provider' | 'fees' | 'held', bigint>>;
const parts = ['merchant', 'provider', 'fees', 'held'] as const;
const nothing: Parts = { merchant: 0n, provider: 0n, fees: 0n, held: 0n };

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
  if (!isOut || finalStatuses.has(status)) return nothing;
  const holds = held < amount ? amount : held;
  return { ...nothing, merchant: -holds, held: holds };
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
  const currencies = new Set([...sums.keys()].map((key) => key.split(' ')[0] ?? ''));
  const told = new Set(balances.map(({ currency }) => currency));
  const absent = [...currencies].filter((currency) => !told.has(currency));
  const differing = balances.flatMap(({ currency, available, pending }) => {
    const expected = [
      sums.get(`${currency} MERCHANT_AVAILABLE`) ?? 0n,
      sums.get(`${currency} MERCHANT_PENDING`) ?? 0n,
    ];
    if (expected[0] === BigInt(available) && expected[1] === BigInt(pending)) return [];
    return [`${currency} is ${available} + ${pending}, its entries say ${expected.join(' + ')}`];
  });
  return [...absent.map((currency) => `there are entries in ${currency}, and no balance`), ...differing];
}

interface TrialBalance {
  readonly data: readonly { readonly currency: string; readonly sum: string }[];
}

function trialBalanceFindings(accountId: string, { data }: TrialBalance): string[] {
  return data
    .filter(({ sum }) => sum !== '0')
    .map(({ currency, sum }) => `${accountId}: the trial balance of ${currency} is off by ${sum}`);
}

/** Once nothing is on its way any more, or as it stands after a while. */
async function settledTransactions(service: Service, secretKey: string): Promise<Transaction[]> {
  for (let tries = 1; ; tries++) {
    const transactions = await allTransactions(service, secretKey);
    const settled = transactions.every(({ status }) => finalStatuses.has(status));
    if (settled || tries >= settleTriesMax) return transactions;
    await new Promise((resolve) => {
      setTimeout(resolve, 500);
    });
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
  const { status, body } = await get(service.baseUrl + path, secretKey);
  if (status !== 200) throw new Error(`GET ${path} answers ${status}: ${body}`);
  return JSON.parse(body) as Body;
}

/** A service that is being repaired may be away for a moment. */
async function get(url: string, bearer: string): Promise<{ status: number; body: string }> {
  for (let tries = 1; ; tries++) {
    try {
      const answer = await fetch(url, { headers: { authorization: `Bearer ${bearer}` } });
      const body = await answer.text();
      if (answer.status < 500 || tries >= triesMax) return { status: answer.status, body };
    } catch (error) {
      if (tries >= triesMax) throw error;
    }
    await new Promise((resolve) => {
      setTimeout(resolve, 200 * tries);
    });
  }
}

const triesMax = 8;
const settleTriesMax = 60;
const readTriesMax = 10;
const finalStatuses = new Set(['SUCCESSFUL', 'FAILED', 'REVERSED']);
const parallel = 16;

async function inParallel<Item>(items: readonly Item[], act: (item: Item) => Promise<void>): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: parallel }, async () => {
      for (const item of left) await act(item);
    }),
  );
}

function add(sums: Map<string, bigint>, key: string, amount: bigint): void {
  sums.set(key, (sums.get(key) ?? 0n) + amount);
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      journal: { type: 'string' },
      'base-url': { type: 'string' },
      'operator-url': { type: 'string' },
      'data-dir': { type: 'string', multiple: true, default: [] },
      help: { type: 'boolean', default: false },
    },
  });
  const directories = values['data-dir'];
  if (values.help || (values.journal === undefined && directories.length === 0)) {
    process.stdout.write(`${help}\n`);
    return values.help ? 0 : 2;
  }
  const findings: string[] = [];
  if (values.journal !== undefined) {
    const journal = readJournal(values.journal);
    // Of none nothing is known.
    if (journal.length === 0) throw new Error(`${values.journal} has no creates`);
    const service = {
      baseUrl: values['base-url'] ?? 'http://127.0.0.1:8080',
      operatorUrl: values['operator-url'] ?? 'http://127.0.0.1:8081',
      // Not an argument: everybody on the machine reads those of a process.
      operatorToken: process.env['OPERATOR_TOKEN'] ?? '',
    };
    findings.push(...(await checkJournal(journal, service)));
    process.stdout.write(`${journal.length} creates checked\n`);
  }
  if (directories.length > 0) {
    findings.push(...(await checkReplicas(directories)));
    process.stdout.write(`${directories.length} data directories compared\n`);
  }
  for (const finding of findings) process.stdout.write(`FOUND ${printable(finding)}\n`);
  process.stdout.write(findings.length === 0 ? 'Sound.\n' : `Not sound: ${findings.length} findings.\n`);
  return findings.length === 0 ? 0 : 1;
}

function readJournal(path: string): JournalEntry[] {
  const entries: JournalEntry[] = [];
  for (const [index, line] of readFileSync(path, 'utf8').split('\n').entries()) {
    if (line === '') continue;
    try {
      entries.push(JSON.parse(line) as JournalEntry);
    } catch (error) {
      throw new Error(`line ${index + 1} of ${path}: ${(error as Error).message}`, { cause: error });
    }
  }
  return entries;
}

const help = `node_modules/.bin/node deploy/checker.ts [--journal FILE --base-url URL --operator-url URL] [--data-dir DIR …]

Decides whether the service told its callers the truth: what was acknowledged exists once, what was refused does not
exist, entries are what their transactions say, balances are what the entries add up to, and the logs of all data directories
are one. The environment has OPERATOR_TOKEN; deploy/README.md has the journal's format.`;

if (import.meta.filename === process.argv[1]) {
  try {
    process.exitCode = await main();
  } catch (error) {
    const { message, cause } = error as Error;
    // fetch tells why in its cause alone.
    const why = message === 'fetch failed' && cause instanceof Error ? `: ${cause.message}` : '';
    process.stderr.write(printable(`Could not tell: ${message}${why}\n`));
    process.exitCode = 2;
  }
}
