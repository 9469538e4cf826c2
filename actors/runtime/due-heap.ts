// Due times of one partition: a binary min-heap; what is due at one time comes in the order it was put in. Entries are
// never searched or removed early; what fell due and no longer applies is dropped by its owner. Rebuilt from state on
// recovery, so it is never written anywhere.

export class DueHeap<Value> {
  #dues: number[] = [];
  /** Which of all pushes each was: says who comes first of those due at one time. */
  #turns: number[] = [];
  #values: Value[] = [];
  #pushed = 0;

  get size(): number {
    return this.#dues.length;
  }

  /** Milliseconds since 1970; Infinity when empty. */
  nextDue(): number {
    return this.#dues[0] ?? Infinity;
  }

  push(dueAt: number, value: Value): void {
    const turn = this.#pushed++;
    let at = this.#dues.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      // Whoever is there was put in before.
      if (this.#dues[parent]! <= dueAt) break;
      this.#move(parent, at);
      at = parent;
    }
    this.#put(at, dueAt, turn, value);
  }

  /** Removes and returns the earliest value if it is due at `now`. */
  takeDue(now: number): Value | undefined {
    if (this.#dues.length === 0 || this.#dues[0]! > now) return undefined;
    const first = this.#values[0]!;
    const lastDue = this.#dues.pop()!;
    const lastTurn = this.#turns.pop()!;
    const lastValue = this.#values.pop()!;
    if (this.#dues.length > 0) this.#sinkFromTop(lastDue, lastTurn, lastValue);
    return first;
  }

  #sinkFromTop(due: number, turn: number, value: Value): void {
    const size = this.#dues.length;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && this.#isBefore(child + 1, this.#dues[child]!, this.#turns[child]!)) child++;
      if (!this.#isBefore(child, due, turn)) break;
      this.#move(child, at);
      at = child;
    }
    this.#put(at, due, turn, value);
  }

  #isBefore(at: number, due: number, turn: number): boolean {
    const dueAt = this.#dues[at]!;
    return dueAt < due || (dueAt === due && this.#turns[at]! < turn);
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#dues[from]!, this.#turns[from]!, this.#values[from]!);
  }

  #put(at: number, due: number, turn: number, value: Value): void {
    this.#dues[at] = due;
    this.#turns[at] = turn;
    this.#values[at] = value;
  }
}
