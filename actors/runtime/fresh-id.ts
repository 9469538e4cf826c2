// Fresh id bodies and the partition's clock. Time never goes backwards within a partition, also across restarts and
// when the machine's clock is set back: it stands still until the clock has caught up. Layout: src/domain/id.ts.

import { randomFillSync } from 'node:crypto';
import { ALPHABET, encodeTime } from '../../src/domain/id.ts';
import type { Tick } from './group.ts';

const PAIRS: string[] = [];
for (let i = 0; i < 1024; i++) PAIRS.push(ALPHABET.charAt(i >> 5) + ALPHABET.charAt(i & 31));

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
  #now: number;
  #ahead = 0;
  /** What the machine's clock said last. */
  #machine: number;
  #elapsedMs = 0;
  #counter = 0;
  #prefix = '';
  #prefixTime = -1;

  /** `notBefore`: time of the last record in the log. `clock`: milliseconds since 1970. */
  constructor(clock: () => number, notBefore: number) {
    this.#clock = clock;
    this.#now = notBefore;
    this.#machine = clock();
  }

  /** The time and id of one command. */
  tick(): Tick {
    this.now();
    const freshBody = this.#freshBody();
    return { now: this.#now, freshBody, elapsedMs: this.#elapsedMs };
  }

  now(): number {
    const time = this.#clock();
    if (time > this.#machine) this.#elapsedMs += time - this.#machine;
    this.#machine = time;
    if (time > this.#now) {
      this.#now = time;
      this.#counter = 0;
    }
    this.#ahead = this.#now - time;
    return this.#now;
  }

  /** By how much `now` was ahead of the machine's clock when it was last asked for, ms: more than 0 after that was set
   *  back. */
  get ahead(): number {
    return this.#ahead;
  }

  /** For how long somebody has waited: it goes on while `now` stands still. */
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
