// The coarse jobs of a process: what is done once a minute, or once a day by the clock. What falls due at a
// precise time (expiry, release, retries) is not a job but a timer of its partition.

import { schedule, type ScheduledTask } from 'node-cron';
import { LIMITS } from '../limits.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

export class Jobs {
  readonly #tasks: ScheduledTask[] = [];
  readonly #intervals: NodeJS.Timeout[] = [];

  /** Not by the clock: while it is set back views must be kept up, or a take-over would be long. */
  everySecond(run: () => void): void {
    this.#intervals.push(setInterval(run, SECOND_MS));
  }

  /** Not again while the last run goes on, which sees to its own errors. Not by the clock: where that was set forward, node-cron
   *  goes through every minute that it did not see, and nothing else is done meanwhile, for a year 50 s. */
  everyMinute(run: () => Promise<void>): void {
    let running: Promise<void> | null = null;
    const begin = (): void => {
      running ??= run().finally(() => {
        running = null;
      });
    };
    this.#intervals.push(setInterval(begin, MINUTE_MS));
  }

  /** In the small hours, local time; not again while the last run goes on, and not for nights that the process did not see.
   *  node-cron waits by what elapses: where the clock was set forward meanwhile, by seconds even, it comes late. */
  everyDay(run: () => Promise<void> | void): void {
    const late = { missedExecutionTolerance: LIMITS.nightlyLateMsMax, suppressMissedWarning: true };
    this.#tasks.push(schedule('17 3 * * *', run, { noOverlap: true, ...late }));
  }

  async stop(): Promise<void> {
    for (const interval of this.#intervals) clearInterval(interval);
    for (const task of this.#tasks) await task.destroy();
  }
}
