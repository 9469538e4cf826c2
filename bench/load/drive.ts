// Puts a load on a server: starts the driver, watches the processes meanwhile, reads the server's metrics around it, and puts
// everything into one Load.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { logUseBetween, readLogCounters, type LogCounters } from '../measure/log-counters.ts';
import { countOf, type Metric } from '../measure/metrics.ts';
import { ProcessWatch, type Watched } from '../measure/process-use.ts';
import type { Load } from '../result.ts';
import { runProgram } from '../servers/child.ts';
import type { Server } from '../servers/server.ts';
import type { DriverJob, DriverLine, DriverResult } from './job.ts';
import { hasWrk, runWrk } from './wrk.ts';
import type { Work } from './work.ts';
import { pause } from '../../src/pause.ts';

export interface DriveOptions {
  readonly label: string;
  readonly server: Server;
  readonly work: Work;
  readonly connections: number;
  /** Null: a closed loop, for peak throughput. */
  readonly ratePerSecond: number | null;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  readonly acknowledgedFile?: string;
  /** For closed loops, where it is installed. */
  readonly wrk: boolean;
  readonly onProgress: (text: string) => void;
  /** The warm-up is over; of loads by the node driver. */
  readonly onBegin?: () => void;
  /** Kills the driver when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

export interface Driven {
  readonly load: Load;
  /** Requests 0 … sent - 1 of the work were begun. */
  readonly sent: number;
  /** 2xx to them, those of the warm-up too. */
  readonly answered: number;
  /** Transactions that the server made meanwhile. */
  readonly made: number;
  /** Numbers before which wrk broke off: of those shortly before, nobody knows the answer, or if they left at all. The node
   *  driver waits for every answer. */
  readonly brokeOffAt: readonly number[];
  /** What the server told when the time of the load was over; null: it tells nothing. Its event loop's delay is of that time:
   *  each reading begins that anew. */
  readonly atEnd: readonly Metric[] | null;
}

interface Reading {
  readonly metrics: readonly Metric[];
  readonly log: LogCounters;
}

/** A server that has made nothing for so long has made all it was asked for. */
const STILL_MS = 50;
const STILL_LOOKS_MAX = 100;
const DRIVER = fileURLToPath(new URL('driver.ts', import.meta.url));

