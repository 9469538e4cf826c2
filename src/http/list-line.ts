// Lists cost a hundred times what another read does, some thousand times where metadata is large. So they wait in line: of each
// key a few are under way at a time, the keys come one after the other, and each turn of the event loop begins them for a moment
// only. Who asks for many waits behind their own, and nobody else behind them, nor does an account whose keys they make up.

import { LIMITS } from '../limits.ts';

/** `onDone` is to be called once, when it has its answer or needs none any more. */
type Begin = (onDone: () => void) => void;

interface Lane {
  readonly key: string;
  readonly waiting: Begin[];
  underWay: number;
}

export class ListLine {
  /** By key: those with anything waiting or under way. */
  readonly #lanes = new Map<string, Lane>();
  /** Those of which one may begin, in the order of their turns. */
  readonly #ready = new Set<Lane>();
  #isScheduled = false;

  /** `key`: anything that tells keys apart. */
  append(key: string, begin: Begin): void {
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = { key, waiting: [], underWay: 0 };
      this.#lanes.set(key, lane);
    }
    lane.waiting.push(begin);
    this.#look(lane);
  }

  #look(lane: Lane): void {
    if (lane.waiting.length > 0) {
      if (lane.underWay < LIMITS.keyListsAtOnceMax) this.#ready.add(lane);
    } else if (lane.underWay === 0) {
      this.#lanes.delete(lane.key);
    }
    if (this.#ready.size === 0 || this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#beginSome());
  }

  #beginSome(): void {
    const until = performance.now() + LIMITS.turnMs;
    for (const lane of this.#ready) {
      this.#ready.delete(lane);
      const begin = lane.waiting.shift();
      if (begin === undefined) continue;
      lane.underWay++;
      begin(() => {
        lane.underWay--;
        this.#look(lane);
      });
      this.#look(lane);
      if (performance.now() >= until) break;
    }
    this.#isScheduled = false;
    const [next] = this.#ready;
    if (next !== undefined) this.#look(next);
  }
}
