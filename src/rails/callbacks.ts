// What providers call back on, and what a callback tells us: that there is news of a transaction, never what the news is.
//
//   /callbacks/<rail id>/<reference><mac>       one address for each transaction, sent along with its submit (MTN)
//   /callbacks/<rail id>/portal/<rail secret>   one address for a rail, set in the provider's portal (Airtel); the
//                                               reference is in the body
//
// `mac`: HMAC-SHA256 of the rail id and the reference, base64url, first 22 characters (132 bits): nobody can make up an
// address, or learn from one address another. Compared in constant time.
//
// The body is read leniently: unknown, missing or odd fields lose no callback. Who answers the provider says 200 to
// what was looked into, and to whatever else has an address of ours, so that it stops.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { providerWord } from './provider-word.ts';
import type { OutcomeHint } from './rail.ts';
import { parseReference, REFERENCE_LENGTH, referenceOf } from './reference.ts';

const MAC_LENGTH = 22;
const PREFIX = '/callbacks/';
const PORTAL = 'portal/';

export type Callback =
  | { readonly type: 'hint'; readonly railId: string; readonly hint: OutcomeHint }
  /** From the provider, but about no transaction of ours that could be told from it. */
  | { readonly type: 'unknown'; readonly railId: string; readonly detail: string }
  /** Not an address of ours: 404. */
  | { readonly type: 'not_found' };

export interface CallbacksOptions {
  /** Secret; at least 32 bytes, the same on every node and for as long as callbacks may come. */
  readonly key: Buffer;
  /** Rail id → the secret in its portal address. */
  readonly portalSecrets: ReadonlyMap<string, string>;
}

export class Callbacks {
  readonly #key: Buffer;
  readonly #portalSecrets: ReadonlyMap<string, string>;

  constructor({ key, portalSecrets }: CallbacksOptions) {
    this.#key = key;
    this.#portalSecrets = portalSecrets;
  }

  /** Where the provider is asked to call back about one transaction. `baseUrl` has no slash at its end. */
  callbackUrl(baseUrl: string, railId: string, transaction: { id: string; accountId: string }): string {
    const reference = referenceOf(transaction);
    return `${baseUrl}${PREFIX}${railId}/${reference}${this.#mac(railId, reference)}`;
  }

  /** What to enter in the provider's portal; null: the rail has no such secret. */
  portalUrl(baseUrl: string, railId: string): string | null {
    const secret = this.#portalSecrets.get(railId);
    return secret === undefined ? null : `${baseUrl}${PREFIX}${railId}/${PORTAL}${secret}`;
  }

  /** `path`: of the request, without query. MTN calls with PUT or POST, Airtel with POST. */
  read(method: string, path: string, body: string): Callback {
    const isPut = method.toUpperCase() === 'PUT';
    if ((!isPut && method.toUpperCase() !== 'POST') || !path.startsWith(PREFIX)) return NOT_FOUND;
    const slash = path.indexOf('/', PREFIX.length);
    if (slash === -1) return NOT_FOUND;
    const railId = path.slice(PREFIX.length, slash);
    const token = path.slice(slash + 1);
    if (token.startsWith(PORTAL)) {
      return isPut ? NOT_FOUND : this.#readPortal(railId, token.slice(PORTAL.length), body);
    }
    return this.#readToken(railId, token);
  }

  /** The address alone says which transaction: MTN's body may lack the reference. */
  #readToken(railId: string, token: string): Callback {
    if (token.length !== REFERENCE_LENGTH + MAC_LENGTH) return NOT_FOUND;
    const reference = token.slice(0, REFERENCE_LENGTH);
    if (!isSame(token.slice(REFERENCE_LENGTH), this.#mac(railId, reference))) return NOT_FOUND;
    const hint = parseReference(reference);
    return hint === null ? NOT_FOUND : { type: 'hint', railId, hint };
  }

  #readPortal(railId: string, secret: string, body: string): Callback {
    const expected = this.#portalSecrets.get(railId);
    if (expected === undefined || !isSame(secret, expected)) return NOT_FOUND;
    for (const reference of referencesIn(body)) {
      const hint = parseReference(reference);
      if (hint !== null) return { type: 'hint', railId, hint };
    }
    return { type: 'unknown', railId, detail: describe(body) };
  }

  #mac(railId: string, reference: string): string {
    return createHmac('sha256', this.#key)
      .update(`${railId}\n${reference}`)
      .digest('base64url')
      .slice(0, MAC_LENGTH);
  }
}

const NOT_FOUND: Callback = { type: 'not_found' };

/** Both are hashed first, so that neither the length nor the place of a difference takes its own time. */
function isSame(given: string, expected: string): boolean {
  const digest = (text: string) => createHmac('sha256', 'compare').update(text).digest();
  return timingSafeEqual(digest(given), digest(expected));
}

/** Where Airtel has been seen to put our id: `transaction.id`, also inside `data`; numbers and cases vary. */
function referencesIn(body: string): string[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    // A body that is no JSON has no reference: reported as unknown by the caller.
    return [];
  }
  const outer = fieldsOf(parsed);
  return [outer, fieldsOf(outer['data'])]
    .map((fields) => fieldsOf(fields['transaction'])['id'])
    .filter((id): id is string | number => typeof id === 'string' || typeof id === 'number')
    .map((id) => String(id).trim());
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** For an operator: what it was about, without what may be a phone number. */
function describe(body: string): string {
  const [reference] = referencesIn(body);
  if (reference === undefined) return `a body of ${body.length} characters without a transaction id`;
  return `the transaction id ${JSON.stringify(providerWord(reference))}`;
}
