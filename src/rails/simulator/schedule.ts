// What the simulator does later: a heap of due times behind one timer. Times are performance.now()'s: a machine's clock that is
// set would stall or rush them.

interface Due {
  readonly at: number;
  readonly run: () => void;
}

export class Schedule {
  readonly #heap: Due[] = [];
  #timer: NodeJS.Timeout | null = null;
  #timerAt = Infinity;
  #closed = false;

  after(delayMs: number, run: () => void): void {
    if (this.#closed) return;
    const due = { at: performance.now() + delayMs, run };
    this.#push(due);
    if (due.at < this.#timerAt) this.#arm(due.at);
  }

  close(): void {
    this.#closed = true;
    this.#heap.length = 0;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #arm(at: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => this.#runDue(), Math.max(1, at - performance.now()));
    this.#timer.unref();
  }

  #runDue(): void {
    this.#timerAt = Infinity;
    const now = performance.now();
    for (let due = this.#heap[0]; due !== undefined && due.at <= now; due = this.#heap[0]) {
      this.#pop();
      due.run();
    }
    const next = this.#heap[0];
    if (next !== undefined && !this.#closed) this.#arm(next.at);
  }

  #push(due: Due): void {
    const heap = this.#heap;
    let index = heap.push(due) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (heap[parent]!.at <= due.at) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = due;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.at < heap[child]!.at) child++;
      if (heap[child]!.at >= last.at) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
  }
}
