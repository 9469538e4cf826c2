// A first-in-first-out queue in a ring of slots. Neither end costs more at any length, and what has left is not referred to
// any more: held on to until some clearing up, the calls of a busy service would all grow old in the heap.

/** A ring this large is given back when it runs empty: it was a burst. */
const SLOTS_KEPT = 1_024;
const SLOTS_AT_FIRST = 4;

export class Fifo<Item> {
  /** As many as a power of two, or none. */
  #slots: (Item | undefined)[] = [];
  #head = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  peek(): Item | undefined {
    return this.#slots[this.#head];
  }

  push(item: Item): void {
    if (this.#size === this.#slots.length) this.#grow();
    this.#slots[(this.#head + this.#size) & (this.#slots.length - 1)] = item;
    this.#size++;
  }

  shift(): Item | undefined {
    if (this.#size === 0) return undefined;
    const item = this.#slots[this.#head];
    this.#slots[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#slots.length - 1);
    this.#size--;
    if (this.#size === 0 && this.#slots.length > SLOTS_KEPT) {
      this.#slots = [];
      this.#head = 0;
    }
    return item;
  }

  #grow(): void {
    const slots = this.#slots;
    this.#slots = Array<Item | undefined>(Math.max(SLOTS_AT_FIRST, slots.length * 2));
    for (let i = 0; i < this.#size; i++) this.#slots[i] = slots[(this.#head + i) & (slots.length - 1)];
    this.#head = 0;
  }
}
