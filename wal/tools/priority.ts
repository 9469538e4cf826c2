// How much of the machine a tool takes.
import { readFileSync, writeFileSync } from 'node:fs';
import { constants, cpus, setPriority } from 'node:os';
import { WAL_LIMITS } from '../limits.ts';
import { statOf } from '../process-mark.ts';

/** Of the whole machine, in ms since it started: all of its cores' time together. */
export interface Reading {
  readonly atMs: number;
  readonly busyMs: number;
  /** Of it, this process's. */
  readonly ownMs: number;
}

/** Batches that are read between two breaths. */
export const BATCHES_A_BREATH = 64;

const LOWEST = constants.priority.PRIORITY_LOW;
/** Kernel ticks; 100 a second on every Linux that Node runs on. */
const MS_PER_TICK = 10;
const US_PER_MS = 1_000;
/** Between two readings: some ticks. */
const LOOK_MS = 100;
/** Of all cores, that others use where they want them. */
const BUSY_PART = 0.25;
/** Rests, as part of what it runs: it takes a fifth of a core then. */
const BUSY_RESTS = 4;
/** A kernel takes one change of a session in 100 ms, of all sessions together. */
const AGAIN_MS = 150;

/** The last look at the machine, what it said, and how long this process had run at this thread's last breath. Null: services do not go first
 *  yet, or the system does not say. */
let pace: { readonly looked: Reading; readonly isBusy: boolean; readonly ranMs: number } | null = null;
let isHurried = false;

/** Whether the tool that runs from now on takes what it can get, whatever runs beside it. What has lowered itself before stays low. */
export function hurry(isAsked: boolean): void {
  isHurried = isAsked;
  if (isHurried) pace = null;
}

/** Whether a thread of this process is to rest beside others. */
export function letsOthersGoFirst(): boolean {
  return pace !== null;
}

/** For good: a service that runs beside it is waited for. Not before all is opened: its commits wait for whoever opens. */
export function letServicesGoFirst(): void {
  if (isHurried) return;
  setPriority(LOWEST);
  if (leadsSession()) lowerSession();
  restBesideOthers();
}

/** Of this thread, in a process that lets services go first: its priority it has from the thread that started it. Each rests for what
 *  all of them ran, so that they take together what one would. */
export function restBesideOthers(): void {
  const looked = readMachine();
  if (looked !== null) pace = { looked, isBusy: false, ranMs: ownMs() };
}

/** Linux shares out the cores between sessions, whatever the priorities are of what runs in them, and then within each
 *  (`sched_autogroup`): a tool of an operator's shell would take half of what a service takes that systemd has started. */
function lowerSession(): void {
  try {
    writeFileSync('/proc/self/autogroup', String(LOWEST));
  } catch (error) {
    // Otherwise there is none, or a container has its /proc for reading alone: what has been done is all that can be.
    if (Object(error).code === 'EAGAIN') setTimeout(lowerSession, AGAIN_MS).unref();
  }
}

/** As a process that supervised.ts has started does: of another's session nothing is changed. */
function leadsSession(): boolean {
  const [, , , session] = statOf(process.pid) ?? [];
  return Number(session) === process.pid;
}

/** Gives other work of the process its turn now and then, and rests where others want the cores: whoever wakes waits until a slice of
 *  ours is over, some milliseconds, however low our priority is. */
export function breathe(): Promise<void> {
  const restMs = restAfterStretch();
  return new Promise((resolve) => {
    if (restMs === 0) setImmediate(resolve);
    else setTimeout(resolve, restMs);
  });
}

function restAfterStretch(): number {
  if (pace === null) return 0;
  let { looked, isBusy } = pace;
  const ranMs = ownMs();
  const restMs = isBusy ? Math.min((ranMs - pace.ranMs) * BUSY_RESTS, WAL_LIMITS.toolRestMsMax) : 0;
  if (performance.now() - looked.atMs >= LOOK_MS) {
    const now = readMachine() ?? looked;
    isBusy = areOthersBusy(looked, now, cpus().length);
    looked = now;
  }
  pace = { looked, isBusy, ranMs };
  return restMs;
}

/** Whether others want the cores, by what they used of them between two readings. */
export function areOthersBusy(before: Reading, now: Reading, cores: number): boolean {
  const ms = now.atMs - before.atMs;
  const othersMs = now.busyMs - before.busyMs - (now.ownMs - before.ownMs);
  return othersMs > ms * cores * BUSY_PART;
}

/** Null: no Linux. */
function readMachine(): Reading | null {
  try {
    const [all = ''] = readFileSync('/proc/stat', 'latin1').split('\n', 1);
    const [user, nice, system, , , irq, softirq] = all.split(/ +/).slice(1).map(Number);
    const ticks = user! + nice! + system! + irq! + softirq!;
    return { atMs: performance.now(), busyMs: ticks * MS_PER_TICK, ownMs: ownMs() };
  } catch {
    return null;
  }
}

/** Of all its threads. */
function ownMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / US_PER_MS;
}
