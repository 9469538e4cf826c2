// A provider's access token: one for many requests, fetched by one of them, renewed before it is over.
//
// Invariants: at most one fetch at a time; a token is handed out only while it has longer to live than a request takes;
// after a fetch that failed none is tried for LIMITS.railTokenRetryMs, so that a wrong key is no storm at the provider, or for
// longer where it asks for that.
// A refused token says nothing of a payment, nor, alone, of our credentials: the provider took nothing, and another process
// that shares them may have had a new one made since.

import { LIMITS } from '../limits.ts';
import { type HttpAnswer, type HttpResult, parseObject, textAt } from './http-client.ts';
import type { Clock } from './rail.ts';
import type { Asked } from './retry-after.ts';

export interface Token {
  readonly type: 'token';
  readonly value: string;
}
export type TokenFailure =
  /** The provider does not accept our credentials. */
  | { readonly type: 'refused'; readonly reason: string }
  /** It cannot be reached, or says nothing of use. */
  | ({ readonly type: 'unavailable'; readonly reason: string } & Asked);

export interface Minted extends Token {
  readonly lifeMs: number;
}
export type Mint = () => Promise<Minted | TokenFailure>;

/** The share of its life after which a token is renewed while it is still in use. */
const RENEW_AFTER = 0.7;

export class TokenCache {
  readonly #mint: Mint;
  readonly #clock: Clock;
  readonly #answerMs: number;
  #token: Token | null = null;
  #mintedAt = 0;
  #renewAt = 0;
  #unusableAt = 0;
  #failure: TokenFailure | null = null;
  #failedAt = 0;
  /** By the same clock: for so long none is tried. */
  #failedForMs = 0;
  #minting: Promise<Token | TokenFailure> | null = null;
  /** Tokens refused since a call was let in, the last of them, and when the first was. */
  #refusals = 0;
  #lastRefused: Token | null = null;
  #refusedSince = 0;

  constructor(mint: Mint, clock: Clock, answerMs: number) {
    this.#mint = mint;
    this.#clock = clock;
    this.#answerMs = answerMs;
  }

  get(): Token | TokenFailure | Promise<Token | TokenFailure> {
    const now = this.#clock.now();
    const failure = this.#failureAt(now);
    if (this.#token !== null && now < this.#unusableAt) {
      if (now >= this.#renewAt && failure === null) void this.#renew();
      return this.#token;
    }
    return failure ?? this.#renew();
  }

  /** The provider refused this token: the next request gets another. One just made is not thrown away again. */
  refuse(token: Token): void {
    if (this.#token !== token) return;
    const now = this.#clock.now();
    if (this.#lastRefused !== token) {
      if (this.#refusals++ === 0) this.#refusedSince = now;
      this.#lastRefused = token;
    }
    if (now - this.#mintedAt < LIMITS.railTokenRetryMs) return;
    this.#token = null;
  }

  /** The provider let a call in, whatever it made of it. */
  letIn(): void {
    this.#refusals = 0;
    this.#lastRefused = null;
  }

  /** So many tokens for so long that it is no token that is refused, but we. */
  get refusesAll(): boolean {
    const forMs = this.#clock.now() - this.#refusedSince;
    return this.#refusals >= LIMITS.railTokensRefusedMin && forMs >= LIMITS.railTokensRefusedMs;
  }

  /** Null: another may be fetched. */
  #failureAt(now: number): TokenFailure | null {
    const failure = this.#failure;
    const leftMs = this.#failedAt + this.#failedForMs - now;
    if (failure === null || leftMs <= 0) return null;
    const isAsked = failure.type === 'unavailable' && failure.retryAfterMs !== undefined;
    return isAsked ? { ...failure, retryAfterMs: leftMs } : failure;
  }

  #renew(): Promise<Token | TokenFailure> {
    this.#minting ??= this.#fetch().finally(() => {
      this.#minting = null;
    });
    return this.#minting;
  }

  async #fetch(): Promise<Token | TokenFailure> {
    const minted = await this.#mint();
    const now = this.#clock.now();
    if (minted.type !== 'token') {
      this.#failure = minted;
      this.#failedAt = now;
      const retryAfterMs = minted.type === 'unavailable' ? minted.retryAfterMs : undefined;
      this.#failedForMs = Math.max(LIMITS.railTokenRetryMs, retryAfterMs ?? 0);
      return minted;
    }
    this.#failure = null;
    this.#token = minted;
    this.#mintedAt = now;
    this.#renewAt = now + minted.lifeMs * RENEW_AFTER;
    // Never negative: a token that lives shorter than a request may take is used while it lives.
    this.#unusableAt = now + Math.max(minted.lifeMs - this.#answerMs, minted.lifeMs * RENEW_AFTER);
    return minted;
  }
}

