// What an account is asked before a withdrawal is submitted, for its payout wallet may have been revoked since it was requested.
// The first submit the account records before it is made: so it knows one that certainly was not sent, and ends it.
//
//   unsent ─▶ account: begun ─▶ submit            wallet revoked ─▶ account: failed, its hold returned ─▶ never submitted
//   again  ─▶ account: not revoked ─▶ submit      wallet revoked ─▶ not submitted; whether it was before, its provider is asked
//
// Crash points: before the account has recorded it, whoever serves the partition next asks again; after that, whoever does so
// does not know whether it was submitted, and enquires first.

import type { Bus, Reply } from '../../src/bus/bus.ts';
import type { BegunSubmission } from '../../src/domain/account-command.ts';
import type { Watched } from './watched.ts';

/** What its account says. */
export type Answer =
  | { readonly submission: 'begun' | 'begun_before' | 'revoked' | 'unanswered' }
  /** `code`: why its account refuses; null: it is final. */
  | { readonly submission: 'ended'; readonly code: string | null };

export interface WithdrawalSubmitsOptions {
  readonly partition: number;
  readonly bus: Bus;
  /** `watched` waits: nothing else is on its way for it. */
  readonly onAnswer: (watched: Watched, answer: Answer) => void;
}

export class WithdrawalSubmits {
  readonly #options: WithdrawalSubmitsOptions;
  #asking = 0;

  constructor(options: WithdrawalSubmitsOptions) {
    this.#options = options;
  }

  /** Nothing is on its way to an account. */
  get isIdle(): boolean {
    return this.#asking === 0;
  }

  /** Of a withdrawal. `deadline`: by the clock of messages. */
  ask(watched: Watched, deadline: number): void {
    const { bus, partition, onAnswer } = this.#options;
    const { accountId, id } = watched;
    watched.state = 'telling';
    this.#asking++;
    const again = !watched.unsent;
    const command = { type: 'BeginSubmission', accountId, deadline, transactionId: id, again } as const;
    bus.send('accounts', partition, command, (reply) => {
      this.#asking--;
      if (watched.state === 'gone') return;
      watched.state = 'waiting';
      onAnswer(watched, answerOf(reply));
    });
  }
}

function answerOf(reply: Reply): Answer {
  if (reply.type === 'rejected') return { submission: 'ended', code: reply.rejection.code };
  if (reply.type !== 'done') return { submission: 'unanswered' };
  const { submission } = JSON.parse(reply.body) as BegunSubmission;
  return submission === 'ended' ? { submission, code: null } : { submission };
}
