// Calls that wait for a rail: each account's in the order they came, the accounts in turn. Who has thousands waiting waits behind
// their own, and nobody else behind them.
//
// Invariants: at most `max` wait, those of one account while they are fewer than the places that are free: one alone has half of
// them at the most, and there is always room for others.

import { Fifo } from '../runtime/fifo.ts';

/** One of what comes second may pass after so many in a row that came first. */
const IN_A_ROW = 4;

interface Line<Call> {
  readonly accountId: string;
  readonly calls: Fifo<Call>;
}

export class CallQueue<Call extends { readonly accountId: string }> {
  readonly #max: number;
  /** Of accounts with calls. */
  readonly #lines = new Map<string, Line<Call>>();
  readonly #turns = new Fifo<Line<Call>>();
  #size = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  /** False: there is no room for it. */
  push(call: Call): boolean {
    const { accountId } = call;
    const waiting = this.#lines.get(accountId);
    if ((waiting?.calls.size ?? 0) >= this.#max - this.#size) return false;
    const line = waiting ?? this.#newLine(accountId);
    line.calls.push(call);
    this.#size++;
    return true;
  }

  shift(): Call | undefined {
    const line = this.#turns.shift();
    if (line === undefined) return undefined;
    this.#size--;
    const call = line.calls.shift();
    if (line.calls.size > 0) this.#turns.push(line);
    else this.#lines.delete(line.accountId);
    return call;
  }

  #newLine(accountId: string): Line<Call> {
    const line = { accountId, calls: new Fifo<Call>() };
    this.#lines.set(accountId, line);
    this.#turns.push(line);
    return line;
  }
}

interface Queue<Call> {
  readonly size: number;
  shift(): Call | undefined;
}

/** Two queues: the first goes first, but each few of it let one of the second pass, so that neither starves. */
export class FirstOf<Call> implements Queue<Call> {
  readonly #first: Queue<Call>;
  readonly #second: Queue<Call>;
  #inARow = 0;

  constructor(first: Queue<Call>, second: Queue<Call>) {
    this.#first = first;
    this.#second = second;
  }

  get size(): number {
    return this.#first.size + this.#second.size;
  }

  shift(): Call | undefined {
    const isSecond = this.#first.size === 0 || (this.#inARow >= IN_A_ROW && this.#second.size > 0);
    this.#inARow = isSecond ? 0 : this.#inARow + 1;
    return isSecond ? this.#second.shift() : this.#first.shift();
  }
}
