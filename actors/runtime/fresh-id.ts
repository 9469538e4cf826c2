// Fresh id bodies and the partition's clock. Time never goes backwards within a partition, not across restarts, nor when the clock it is
// given is set back: then it runs on from the last record, a little more slowly than time elapses, until the clock has caught up. So
// what is due still falls due. Layout of ids: src/domain/id.ts.

import { randomFillSync } from 'node:crypto';
import { ALPHABET, encodeTime, PAIRS } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Tick } from './group.ts';

const COUNTER_MAX = 32 * 32 * 32 - 1;
const OBJECT_SUFFIX = '00';

/** Random words drawn from the system in blocks: one call per thousand ids. */
const pool = new Uint32Array(2048);
let poolUsed = pool.length;

function randomWord(): number {
  if (poolUsed === pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  return pool[poolUsed++]!;
}

export class PartitionClock {
  #clock: () => number;
  /** Whole milliseconds. */
  #now: number;
  /** Of a millisecond: what has elapsed beyond `#now` while it was ahead. */
  #fraction = 0;
  /** What the clock said last. */
  #read: number;
  #elapsedMs = 0;
  /** Of the ids of this millisecond. How many were made in that of the last record nobody knows: it has no room for more. */
  #counter = COUNTER_MAX;
  #prefix = '';
  #prefixTime = -1;

  /** `notBefore`: time of the last record in the log. `clock`: milliseconds since 1970. */
  constructor(clock: () => number, notBefore: number) {
    this.#clock = clock;
    this.#now = notBefore;
    this.#read = clock();
  }

  /** The time and id of one command; `writeFormat` goes with them. */
  tick(writeFormat: number): Tick {
    this.now();
    const freshBody = this.#freshBody();
    return { now: this.#now, freshBody, elapsedMs: this.#elapsedMs, writeFormat };
  }

  now(): number {
    const time = this.#clock();
    const elapsedMs = Math.max(0, time - this.#read);
    this.#elapsedMs += elapsedMs;
    this.#read = time;
    const ranOn = this.#fraction + elapsedMs * LIMITS.clockPaceMin;
    const wholeMs = Math.floor(ranOn);
    const isAhead = this.#now + wholeMs > time;
    this.#fraction = isAhead ? ranOn - wholeMs : 0;
    const now = isAhead ? this.#now + wholeMs : Math.max(time, this.#now);
    if (now > this.#now) {
      this.#now = now;
      this.#counter = 0;
    }
    return now;
  }

  /** A record with this time is known of. */
  notBefore(time: number): void {
    if (time <= this.#now) return;
    this.#now = time;
    this.#fraction = 0;
    this.#counter = 0;
  }

  /** By how much `now` was ahead of the clock when it was last asked for, ms. */
  get aheadMs(): number {
    return Math.max(0, this.#now - this.#read);
  }

  /** For how long somebody has waited: by the clock, also while `now` is ahead of it. */
  elapsedMs(): number {
    this.now();
    return this.#elapsedMs;
  }

  /** 26 characters, greater than every body made before; its time is that of `#now` afterwards. */
  #freshBody(): string {
    if (this.#counter === COUNTER_MAX) {
      this.#now++;
      this.#counter = 0;
    }
    const counter = this.#counter++;
    if (this.#prefixTime !== this.#now) {
      this.#prefix = encodeTime(this.#now);
      this.#prefixTime = this.#now;
    }
    const a = randomWord();
    const b = randomWord();
    return (
      this.#prefix +
      PAIRS[counter >> 5]! +
      ALPHABET[counter & 31]! +
      PAIRS[a & 1023]! +
      PAIRS[(a >>> 10) & 1023]! +
      PAIRS[(a >>> 20) & 1023]! +
      PAIRS[b & 1023]! +
      PAIRS[(b >>> 10) & 1023]! +
      ALPHABET[(b >>> 20) & 31]! +
      OBJECT_SUFFIX
    );
  }
}
