// What JetStream refuses is asked for again until it does not. The reason is told to whoever runs the process: nobody else hears of it,
// and if it is a limit of the account, or a stream that is gone, waiting does not help.

import type { NatsError } from 'nats';
import type { NatsLink } from './connection.ts';

export class Refusals {
  readonly #link: Pick<NatsLink, 'complain'>;
  readonly #stream: string;
  /** What it said last; null: nothing since it was done. */
  #last: string | null = null;

  constructor(link: Pick<NatsLink, 'complain'>, stream: string) {
    this.#link = link;
    this.#stream = stream;
  }

  /** Says it once. An error of another kind (no leader, no connection, a time-out) passes, and is told elsewhere. */
  note(error: unknown): void {
    const { api_error: refusal } = error as NatsError;
    if (refusal === undefined || refusal.description === this.#last) return;
    this.#last = refusal.description;
    this.#link.complain(`${this.#stream} cannot be read: ${refusal.description}`);
  }

  /** It was done. */
  clear(): void {
    this.#last = null;
  }
}
