// Something done for each of many, a few in each turn of the event loop: whoever calls meanwhile waits for a few, not for all.

import { LIMITS } from '../limits.ts';

export class InTurns<Each> {
  readonly #act: (each: Each) => void;
  /** Still to come; empty: at rest. */
  #rest: Each[] = [];

  constructor(act: (each: Each) => void) {
    this.#act = act;
  }

  /** The first few at once. Does nothing while those of the last time are not through. */
  begin(all: Iterable<Each>): void {
    if (this.#rest.length > 0) return;
    this.#rest = [...all].reverse();
    this.#go();
  }

  #go(): void {
    const until = performance.now() + LIMITS.turnMs;
    for (;;) {
      const each = this.#rest.pop();
      if (each === undefined) return;
      this.#act(each);
      if (performance.now() >= until) break;
    }
    if (this.#rest.length > 0) setImmediate(() => this.#go());
  }
}
