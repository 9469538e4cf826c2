// The work that drivers put on a server: which requests, for which merchants. The n-th request of a work is the same in
// every driver (node here, Lua in wrk.ts), so that a later check can ask for exactly what was sent.
//
// Invariants: all requests of one kind have the same length; every create has an idempotency key and a reference of its own.

import { readFileSync } from 'node:fs';

export const KINDS = ['charge', 'payout', 'read', 'list'] as const;
export type Kind = (typeof KINDS)[number];

export interface Work {
  /** The n-th request is of kind kinds[n % length]: the mix. */
  readonly kinds: readonly Kind[];
  /** File of secret keys, one a line. */
  readonly keysFile: string;
  /** File of "key number, space, charge id" lines, for reads; null when there are none. */
  readonly idsFile: string | null;
  /** Paths with queries, for lists; taken in turn. */
  readonly lists: readonly string[];
  /** Of the numbers charged and paid to. */
  readonly msisdn: string;
  /** Of idempotency keys and references; another for each run on the same server. */
  readonly prefix: string;
}

/** Digits of the counter in keys and references. */
export const COUNTER_DIGITS = 9;
/** 2^32 over the golden ratio: consecutive numbers scatter over the ids. Products stay exact below 3 million requests,
 *  and agree between JavaScript and Lua beyond. */
export const SCATTER = 2_654_435_769;
export const SCATTER_MODULUS = 4_294_967_296;

export interface Target {
  readonly key: string;
  readonly id: string;
}

export function kindOf({ kinds }: Work, counter: number): Kind {
  return kinds[counter % kinds.length]!;
}

export function isCreate(kind: Kind): boolean {
  return kind === 'charge' || kind === 'payout';
}

export class RequestMaker {
  readonly work: Work;
  readonly #host: string;
  readonly #keys: readonly string[];
  readonly #ids: readonly Target[];

  constructor(work: Work, host: string) {
    this.work = work;
    this.#host = host;
    this.#keys = linesOf(work.keysFile);
    this.#ids = work.idsFile === null ? [] : targetsOf(work.idsFile, this.#keys);
  }

  keyOf(counter: number): string {
    return this.#keys[counter % this.#keys.length]!;
  }

  keyNumberOf(counter: number): number {
    return counter % this.#keys.length;
  }

  /** The bytes of the n-th request, as a latin1 string. */
  request(counter: number): string {
    const kind = kindOf(this.work, counter);
    switch (kind) {
      case 'charge':
        return this.#create('/v1/charges', counter);
      case 'payout':
        return this.#create('/v1/payouts', counter);
      case 'read': {
        const { key, id } = this.#ids[scatter(counter, this.#ids.length)]!;
        return this.#get(`/v1/charges/${id}`, key);
      }
      case 'list':
        return this.#get(this.work.lists[counter % this.work.lists.length]!, this.keyOf(counter));
    }
  }

  #create(path: string, counter: number): string {
    const number = String(counter).padStart(COUNTER_DIGITS, '0');
    const { prefix, msisdn } = this.work;
    return createText({ host: this.#host, path, prefix, msisdn, key: this.keyOf(counter), number });
  }

  #get(path: string, key: string): string {
    return getText(this.#host, path, key);
  }
}

export interface CreateParts {
  readonly host: string;
  readonly path: string;
  readonly prefix: string;
  readonly msisdn: string;
  readonly key: string;
  /** COUNTER_DIGITS characters. */
  readonly number: string;
}

/** Also the template from which wrk.ts makes Lua. */
export function createText({ host, path, prefix, msisdn, key, number }: CreateParts): string {
  const body = `{"amount":"500","currency":"UGX","msisdn":"${msisdn}","reference":"${prefix}-${number}"}`;
  return (
    `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n` +
    `Idempotency-Key: ${prefix}-${number}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  );
}

export function getText(host: string, path: string, key: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`;
}

function scatter(counter: number, count: number): number {
  return ((counter * SCATTER) % SCATTER_MODULUS) % count;
}

export function linesOf(path: string): string[] {
  return readFileSync(path, 'latin1').split('\n').filter(Boolean);
}

export function targetsOf(path: string, keys: readonly string[]): Target[] {
  return linesOf(path).map((line) => {
    const [number = '', id = ''] = line.split(' ');
    return { key: keys[Number(number)]!, id };
  });
}