/** The provider refused the token of a call, and no newer one can be had; or it refused that, too. */
export interface TokenRefused {
  readonly type: 'token_refused';
  /** With which it was refused. */
  readonly answer: HttpAnswer;
  /** It was sent with a token that was made for it. */
  readonly wasFresh: boolean;
  readonly failure: TokenFailure;
  readonly reason: string;
}

/** What came of a call that needs a token: how it ended, or why it was not made or not let in. */
export type CallResult = HttpResult | TokenFailure | TokenRefused;
export type NoAnswer = Exclude<CallResult, HttpAnswer>;

/** Sends with a token; once more, with a newer one, when the provider refuses it. A refusal is returned as an answer only
 *  where it is us that the provider refuses. */
export async function sendWithToken(
  tokens: TokenCache,
  send: (token: string) => Promise<HttpResult>,
): Promise<CallResult> {
  const token = await tokens.get();
  if (token.type !== 'token') return token;
  const first = await sendWith(tokens, token, send);
  if (!isRefusal(first)) return first;
  const another = await tokens.get();
  if (another.type !== 'token') return refused(first, false, another);
  // The same again would be refused again. Where a new token revokes the one before, another process with our
  // credentials may have made one since: soon we may, too.
  const isSame = another === token;
  const last = isSame ? first : await sendWith(tokens, another, send);
  if (!isRefusal(last) || tokens.refusesAll) return last;
  return refused(last, !isSame, JUST_MADE);
}

async function sendWith(
  tokens: TokenCache,
  token: Token,
  send: (token: string) => Promise<HttpResult>,
): Promise<HttpResult> {
  const result = await send(token.value);
  if (isRefusal(result)) tokens.refuse(token);
  else if (result.type === 'answer') tokens.letIn();
  return result;
}

function isRefusal(result: HttpResult): result is HttpAnswer & { readonly status: 401 | 403 } {
  return result.type === 'answer' && (result.status === 401 || result.status === 403);
}

function refused(answer: HttpAnswer, wasFresh: boolean, failure: TokenFailure): TokenRefused {
  return { type: 'token_refused', answer, wasFresh, failure, reason: failure.reason };
}

const JUST_MADE: TokenFailure = { type: 'unavailable', reason: 'a token that was just made is refused' };

/** True: the provider does not accept our credentials. A page of something in between says nothing about them, nor does what may have
 *  been cut off before its page. */
function refusesCredentials({ status, text, mayBeCut }: HttpAnswer): boolean {
  const isPage = (text !== '' || mayBeCut) && parseObject(text) === undefined;
  return !isPage && (status === 400 || status === 401 || status === 403);
}

/** What a request for a token has come to. `lifeSeconds`: where the answer says no other; `told`: what is said of an answer without
 *  a token. */
export function tokenIn(
  result: HttpResult,
  lifeSeconds: number,
  told: (answer: HttpAnswer) => string,
): Minted | TokenFailure {
  if (result.type !== 'answer') return { type: 'unavailable', reason: result.reason };
  const body = parseObject(result.text) ?? {};
  const value = textAt(body, 'access_token');
  if (value !== null) {
    // It would be asked for again only when it is over, by what stands beside it.
    if (!SENDABLE.test(value)) return { type: 'unavailable', reason: 'token: one that no request can carry' };
    return { type: 'token', value, lifeMs: lifeMsOf(textAt(body, 'expires_in'), lifeSeconds) };
  }
  const reason = `token: ${told(result)}`;
  if (refusesCredentials(result)) return { type: 'refused', reason };
  return { type: 'unavailable', reason, retryAfterMs: result.retryAfterMs };
}

/** In a header, behind "Bearer " (RFC 6750, 2.1, has fewer). */
const SENDABLE = /^[\x21-\x7e]+$/;

/** Of `expires_in`, in seconds, number or text; `fallback` seconds when it says nothing. In milliseconds. */
export function lifeMsOf(expiresIn: string | null, fallback: number): number {
  const seconds = expiresIn === null ? Number.NaN : Number(expiresIn);
  return (Number.isFinite(seconds) && seconds > 0 ? seconds : fallback) * 1_000;
}
