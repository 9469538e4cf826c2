// Airtel Open API: collections (unsigned v1, signed v2) and disbursements of one country. Every word, code and HTTP
// status of Airtel becomes a result of rail.ts here; nothing is thrown for what the outside does.
//
// Invariants: the same transaction id for every attempt; HTTP 200 says nothing by itself, the body does; only a listed
// code or a final word ends a transaction, everything else means "enquire"; a disbursement without a final word about
// itself is never failed.

import type { KeyObject } from 'node:crypto';
import type { PendingTransaction } from '../domain/account-command.ts';
import { assert } from '../domain/assert.ts';
import { hasAtMostDecimals, money, toMajorUnits } from '../domain/money.ts';
import { encryptRsa, parsePublicKey, type PinPadding, sign } from './airtel-crypto.ts';
import { airtelCheck, readEnquiry, readSubmit } from './airtel-answers.ts';
import { HttpClient, type HttpResult, objectAt, parseObject, textAt } from './http-client.ts';
import type { CheckResult, ProviderRail, ProviderRailOptions } from './provider-rail.ts';
import { directionOf, type EnquiryResult, type IsToBeSent, type SubmitResult } from './rail.ts';
import { referenceOf } from './reference.ts';
import { failed } from './terminal.ts';
import {
  type CallResult,
  type Minted,
  sendWithToken,
  TokenCache,
  type TokenFailure,
  tokenIn,
} from './token-cache.ts';

export interface AirtelPin {
  readonly pin: string;
  readonly padding: PinPadding;
  /** PEM or base64 DER. Airtel gives it; the one that it publishes is for signatures alone. */
  readonly publicKey: string;
}

export interface AirtelOptions extends ProviderRailOptions {
  readonly clientId: string;
  readonly clientSecret: string;
  /** v1 is unsigned; v2 is signed (Uganda). */
  readonly collectionApi: 'v1' | 'v2';
  /** What amounts may have in this market: the currency's, or fewer. */
  readonly amountDecimals: number;
  /** Null: the route does not send. */
  readonly disbursement: AirtelPin | null;
}

const TOKEN_LIFE_SECONDS = 180;
/** National numbers have this many digits in all three countries. */
const NATIONAL_DIGITS = 9;
const SIGNATURE_REFUSED = 'DP00800001026';
/** How long a published key is used, at the most; one that Airtel refuses is fetched anew. */
const KEY_LIFE_MS = 3_600_000;

interface SubmitRequest {
  readonly path: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface PublishedKey {
  readonly type: 'key';
  readonly key: KeyObject;
  readonly until: number;
}

/** What was said instead; an answer may have no key, or one that is none. */
type NoKey = CallResult;

interface Submitted {
  readonly read: SubmitResult;
  /** Null: it was not signed. */
  readonly signedWith: KeyObject | null;
}

export class AirtelRail implements ProviderRail {
  readonly id: string;
  readonly maxConcurrency: number;
  readonly notFoundGraceMs: number;
  readonly forgetful: boolean;
  readonly #options: AirtelOptions;
  readonly #http: HttpClient;
  readonly #tokens: TokenCache;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #pinKey: KeyObject | null;
  #published: PublishedKey | null = null;
  #fetchingKey: Promise<PublishedKey | NoKey> | null = null;

  constructor(options: AirtelOptions) {
    const { id, maxConcurrency, notFoundGraceMs, baseUrl, answerMs, country, currency, disbursement } =
      options;
    this.id = id;
    this.maxConcurrency = maxConcurrency;
    this.notFoundGraceMs = notFoundGraceMs;
    this.forgetful = options.forgetful;
    this.#options = options;
    const secrets = [options.clientSecret];
    this.#http = new HttpClient({ baseUrl, connections: maxConcurrency, answerMs, secrets });
    this.#tokens = new TokenCache(() => this.#mint(), options.clock, answerMs);
    this.#headers = { Accept: '*/*', 'X-Country': country, 'X-Currency': currency };
    this.#pinKey = disbursement === null ? null : parsePublicKey(disbursement.publicKey);
  }

