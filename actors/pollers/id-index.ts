// Gives a number to each id that is put in, small ones again and again, and finds it by the id: a hash table with chaining in
// columns of numbers. Whoever has the ids keeps them in columns too, by that number; unlike in a Map, no garbage collection
// walks over them.
//
// Invariants: a number in use is in one chain, one that is free in the list of those that are.

import { assert } from '../../src/domain/assert.ts';

/** No number. */
export const NONE = -1;

const ROWS_AT_FIRST = 64;
/** Characters of an id that tell it from others. */
const HASHED_CHARACTERS = 12;

export class IdIndex {
  readonly #idOf: (number: number) => string;
  /** The first number of each chain; as many as a power of two. */
  #heads = new Int32Array(ROWS_AT_FIRST).fill(NONE);
  // By number: its id's hash, and the next of its chain or of the free ones.
  #hashes = new Int32Array(ROWS_AT_FIRST);
  #nexts = new Int32Array(ROWS_AT_FIRST);
  #free = NONE;
  /** Numbers ever given. */
  #given = 0;
  #size = 0;

  /** `idOf`: of a number in use. */
  constructor(idOf: (number: number) => string) {
    this.#idOf = idOf;
  }

  get size(): number {
    return this.#size;
  }

  /** The number of an id, or NONE. */
  find(id: string): number {
    const hash = hashOf(id);
    for (let number = this.#heads[this.#chainOf(hash)]!; number !== NONE; number = this.#nexts[number]!) {
      if (this.#hashes[number] === hash && this.#idOf(number) === id) return number;
    }
    return NONE;
  }

  /** An id that is not in it. */
  add(id: string): number {
    if (this.#size === this.#heads.length) this.#grow();
    const number = this.#takeFree();
    this.#hashes[number] = hashOf(id);
    this.#link(number);
    this.#size++;
    return number;
  }

  remove(number: number): void {
    const chain = this.#chainOf(this.#hashes[number]!);
    const next = this.#nexts[number]!;
    let before = NONE;
    for (let at = this.#heads[chain]!; at !== number; at = this.#nexts[at]!) {
      assert(at !== NONE, 'the number of what is removed is in its chain');
      before = at;
    }
    if (before === NONE) this.#heads[chain] = next;
    else this.#nexts[before] = next;
    this.#nexts[number] = this.#free;
    this.#free = number;
    this.#size--;
  }

  #takeFree(): number {
    if (this.#free === NONE) return this.#given++;
    const number = this.#free;
    this.#free = this.#nexts[number]!;
    return number;
  }

  #chainOf(hash: number): number {
    return hash & (this.#heads.length - 1);
  }

  #link(number: number): void {
    const chain = this.#chainOf(this.#hashes[number]!);
    this.#nexts[number] = this.#heads[chain]!;
    this.#heads[chain] = number;
  }

  /** When every number is in use. */
  #grow(): void {
    const length = 2 * this.#heads.length;
    const hashes = new Int32Array(length);
    hashes.set(this.#hashes);
    this.#hashes = hashes;
    this.#nexts = new Int32Array(length);
    this.#heads = new Int32Array(length).fill(NONE);
    for (let number = 0; number < this.#given; number++) this.#link(number);
  }
}

/** FNV-1a of the end of an id, where it is random (src/domain/id.ts). */
function hashOf(id: string): number {
  let hash = 0x81_1c_9d_c5;
  for (let i = Math.max(0, id.length - HASHED_CHARACTERS); i < id.length; i++) {
    hash = Math.imul(hash ^ id.charCodeAt(i), 0x01_00_01_93);
  }
  // The low bits say which chain: the high ones go into them.
  return hash ^ (hash >>> 15);
}
