// CPU time and memory of processes and their threads, from /proc. Elsewhere than on Linux it says nothing.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { ProcessUse } from '../result.ts';

export interface Watched {
  readonly name: string;
  readonly pid: number;
}

interface ThreadTime {
  readonly name: string;
  readonly seconds: number;
}

interface Sample {
  readonly atMs: number;
  /** By thread id. */
  readonly threads: ReadonlyMap<string, ThreadTime>;
  readonly rssMiB: number;
  readonly anonMiB: number;
}

/** Kernel ticks; 100 a second on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;
const NS_PER_SECOND = 1e9;
const KIB_PER_MIB = 1_024;
const MS_PER_SECOND = 1_000;
const SAMPLE_MS = 200;
const THREADS_TOLD = 6;
const CPU_TOLD = 0.005;

/** Watches from its making to `stop`, so that processes that end before are seen to their last sample. */
export class ProcessWatch {
  readonly #watched: readonly Watched[];
  readonly #first = new Map<number, Sample>();
  readonly #last = new Map<number, Sample>();
  readonly #anonMiB = new Map<number, number[]>();
  readonly #sampling: NodeJS.Timeout;
  readonly #busyBefore = busyTicks();
  #busyTicks: number | null = null;
  #isStopped = false;

  constructor(watched: readonly Watched[]) {
    this.#watched = watched;
    this.#sample();
    this.#sampling = setInterval(() => this.#sample(), SAMPLE_MS);
  }

  /** Once; whatever becomes of the load, or its timer goes on for ever. */
  stop(): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    clearInterval(this.#sampling);
    this.#sample();
    const busy = busyTicks();
    if (busy !== null && this.#busyBefore !== null) this.#busyTicks = busy - this.#busyBefore;
  }

  uses(): ProcessUse[] {
    const uses = this.#watched.flatMap(({ name, pid }) => {
      const first = this.#first.get(pid);
      const last = this.#last.get(pid);
      if (first === undefined || last === undefined) return [];
      return [useBetween(name, first, last, growthOf(this.#anonMiB.get(pid) ?? []))];
    });
    return [...Map.groupBy(uses, ({ name }) => name).values()].map(together);
  }

  /** Cores that those who are not watched used; null: not known. */
  othersCpu(): number | null {
    const [first] = this.#first.values();
    if (this.#busyTicks === null || first === undefined) return null;
    const lastAtMs = Math.max(...Array.from(this.#last.values(), ({ atMs }) => atMs));
    const seconds = Math.max(1, lastAtMs - first.atMs) / MS_PER_SECOND;
    const watched = this.uses().reduce((sum, { cpu }) => sum + cpu, 0);
    return Math.max(0, this.#busyTicks / TICKS_PER_SECOND / seconds - watched);
  }

  #sample(): void {
    for (const { pid } of this.#watched) {
      const sample = readSample(pid);
      if (sample === null) continue;
      const before = this.#last.get(pid);
      if (before === undefined) this.#first.set(pid, sample);
      // What ended threads have spent stays: wrk's ends before wrk does.
      const threads = new Map([...(before?.threads ?? []), ...sample.threads]);
      this.#last.set(pid, { ...sample, threads });
      const anonMiB = this.#anonMiB.get(pid) ?? [];
      anonMiB.push(sample.anonMiB);
      this.#anonMiB.set(pid, anonMiB);
    }
  }
}

/** Of all cores since the machine started: neither idle nor waiting for a disk. What its host gave to others counts. */
function busyTicks(): number | null {
  try {
    const [user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'latin1')
      .slice('cpu'.length)
      .trimStart()
      .split(/\s+/, 8)
      .map(Number);
    return user! + nice! + system! + irq! + softirq! + steal!;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** The most of the last quarter over the most of the quarter before; null of too few to tell. */
export function growthOf(samples: readonly number[]): number | null {
  const quarter = Math.floor(samples.length / 4);
  if (quarter === 0) return null;
  return Math.max(...samples.slice(-quarter)) / Math.max(...samples.slice(-2 * quarter, -quarter));
}

function useBetween(name: string, first: Sample, last: Sample, anonGrowth: number | null): ProcessUse {
  const seconds = Math.max(1, last.atMs - first.atMs) / MS_PER_SECOND;
  const threads = Array.from(last.threads, ([id, { name: thread, seconds: spent }]) => ({
    name: thread,
    cpu: (spent - (first.threads.get(id)?.seconds ?? 0)) / seconds,
  }));
  return {
    name,
    cpu: threads.reduce((sum, { cpu }) => sum + cpu, 0),
    rssMiB: last.rssMiB,
    anonMiB: last.anonMiB,
    anonGrowth,
    threads: threads
      .filter(({ cpu }) => cpu >= CPU_TOLD)
      .toSorted((a, b) => b.cpu - a.cpu)
      .slice(0, THREADS_TOLD),
  };
}

/** Processes of one name: the backends of a database. Memory they share is counted for each. */
function together(uses: readonly ProcessUse[]): ProcessUse {
  const [first] = uses;
  if (uses.length === 1) return first!;
  const sum = (of: (use: ProcessUse) => number): number => uses.reduce((total, use) => total + of(use), 0);
  return {
    name: `${first!.name} (${uses.length})`,
    cpu: sum(({ cpu }) => cpu),
    rssMiB: sum(({ rssMiB }) => rssMiB),
    anonMiB: sum(({ anonMiB }) => anonMiB),
    anonGrowth: null,
    threads: [],
  };
}

/** 0: it has ended, or there is no /proc. */
export function threadCountOf(pid: number): number {
  return readSample(pid)?.threads.size ?? 0;
}

/** Null: the process has ended, or there is no /proc. */
function readSample(pid: number): Sample | null {
  try {
    const threads = new Map<string, ThreadTime>();
    for (const id of readdirSync(`/proc/${pid}/task`)) {
      const task = `/proc/${pid}/task/${id}`;
      const time = threadTimeOf(readFileSync(`${task}/stat`, 'latin1'), readSchedule(task));
      threads.set(id, id === String(pid) ? { ...time, name: `${time.name} (main)` } : time);
    }
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const rssMiB = mebibytesOf(status, 'VmRSS');
    // Ended and not yet waited for: its threads' times are gone.
    if (rssMiB === null) return null;
    return { atMs: performance.now(), threads, rssMiB, anonMiB: mebibytesOf(status, 'RssAnon') ?? rssMiB };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return null;
    throw error;
  }
}

function mebibytesOf(status: string, field: string): number | null {
  const found = new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status);
  return found === null ? null : Number(found[1]) / KIB_PER_MIB;
}

/** Null: the kernel was built without it. */
function readSchedule(task: string): string | null {
  const path = `${task}/schedstat`;
  return existsSync(path) ? readFileSync(path, 'latin1') : null;
}

/** The name is in parentheses and may hold anything; utime and stime are the 12th and 13th field after it, in ticks, of which a
 *  seconds-long load has few. `schedstat` begins with the nanoseconds. */
export function threadTimeOf(stat: string, schedstat: string | null): ThreadTime {
  const nameEnd = stat.lastIndexOf(')');
  const fields = stat.slice(nameEnd + 2).split(' ');
  return {
    name: stat.slice(stat.indexOf('(') + 1, nameEnd),
    seconds:
      schedstat === null
        ? (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
        : Number(schedstat.split(' ', 1)[0]) / NS_PER_SECOND,
  };
}
