// `replay`: what the log alone says, to the end or to any moment; and whether the checkpoint says the same.

import { decodeAccount, isEmptyBucket } from '../../actors/accounts/rows.ts';
import { CURRENCIES } from '../domain/country.ts';
import { LEDGER_ACCOUNTS } from '../domain/ledger.ts';
import { LIMITS } from '../limits.ts';
import { accountLines, type AccountReport, reportAccount } from './account-report.ts';
import { compareRows, type Comparison, type Difference } from './compare.ts';
import {
  assertAccountId,
  type Data,
  groupOf,
  holdsCheckpoint,
  partitionOfAccount,
  withData,
} from './data.ts';
import {
  auditedText,
  auditLedger,
  type LedgerAudit,
  ledgerLines,
  type Totals,
  zeroSum,
} from './ledger-audit.ts';
import { lastSequence, lastSequenceAt } from './places.ts';
import { Rebuild } from './rebuild.ts';
import type { Row, ViewPosition } from '../../wal/types.ts';
import { chosen, nameOf, type PartitionName, partitionOptions, table } from '../../wal/tools/partitions.ts';
import { breathe } from '../../wal/tools/priority.ts';
import {
  assertGoesBeside,
  assertGoesWith,
  ordinalOf,
  stringOf,
  timeOf,
  type Tool,
  type ToolInput,
  type ToolResult,
  UsageError,
} from '../../wal/tools/tool.ts';
import { allPartitions, type Fault, faultLine, orFault } from '../../wal/tools/verify.ts';

export const replay: Tool = {
  name: 'replay',
  summary: 'Rebuild state from the log alone: to the end, to any moment, or to prove the checkpoint.',
  help: `
Applies every record, oldest first, as the service does, into views of its own in a temporary directory; what is there at
the end owes nothing to the checkpoint. Every posting is checked as it is applied, and in the end the money is added up a
second time from the journals. Works on a live directory. A trimmed log has no beginning: restore its archive first.

  replay                                                balances, all accounts
  replay --account acc_…                                one account, and its newest transactions
  replay --account acc_… --until 2026-11-20T23:59:59Z   as they were then
  replay --account acc_… --until 4211                   as they were after that record of the account's partition
  replay --verify                                       compare with the checkpoint, row by row; differences are shown`,
  options: {
    ...partitionOptions,
    until: { type: 'string', value: 'time or sequence', help: 'stop there' },
    account: { type: 'string', value: 'id', help: 'show this account with its transactions' },
    limit: { type: 'string', value: 'number', help: 'transactions to show (default: 20)' },
    verify: { type: 'boolean', help: 'compare with the checkpoint' },
    scratch: {
      type: 'string',
      value: 'directory',
      help: 'where to build; takes as much room as the views (default: TMPDIR)',
    },
  },
  run: (input) => withData(input.directory, (data) => run(data, input)),
};

interface Plan {
  readonly names: readonly PartitionName[];
  /** Of the log as it is when it is asked. */
  readonly upTo: (name: PartitionName) => number;
}

interface Work extends PartitionName {
  readonly upTo: number;
}

interface VerifiedPartition extends Comparison, PartitionName {
  /** The sequence that the checkpoint reaches; 0: it has nothing of this partition yet. */
  readonly sequence: number;
}

interface Replayed {
  readonly work: readonly Work[];
  readonly faults: readonly Fault[];
  readonly audits: readonly (LedgerAudit & PartitionName)[];
  readonly verified: readonly VerifiedPartition[];
  readonly records: number;
  readonly bytes: number;
  readonly durationMs: number;
}

async function run(data: Data, input: ToolInput): Promise<ToolResult> {
  const { values } = input;
  const verify = values['verify'] === true;
  const accountId = stringOf(values, 'account');
  const limit = ordinalOf(values, 'limit') ?? LIMITS.logToolTransactionsShown;
  // Its id says by itself where it is.
  assertGoesWith(values, 'account', ['until', 'limit', 'scratch', 'verify']);
  assertGoesBeside(values, 'limit', ['account']);
  if (accountId !== undefined) assertAccountId(accountId);
  if (verify && (values['until'] !== undefined || accountId !== undefined)) {
    throw new UsageError('--verify goes with neither --until nor --account');
  }
  if (verify && data.views === null) {
    throw new UsageError(`${input.directory} has no checkpoint to compare with`);
  }
  const plan = planWork(data, values, accountId, verify);
  const rebuild = new Rebuild(data.log, stringOf(values, 'scratch') ?? null, input.progress);
  try {
    const replayed = await replayAll(data, input, rebuild, plan, verify);
    if (accountId === undefined) return allResult(rebuild, replayed, verify);
    const partition = partitionOfAccount(data, accountId);
    const report = reportAccount(rebuild.views, null, { partition, accountId }, limit);
    return accountResult(accountId, report, replayed, rebuild.views.position('accounts', partition));
  } finally {
    await rebuild.close();
  }
}