  async submit(transaction: PendingTransaction, isToBeSent?: IsToBeSent): Promise<SubmitResult> {
    if (directionOf(transaction) === 'send' && this.#options.disbursement === null) {
      return failed('provider_rejected', null, `${this.id} has no PIN to send with.`);
    }
    const { amountDecimals } = this.#options;
    const { amount, currency } = transaction;
    // Never rounded: what is moved is what was asked for, or nothing.
    if (!hasAtMostDecimals(amountDecimals, money(amount), currency)) {
      const what = `Airtel takes amounts in ${currency} with at most ${amountDecimals} decimals.`;
      return failed('provider_rejected', null, what);
    }
    const { read, signedWith } = await this.#submitOnce(transaction, isToBeSent);
    const keyMayBeOld =
      signedWith !== null &&
      read.type === 'failed' &&
      read.providerStatus?.toUpperCase() === SIGNATURE_REFUSED;
    if (!keyMayBeOld) return read;
    // Refused because of the key, which Airtel rotates: once more with the one it publishes now. Of many refused at once
    // the first fetches it for all.
    if (this.#published?.key === signedWith) this.#published = null;
    return (await this.#submitOnce(transaction, isToBeSent)).read;
  }

  async enquire(transaction: PendingTransaction): Promise<EnquiryResult> {
    const id = referenceOf(transaction);
    const path =
      directionOf(transaction) === 'collect'
        ? `/standard/v1/payments/${id}`
        : `/standard/v2/disbursements/${id}?transactionType=B2C`;
    const result = await sendWithToken(this.#tokens, (token) => this.#get(token, path));
    return readEnquiry(transaction, this.#options.currency, result);
  }

  async *check(msisdn: string | null): AsyncGenerator<CheckResult> {
    const token = await this.#tokens.get();
    const detail = token.type === 'token' ? 'granted' : token.reason;
    yield { what: 'token', ok: token.type === 'token', detail };
    if (token.type !== 'token') return;
    yield airtelCheck('balance', await this.#get(token.value, '/standard/v1/users/balance'), (data) => {
      const balance = textAt(data, 'balance');
      return balance === null ? null : `${balance} ${textAt(data, 'currency') ?? ''}`.trim();
    });
    if (this.#options.collectionApi === 'v2') {
      const published = await this.#publishedKey();
      yield { what: 'signing key', ok: published.type === 'key', detail: foundOf(published) };
    }
    if (msisdn === null) return;
    const path = `/standard/v1/users/${national(msisdn)}`;
    yield airtelCheck('wallet holder', await this.#get(token.value, path), (data) =>
      data['is_barred'] === true ? 'barred (wallet_inactive)' : 'registered',
    );
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  // --- Submit ----------------------------------------------------------------------------------------------------------

  async #submitOnce(transaction: PendingTransaction, isToBeSent?: IsToBeSent): Promise<Submitted> {
    let signedWith: KeyObject | null = null;
    if (directionOf(transaction) === 'collect' && this.#options.collectionApi === 'v2') {
      const published = await this.#publishedKey();
      if (published.type !== 'key') return this.#unsigned(transaction, published);
      signedWith = published.key;
    }
    const { path, body, headers } = this.#requestOf(transaction, signedWith);
    const result = await sendWithToken(this.#tokens, (token) =>
      this.#http.request({
        method: 'POST',
        path,
        headers: {
          ...this.#headers,
          ...headers,
          Authorization: `Bearer ${token}`,
          'Content-Type': 'application/json',
        },
        body,
        isToBeSent,
      }),
    );
    return { read: readSubmit(transaction, this.#options.currency, result), signedWith };
  }

  /** Nothing of it was sent: it fails where our credentials or configuration are refused; anything else may pass. */
  #unsigned(transaction: PendingTransaction, said: NoKey): Submitted {
    const read = readSubmit(transaction, this.#options.currency, said);
    if (read.type === 'failed') return { read, signedWith: null };
    const { reason: why = '', retryAfterMs } = 'reason' in read ? read : {};
    const reason = `no usable key of Airtel's to sign with${why && ': '}${why}`;
    return { read: { type: 'not_accepted', reason, retryAfterMs }, signedWith: null };
  }

  #requestOf(transaction: PendingTransaction, key: KeyObject | null): SubmitRequest {
    if (directionOf(transaction) === 'send') return this.#disbursementOf(transaction);
    const body = JSON.stringify(this.#collectionOf(transaction));
    return key === null
      ? { path: '/merchant/v1/payments/', body, headers: {} }
      : { path: '/merchant/v2/payments/', body, headers: { ...sign(key, body) } };
  }

  #disbursementOf(transaction: PendingTransaction): SubmitRequest {
    const { disbursement, currency } = this.#options;
    const key = this.#pinKey;
    assert(key !== null && disbursement !== null, 'a route without a PIN sends nothing');
    const body = JSON.stringify({
      payee: { msisdn: national(transaction.msisdn), currency },
      reference: shownReference(transaction),
      pin: encryptRsa(key, disbursement.padding, disbursement.pin),
      transaction: { amount: amountOf(transaction), id: referenceOf(transaction), type: 'B2C' },
    });
    return { path: '/standard/v2/disbursements/', body, headers: {} };
  }

  #collectionOf(transaction: PendingTransaction): Record<string, unknown> {
    const { country, currency } = this.#options;
    return {
      reference: shownReference(transaction),
      subscriber: { country, currency, msisdn: national(transaction.msisdn) },
      transaction: { amount: amountOf(transaction), country, currency, id: referenceOf(transaction) },
    };
  }

  // --- Tokens and keys -------------------------------------------------------------------------------------------------

  async #mint(): Promise<Minted | TokenFailure> {
    const { clientId, clientSecret } = this.#options;
    const result = await this.#http.request({
      method: 'POST',
      path: '/auth/oauth2/token',
      headers: { Accept: '*/*', 'Content-Type': 'application/json' },
      body: JSON.stringify({
        client_id: clientId,
        client_secret: clientSecret,
        grant_type: 'client_credentials',
      }),
    });
    return tokenIn(result, TOKEN_LIFE_SECONDS, ({ status }) => `HTTP ${status}`);
  }

  #get(token: string, path: string): Promise<HttpResult> {
    const headers = { ...this.#headers, Authorization: `Bearer ${token}` };
    return this.#http.request({ method: 'GET', path, headers, body: null });
  }

  /** Fetched by one of those who wait for it, and again when it is over. */
  #publishedKey(): Promise<PublishedKey | NoKey> {
    const { clock } = this.#options;
    if (this.#published !== null && clock.now() < this.#published.until) {
      return Promise.resolve(this.#published);
    }
    this.#fetchingKey ??= this.#fetchKey().finally(() => {
      this.#fetchingKey = null;
    });
    return this.#fetchingKey;
  }

  async #fetchKey(): Promise<PublishedKey | NoKey> {
    const result = await sendWithToken(this.#tokens, (token) => this.#get(token, '/v1/rsa/encryption-keys'));
    if (result.type !== 'answer') return result;
    const data = objectAt(parseObject(result.text) ?? {}, 'data');
    const key = keyOrNull(textAt(data, 'key') ?? '');
    if (key === null) return result;
    const now = this.#options.clock.now();
    // By clocks that need not agree: what is published is good now, whatever it says.
    const leftMs = Date.parse(textAt(data, 'valid_upto') ?? '') - now;
    const lifeMs = leftMs > 0 ? Math.min(leftMs, KEY_LIFE_MS) : KEY_LIFE_MS;
    this.#published = { type: 'key', key, until: now + lifeMs };
    return this.#published;
  }
}

function foundOf(published: PublishedKey | NoKey): string {
  if (published.type === 'key') return 'published';
  return published.type === 'answer'
    ? `none, or not an RSA key: HTTP ${published.status}`
    : `none: ${published.reason}`;
}

function keyOrNull(text: string): KeyObject | null {
  try {
    return parsePublicKey(text);
  } catch {
    // What is published is no key: said by the caller as a reason.
    return null;
  }
}

/** "256701234567" → "701234567". */
function national(msisdn: string): string {
  return msisdn.slice(-NATIONAL_DIGITS);
}

/** Major units, as a JSON number: at most 15 significant digits, which a double carries exactly. */
function amountOf({ amount, currency }: PendingTransaction): number {
  return Number(toMajorUnits(money(amount), currency));
}

/** The merchant's reference as far as Airtel takes it (4 to 64 letters and digits), else our own. */
function shownReference(transaction: PendingTransaction): string {
  const text = (transaction.note ?? transaction.reference).replace(/[^A-Za-z0-9]/g, '').slice(0, 64);
  return text.length >= 4 ? text : referenceOf(transaction);
}
