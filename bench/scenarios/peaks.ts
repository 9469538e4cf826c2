// The shape that most scenarios share: the bare handler and the service (and the peer) take the same work in turn, in
// one run; then the service alone takes a part of its peak in an open loop.
//
// The bare handler is measured before and after, half of the time each, so that a machine that grows slower or faster
// meanwhile does so to both sides of the ratio.

import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Bench, Prepared } from '../bench.ts';
import {
  checkAnswers,
  checkIds,
  checkListed,
  checkMade,
  checkReplays,
  checkTrialBalances,
} from '../check.ts';
import { sendOnce } from '../load/send-once.ts';
import { isCreate, RequestMaker, type Kind, type Work } from '../load/work.ts';
import { searchHighestRate } from '../rate-search.ts';
import { latencyAt, type Check, type Figure, type Load } from '../result.ts';
import { capacityOf } from '../statistics.ts';
import type { Server } from '../servers/server.ts';
import { startBare, TYPICAL_BODY } from '../servers/start-bare.ts';
import type { Service } from '../servers/start-service.ts';

/** Numbers for which loopback accepts and never settles: what is measured is the create, not its outcome. */
const SILENT = '+256772000065';
/** Loopback settles them in its answer. */
export const INSTANT = '+256772000068';

const P99_MS_MAX = 10;
const HALF = 0.5;
const FIRST_ERROR = 400;
const SEARCH_PRECISION = 0.05;
const SEARCH_LOW = 0.1;
const LOG_BYTES_MAX = 400;
const US_PER_SECOND = 1e6;
/** Names of the drivers’ processes. */
const DRIVERS: readonly string[] = ['wrk', 'driver'];

export interface PeaksOptions {
  readonly bench: Bench;
  readonly prepared: Prepared;
  readonly service: Service;
  readonly kinds: readonly Kind[];
  /** Null: there is no such target. */
  readonly bareTarget: number | null;
  /** Null: no peer was asked for, or it cannot do this work. `target`: times the peer. */
  readonly peer: { readonly server: Server; readonly target: number } | null;
}

export interface Peaks {
  readonly figures: Figure[];
  readonly loads: Load[];
  readonly checks: Check[];
  /** Of the service, 2xx a second. */
  readonly peakPerSecond: number;
}

export function workOf(
  bench: Bench,
  prepared: Prepared,
  kinds: readonly Kind[],
  more: Partial<Work> = {},
): Work {
  return {
    kinds,
    keysFile: prepared.keysFile,
    idsFile: kinds.includes('read') ? prepared.idsFile : null,
    lists: [],
    msisdn: SILENT,
    prefix: bench.nextPrefix(),
    ...more,
  };
}

async function measurePeaks(options: PeaksOptions): Promise<Peaks> {
  const { bench, prepared, service, kinds, peer } = options;
  const { seconds, idsChecked } = bench.options;
  const newWork = (): Work => workOf(bench, prepared, kinds);
  const bare = bench.keep(await startBare(await answersOf(service, newWork())));
  const half = { seconds: seconds / 2, warmUpSeconds: Math.min(1, bench.options.warmUpSeconds) };

  const before = await bench.drive({ label: 'bare, before', server: bare, work: newWork(), ...half });
  const work = newWork();
  const driven = await bench.drive({ label: 'service, peak', server: service, work });
  const peerDriven =
    peer === null ? null : await bench.drive({ label: 'peer, peak', server: peer.server, work: newWork() });
  const after = await bench.drive({ label: 'bare, after', server: bare, work: newWork(), ...half });
  await bench.stop(bare);

  const barePerSecond = (before.load.perSecond + after.load.perSecond) / 2;
  const peakPerSecond = driven.load.perSecond;
  const peerPerSecond = peerDriven === null ? null : peerDriven.load.perSecond;
  const figures: Figure[] = [
    { name: 'bare, peak', unit: '/s', value: barePerSecond, better: 'more' },
    { name: 'service, peak', unit: '/s', value: peakPerSecond, better: 'more' },
    withTarget(
      { name: 'service / bare', unit: '×', value: peakPerSecond / barePerSecond, better: 'more' },
      options.bareTarget,
    ),
    ...cpuFigures(driven.load),
    ...cpuFigure('bare, CPU a request', mainThreadCost(before.load)),
    ...capacityFigures(driven.load, before.load),
    ...memoryFigures(driven.load),
    ...logFigures(driven.load),
  ];
  if (peerPerSecond !== null) {
    figures.push(
      { name: 'peer, peak', unit: '/s', value: peerPerSecond, better: 'more' },
      withTarget(
        { name: 'service / peer', unit: '×', value: peakPerSecond / peerPerSecond, better: 'more' },
        peer!.target,
      ),
    );
  }
  const loads = [before.load, driven.load, ...(peerDriven === null ? [] : [peerDriven.load]), after.load];
  const checks = [
    // Of both sides of a ratio: a peer that fails is no measure.
    ...loads.map(checkAnswers),
    ...(kinds.some(isCreate)
      ? [
          checkMade(work, driven),
          await checkListed(service, [{ work, driven }]),
          await checkReplays(service, work, driven, idsChecked),
        ]
      : []),
    ...(work.idsFile === null ? [] : [await checkIds('read', service, work, work.idsFile, idsChecked)]),
  ];
  return { figures, loads, checks, peakPerSecond };
}

