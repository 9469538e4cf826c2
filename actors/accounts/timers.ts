// Due times of one accounts partition: expiry, release, end of cooling-off. Each is written down in an open row of the views;
// in memory are only those that fall due soon, so that a million charges waiting for their release cost nothing.
//
// Soon: an event's own timer is kept at once when it falls due within two horizons; a scan of the open rows, a few at every
// tick, brings in the rest in windows of one horizon. What a scan meets is older than a horizon, so its row is there. An entry that
// no longer applies is dropped when it falls due, and the command it raises changes nothing when it comes late or twice.

import type { AccountCommand } from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import { DueHeap } from '../runtime/due-heap.ts';
import { decodeOpen, type OpenKind } from './rows.ts';

interface Timer {
  readonly kind: OpenKind;
  readonly accountId: string;
  /** Of the transaction or wallet. */
  readonly id: string;
}

/**
 * The pollers expire a transaction after one last enquiry; this timer is for when no poller is there to do it, and leaves
 * them the time to.
 */
const EXPIRY_GRACE_MS = 60_000;
const COMMAND_DEADLINE_MS = 60_000;

export class Timers {
  readonly #heap = new DueHeap<Timer>();

  readonly #views: Views;
  /** What falls due up to here is in the heap, or has been. */
  #loadedUpTo = -Infinity;
  /** The window of the scan under way ends here. */
  #loadingUpTo = 0;
  /** Tables still to be looked through; none: no scan is under way. */
  #tables: ('open' | 'timer')[] = [];
  /** Key of the next row to look at in the first of them. */
  #cursor = '';
  #scanAt = -Infinity;

  constructor(views: Views) {
    this.#views = views;
  }

  follow(record: AccountRecord): void {
    const { accountId, at } = record;
    for (const event of record.events) {
      if (event.type === 'ChargeCreated' || event.type === 'DepositCreated') {
        this.#addSoon('provider', accountId, event.id, event.expiresAt, at);
      } else if (event.type === 'TransactionSucceeded') {
        if (event.releaseAt !== null) this.#addSoon('release', accountId, event.id, event.releaseAt, at);
      } else if (event.type === 'WalletApproved') {
        this.#addSoon('cooling', accountId, event.id, event.activeAt, at);
      }
    }
  }

  nextDue(): number {
    return Math.min(this.#heap.nextDue(), this.#scanAt);
  }

  /** Commands of what is due at `now` and still `applies`, at most `limit`. */
  takeDue(
    now: number,
    limit: number,
    applies: (kind: OpenKind, accountId: string, id: string) => boolean,
  ): AccountCommand[] {
    if (now >= this.#scanAt) this.#scan(now);
    const commands: AccountCommand[] = [];
    for (let looked = 0; looked < limit; looked++) {
      const timer = this.#heap.takeDue(now);
      if (timer === undefined) break;
      if (applies(timer.kind, timer.accountId, timer.id)) commands.push(commandOf(timer, now));
    }
    return commands;
  }

  /** Looks at a few rows; at the end of the tables rests. */
  #scan(now: number): void {
    if (this.#tables.length === 0) {
      this.#tables = ['open', 'timer'];
      this.#loadingUpTo = now + LIMITS.timerHorizonMs;
    }
    const limit = LIMITS.timerRowsPerTickMax;
    const rows = this.#views.range(this.#tables[0]!, { start: this.#cursor, end: '~', limit });
    let looked = 0;
    for (const { key, value } of rows) {
      looked++;
      this.#cursor = `${key}\x01`;
      const { kind, accountId, id, dueAt } = decodeOpen(key, value);
      const isInWindow = dueAt !== null && dueAt > this.#loadedUpTo && dueAt <= this.#loadingUpTo;
      if (isInWindow) this.#add(kind, accountId, id, dueAt);
    }
    if (looked === limit) return;
    this.#cursor = '';
    this.#tables.shift();
    if (this.#tables.length > 0) return;
    this.#loadedUpTo = this.#loadingUpTo;
    this.#scanAt = now + LIMITS.timerScanEveryMs;
  }

  #addSoon(kind: OpenKind, accountId: string, id: string, dueAt: number, now: number): void {
    if (dueAt <= now + 2 * LIMITS.timerHorizonMs) this.#add(kind, accountId, id, dueAt);
  }

  #add(kind: OpenKind, accountId: string, id: string, dueAt: number): void {
    this.#heap.push(kind === 'provider' ? dueAt + EXPIRY_GRACE_MS : dueAt, { kind, accountId, id });
  }
}

function commandOf(timer: Timer, now: number): AccountCommand {
  const base = { accountId: timer.accountId, deadline: now + COMMAND_DEADLINE_MS };
  switch (timer.kind) {
    case 'provider':
    case 'approval':
      return { type: 'ExpireTransaction', ...base, transactionId: timer.id };
    case 'release':
      return { type: 'ReleaseCharge', ...base, transactionId: timer.id };
    case 'cooling':
      return { type: 'ActivateWallet', ...base, walletId: timer.id };
  }
}
