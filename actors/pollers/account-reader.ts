// What pollers read from the accounts group over the bus: pages of what waits for a provider, and one transaction's
// details. Asks again with back-off while nobody answers; all waiting is by the group's tick.

import { request, type Reply } from '../../src/bus/bus.ts';
import type {
  AccountQuery,
  ExpiredTransaction,
  ListExpired,
  PendingTransaction,
} from '../../src/domain/account-command.ts';
import { LIMITS } from '../../src/limits.ts';
import { messageDeadline, type PursuitOptions } from './keeper.ts';
import { retryGapMs } from './schedule.ts';

export interface PendingPage {
  /** Everything up to this sequence of the partition's log is in it. */
  readonly sequence: number;
  readonly data: readonly PendingTransaction[];
  /** Null: it is the last. Absent, from an older version: it is if it is short. */
  readonly next?: string | null;
}

export interface ExpiredPage {
  readonly data: readonly ExpiredTransaction[];
  /** Null: it is the last. */
  readonly next: string | null;
}

export interface OpenItemsPage {
  readonly data: readonly {
    readonly id: string;
    readonly account_id: string;
    readonly transaction_id: string | null;
  }[];
  /** Null: it is the last. */
  readonly next: string | null;
}

/** 'absent': the account says that there is none. 'unanswered': nobody said anything, often enough, or it was stopped. */
export type Found =
  | { readonly type: 'found'; readonly transaction: PendingTransaction }
  | { readonly type: 'absent' }
  | { readonly type: 'unanswered' };

type Since = Pick<ListExpired, 'expiredSince' | 'settledSince' | 'followedFrom' | 'after'>;

const PAUSE_TRIES = 5;

export class AccountReader {
  readonly #options: Omit<PursuitOptions, 'onNotice' | 'holds' | 'monotonic'>;
  #sleepers: { readonly wakesAt: number; readonly wake: () => void }[] = [];
  #stopped = false;

  constructor(options: Omit<PursuitOptions, 'onNotice' | 'holds' | 'monotonic'>) {
    this.#options = options;
  }

  /** Null: stopped before it was answered. */
  async page(afterId: string | null): Promise<PendingPage | null> {
    const limit = LIMITS.pollerScanPageMax;
    const query = { type: 'ListPending', accountId: '', afterId, limit, mayBeShort: true } as const;
    return (await this.#askUntilDone((deadline) => ({ ...query, deadline }))) as PendingPage | null;
  }

  /** Null: stopped before it was answered. */
  async expired(page: Since): Promise<ExpiredPage | null> {
    const limit = LIMITS.pollerScanPageMax;
    const query = { type: 'ListExpired', accountId: '', ...page, limit } as const;
    return (await this.#askUntilDone((deadline) => ({ ...query, deadline }))) as ExpiredPage | null;
  }

  /** Reconciliation items that nobody has resolved. Null: stopped before it was answered. */
  async openItems(startingAfter: string | null): Promise<OpenItemsPage | null> {
    const limit = LIMITS.pollerScanPageMax;
    const query = { type: 'ListReconciliation', accountId: '', open: true, limit, startingAfter } as const;
    return (await this.#askUntilDone((deadline) => ({ ...query, deadline }))) as OpenItemsPage | null;
  }

  /** For as long as after a few tries. */
  pause(): Promise<void> {
    return this.#sleep(PAUSE_TRIES);
  }

  async #askUntilDone(queryBy: (deadline: number) => AccountQuery): Promise<unknown> {
    for (let tries = 1; !this.#stopped; tries++) {
      const reply = await this.#ask(queryBy(messageDeadline(this.#options)));
      if (reply.type === 'done') return JSON.parse(reply.body);
      await this.#sleep(tries);
    }
    return null;
  }

  /** `evenFinal`: also when it no longer waits for a provider. `triesMax`: after which it is
   *  unanswered. */
  async get(
    accountId: string,
    transactionId: string,
    evenFinal: boolean,
    triesMax: number = this.#options.timings.fetches,
  ): Promise<Found> {
    for (let tries = 1; !this.#stopped && tries <= triesMax; tries++) {
      const deadline = messageDeadline(this.#options);
      const reply = await this.#ask({ type: 'GetPending', accountId, transactionId, deadline, evenFinal });
      if (reply.type === 'done') {
        return { type: 'found', transaction: JSON.parse(reply.body) as PendingTransaction };
      }
      if (reply.type === 'rejected') return { type: 'absent' };
      await this.#sleep(tries);
    }
    return { type: 'unanswered' };
  }

  tick(now: number): void {
    if (this.#sleepers.length === 0) return;
    const sleepers = this.#sleepers;
    this.#sleepers = [];
    for (const sleeper of sleepers) {
      if (sleeper.wakesAt <= now || this.#stopped) sleeper.wake();
      else this.#sleepers.push(sleeper);
    }
  }

  /** Whoever waits gives up. */
  stop(): void {
    this.#stopped = true;
    this.tick(Infinity);
  }

  #ask(query: AccountQuery): Promise<Reply> {
    return request(this.#options.bus, 'accounts', this.#options.partition, query);
  }

  #sleep(tries: number): Promise<void> {
    const { now, random, timings } = this.#options;
    if (this.#stopped) return Promise.resolve();
    return new Promise((wake) => {
      this.#sleepers.push({ wakesAt: now() + retryGapMs(timings, tries, random), wake });
    });
  }
}

/** At most `count`: first what an operator said to have failed, then what expired; of each the last one first. */
export function lastExpired(found: readonly ExpiredTransaction[], count: number): ExpiredTransaction[] {
  const isSettled = ({ expiresAt }: ExpiredTransaction): number => Number(expiresAt === null);
  return found.toSorted((a, b) => isSettled(b) - isSettled(a) || b.expiredAt - a.expiredAt).slice(0, count);
}
