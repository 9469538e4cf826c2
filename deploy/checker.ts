// The checker: decides after an incident whether the service told its callers the truth. A program of its own.
//
//   node deploy/checker.ts --journal sent.jsonl --base-url http://… --operator-url http://… --operator-token …
//                          [--data-dir … --data-dir …]
//
// The journal has one line of JSON for each create call: what was sent, and the reply that was received:
//   {"account_id","secret_key","path","key","body","status","reply"}     status null: no reply was ever received
//
// What must hold:
//   - an acknowledged create (201) exists exactly once, as it was acknowledged; a refused one (4xx, 5xx) does not exist;
//     one without a reply exists at most once
//   - each account's balances are those that its transactions add up to, and its trial balance is zero
//   - the logs of all data directories have one hash chain per partition
//
// Exit status 0 only if all of it holds; 1 if not; 2 if it could not be found out.

import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { LogReader } from '../wal/log-reader.ts';

export interface JournalEntry {
  readonly account_id: string;
  readonly secret_key: string;
  /** e.g. "/v1/charges" */
  readonly path: string;
  /** Idempotency-Key. */
  readonly key: string;
  /** Its `reference` names this create and no other. */
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
  readonly currency: string;
  readonly reference: string;
}

interface Entry {
  readonly account: string;
  readonly side: 'DEBIT' | 'CREDIT';
  readonly amount: string;
  readonly currency: string;
  readonly journal_id: string;
}

/** Findings, in words; none: everything holds. */
export async function checkJournal(journal: readonly JournalEntry[], service: Service): Promise<string[]> {
  const findings: string[] = [];
  for (const [accountId, entries] of Map.groupBy(journal, (entry) => entry.account_id)) {
    const secretKey = entries[0]?.secret_key ?? '';
    const transactions = await settledTransactions(service, secretKey);
    findings.push(...checkCreates(entries, transactions).map((finding) => `${accountId}: ${finding}`));
    findings.push(...(await checkBalances(service, accountId, secretKey, transactions)));
  }
  return findings;
}

/** Compares the logs of stopped or running nodes, partition by partition. */
export async function checkReplicas(directories: readonly string[]): Promise<string[]> {
  const findings: string[] = [];
  const readers = directories.map((directory) => ({ directory, log: LogReader.openReader({ directory }) }));
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

function compareLog(
  { directory, log }: { readonly directory: string; readonly log: LogReader },
  { group, partition }: { readonly group: string; readonly partition: number },
  seen: Map<number, Seen>,
): string | null {
  try {
    const afterBatch = log.startOf(group, partition).batch;
    for (const { batch, hash } of log.read(group, partition, { afterBatch })) {
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
  for (const { key, body, status, reply } of entries) {
    const found = byReference.get(body.reference) ?? [];
    const what = `${body.reference} (key ${key})`;
    if (found.length > 1) findings.push(`${what} exists ${found.length} times`);
    const [transaction] = found;
    if (status === 201) {
      if (transaction === undefined) findings.push(`${what} was acknowledged and does not exist`);
      else if (transaction.id !== reply?.id) {
        findings.push(`${what} was acknowledged as ${reply?.id}, is ${transaction.id}`);
      } else if (transaction.amount !== body.amount || transaction.currency !== body.currency) {
        findings.push(`${what} was acknowledged with another amount`);
      }
    } else if (status !== null && transaction !== undefined) {
      findings.push(`${what} was refused with ${status} and exists as ${transaction.id}`);
    }
  }
  return findings;
}

/** Balances are what the ledger entries of the account's transactions add up to; entries balance; so does the account. */
async function checkBalances(
  service: Service,
  accountId: string,
  secretKey: string,
  transactions: readonly Transaction[],
): Promise<string[]> {
  const findings: string[] = [];
  const sums = new Map<string, bigint>();
  await inParallel(transactions, async ({ id }) => {
    const detail = await merchantGet<{ ledger: readonly Entry[] }>(
      service,
      secretKey,
      `/v1/transactions/${id}`,
    );
    const totals = new Map<string, bigint>();
    for (const { account, side, amount, currency, journal_id: journal } of detail.ledger) {
      const signed = side === 'CREDIT' ? BigInt(amount) : -BigInt(amount);
      add(sums, `${currency} ${account}`, signed);
      add(totals, journal, signed);
    }
    for (const [journal, total] of totals) {
      if (total !== 0n) findings.push(`${id}: journal ${journal} is off by ${total}`);
    }
  });
  const { data } = await merchantGet<{ data: readonly Balance[] }>(service, secretKey, '/v1/balances');
  findings.push(...balanceFindings(sums, data).map((finding) => `${accountId}: ${finding}`));
  const { status, body } = await get(
    `${service.operatorUrl}/operator/v1/accounts/${accountId}/trial_balance`,
    service.operatorToken,
  );
  if (status !== 200) findings.push(`${accountId}: the trial balance answers ${status}`);
  else findings.push(...trialBalanceFindings(accountId, JSON.parse(body) as TrialBalance));
  return findings;
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
      'operator-token': { type: 'string' },
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
    const service = {
      baseUrl: values['base-url'] ?? 'http://127.0.0.1:8080',
      operatorUrl: values['operator-url'] ?? 'http://127.0.0.1:8081',
      operatorToken: values['operator-token'] ?? process.env['OPERATOR_TOKEN'] ?? '',
    };
    findings.push(...(await checkJournal(journal, service)));
    process.stdout.write(`${journal.length} creates checked\n`);
  }
  if (directories.length > 0) {
    findings.push(...(await checkReplicas(directories)));
    process.stdout.write(`${directories.length} data directories compared\n`);
  }
  for (const finding of findings) process.stdout.write(`FOUND ${finding}\n`);
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

const help = `node deploy/checker.ts [--journal FILE --base-url URL --operator-url URL --operator-token TOKEN] [--data-dir DIR …]

Decides whether the service told its callers the truth: what was acknowledged exists once, what was refused does not
exist, balances are what the entries add up to, and the logs of all data directories are one. deploy/README.md has the
journal's format.`;

if (import.meta.filename === process.argv[1]) {
  try {
    process.exitCode = await main();
  } catch (error) {
    const { message, cause } = error as Error;
    // fetch tells why in its cause alone.
    const why = message === 'fetch failed' && cause instanceof Error ? `: ${cause.message}` : '';
    process.stderr.write(`Could not tell: ${message}${why}\n`);
    process.exitCode = 2;
  }
}
