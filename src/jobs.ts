// The jobs of a process: what is done again and again, every so many milliseconds, or once a day by the clock. What falls due at a
// precise time (expiry, release, retries) is not a job but a timer of its partition.
//
// Intervals are of elapsed time, not of the wall clock: when it is set back jobs go on, or views would lag and a take-over be long; when
// it is set forward nothing is made up for. Only nightly jobs go by the clock, which is looked at once a minute.

import { LIMITS } from './limits.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
/** Hours and minutes, local time. */
const NIGHTLY = [3, 17] as const;

export class Jobs {
  readonly #intervals: NodeJS.Timeout[] = [];

  every(intervalMs: number, run: () => void): void {
    this.#intervals.push(setInterval(run, intervalMs));
  }

  everySecond(run: () => void): void {
    this.every(SECOND_MS, run);
  }

  everyMinute(run: () => Promise<void>): void {
    this.oneAtATime(MINUTE_MS, run);
  }

  /** Not again while the last run goes on. `run` handles its own errors. */
  oneAtATime(intervalMs: number, run: () => Promise<void>): void {
    let running: Promise<void> | null = null;
    const begin = (): void => {
      running ??= run().finally(() => {
        running = null;
      });
    };
    this.every(intervalMs, begin);
  }

  /** In the small hours. Not again while the last run goes on, and not for a night that passed while the process was stopped. `run`
   *  handles its own errors. */
  everyDay(run: () => Promise<void>): void {
    let dueAt = nextNight(Date.now());
    this.everyMinute(async () => {
      const now = Date.now();
      const next = nextNight(now);
      if (next === dueAt) return;
      // Negative if the clock was set back.
      const lateMs = now - dueAt;
      dueAt = next;
      if (lateMs >= 0 && lateMs < LIMITS.nightlyLateMsMax) await run();
    });
  }

  stop(): void {
    for (const interval of this.#intervals) clearInterval(interval);
  }
}

/** The first after `now`; both in milliseconds since 1970. */
function nextNight(now: number): number {
  const night = new Date(now);
  night.setHours(...NIGHTLY, 0, 0);
  if (night.getTime() <= now) night.setDate(night.getDate() + 1);
  return night.getTime();
}
