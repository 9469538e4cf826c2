// What has expired in one partition, or an operator said to have failed: it may be paid all the same, so it is looked at on for some days.
//
// Invariants: at most LIMITS.pollerLateMax are looked at. Of more those go first that expired first, and never a payout that a person said
// to have failed.

import { setImmediate } from 'node:timers/promises';
import type { ExpiredTransaction, PendingTransaction } from '../../src/domain/account-command.ts';
import { assert } from '../../src/domain/assert.ts';
import { LIMITS } from '../../src/limits.ts';
import { type AccountReader, lastExpired } from './account-reader.ts';
import type { Followed } from './followed.ts';
import type { PursuitOptions } from './keeper.ts';
import type { Pursuit } from './pursuit.ts';
import { afterExpiryMsMax } from './schedule.ts';
import type { Watched } from './watched.ts';

export interface ExpiredOptions extends Pick<PursuitOptions, 'now' | 'timings'> {
  readonly reader: AccountReader;
  readonly pursuit: Pursuit;
  readonly followed: Followed;
  readonly hasRail: (transaction: PendingTransaction) => boolean;
  /** Null: it is followed already, or cannot be. */
  readonly follow: (transaction: PendingTransaction) => Watched | null;
  readonly forget: (watched: Watched) => void;
}

export class Expired {
  readonly #options: ExpiredOptions;
  readonly #reader: AccountReader;
  readonly #followed: Followed;
  /** Ids of those that are followed; what expired last comes last. */
  readonly #expired = new Set<string>();
  /** What expired without being followed, whose accounts are asked what it is. */
  #finding = 0;
  #stopping = false;

  constructor(options: ExpiredOptions) {
    this.#options = options;
    this.#reader = options.reader;
    this.#followed = options.followed;
  }

  /** Of those that are followed. */
  get size(): number {
    return this.#expired.size;
  }

  ids(): Iterable<string> {
    return this.#expired;
  }

  /** Looks for no more of them. */
  stop(): void {
    this.#stopping = true;
  }

  /** It is followed no more. */
  forget(id: string): void {
    this.#expired.delete(id);
  }

  /** What expired before this process served the partition is still looked at: nobody else does it. Also what was due for its last look not
   *  long ago: perhaps nobody was there to make it. Pages come by account, so what expired last may be on the last page; once there are
   *  more than can be kept, what expired before those that are is no longer asked for, but what a person said to have failed is.
   *  `followedFrom`: what comes after that sequence is heard of. */
  async scan(followedFrom: number): Promise<void> {
    const { now, hasRail, timings } = this.#options;
    const settledSince = now() - afterExpiryMsMax(timings) - LIMITS.pollerMissedLooksMs;
    let expiredSince = settledSince;
    let found: ExpiredTransaction[] = [];
    for (let after: string | null = null; ;) {
      const page = await this.#reader.expired({ expiredSince, settledSince, followedFrom, after });
      if (page === null || this.#stopping) return;
      found.push(...page.data.filter(hasRail));
      after = page.next;
      if (after === null) return this.#lookAfterThese(found);
      if (found.length >= 2 * LIMITS.pollerLateMax) {
        found = lastExpired(found, LIMITS.pollerLateMax);
        expiredSince = found.at(-1)?.expiredAt ?? expiredSince;
      }
      // Nobody waits for it.
      await setImmediate();
    }
  }

  /** As many as there is room for beside what has expired since the scan began. */
  #lookAfterThese(found: readonly ExpiredTransaction[]): void {
    const since = [...this.#expired];
    this.#expired.clear();
    const others = found.filter(({ id }) => !this.#followed.has(id));
    const kept = lastExpired(others, LIMITS.pollerLateMax - since.length).reverse();
    for (const { expiredAt, ...transaction } of kept) this.#follow(transaction, expiredAt);
    for (const id of since) this.#expired.add(id);
  }

  /** One that was followed until now. False: there is no room for it. */
  lookAfter(transaction: PendingTransaction): boolean {
    if (!this.#makeRoom()) return false;
    this.#follow(transaction, this.#options.now());
    return true;
  }

  #follow(transaction: PendingTransaction, expiredAt: number): void {
    const watched = this.#options.follow(transaction);
    if (watched === null) return;
    this.#expired.add(watched.id);
    this.#options.pursuit.lookAfterExpiry(watched, expiredAt);
  }

  /** It was let go, or the feed was slow: it may have been paid all the same. Its account is asked for as long as it takes. Of many at once
   *  some are not looked at. */
  async lookAfterUnfollowed(accountId: string, transactionId: string): Promise<void> {
    if (this.#finding >= LIMITS.pollerLateMax) return;
    const expiredAt = this.#options.now();
    this.#finding++;
    const found = await this.#reader.get(accountId, transactionId, true, Infinity);
    this.#finding--;
    if (found.type !== 'found' || this.#stopping || this.#followed.has(transactionId)) return;
    if (!this.#options.hasRail(found.transaction) || !this.#makeRoom()) return;
    this.#follow(found.transaction, expiredAt);
  }

  /** What expired first goes: few looks at it are to come, and it is the least likely to be paid. Never a payout that a person
   *  said to have failed: if it is paid, it was paid twice. */
  #makeRoom(): boolean {
    if (this.#expired.size < LIMITS.pollerLateMax) return true;
    for (const id of this.#expired) {
      const watched = this.#followed.get(id);
      assert(watched !== undefined, 'what expired and is looked at is followed');
      // Its provider has something to say of it, or has said it, and its account has yet to hear that.
      if (watched.hinted || watched.verdict !== null || watched.expiresAt === null) {
        this.#followed.park(watched);
        continue;
      }
      this.#options.forget(watched);
      return true;
    }
    return false;
  }
}
