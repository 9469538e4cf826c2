// The calls of a server that are not over yet. Those that have no answer stand in the order in which they fall due, in two
// lists, because all deadlines of a kind are equally long. Joining and leaving cost a few assignments; a coarse sweep looks
// at the heads only. Nothing else in the front keeps time, so a request needs no timer of its own.

/** What is seen of a call here. */
export interface OpenCall {
  /** The list it stands in, and its neighbours there: kept here. Null: the call is closed. */
  list: CallList | null;
  previous: OpenCall | null;
  next: OpenCall | null;
  /** performance.now(); past it the call is cut off. */
  readonly expiresAt: number;
  /** Past its deadline. */
  expire(): void;
  /** It is answered: its client gets no more of that, and the call leaves the lists here at once. */
  closeConnection(): void;
  /** Answered at once, with 503 unless what has come of it was too much already: others need its place. */
  makeWay(): void;
}

export class CallList {
  #first: OpenCall | null = null;
  #last: OpenCall | null = null;
  #length = 0;

  get first(): OpenCall | null {
    return this.#first;
  }

  get length(): number {
    return this.#length;
  }

  /** Leaves the list it stands in, if any, and joins this one at its end. */
  append(call: OpenCall): void {
    call.list?.remove(call);
    call.list = this;
    call.previous = this.#last;
    if (this.#last === null) this.#first = call;
    else this.#last.next = call;
    this.#last = call;
    this.#length++;
  }

  remove(call: OpenCall): void {
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
  readonly pouring = new Set<OpenCall>();
  /** What those answers take. */
  pouringBytes = 0;
  /** Closed: their HEAD is answered, and their connection is open yet. */
  readonly heads = new Set<OpenCall>();
  /** Of those whose bodies are coming the ones that keep some of it, the one that began first at the head. */
  readonly keeping = new Set<OpenCall>();
  /** What the bodies that are not whole yet take, all calls together. */
  bodyBytes = 0;

  get count(): number {
    return this.receiving.length + this.waiting.length;
  }

  /** False: a front full of `callsMax` stays so. Of those whose bodies are still coming the one that has been at it longest makes room for
   *  one more, where they have more than half of the places: what anybody may send without a key takes a place from nobody. */
  makeRoom(callsMax: number): boolean {
    if (this.count < callsMax) return true;
    if (this.receiving.length * 2 <= callsMax) return false;
    this.receiving.first?.makeWay();
    return this.count < callsMax;
  }

  /** So that `bytes` more of `asking`'s body fit in `bytesMax`, those that have been coming longest are refused, itself at worst. */
  makeBodyRoom(asking: OpenCall, bytes: number, bytesMax: number): void {
    for (const call of this.keeping) {
      if (this.bodyBytes + bytes <= bytesMax) return;
      this.keeping.delete(call);
      call.makeWay();
      // It needs no room any more: others would be refused for nothing.
      if (call === asking) return;
    }
  }

  /** Of the answers that clients take no more than this is kept: whose client has been at it longest is cut short. */
  makeAnswerRoom(bytesMax: number): void {
    if (this.pouringBytes <= bytesMax) return;
    for (const call of this.pouring) {
      call.closeConnection();
      if (this.pouringBytes <= bytesMax) return;
    }
  }

  /** Ends every call that is past its deadline, and every connection whose HEAD is answered. */
  expire(now: number): void {
    expireIn(this.receiving, now);
    expireIn(this.waiting, now);
    for (const call of this.heads) call.closeConnection();
  }
}

function expireIn(list: CallList, now: number): void {
  for (let call = list.first; call !== null && call.expiresAt <= now; call = list.first) call.expire();
}