/** Latency at parts of the peak, in an open loop; and where it was asked for, the highest rate that holds the bound. */
async function measureLatencies(
  options: PeaksOptions,
  peakPerSecond: number,
): Promise<Omit<Peaks, 'peakPerSecond'>> {
  const { rateParts, searchTrials } = options.bench.options;
  const figures: Figure[] = [];
  const loads: Load[] = [];
  const checks: Check[] = [];
  const attempt = async (ratePerSecond: number, label: string): Promise<Load> => {
    const offered = await offer(options, ratePerSecond, label);
    loads.push(offered.load);
    checks.push(...offered.checks);
    return offered.load;
  };

  for (const part of rateParts) {
    const load = await attempt(peakPerSecond * part, partLabel(part));
    checks.push(checkAnswers(load));
    figures.push(...latencyFigures(load, part));
  }
  if (searchTrials > 0) {
    const { highestPerSecond } = await searchHighestRate({
      lowPerSecond: peakPerSecond * SEARCH_LOW,
      highPerSecond: peakPerSecond,
      precision: SEARCH_PRECISION,
      trialsMax: searchTrials,
      attempt: (rate) => attempt(rate, `search, ${Math.round(rate)}/s`),
      holds: isHeld,
    });
    figures.push({
      name: `highest rate with p99 ≤ ${P99_MS_MAX} ms`,
      unit: '/s',
      value: highestPerSecond,
      better: 'more',
    });
  }
  return { figures, loads, checks };
}

/** `part`: of the peak. Of what none of the answers lies beyond nothing is told: it would be the longest of them by another name. */
export function latencyFigures({ latency, statuses, unsent }: Load, part: number): Figure[] {
  const count = Object.values(statuses).reduce((sum, answers) => sum + answers, unsent);
  const figure = (percent: number): Figure => ({
    name: `p${percent} at ${Math.round(part * 100)} % of peak`,
    unit: 'ms',
    value: latencyAt(latency, percent),
    better: 'less',
  });
  return [
    figure(50),
    ...(count < 100 ? [] : [withTarget(figure(99), part === HALF ? P99_MS_MAX : null)]),
    ...(count < 1_000 ? [] : [figure(99.9)]),
  ];
}

function partLabel(part: number): string {
  return `service, ${Math.round(part * 100)} % of peak`;
}

/** Of these, the open loop at half of the peak. Every form has one. */
export function loadAtHalf(loads: readonly Load[]): Load {
  const half = loads.find(({ label }) => label === partLabel(HALF));
  if (half === undefined) throw new Error('nothing was offered at half of the peak');
  return half;
}

/** One open loop on the service alone. Whether all of it was answered is not among the checks: a search for what a service bears
 *  asks for what it does not. */
export async function offer(
  { bench, prepared, service, kinds }: Pick<PeaksOptions, 'bench' | 'prepared' | 'service' | 'kinds'>,
  ratePerSecond: number,
  label: string,
): Promise<{ readonly load: Load; readonly checks: Check[] }> {
  const work = workOf(bench, prepared, kinds);
  const acknowledgedFile = join(prepared.dataDir, '..', `acknowledged-${work.prefix}`);
  const driven = await bench.drive({ label, server: service, work, ratePerSecond, acknowledgedFile });
  const { load } = driven;
  if (!kinds.some(isCreate)) return { load, checks: [] };
  const { idsChecked } = bench.options;
  const made = checkMade(work, driven);
  return {
    load,
    checks: [made, await checkIds('acknowledged', service, work, acknowledgedFile, idsChecked)],
  };
}

