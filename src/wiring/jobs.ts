// The coarse jobs of a process, by the clock: what is done once a minute or once a day. What falls due at a
// precise time (expiry, release, retries) is not a job but a timer of its partition.

import { schedule, type ScheduledTask } from 'node-cron';

const SECOND_MS = 1_000;

export class Jobs {
  readonly #tasks: ScheduledTask[] = [];
  readonly #intervals: NodeJS.Timeout[] = [];

  /** Not by the clock: while it is set back views must be kept up, or a take-over would be long. */
  everySecond(run: () => void): void {
    this.#intervals.push(setInterval(run, SECOND_MS));
  }

  /** Not again while the last run goes on. */
  everyMinute(run: () => Promise<void> | void): void {
    this.#tasks.push(schedule('* * * * *', run, { noOverlap: true }));
  }

  /** In the small hours, local time; not again while the last run goes on. */
  everyDay(run: () => Promise<void> | void): void {
    this.#tasks.push(schedule('17 3 * * *', run, { noOverlap: true }));
  }

  async stop(): Promise<void> {
    for (const interval of this.#intervals) clearInterval(interval);
    for (const task of this.#tasks) await task.destroy();
  }
}
