// Due times of one accounts partition: expiry, release, end of cooling-off. Each is written down in an open row of the views. In memory are
// only those that fall due soon: a million charges that wait for their release, or that were paid long before they would have expired,
// cost nothing.
//
// Soon: an event's timer is kept at once if it falls due within two horizons. A scan of the open rows, a few at every tick, brings in the
// rest, in windows of one horizon. What only a scan finds is older than a horizon, so its row is there. An entry that no longer applies
// is dropped when it falls due, and the command that it raises changes nothing when it comes late or twice.

import type { AccountCommand } from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { LIMITS } from '../../src/limits.ts';
import { keyAfter, LAST_KEY, type Views } from '../../wal/types.ts';
import { DueHeap } from '../runtime/due-heap.ts';
import { decodeOpen, tableOf, type OpenRow, type OpenTable, type TimerKind } from './rows.ts';

interface Timer {
  readonly kind: TimerKind;
  readonly accountId: string;
  /** Of the transaction or wallet. */
  readonly id: string;
}

/** The pollers expire a transaction after one last enquiry. This timer leaves them the time to, and is for when no poller is there. */
const EXPIRY_GRACE_MS = 60_000;
/** The same after a start, a take-over or a pause: what expired meanwhile may have been paid, and the pollers have all of it to ask
 *  about. */
const RETURN_GRACE_MS = 600_000;
/** Without a look at the timers for longer than this, the partition was away: it looks at least once in a scan's rest, and time may step
 *  between two looks. */
const ABSENCE_MS = 2 * LIMITS.timerScanEveryMs.open + LIMITS.clockStepMsMax;
const COMMAND_DEADLINE_MS = 60_000;

export class Timers {
  readonly #heap = new DueHeap<Timer>();
  readonly #scans: Readonly<Record<OpenTable, TimerScan>>;
  #lookedAt = -Infinity;
  /** Until then what expires is the pollers' alone. */
  #pollersUntil = -Infinity;

  constructor(views: Views) {
    this.#scans = { open: new TimerScan(views, 'open'), timer: new TimerScan(views, 'timer') };
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
    const { open, timer } = this.#scans;
    return Math.min(this.#heap.nextDue(), open.nextAt, timer.nextAt);
  }

  /** Commands of what is due at `now` and still `applies`, at most `limit`. */
  takeDue(
    now: number,
    limit: number,
    applies: (kind: TimerKind, accountId: string, id: string) => boolean,
  ): AccountCommand[] {
    if (now - this.#lookedAt > ABSENCE_MS) this.#pollersUntil = now + RETURN_GRACE_MS;
    this.#lookedAt = now;
    for (const scan of [this.#scans.open, this.#scans.timer]) {
      if (now < scan.nextAt) continue;
      for (const { kind, accountId, id, dueAt } of scan.look(now)) this.#add(kind, accountId, id, dueAt);
    }
    const commands: AccountCommand[] = [];
    for (let looked = 0; looked < limit; looked++) {
      const timer = this.#heap.takeDue(now);
      if (timer === undefined) break;
      if (timer.kind === 'provider' && now < this.#pollersUntil) this.#heap.push(this.#pollersUntil, timer);
      else if (applies(timer.kind, timer.accountId, timer.id)) commands.push(commandOf(timer, now));
    }
    return commands;
  }

  #addSoon(kind: TimerKind, accountId: string, id: string, dueAt: number, now: number): void {
    const isSoon = dueAt <= now + 2 * LIMITS.timerHorizonMs[tableOf(kind)];
    if (isSoon) this.#add(kind, accountId, id, dueAt);
  }

  #add(kind: TimerKind, accountId: string, id: string, dueAt: number): void {
    const at = kind === 'provider' ? Math.max(dueAt + EXPIRY_GRACE_MS, this.#pollersUntil) : dueAt;
    this.#heap.push(at, { kind, accountId, id });
  }
}

/** Goes through the rows of one table, a few at a time, and rests at its end. */
class TimerScan {
  readonly #views: Views;
  readonly #table: OpenTable;
  /** What falls due up to here was found, or was soon from the beginning. */
  #foundUpTo = -Infinity;
  /** The window of the scan under way ends here; null: it rests. */
  #findingUpTo: number | null = null;
  /** Key of the next row to look at. */
  #cursor = '';
  /** Milliseconds since 1970. */
  nextAt = -Infinity;

  constructor(views: Views, table: OpenTable) {
    this.#views = views;
    this.#table = table;
  }

  /** Looks at the next few rows; returns those whose time is in the window. */
  look(now: number): DueRow[] {
    const upTo = (this.#findingUpTo ??= now + LIMITS.timerHorizonMs[this.#table]);
    const limit = LIMITS.timerRowsPerTickMax;
    const found: DueRow[] = [];
    let looked = 0;
    for (const { key, value } of this.#views.range(this.#table, {
      start: this.#cursor,
      end: LAST_KEY,
      limit,
    })) {
      looked++;
      this.#cursor = keyAfter(key);
      const row = decodeOpen(key, value);
      if (isDueWithin(row, this.#foundUpTo, upTo)) found.push(row);
    }
    if (looked < limit) this.#rest(upTo, now);
    return found;
  }

  #rest(upTo: number, now: number): void {
    this.#cursor = '';
    this.#foundUpTo = upTo;
    this.#findingUpTo = null;
    this.nextAt = now + LIMITS.timerScanEveryMs[this.#table];
  }
}

/** One with a time has such a kind. */
type DueRow = OpenRow & { readonly kind: TimerKind; readonly dueAt: number };

function isDueWithin(row: OpenRow, after: number, upTo: number): row is DueRow {
  return row.dueAt !== null && row.dueAt > after && row.dueAt <= upTo;
}

function commandOf(timer: Timer, now: number): AccountCommand {
  const base = { accountId: timer.accountId, deadline: now + COMMAND_DEADLINE_MS };
  switch (timer.kind) {
    case 'provider':
      return { type: 'ExpireTransaction', ...base, transactionId: timer.id };
    case 'release':
      return { type: 'ReleaseCharge', ...base, transactionId: timer.id };
    case 'cooling':
      return { type: 'ActivateWallet', ...base, walletId: timer.id };
  }
}
