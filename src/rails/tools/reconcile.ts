// `npm run rails -- reconcile`: a provider's statement against the log. What a statement means is in ../statement.ts.

import { readFileSync } from 'node:fs';
import { decodeTransaction } from '../../../actors/accounts/transaction-row.ts';
import { isOfFormat } from '../../../actors/runtime/checkpointer.ts';
import { decodeRecord } from '../../domain/event-codec.ts';
import { groupOf, withData } from '../../log-tools/data.ts';
import type { LogReader } from '../../../wal/log-reader.ts';
import { table } from '../../../wal/tools/partitions.ts';
import { BATCHES_A_BREATH, breathe } from '../../../wal/tools/priority.ts';
import {
  requiredString,
  stringOf,
  timeOf,
  type Tool,
  type ToolInput,
  type ToolResult,
  UsageError,
} from '../../../wal/tools/tool.ts';
import { LAST_KEY } from '../../../wal/types.ts';
import type { ViewStore } from '../../../wal/views.ts';
import {
  type Columns,
  compare,
  DEFAULT_COLUMNS,
  type Finding,
  FloatMovements,
  type Period,
  periodOf,
  readStatement,
} from '../statement.ts';
import { textOf } from '../statement-csv.ts';

export const reconcile: Tool = {
  name: 'reconcile',
  summary: "Compares a provider's statement with PROVIDER_FLOAT",
  help: `
Reads the statement (CSV) and the log in the data directory, which may be in use, and lists what is missing in the
statement, extra in it, or different. What was trimmed from the log is read from the checkpoint. The period is that of the
statement unless --from and --to are given: what the ledger has before its first line or after its last is not looked at, so
give those of the whole month. What lies within the slack around it may match and is not reported: an outcome that was heard of
late (a lost callback, hours without the service) is extra in one period and missing in the next, but for a --slack that is as
long. Sound when there is no difference.

  npm run rails -- reconcile --route mtn_ug --statement july.csv --data ./data

The headings are reference, amount, currency, time and type (one with "reversal" or "refund" in it is one). Where the
provider has others, name them: --columns "reference=External ID,amount=Amount,time=Date". Of two columns with one heading
the first counts. Where one column has what came in and one what went out, name both:
"amount=Debit,amount=Credit". A reference is the one that was sent to the provider: MTN's externalId, Airtel's transaction id.
The headings are the first row, and each row below is money that moved: take out first what stands above them, and payments
that failed, which would be extra.

Times are ISO 8601, or have the month as a word; 01/07/2026 could be January or July and is refused. Where they name no
zone they are UTC, or as --timezone says: East Africa is +03:00. A day without a time is the whole day. In an amount, a comma stands between thousands and a point
before decimals: 10,50 is refused, and so is what has more than its digits, as UGX 5000.`,
  options: {
    route: { type: 'string', value: 'id', help: 'rail id, such as mtn_ug' },
    statement: { type: 'string', value: 'file', help: "the provider's statement, CSV" },
    from: { type: 'string', value: 'time', help: 'start of the period, ISO 8601, inclusive' },
    to: { type: 'string', value: 'time', help: 'end of the period, exclusive' },
    slack: { type: 'string', value: 'minutes', help: 'how far apart the two clocks may be (60)' },
    timezone: {
      type: 'string',
      value: 'offset',
      help: 'of times that name none, also of --from and --to, such as +03:00 (UTC)',
    },
    columns: {
      type: 'string',
      value: 'names',
      help: 'headings of the statement, as field=heading, by comma',
    },
  },
  run: runReconcile,
};

const MINUTE_MS = 60_000;
const SLACK_MINUTES = '60';

async function runReconcile({ directory, values, progress }: ToolInput): Promise<ToolResult> {
  const railId = requiredString(values, 'route');
  const path = requiredString(values, 'statement');
  const slack = stringOf(values, 'slack') ?? SLACK_MINUTES;
  if (!/^\d{1,5}$/.test(slack)) throw new UsageError('--slack takes a number of minutes');
  const timeZone = stringOf(values, 'timezone') ?? 'Z';
  if (!/^(Z|[+-](0\d|1[0-4]):[0-5]\d)$/.test(timeZone)) {
    throw new UsageError(`--timezone takes an offset such as +03:00, not ${timeZone}`);
  }
  const columns = columnsOf(stringOf(values, 'columns'));
  const lines = readStatement(textOf(bytesOf(path)), columns, timeZone);

  const own = periodOf(lines);
  const from = timeOf(values, 'from', timeZone) ?? own?.from;
  const to = timeOf(values, 'to', timeZone) ?? own?.to;
  if (from === undefined || to === undefined) {
    throw new UsageError('the statement has no times: --from and --to are needed');
  }
  const span = `${new Date(from).toISOString()} to ${new Date(to).toISOString()}`;
  // Nothing is in such a period, so all of it would agree.
  if (from >= to) throw new UsageError(`${span} is no period: --from is to be before --to`);
  const period: Period = { from, to, slackMs: Number(slack) * MINUTE_MS };
  const ledger = await withData(directory, async ({ log, views }) => {
    // Anew where the log is: what was cut off has settled nothing.
    const ledger = new FloatMovements(railId, period);
    const partitions = log.partitionNames().filter(({ group }) => group === 'accounts');
    const batches = partitions.map(({ partition }) => {
      return log.lastBatchNumber('accounts', partition) - log.startOf('accounts', partition).batch;
    });
    progress.start('batches of the log read, each twice', 2 * batches.reduce((sum, count) => sum + count, 0));
    for (const { partition } of partitions) await readPartition(ledger, partition, log, views, progress);
    ledger.readAgain();
    for (const { partition } of partitions) await readPartition(ledger, partition, log, views, progress);
    return ledger;
  });

  const { matched, findings } = compare(ledger.movements, lines, period);
  return {
    sound: findings.length === 0,
    report: {
      route: railId,
      routes: ledger.rails,
      from: new Date(from),
      to: new Date(to),
      matched,
      findings,
    },
    lines: [
      ...describe(findings),
      ...(ledger.rails.includes(railId) ? [] : [unknownRoute(railId, ledger.rails)]),
      `${railId}, ${span}: ${matched} agree, ${findings.length} do not.`,
      ...(findings.length === 0 ? [] : [NEXT_OF_FINDINGS]),
    ],
  };
}

