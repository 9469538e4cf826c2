// Requests that have arrived whole, until the HTTP library is through with what it read along with them. What follows a
// request too early (trailers of a chunked body, a second request that is malformed) makes the library answer 400, 431 or
// 505 in that request's place and close the connection. Acted on before, it would have been created under a 4xx or 5xx. And a
// row of requests in one packet would be served to its end, whatever each costs, before anybody else had a turn.
//
// Invariant: nothing that a request asks for is begun in the turn of the event loop in which its last byte was read.

export class Arrived {
  #waiting: (() => void)[] = [];
  readonly #handOn = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const act of waiting) act();
  };

  /** `act` runs when everything that was read in this turn has been parsed. */
  append(act: () => void): void {
    // One for all requests of a turn.
    if (this.#waiting.length === 0) setImmediate(this.#handOn);
    this.#waiting.push(act);
  }
}
