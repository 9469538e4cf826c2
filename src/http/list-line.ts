// A list costs a hundred times what another read does, a thousand times if metadata is large. So lists wait in line: a few of each key are
// under way at a time, the keys take turns, and each turn of the event loop begins lists for a moment only. Whoever asks for many waits
// behind their own. Nobody else waits behind them, not even the account for which they made up keys.

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
      // Of a lane that is ready something waits.
      const begin = lane.waiting.shift()!;
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
