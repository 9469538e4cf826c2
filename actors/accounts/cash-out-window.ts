// Cash-out requests of each account within the last minute, for the rate limit. Soft state: it counts requests, refused
// ones included, moves no money and starts empty after a restart. Its times are spans since the partition was opened: a
// minute ends also while the partition's time is ahead of the clock.

const WINDOW_MS = 60_000;

export class CashOutWindow {
  /** Times of requests, oldest first. */
  readonly #times = new Map<string, number[]>();
  #sweptAt = 0;

  /** Requests within the minute before `now`. */
  count(accountId: string, now: number): number {
    return this.#recent(accountId, now).length;
  }

  /** When the oldest of them leaves the window; `now` when there is none. */
  freesAt(accountId: string, now: number): number {
    const oldest = this.#recent(accountId, now)[0];
    return oldest === undefined ? now : oldest + WINDOW_MS;
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
      if (times[times.length - 1]! <= now - WINDOW_MS) this.#times.delete(accountId);
    }
  }
}