/** wrk for closed loops, where it is installed; the node driver otherwise, and when ids must be kept. */
export async function drive(options: DriveOptions): Promise<Driven> {
  const directory = mkdtempSync(join(tmpdir(), 'daftari-drive-'));
  try {
    const byWrk =
      options.wrk && options.ratePerSecond === null && options.acknowledgedFile === undefined && hasWrk();
    const before = await madeBy(options.server);
    const driven = await (byWrk ? driveWithWrk(options, directory) : driveWithNode(options, directory));
    return { ...driven, made: (await madeBy(options.server)) - before };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

type WithoutMade = Omit<Driven, 'made'>;

async function driveWithWrk(options: DriveOptions, directory: string): Promise<WithoutMade> {
  const { server, label, warmUpSeconds, seconds, connections, work, signal } = options;
  const run = { host: server.host, port: server.port, connections, work, directory, signal };
  options.onProgress(`${label}: warming up`);
  const warm = await runWrk({ ...run, seconds: warmUpSeconds, firstCounter: 0, onStart: () => {} });
  options.onProgress(`${label}: ${Math.round(warm.completed / warm.seconds)}/s, closed loop`);

  const observed = new Observation(server);
  const result = await runWrk({
    ...run,
    seconds,
    firstCounter: warm.nextCounter,
    onStart: (pid) => observed.begin({ name: 'wrk', pid }),
  }).finally(() => observed.end());
  const { atEnd, ...shown } = await observed.told();
  const done = result.completed - result.refused;
  const load: Load = {
    ...loadOf(options, 'wrk'),
    ...shown,
    warmUpSeconds: warm.seconds,
    seconds: result.seconds,
    statuses: { '2xx': done, ...(result.refused === 0 ? {} : { 'not 2xx': result.refused }) },
    errors: withoutZeros(result.errors),
    unsent: 0,
    perSecond: done / result.seconds,
    latency: result.latency,
    driverLateMsP99: null,
    series: [],
  };
  const answered = warm.completed - warm.refused + done;
  return {
    load,
    sent: result.nextCounter,
    answered,
    brokeOffAt: [warm.nextCounter, result.nextCounter],
    atEnd,
  };
}

async function driveWithNode(options: DriveOptions, directory: string): Promise<WithoutMade> {
  const { server, label, warmUpSeconds, seconds, connections, work, ratePerSecond } = options;
  const job: DriverJob = {
    host: server.host,
    port: server.port,
    connections,
    ratePerSecond,
    warmUpSeconds,
    seconds,
    work,
    acknowledgedFile: options.acknowledgedFile ?? null,
  };
  const jobFile = join(directory, 'job.json');
  writeFileSync(jobFile, JSON.stringify(job));
  options.onProgress(`${label}: warming up`);

  const observed = new Observation(server);
  const hear = (line: Exclude<DriverLine, { type: 'failed' }>, pid: number): DriverResult | null => {
    if (line.type === 'result') return line.result;
    if (line.type === 'begin') {
      observed.begin({ name: 'driver', pid });
      options.onBegin?.();
    } else if (line.type === 'end') observed.end();
    else {
      const offered = ratePerSecond === null ? 'closed loop' : `of ${Math.round(ratePerSecond)}/s offered`;
      options.onProgress(`${label}: second ${line.second + 1} of ${seconds}, ${line.perSecond}/s ${offered}`);
    }
    return null;
  };
  const result = await runProgram<DriverLine, DriverResult>(
    'the driver',
    [DRIVER, jobFile],
    options.signal,
    hear,
  ).finally(() => observed.end());
  const { atEnd, ...shown } = await observed.told();
  const done = Object.entries(result.statuses).reduce(
    (sum, [status, n]) => sum + (status.startsWith('2') ? n : 0),
    0,
  );
  const load: Load = {
    ...loadOf(options, 'node'),
    ...shown,
    seconds: result.seconds,
    statuses: result.statuses,
    errors: result.errors,
    unsent: result.unsent,
    perSecond: done / result.seconds,
    latency: result.latency,
    driverLateMsP99: result.driverLateMsP99,
    series: result.series,
  };
  const { sent, answered } = result;
  return { load, sent, answered, brokeOffAt: [], atEnd };
}

/** Transactions that it has made since it began, as soon as it makes no more: wrk does not wait for its last answers. */
async function madeBy({ readMetrics }: Server): Promise<number> {
  if (readMetrics === null) return 0;
  const read = async (): Promise<number> =>
    countOf(await readMetrics(), 'daftari_transactions_entered_total', { status: 'PENDING_PROVIDER' });
  let made = await read();
  for (let look = 0; look < STILL_LOOKS_MAX; look++) {
    await pause(STILL_MS);
    const before = made;
    made = await read();
    if (made === before) break;
  }
  return made;
}

/** What a server shows while a load is on it. */
class Observation {
  readonly #server: Server;
  #watch: ProcessWatch | null = null;
  #begun: Promise<Reading> | null = null;
  #ended: Promise<Reading> | null = null;

  constructor(server: Server) {
    this.#server = server;
  }

  begin(driver: Watched): void {
    this.#watch = new ProcessWatch([...this.#server.processes, driver]);
    this.#begun = this.#read();
  }

  /** Once; whatever became of the load. */
  end(): void {
    if (this.#ended !== null) return;
    this.#watch?.stop();
    this.#ended = this.#read();
  }

  async told(): Promise<Pick<Load, 'processes' | 'othersCpu' | 'log'> & Pick<Driven, 'atEnd'>> {
    const [begun, ended] = [await this.#begun, await this.#ended];
    return {
      processes: this.#watch?.uses() ?? [],
      othersCpu: this.#watch?.othersCpu() ?? null,
      log: begun === null || ended === null ? null : logUseBetween(begun.log, ended.log),
      atEnd: ended === null ? null : ended.metrics,
    };
  }

  #read(): Promise<Reading> | null {
    const { readMetrics } = this.#server;
    if (readMetrics === null) return null;
    const reading = readMetrics().then((metrics) => ({ metrics, log: readLogCounters(metrics) }));
    // A server may die under its load: `told` says so, and nobody waits for it before.
    reading.catch(() => {});
    return reading;
  }
}

function loadOf(options: DriveOptions, driver: Load['driver']) {
  const { label, connections, ratePerSecond, warmUpSeconds } = options;
  const loop: Load['loop'] = ratePerSecond === null ? 'closed' : 'open';
  return { label, driver, loop, connections, offeredPerSecond: ratePerSecond, warmUpSeconds };
}

function withoutZeros(counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}