function planWork(
  data: Data,
  values: ToolInput['values'],
  accountId: string | undefined,
  verify: boolean,
): Plan {
  let names: PartitionName[] = chosen(allPartitions(data.log, verify ? data.views : null), values);
  if (accountId !== undefined) {
    const partition = partitionOfAccount(data, accountId);
    names = names.filter((name) => name.group === 'accounts' && name.partition === partition);
  } else if (!verify && values['group'] === undefined) {
    names = names.filter(({ group }) => group === 'accounts');
  }
  for (const { group, partition } of names) {
    const start = data.log.startOf(group, partition);
    if (start.batch === 0) continue;
    throw new UsageError(
      `${group}/${partition} was trimmed up to sequence ${start.sequence}: ` +
        `restore its archive and a backup into another directory, and replay that`,
    );
  }
  return { names, upTo: untilOf(data, values, names) };
}

function untilOf(
  data: Data,
  values: ToolInput['values'],
  names: readonly PartitionName[],
): (name: PartitionName) => number {
  const until = stringOf(values, 'until');
  const lastOf = (name: PartitionName): number => lastSequence(data.log, name);
  if (until === undefined) return lastOf;
  if (!/^\d{1,12}$/.test(until)) {
    const atMs = timeOf(values, 'until') ?? 0;
    return (name) => lastSequenceAt(data.log, name, atMs);
  }
  if (names.length !== 1) {
    throw new UsageError(
      'a sequence is one of a partition: give --account, or --group and --partition, with it',
    );
  }
  return (name) => {
    const last = lastOf(name);
    if (Number(until) <= last) return Number(until);
    throw new UsageError(`${nameOf(name)} ends at sequence ${last}`);
  };
}

async function replayAll(
  data: Data,
  input: ToolInput,
  rebuild: Rebuild,
  { names, upTo }: Plan,
  verify: boolean,
): Promise<Replayed> {
  const startedMs = performance.now();
  const batches = names.map(({ group, partition }) => data.log.lastBatchNumber(group, partition));
  input.progress.start(
    'replay',
    batches.reduce((sum, count) => sum + count, 0),
  );
  const work: Work[] = [];
  const faults: Fault[] = [];
  const audits: (LedgerAudit & PartitionName)[] = [];
  const verified: VerifiedPartition[] = [];
  for (const name of names) {
    const { group, partition } = name;
    const compared = verify ? await orFault(() => verifyPartition(data, rebuild, name)) : null;
    data.log.refresh();
    const reach = await orFault(() => upTo(name));
    if (typeof reach !== 'number') {
      faults.push(reach);
      continue;
    }
    if (compared !== null && 'problem' in compared) {
      faults.push(compared);
      continue;
    }
    if (compared !== null) verified.push(compared);
    const fault = await rebuild.advance({ group, partition }, reach);
    rebuild.views.refresh();
    if (fault !== null) {
      faults.push(fault);
      work.push({ group, partition, upTo: rebuild.views.position(group, partition)?.sequence ?? 0 });
      continue;
    }
    work.push({ group, partition, upTo: reach });
    if (group === 'accounts') {
      audits.push({ group, partition, ...auditLedger(rebuild.views.rows(group, partition)) });
    }
    await breathe();
  }
  const durationMs = performance.now() - startedMs;
  return { work, faults, audits, verified, records: rebuild.records, bytes: rebuild.bytes, durationMs };
}