/** All that was offered was sent and done, and in time: refusing is quick, and no way to hold a rate. */
export function isHeld(load: Load): boolean {
  return checkAnswers(load).passed && load.unsent === 0 && latencyAt(load.latency, 99) <= P99_MS_MAX;
}

/** Peaks, latencies and the balance of the books: all of a scenario. */
export async function measureAll(options: PeaksOptions): Promise<Omit<Peaks, 'peakPerSecond'>> {
  const peaks = await measurePeaks(options);
  const latencies = await measureLatencies(options, peaks.peakPerSecond);
  const balanced = await checkTrialBalances(options.service, options.prepared.keysFile);
  return {
    figures: [...peaks.figures, ...latencies.figures],
    loads: [...peaks.loads, ...latencies.loads],
    checks: [...peaks.checks, ...latencies.checks, balanced],
  };
}

export function withTarget(figure: Figure, target: number | null): Figure {
  return target === null ? figure : { ...figure, target };
}

/** What one load says of the service under it, with nothing beside it. Not its memory: loads of one process are no repeats of that. */
export function loadFigures(load: Load): Figure[] {
  return [
    { name: 'service, peak', unit: '/s', value: load.perSecond, better: 'more' },
    ...cpuFigures(load),
    ...logFigures(load),
  ];
}

/** What one request costs the server's main thread: where the cores are shared with the driver, this compares better than
 *  throughput. */
function cpuFigures(load: Load): Figure[] {
  const servers = load.processes.filter(({ name }) => !DRIVERS.includes(name));
  const whole = servers.reduce((sum, { cpu }) => sum + cpu, 0);
  return [
    ...cpuFigure('service, CPU of the front’s main thread a request', mainThreadCost(load)),
    ...cpuFigure(
      'service, CPU of all its threads a request',
      servers.length === 0 ? null : (whole / load.perSecond) * US_PER_SECOND,
    ),
  ];
}

export function cpuFigure(name: string, value: number | null): Figure[] {
  return value === null ? [] : [{ name, unit: 'µs', value, better: 'less' }];
}

/** µs; null where /proc says nothing. */
export function mainThreadCost({ processes, perSecond }: Load): number | null {
  const [server] = processes;
  const main = server?.threads.find(({ name }) => name.endsWith('(main)'));
  return main === undefined || perSecond === 0 ? null : (main.cpu / perSecond) * US_PER_SECOND;
}

/** What the ratio would be on cores of one's own, if CPU were all that bounds: it holds still while others use the cores. */
function capacityFigures(service: Load, bare: Load): Figure[] {
  const capacity = ({ processes, perSecond }: Load): number => {
    const threads = processes.flatMap((use) => use.threads.map(({ cpu }) => cpu));
    const all = processes.reduce((sum, { cpu }) => sum + cpu, 0);
    const use = { busiestThread: Math.max(...threads) / perSecond, allThreads: all / perSecond };
    return capacityOf(use, availableParallelism());
  };
  if (service.processes.every(({ threads }) => threads.length === 0)) return [];
  const value = capacity(service) / capacity(bare);
  if (!Number.isFinite(value)) return [];
  return [{ name: 'service / bare, by CPU time alone', unit: '×', value, better: 'more' }];
}

function memoryFigures({ processes }: Load): Figure[] {
  const own = processes[0]?.anonMiB;
  return own === undefined ? [] : [{ name: 'service, own memory', unit: 'MiB', value: own, better: 'less' }];
}

function logFigures({ log }: Load): Figure[] {
  if (log === null) return [];
  return [
    { name: 'log, records a flush', unit: '', value: log.recordsPerFlush, better: 'more' },
    { name: 'log, flushes', unit: '/s', value: log.flushesPerSecond, better: 'neither' },
    {
      name: 'log, bytes a record',
      unit: 'B',
      value: log.bytesPerRecord,
      better: 'less',
      target: LOG_BYTES_MAX,
    },
  ];
}

/** Bodies of the service's own answers to this work, for the bare handler to be as long as. */
async function answersOf(service: Service, work: Work): Promise<{ postBody: string; getBody: string }> {
  const maker = new RequestMaker(work, `${service.host}:${service.port}`);
  const bodies = { postBody: TYPICAL_BODY, getBody: TYPICAL_BODY };
  for (const counter of work.kinds.keys()) {
    const { method, path, status, text } = await sendOnce(service, maker, counter);
    if (status >= FIRST_ERROR) throw new Error(`${method} ${path}: ${status} ${text}`);
    if (method === 'POST') bodies.postBody = text;
    else bodies.getBody = text;
  }
  return bodies;
}
