// Due times of one accounts partition: expiry, release, end of cooling-off. Rebuilt from the open rows and from events;
// an entry that no longer applies is dropped when it falls due, and the command it raises changes nothing when it
// comes late or twice.

import type { AccountCommand } from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { DueHeap } from '../runtime/due-heap.ts';
import type { OpenKind, OpenRow } from './rows.ts';

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

  load({ kind, accountId, id, dueAt }: OpenRow): void {
    if (dueAt !== null) this.#add(kind, accountId, id, dueAt);
  }

  follow(record: AccountRecord): void {
    for (const event of record.events) {
      if (event.type === 'ChargeCreated' || event.type === 'DepositCreated') {
        this.#add('provider', record.accountId, event.id, event.expiresAt);
      } else if (event.type === 'TransactionSucceeded') {
        if (event.releaseAt !== null) this.#add('release', record.accountId, event.id, event.releaseAt);
      } else if (event.type === 'WalletApproved') {
        this.#add('cooling', record.accountId, event.id, event.activeAt);
      }
    }
  }

  nextDue(): number {
    return this.#heap.nextDue();
  }

  /** Commands of what is due at `now` and still `applies`, at most `limit`. */
  takeDue(
    now: number,
    limit: number,
    applies: (kind: OpenKind, accountId: string, id: string) => boolean,
  ): AccountCommand[] {
    const commands: AccountCommand[] = [];
    for (let looked = 0; looked < limit; looked++) {
      const timer = this.#heap.takeDue(now);
      if (timer === undefined) break;
      if (applies(timer.kind, timer.accountId, timer.id)) commands.push(commandOf(timer, now));
    }
    return commands;
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
