// Metrics for Prometheus: what is counted, its names, units and labels. The only file that knows prom-client.
//
// Invariants: counting costs the caller less than half a microsecond (counts.ts; prom-client reads them when scraped);
// labels take few values, never an id, a key or a number from outside; times are in seconds, as Prometheus has them.

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { RouteName } from '../http/observer.ts';
import { BucketCounts, CountTree } from './counts.ts';

interface RouteCounts {
  readonly route: RouteName;
  /** By HTTP status. */
  readonly durations: (BucketCounts | undefined)[];
}

type Labels = Readonly<Record<string, string>>;

export interface CounterHandle {
  /** `labels`: values in the order of the names. */
  add(amount: number, ...labels: readonly string[]): void;
}
export interface HistogramHandle {
  observe(value: number): void;
}

/** What found no room: a request that was answered before its body was whole; a connection that was closed as it came; a request of a key that
 *  has too much under way. */
const CROWDED_OUT = ['slow_body', 'connection', 'key'] as const;
type CrowdedOut = (typeof CROWDED_OUT)[number];

const MS_PER_SECOND = 1_000;
/** 10 ms, 500 ms and 3 s are what is promised (bench/README.md): of half of the peak, a hand-over, and a node's death. */
const REQUEST_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 3, 5, 10, 20];
const FLUSH_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5];
const BATCH_RECORDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];

