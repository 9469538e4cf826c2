// At most so many at a time; the others wait in line.

export class Semaphore {
  #free: number;
  /** In the order in which they came. */
  readonly #waiting = new Set<() => void>();

  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  /** `onTurn` is called once: now, or when others have ended. Returns how to end the turn, or to leave the line. */
  take(onTurn: () => void): () => void {
    let state: 'waits' | 'called' | 'ended' = 'waits';
    const call = (): void => {
      state = 'called';
      onTurn();
    };
    if (this.#free > 0) {
      this.#free--;
      call();
    } else {
      this.#waiting.add(call);
    }
    return () => {
      if (state === 'waits') this.#waiting.delete(call);
      if (state === 'called') this.#callNext();
      state = 'ended';
    };
  }

  #callNext(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