/** The service goes on writing its checkpoint: it is read as of one moment, and the rebuilt views are brought there. */
async function verifyPartition(
  { log, views }: Data,
  rebuild: Rebuild,
  name: PartitionName,
): Promise<VerifiedPartition | Fault> {
  if (views === null) throw new Error('there is no checkpoint');
  const { group, partition } = name;
  const place = { group, partition };
  // Most of the way first, so that the moment is not held for long.
  views.refresh();
  const before = views.position(group, partition);
  if (before !== null && holdsCheckpoint(log, views, group, partition, before)) {
    const early = await rebuild.advance(place, before.sequence);
    if (early !== null) return early;
  }
  views.refresh();
  const position = views.position(group, partition);
  if (position === null) {
    return { ...place, sequence: 0, tables: [], differenceCount: 0, differences: [] };
  }
  const rows = views.rows(group, partition)[Symbol.iterator]();
  const first = rows.next();
  try {
    if (!holdsCheckpoint(log, views, group, partition, position)) {
      const problem = 'the checkpoint was made from another log, or from one that went on further';
      return { ...place, batch: position.batch, sequence: position.sequence, problem };
    }
    const fault = await rebuild.advance(place, position.sequence);
    if (fault !== null) return fault;
    rebuild.views.refresh();
    const theirs = first.done === true ? [] : chained(first.value, rows);
    const compared = compareRows(rebuild.views.rows(group, partition), theirs, needlessIn(rebuild, name));
    return { ...place, sequence: position.sequence, ...compared };
  } finally {
    rows.return?.(undefined);
  }
}

/** Whether a row that only one side has is no difference: the service may have let go of it by now, or nothing is found by it. */
function needlessIn(
  rebuild: Rebuild,
  { group, partition }: PartitionName,
): (row: Row, of: 'log' | 'checkpoint') => boolean {
  const rules = groupOf(group).retention ?? [];
  const views = rebuild.views.reader(group, partition);
  const now = Date.now();
  return ({ table, key, value }, of) => {
    if (table === 'bucket') return isEmptyBucket(key, views);
    if (of === 'checkpoint' || value === null) return false;
    const rule = rules.find((each) => each.table === table);
    return rule !== undefined && rule.isOver({ key, value }, now, views);
  };
}

/** Goes on with a generator of which the first was taken. */
function* chained<T>(first: T, rest: Iterator<T>): Generator<T, void, undefined> {
  yield first;
  for (let next = rest.next(); next.done !== true; next = rest.next()) yield next.value;
}

// --- What is told --------------------------------------------------------------------------------------------------------

/** `reached`: the batch that holds the last record applied. Its hash seals all that was replayed. */
function accountResult(
  accountId: string,
  report: AccountReport | null,
  replayed: Replayed,
  reached: ViewPosition | null,
): ToolResult {
  const { faults, audits } = replayed;
  const [work] = replayed.work;
  const ledger = audits.flatMap((audit) => audit.faults);
  const sound = faults.length === 0 && ledger.length === 0;
  const seal = reached === null ? null : { batch: reached.batch, hash: reached.hash.toString('hex') };
  const until = work === undefined ? 'nothing' : `${nameOf(work)} up to sequence ${work.upTo}`;
  const lines =
    report === null
      ? [
          `${accountId} is not there${faults.length > 0 ? ' as far as its log can be read' : ' yet, or has another data directory'}`,
        ]
      : accountLines(report);
  return {
    sound: sound && report !== null,
    report: {
      sound,
      found: report !== null,
      upTo: work?.upTo ?? 0,
      partition: work?.partition ?? null,
      seal,
      faults,
      ledger,
      ...report,
    },
    lines: [
      ...faults.map(faultLine),
      ...ledgerLines(audits),
      ...lines,
      '',
      `As of ${until}${seal === null ? '' : `, batch ${seal.batch}, whose hash is ${seal.hash}`}. ${speedOf(replayed)}`,
    ],
  };
}

function allResult(rebuild: Rebuild, replayed: Replayed, verify: boolean): ToolResult {
  const { work, faults, audits, verified } = replayed;
  const differences = verified.reduce((sum, one) => sum + one.differenceCount, 0);
  const ledgerFaults = audits.reduce((sum, one) => sum + one.faultCount, 0);
  const sound = faults.length === 0 && differences === 0 && ledgerFaults === 0;
  const accounts = verify ? [] : balancesOf(rebuild, audits);
  return {
    sound,
    report: {
      sound,
      records: replayed.records,
      bytes: replayed.bytes,
      durationMs: Math.round(replayed.durationMs),
      partitions: work.map(({ group, partition, upTo }) => ({ group, partition, upTo })),
      faults,
      ledger: audits.map(({ totals, ...audit }) => ({ ...audit, totals: asText(totals) })),
      ...(verify ? { verified } : { accounts }),
    },
    lines: [
      ...faults.map(faultLine),
      ...ledgerLines(audits),
      ...verified.flatMap(differenceLines),
      ...(verify ? verifiedLines(verified) : accountTable(accounts)),
      '',
      ...totalsTable(audits),
      '',
      `${sound ? 'sound' : 'NOT SOUND'}: ${summaryOf(replayed, differences, ledgerFaults)}`,
      speedOf(replayed),
    ],
  };
}

