// What a run of the bench says: the shape of its JSON, which the table, the page and `compare` all read. It is a format:
// add fields, never change what one means; `format` says which.

export interface Report {
  readonly format: 1;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly seconds: number;
  readonly command: string;
  readonly conditions: Conditions;
  readonly scenarios: readonly ScenarioResult[];
  /** Repeats that could not be measured, and are missing above; absent in older reports. */
  readonly failures?: readonly Failure[];
  /** Of the other checkout, whose repeats are the pairs of these; absent: none was measured beside this one. */
  readonly against?: Report;
}

export interface Failure {
  readonly scenario: string;
  readonly error: string;
}

/** Where it was measured. Whatever can differ between two machines or two days. */
export interface Conditions {
  /** That may be used. */
  readonly cores: number;
  readonly cpu: string;
  readonly memoryMiB: number;
  readonly node: string;
  readonly kernel: string;
  readonly commit: string | null;
  readonly dataDirectory: string;
  readonly fileSystem: string | null;
  /** 4 KiB appended and fdatasync'd, one after another, at the start. */
  readonly fsync: { readonly perSecond: number; readonly p50Ms: number; readonly p99Ms: number };
  /** One-minute load average before the bench did anything: others who use the machine. */
  readonly loadAverage: number;
  readonly closedLoopDriver: 'wrk' | 'node';
}

export interface ScenarioResult {
  readonly name: string;
  readonly repeats: readonly Repeat[];
}

/** One repeat of one scenario. */
export interface Repeat {
  readonly figures: readonly Figure[];
  readonly loads: readonly Load[];
  readonly checks: readonly Check[];
  /** What else a reader must know to believe the figures. */
  readonly notes: readonly string[];
}

export interface Figure {
  readonly name: string;
  /** '' for ratios. */
  readonly unit: string;
  readonly value: number;
  /** 'neither': it follows from the load, as flushes a second do from how much is written. */
  readonly better: 'more' | 'less' | 'neither';
  /** What it is hoped to be; absent: it is only told. */
  readonly target?: number;
}

export interface Check {
  readonly what: string;
  readonly passed: boolean;
  readonly detail: string;
}

/** One load put on one server. */
export interface Load {
  readonly label: string;
  readonly driver: 'wrk' | 'node';
  /** 'closed': each connection sends when it has its answer; latency then says little. 'open': at a given rate,
   *  whatever the server does; latency is from the intended send time. */
  readonly loop: 'closed' | 'open';
  readonly connections: number;
  /** Null in a closed loop. */
  readonly offeredPerSecond: number | null;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** Answers in the measured time, by HTTP status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Requests that got no whole answer, by reason. */
  readonly errors: Readonly<Record<string, number>>;
  /** Intended and never sent, because every connection was still waiting. They count in the latencies, as if answered when
   *  one of these had its answer. */
  readonly unsent: number;
  /** 2xx answers a second. */
  readonly perSecond: number;
  readonly latency: Latency;
  /** How late the driver itself was to send, ms, p99: its own share of the latencies. Null in a closed loop. */
  readonly driverLateMsP99: number | null;
  /** 2xx answers in each whole second of the measured time. */
  readonly series: readonly number[];
  readonly processes: readonly ProcessUse[];
  /** Cores that all others used meanwhile, the host's other guests among them; null: not known. Absent in older reports. */
  readonly othersCpu?: number | null;
  /** What the service's log did meanwhile; null for servers without one. */
  readonly log: LogUse | null;
}

export interface Latency {
  readonly meanMs: number;
  readonly maxMs: number;
  /** [percent, ms], ascending. */
  readonly percentiles: readonly (readonly [number, number])[];
}

export interface ProcessUse {
  readonly name: string;
  /** CPU seconds a second: 1 is one core. */
  readonly cpu: number;
  /** Mapped files included: of the service, pages of its log and views, which the kernel takes back when it needs them. */
  readonly rssMiB: number;
  /** Its own: without mapped files. */
  readonly anonMiB: number;
  /** The most of its own in the last quarter of the time, over the most in the quarter before; null: not known. */
  readonly anonGrowth: number | null;
  readonly threads: readonly { readonly name: string; readonly cpu: number }[];
}

export interface LogUse {
  readonly flushesPerSecond: number;
  readonly recordsPerFlush: number;
  readonly flushMeanMs: number;
  readonly bytesPerRecord: number;
  readonly recordsPerSecond: number;
}

/** Of a file, which may be anything. What `compare` has to have is looked for. */
export function reportOf(text: string): Report {
  // JSON has null for what is no number.
  const numbered = (key: string, value: unknown): unknown =>
    key === 'value' && value === null ? Number.NaN : value;
  const report = Object(JSON.parse(text, numbered)) as Partial<Report>;
  checkReport(report);
  return report as Report;
}

function checkReport(report: Partial<Report>): void {
  if (report.format !== 1) throw new Error('it has no format that is known here');
  const { command, conditions, scenarios } = report;
  if (typeof command !== 'string') throw new Error('it has no command');
  if (typeof conditions?.fsync?.perSecond !== 'number') throw new Error('it has no conditions');
  const isWhole = ({ name, repeats }: Partial<ScenarioResult>): boolean =>
    typeof name === 'string' && isListOf(repeats, isRepeat) && repeats.length > 0;
  if (!isListOf(scenarios, (each) => isWhole(Object(each) as Partial<ScenarioResult>))) {
    throw new Error('it has no scenarios with their repeats');
  }
  if (!isListOf(report.failures ?? [], isFailure)) throw new Error('it has no list of failures');
  // As this one it may be anything.
  if (report.against !== undefined) checkReport(report.against);
}

function isListOf(value: unknown, isOne: (item: unknown) => boolean): value is readonly unknown[] {
  return Array.isArray(value) && value.every(isOne);
}

function isRepeat(repeat: unknown): boolean {
  const { figures, checks } = Object(repeat) as Partial<Repeat>;
  return isListOf(figures, isFigure) && isListOf(checks, isCheck);
}

function isFigure(figure: unknown): boolean {
  const { name, unit, value, better } = Object(figure) as Partial<Figure>;
  return (
    typeof name === 'string' &&
    typeof unit === 'string' &&
    typeof value === 'number' &&
    (better === 'more' || better === 'less' || better === 'neither')
  );
}

function isCheck(check: unknown): boolean {
  const { what, passed, detail } = Object(check) as Partial<Check>;
  return typeof what === 'string' && typeof passed === 'boolean' && typeof detail === 'string';
}

function isFailure(failure: unknown): boolean {
  const { scenario, error } = Object(failure) as Partial<Failure>;
  return typeof scenario === 'string' && typeof error === 'string';
}

export function latencyAt({ percentiles }: Latency, percent: number): number {
  const found = percentiles.find(([at]) => at === percent);
  if (found === undefined) throw new Error(`p${percent} was not measured`);
  return found[1];
}

/** The percentiles every driver tells. */
export const PERCENTILES = [1, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99, 100];
