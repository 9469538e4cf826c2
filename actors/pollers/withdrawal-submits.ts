// What an account is asked before a withdrawal is submitted: its payout wallet may have been revoked since it was requested. The account
// records the first submit before it is made, so it knows which withdrawals were certainly not sent, and ends those.
//
//   unsent ─▶ account: begun ─▶ submit            wallet revoked ─▶ account: failed, its hold returned ─▶ never submitted
//   again  ─▶ account: not revoked ─▶ submit      wallet revoked ─▶ not submitted; fails where each submit was certainly refused, else
//                                                                   its provider is asked whether it was
//
// A wallet may be revoked while the answer is on its way, or while the submit waits for its rail: then the account is asked anew.
//
// Crash points: before the account has recorded it, whoever serves the partition next asks again; after that, whoever does so
// does not know whether it was submitted, and enquires first.

import type { Reply } from '../../src/bus/bus.ts';
import type { BegunSubmission } from '../../src/domain/account-command.ts';
import { messageDeadline, type PursuitOptions } from './keeper.ts';
import type { Watched } from './watched.ts';

/** What its account says. `begun`: its first submit is recorded, and to be made. `again`: it is to be submitted again.
 *  `begun_by_other`: a first submit was recorded already, and may have been made. */
export type Answer =
  | { readonly submission: 'begun' | 'again' | 'begun_by_other' | 'revoked' | 'unanswered' }
  /** `code`: why its account refuses; null: it is final. */
  | { readonly submission: 'ended'; readonly code: string | null };

export interface WithdrawalSubmitsOptions extends Pick<
  PursuitOptions,
  'partition' | 'bus' | 'deadlineClock' | 'holds'
> {
  /** `watched` waits: nothing else is on its way for it. */
  readonly onAnswer: (watched: Watched, answer: Answer) => void;
}

export class WithdrawalSubmits {
  readonly #options: WithdrawalSubmitsOptions;
  #asking = 0;
  /** Wallets of the partition that were revoked since it is followed. */
  #revoked = 0;

  constructor(options: WithdrawalSubmitsOptions) {
    this.#options = options;
  }

  /** Nothing is on its way to an account. */
  get isIdle(): boolean {
    return this.#asking === 0;
  }

  /** A wallet was revoked: what accounts have said until now counts no more. */
  revoked(): void {
    this.#revoked++;
  }

  /** Of a withdrawal. `neverTaken`: its wallet was revoked, and no submit of it was taken. Only said after the account has answered that
   *  the wallet was revoked: from then on nobody else is told to submit it. */
  ask(watched: Watched, neverTaken = false): void {
    const { bus, partition, holds, onAnswer } = this.#options;
    const { accountId, id } = watched;
    const deadline = messageDeadline(this.#options);
    const revoked = this.#revoked;
    watched.state = 'beginning';
    this.#asking++;
    const again = !watched.unsent;
    const command = {
      type: 'BeginSubmission',
      accountId,
      deadline,
      transactionId: id,
      again,
      neverTaken,
    } as const;
    bus.send('accounts', partition, command, (reply) => {
      this.#asking--;
      if (watched.state === 'gone') return;
      const answer = answerOf(reply, again);
      const { submission } = answer;
      const isToBeMade = submission === 'begun' || submission === 'again';
      if (isToBeMade || submission === 'begun_by_other') watched.unsent = false;
      // Whose wallet that was its account knows.
      if (isToBeMade && revoked !== this.#revoked) return this.ask(watched);
      if (submission === 'revoked' && !neverTaken && watched.wasNeverTaken && holds()) {
        return this.ask(watched, true);
      }
      watched.state = 'waiting';
      onAnswer(watched, answer);
    });
  }
}

function answerOf(reply: Reply, again: boolean): Answer {
  if (reply.type === 'rejected') return { submission: 'ended', code: reply.rejection.code };
  if (reply.type !== 'done') return { submission: 'unanswered' };
  const { submission } = JSON.parse(reply.body) as BegunSubmission;
  if (submission === 'ended') return { submission, code: null };
  if (submission === 'begun_before') return { submission: again ? 'again' : 'begun_by_other' };
  return { submission };
}