export class Metrics {
  readonly #registry = new Registry();
  readonly #routes = new Map<RouteName, RouteCounts>();
  readonly #noReplies: CounterHandle;
  readonly #errors: CounterHandle;
  readonly #crowdedOut: CounterHandle;
  readonly #commands: CounterHandle;
  readonly #flushes: HistogramHandle;
  readonly #flushRecords: HistogramHandle;
  readonly #flushBytes: CounterHandle;
  readonly #recovered = new Map<string, number>();

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    this.#register(
      new CollectedHistogram(
        'daftari_http_request_duration_seconds',
        'From the last byte of a request to its reply, by route and status.',
        () => this.#requestDurations(),
      ),
    );
    this.#noReplies = this.counter(
      'daftari_http_requests_without_reply_total',
      'Requests whose connection was closed without a status: the client left, or nobody knew the outcome in time.',
      ['surface', 'route', 'reason'],
    );
    this.#errors = this.counter('daftari_http_errors_total', 'Replies that carried an error code.', [
      'surface',
      'code',
    ]);
    this.#crowdedOut = this.counter(
      'daftari_http_crowded_out_total',
      'What a front had no room for: bodies that came slowly, connections, requests of one key.',
      ['reason'],
      CROWDED_OUT.map((reason) => [reason]),
    );
    this.#commands = this.counter(
      'daftari_commands_total',
      'Commands by type and what was decided; type `unknown`: what only a newer version knows.',
      ['group', 'type', 'outcome'],
    );
    this.#flushes = this.histogram(
      'daftari_log_flush_seconds',
      'From a batch being sealed to it being durable.',
      FLUSH_SECONDS,
    );
    this.#flushRecords = this.histogram(
      'daftari_log_flush_records',
      'Records of one group commit.',
      BATCH_RECORDS,
    );
    this.#flushBytes = this.counter('daftari_log_bytes_total', 'Bytes made durable.', []);
    this.gaugeBy(
      'daftari_recovery_seconds',
      'How long the start took to recover a group from checkpoint and log.',
      'group',
      () => this.#recovered,
    );
  }

  /** A reply left. Called for every request. */
  onReply(route: RouteName, status: number, durationMs: number, errorCode: string | null): void {
    const { durations } = this.#countsOf(route);
    let counts = durations[status];
    if (counts === undefined) durations[status] = counts = new BucketCounts(REQUEST_SECONDS);
    counts.observe(durationMs / MS_PER_SECOND);
    if (errorCode !== null) this.#errors.add(1, route.surface, errorCode);
  }

  onNoReply(route: RouteName, reason: string): void {
    this.#noReplies.add(1, route.surface, route.path, reason);
  }

  /** A request was answered before all of it had come. How long that took is no latency, and its 503 says nothing of what else is served. */
  onMadeWay(surface: string, errorCode: string): void {
    this.#errors.add(1, surface, errorCode);
    this.crowdedOut('slow_body');
  }

  crowdedOut(reason: CrowdedOut): void {
    this.#crowdedOut.add(1, reason);
  }

  /** A partition has decided a command ("reply", "wait"), refused it, or refused to look at it. */
  decided(group: string, commandType: string, outcome: string): void {
    this.#commands.add(1, group, commandType, outcome === 'reply' ? 'done' : outcome);
  }

  /** A group commit is durable. */
  flushed(flush: { readonly records: number; readonly bytes: number; readonly durationMs: number }): void {
    this.#flushes.observe(flush.durationMs / MS_PER_SECOND);
    this.#flushRecords.observe(flush.records);
    this.#flushBytes.add(flush.bytes);
  }

  recovered(group: string, durationMs: number): void {
    this.#recovered.set(group, durationMs / MS_PER_SECOND);
  }

  /** A value that is asked for when scraped. */
  gauge(name: string, help: string, read: () => number): void {
    this.#register(
      new Gauge({
        name,
        help,
        registers: [],
        collect() {
          this.set(read());
        },
      }),
    );
  }

  /** One value for each value of a label. */
  gaugeBy(name: string, help: string, label: string, read: () => Iterable<readonly [string, number]>): void {
    this.#register(
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers: [],
        collect() {
          this.reset();
          for (const [labelValue, value] of read()) this.set({ [label]: labelValue }, value);
        },
      }),
    );
  }

  /** `known`: values of the labels that are there before they are counted. What an alert watches has to be: of a series
   *  that begins at 1, Prometheus sees no increase. */
  counter(
    name: string,
    help: string,
    labelNames: readonly string[],
    known: Iterable<readonly string[]> = [],
  ): CounterHandle {
    const counts = new CountTree();
    if (labelNames.length === 0) counts.add(0, '');
    for (const labels of known) counts.add(0, ...labels);
    this.counterBy(name, help, labelNames, () => counts.entries());
    const add = (amount: number, ...labels: readonly string[]): void => counts.add(amount, ...labels);
    return labelNames.length === 0 ? { add: (amount) => counts.add(amount, '') } : { add };
  }

  /** Totals since the process began that are kept elsewhere, by the values of the labels; they never fall. */
  counterBy(
    name: string,
    help: string,
    labelNames: readonly string[],
    read: () => Iterable<readonly [labels: readonly string[], total: number]>,
  ): void {
    this.#register(
      new Counter({
        name,
        help,
        labelNames,
        registers: [],
        collect() {
          this.reset();
          for (const [labels, total] of read()) this.inc(labelsOf(labelNames, labels), total);
        },
      }),
    );
  }

  /** `bounds`: ascending upper bounds of its buckets. */
  histogram(name: string, help: string, bounds: readonly number[]): HistogramHandle {
    const counts = new BucketCounts(bounds);
    this.#register(new CollectedHistogram(name, help, () => [[{}, counts]]));
    return counts;
  }

  /** The body of GET /metrics. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  #register(metric: Counter | Gauge | Histogram): void {
    this.#registry.registerMetric(metric);
  }

  #countsOf(route: RouteName): RouteCounts {
    let counts = this.#routes.get(route);
    if (counts !== undefined) return counts;
    this.#routes.set(route, (counts = { route, durations: [] }));
    // An alert watches it: see `known` below.
    this.#noReplies.add(0, route.surface, route.path, 'unknown');
    return counts;
  }

  *#requestDurations(): Generator<readonly [Labels, BucketCounts]> {
    for (const { route, durations } of this.#routes.values()) {
      for (const [status, counts] of durations.entries()) {
        if (counts === undefined) continue;
        const { surface, method, path } = route;
        yield [{ surface, method, route: path, status: String(status) }, counts];
      }
    }
  }
}

function labelsOf(names: readonly string[], values: readonly string[]): Labels {
  return Object.fromEntries(names.map((name, index) => [name, values[index] ?? '']));
}

interface Sample {
  readonly metricName: string;
  readonly labels: Record<string, string | number>;
  readonly value: number;
}

/** A histogram whose counts are kept elsewhere and read when scraped. */
class CollectedHistogram extends Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #read: () => Iterable<readonly [Labels, BucketCounts]>;

  constructor(name: string, help: string, read: () => Iterable<readonly [Labels, BucketCounts]>) {
    super({ name, help, registers: [] });
    this.#name = name;
    this.#help = help;
    this.#read = read;
  }

  override async get(): ReturnType<Histogram['get']> {
    const values = Array.from(this.#read(), ([labels, counts]) =>
      samplesOf(this.#name, labels, counts),
    ).flat();
    return { name: this.#name, help: this.#help, type: 'histogram', values } as unknown as Awaited<
      ReturnType<Histogram['get']>
    >;
  }

  /** What the registry asks for when it is there. */
  getForPromString(): ReturnType<Histogram['get']> {
    return this.get();
  }
}

function samplesOf(name: string, labels: Labels, { bounds, counts, sum, total }: BucketCounts): Sample[] {
  let cumulative = 0;
  const buckets = bounds.map((bound, index) => {
    cumulative += counts[index] ?? 0;
    return { metricName: `${name}_bucket`, labels: { ...labels, le: bound }, value: cumulative };
  });
  return [
    ...buckets,
    { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: total },
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: total },
  ];
}
