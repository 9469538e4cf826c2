// What a replay tells: of one account or of all, with what is at fault, for a terminal and as JSON.

import { CURRENCIES } from '../domain/country.ts';
import { LEDGER_ACCOUNTS } from '../domain/ledger.ts';
import { LIMITS } from '../limits.ts';
import { accountLines, type AccountReport } from './account-report.ts';
import type { Comparison, Difference } from './compare.ts';
import { NEXT_OF_DAMAGE } from './explain-fault.ts';
import { auditedText, type LedgerAudit, ledgerLines, type Totals, zeroSum } from './ledger-audit.ts';
import { table } from '../../wal/tools/partitions.ts';
import type { ToolResult } from '../../wal/tools/tool.ts';
import { type Fault, faultLine } from '../../wal/tools/verify.ts';
import { nameOf, type PartitionName, type ViewPosition } from '../../wal/types.ts';

export interface Work extends PartitionName {
  readonly upTo: number;
}

export interface VerifiedPartition extends Comparison, PartitionName {
  /** The sequence that the checkpoint reaches; 0: it has nothing of this partition yet. */
  readonly sequence: number;
  /** Why its rows are not what the log is to be compared with; null: they are, or there are none. */
  readonly uncompared: string | null;
}

export interface BalanceRow {
  readonly id: string;
  readonly currency: string;
  readonly balances: Readonly<Record<string, number>>;
}

/** What a replay found. */
export interface Replayed {
  readonly work: readonly Work[];
  readonly faults: readonly Fault[];
  readonly audits: readonly (LedgerAudit & PartitionName)[];
  readonly verified: readonly VerifiedPartition[];
  /** As many as are told at once. */
  readonly balances: readonly BalanceRow[];
  readonly records: number;
  readonly bytes: number;
  readonly durationMs: number;
}

/** `reached`: the batch that holds the last record applied. Its hash seals all that was replayed. */
export function accountResult(
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
      ...(sound ? [] : [NEXT_OF_DAMAGE]),
    ],
  };
}

export function allResult(replayed: Replayed, verify: boolean): ToolResult {
  const { work, faults, audits, verified, balances } = replayed;
  const differences = verified.reduce((sum, one) => sum + one.differenceCount, 0);
  const ledgerFaults = audits.reduce((sum, one) => sum + one.faultCount, 0);
  const sound = faults.length === 0 && differences === 0 && ledgerFaults === 0;
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
      ...(verify ? { verified } : { accounts: balances }),
    },
    lines: [
      ...faults.map(faultLine),
      ...ledgerLines(audits),
      ...verified.flatMap(differenceLines),
      ...verified.flatMap(uncomparedLine),
      ...(verify ? verifiedLines(verified) : accountTable(balances)),
      '',
      ...totalsTable(audits),
      '',
      `${sound ? 'sound' : 'NOT SOUND'}: ${summaryOf(replayed, differences, ledgerFaults)}`,
      speedOf(replayed),
      ...(sound ? [] : [NEXT_OF_DAMAGE]),
    ],
  };
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

function uncomparedLine(one: VerifiedPartition): string[] {
  return one.uncompared === null ? [] : [`${nameOf(one)}: ${one.uncompared}: it was not compared`];
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
