// Due times of one partition: a binary min-heap. Entries are never searched or removed early; what fell due and no
// longer applies is dropped by its owner. Rebuilt from state on recovery, so it is never written anywhere.

export class DueHeap<Value> {
  #dues: number[] = [];
  #values: Value[] = [];

  get size(): number {
    return this.#dues.length;
  }

  /** Milliseconds since 1970; Infinity when empty. */
  nextDue(): number {
    return this.#dues[0] ?? Infinity;
  }

  push(dueAt: number, value: Value): void {
    const dues = this.#dues;
    const values = this.#values;
    let at = dues.length;
    dues.push(dueAt);
    values.push(value);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (dues[parent]! <= dueAt) break;
      dues[at] = dues[parent]!;
      values[at] = values[parent]!;
      at = parent;
    }
    dues[at] = dueAt;
    values[at] = value;
  }

  /** Removes and returns the earliest value if it is due at `now`. */
  takeDue(now: number): Value | undefined {
    if (this.#dues.length === 0 || this.#dues[0]! > now) return undefined;
    const first = this.#values[0]!;
    const lastDue = this.#dues.pop()!;
    const lastValue = this.#values.pop()!;
    if (this.#dues.length > 0) this.#sinkFromTop(lastDue, lastValue);
    return first;
  }

  #sinkFromTop(due: number, value: Value): void {
    const dues = this.#dues;
    const values = this.#values;
    const size = dues.length;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && dues[child + 1]! < dues[child]!) child++;
      if (dues[child]! >= due) break;
      dues[at] = dues[child]!;
      values[at] = values[child]!;
      at = child;
    }
    dues[at] = due;
    values[at] = value;
  }
}
