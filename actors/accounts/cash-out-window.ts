// Cash-out requests of each account within the last minute, for the rate limit. Soft state: it counts requests, refused
// ones included, and moves no money; of what came before the partition was opened it knows the requests that were accepted.
// Its times are spans since the partition was opened: a minute ends also while the partition's time is ahead of the clock.

export const WINDOW_MS = 60_000;

export class CashOutWindow {
  /** Times of requests, oldest first. */
  readonly #times = new Map<string, number[]>();
  #sweptAt = 0;

  /** Whether requests of before the partition was opened may still count, and are not known. */
  lacksPast(accountId: string, now: number): boolean {
    return now < WINDOW_MS && !this.#times.has(accountId);
  }

  /** `times`: of those requests, oldest first; none is positive. */
  recall(accountId: string, times: number[]): void {
    this.#times.set(accountId, times);
  }

  /** Requests within the minute before `now`. */
  count(accountId: string, now: number): number {
    return this.#recent(accountId, now).length;
  }

  /** When fewer than `limit` of them are left in the window; `now` when it is so now. There may be more: a limit is lowered. */
  freesAt(accountId: string, now: number, limit: number): number {
    const recent = this.#recent(accountId, now);
    const last = recent[recent.length - limit];
    return last === undefined ? now : last + WINDOW_MS;
  }

  add(accountId: string, now: number): void {
    const times = this.#times.get(accountId);
    if (times === undefined) this.#times.set(accountId, [now]);
    else times.push(now);
    this.#sweep(now);
  }

  #recent(accountId: string, now: number): readonly number[] {
    const times = this.#times.get(accountId);
    if (times === undefined) return [];
    let expired = 0;
    while (expired < times.length && times[expired]! <= now - WINDOW_MS) expired++;
    if (expired > 0) times.splice(0, expired);
    return times;
  }

  /** Accounts that went quiet leave memory. */
  #sweep(now: number): void {
    if (now - this.#sweptAt < WINDOW_MS) return;
    this.#sweptAt = now;
    for (const [accountId, times] of this.#times) {
      if ((times.at(-1) ?? -Infinity) <= now - WINDOW_MS) this.#times.delete(accountId);
    }
  }
}