function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    // Of a directory the system does not say which.
    throw new Error(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'error'}`, {
      cause: error,
    });
  }
}

const NEXT_OF_FINDINGS =
  'Next: npm run wal -- inspect --transaction <id> says what has become of each here; what to do then: src/rails/README.md, "To reconcile".';

function unknownRoute(railId: string, rails: readonly string[]): string {
  const others = rails.length === 0 ? 'any other' : rails.join(', ');
  return `The ledger has no transaction of the route ${railId}; it has of ${others}. Is --route right?`;
}

/** Once: all of it that the period may need. */
async function readPartition(
  ledger: FloatMovements,
  partition: number,
  log: LogReader,
  views: ViewStore | null,
  progress: ToolInput['progress'],
): Promise<void> {
  const afterBatch = log.startOf('accounts', partition).batch;
  if (afterBatch > 0) addTrimmed(ledger, partition, log, views);
  let batches = 0;
  for (const batch of log.read('accounts', partition, { afterBatch })) {
    // A turn is one read transaction, and what a service has freed since is not used again as long as it lasts.
    if (++batches % BATCHES_A_BREATH === 0) await breathe();
    const [first, last] = [batch.records[0], batch.records.at(-1)];
    // Times never go back within a partition.
    if (first !== undefined && last !== undefined && ledger.needs(timeOfRecord(first), timeOfRecord(last))) {
      for (const record of batch.records) ledger.add(decodeRecord(record));
    }
    progress.add(1, batch.bytes.length);
  }
}

function timeOfRecord(line: string): number {
  return decodeRecord(line).at;
}

/** What the records before the log's beginning said, from the checkpoint: it must reach the beginning, and be of this log. */
function addTrimmed(
  ledger: FloatMovements,
  partition: number,
  log: LogReader,
  views: ViewStore | null,
): void {
  // The checkpoint follows the log: looked at first, it is never ahead of what is seen of the log.
  const position = views?.position('accounts', partition) ?? null;
  log.refresh();
  const rows = views?.reader('accounts', partition);
  const isKnown = position !== null && log.holds('accounts', partition, position);
  if (rows === undefined || !isKnown || !isOfFormat(rows, groupOf('accounts'))) {
    const { sequence } = log.startOf('accounts', partition);
    throw new Error(
      `accounts/${partition} was trimmed up to sequence ${sequence}, and no checkpoint of this log and version says ` +
        'what it held: restore its archive and a backup into another directory, and give that with --data',
    );
  }
  for (const { value } of rows.range('transaction', { start: '', end: LAST_KEY })) {
    ledger.addTransaction(decodeTransaction(value));
  }
}

function columnsOf(text: string | undefined): Columns {
  const named: Record<string, string> = {};
  for (const pair of text?.split(',') ?? []) {
    const [field = '', heading] = pair.split('=').map((part) => part.trim());
    if (heading === undefined || !(field in DEFAULT_COLUMNS)) {
      const known = Object.keys(DEFAULT_COLUMNS).join(', ');
      throw new UsageError(`--columns: "${pair}" is not field=heading, with a field of ${known}`);
    }
    const as = field === 'amount' && named['amount'] !== undefined ? 'otherAmount' : field;
    if (named[as] !== undefined) throw new UsageError(`--columns: ${field} is named too often`);
    named[as] = heading;
  }
  return { ...DEFAULT_COLUMNS, ...named };
}

function describe(findings: readonly Finding[]): string[] {
  if (findings.length === 0) return [];
  const rows = findings.map(({ kind, transactionId, reference, line, ledger, statement, time }) => [
    kind,
    transactionId ?? reference ?? '',
    time ?? '',
    ledger ?? '-',
    statement ?? '-',
    line === null ? '' : `line ${line}`,
  ]);
  return [...table([['', 'transaction', 'time', 'ledger', 'statement', ''], ...rows]), ''];
}