interface BalanceRow {
  readonly id: string;
  readonly currency: string;
  readonly balances: Readonly<Record<string, number>>;
}

function balancesOf(rebuild: Rebuild, audits: readonly PartitionName[]): BalanceRow[] {
  const rows: BalanceRow[] = [];
  for (const { group, partition } of audits) {
    for (const { table: name, value } of rebuild.views.rows(group, partition)) {
      if (name > 'account' || rows.length >= LIMITS.logToolAccountsShownMax) break;
      const { id, balances } = decodeAccount(value ?? '');
      for (const [currency, amounts] of balances) rows.push({ id, currency, balances: amounts });
    }
  }
  return rows;
}

function accountTable(accounts: readonly BalanceRow[]): string[] {
  const rows = accounts.map(({ id, currency, balances }) => [
    id,
    currency,
    balances['MERCHANT_AVAILABLE'] ?? 0,
    balances['MERCHANT_PENDING'] ?? 0,
    balances['SETTLEMENT_CLEARING'] ?? 0,
  ]);
  const more =
    accounts.length < LIMITS.logToolAccountsShownMax ? [] : ['… and more: --account <id> shows any of them'];
  return [...table([['account', 'currency', 'available', 'pending', 'on its way out'], ...rows]), ...more];
}

/** As money is written wherever it may be more than a number of JSON can tell. */
function asText(totals: Totals): object {
  const texts = Array.from(totals, ([currency, amounts]) => [
    currency,
    Object.fromEntries(LEDGER_ACCOUNTS.map((name) => [name, String(amounts[name])])),
  ]);
  return Object.fromEntries(texts);
}

function totalsTable(audits: readonly LedgerAudit[]): string[] {
  const rows = CURRENCIES.flatMap((currency) => {
    const each = audits.flatMap(({ totals }) => totals.get(currency) ?? []);
    if (each.length === 0) return [];
    const sums = LEDGER_ACCOUNTS.map((name) => each.reduce((sum, totals) => sum + totals[name], 0n));
    return [[currency, ...sums, each.reduce((sum, totals) => sum + zeroSum(totals), 0n)]];
  });
  return table([['all accounts', ...LEDGER_ACCOUNTS, 'sum'], ...rows]);
}

function verifiedLines(verified: readonly VerifiedPartition[]): string[] {
  const rows = verified.map(({ group, partition, sequence, tables, differenceCount }) => {
    const rowsOf = (name: string): number => tables.find((each) => each.table === name)?.rows ?? 0;
    const all = tables.reduce((sum, each) => sum + each.rows, 0);
    const place = nameOf({ group, partition });
    return [place, sequence, rowsOf('account'), rowsOf('transaction'), all, differenceCount];
  });
  return table([['partition', 'sequence', 'accounts', 'transactions', 'rows', 'differences'], ...rows]);
}

function differenceLines(one: VerifiedPartition): string[] {
  const { differences, differenceCount } = one;
  const hidden = differenceCount - differences.length;
  return [
    ...differences.flatMap((difference) => [
      `${nameOf(one)} ${whatOf(difference)}:`,
      ...difference.fields.map(
        ({ path, log, checkpoint }) =>
          `  ${path === '' ? 'the row' : path}: the log says ${text(log)}, the checkpoint ${text(checkpoint)}`,
      ),
    ]),
    ...(hidden > 0 ? [`${nameOf(one)}: ${hidden} more differences`] : []),
  ];
}

function whatOf({ table: name, key }: Difference): string {
  return `${name} ${key.replaceAll('\u0001', ' ')}`;
}

function text(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}

function summaryOf({ audits, verified }: Replayed, differences: number, ledgerFaults: number): string {
  const ledger = `${auditedText(audits)}, ${ledgerFaults} faults in the ledger`;
  return verified.length === 0 ? ledger : `${ledger}, ${differences} differences from the checkpoint`;
}

function speedOf({ records, bytes, durationMs }: Replayed): string {
  const seconds = durationMs / 1000;
  const rate = Math.round(records / seconds);
  return `${records} records, ${(bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s (${rate} records/s)`;
}
