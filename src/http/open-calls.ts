// The calls that have no answer yet, in the order in which they fall due: two lists, because all deadlines of a kind are
// equally long. Joining and leaving cost a few assignments; a coarse sweep looks at the heads only. Nothing else in the
// front keeps time, so a request needs no timer of its own.

import type { Call } from './call.ts';

export class CallList {
  #first: Call | null = null;
  #last: Call | null = null;
  #length = 0;

  get first(): Call | null {
    return this.#first;
  }

  get length(): number {
    return this.#length;
  }

  /** Leaves the list it stands in, if any, and joins this one at its end. */
  append(call: Call): void {
    call.list?.remove(call);
    call.list = this;
    call.previous = this.#last;
    call.next = null;
    if (this.#last === null) this.#first = call;
    else this.#last.next = call;
    this.#last = call;
    this.#length++;
  }

  remove(call: Call): void {
    if (call.previous === null) this.#first = call.next;
    else call.previous.next = call.next;
    if (call.next === null) this.#last = call.previous;
    else call.next.previous = call.previous;
    call.list = null;
    call.previous = null;
    call.next = null;
    this.#length--;
  }
}

export class OpenCalls {
  readonly receiving = new CallList();
  readonly waiting = new CallList();
  /** Closed: their answers are long, and their clients are still taking them. */
  readonly pouring = new Set<Call>();
  /** What those answers take. */
  pouringBytes = 0;
  /** Closed: their HEAD is answered, and their connection is open yet. */
  readonly heads = new Set<Call>();
  /** What the bodies that are not whole yet take, all calls together. */
  bodyBytes = 0;

  get count(): number {
    return this.receiving.length + this.waiting.length;
  }

  /** Ends every call that is past its deadline, and every connection whose HEAD is answered. */
  expire(now: number): void {
    expireIn(this.receiving, now);
    expireIn(this.waiting, now);
    for (const call of this.heads) call.closeHead();
  }
}

function expireIn(list: CallList, now: number): void {
  for (let call = list.first; call !== null && call.expiresAt <= now; call = list.first) call.expire();
}
