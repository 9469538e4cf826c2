// MTN MoMo: collections and disbursements of one country. Every word, code and HTTP status of MTN becomes a result of
// rail.ts here; nothing is thrown for what the outside does.
//
// Invariants: the same X-Reference-Id for every attempt of a transaction; only an answer about the transaction itself
// ends it, so that a time-out, a dropped connection, HTML, a 5xx without a configuration code or a code that nobody has
// listed means "enquire"; an enquiry fails nothing but by the status FAILED or REJECTED. A submit refused with a listed code does
// end it, for a poller submits again only after an enquiry found nothing.

import type { PendingTransaction } from '../domain/account-command.ts';
import { money, toMajorUnits } from '../domain/money.ts';
import {
  isMtnAmbiguous,
  isMtnConfigurationCode,
  isMtnDuplicate,
  isMtnNotFound,
  isVague,
  mtnFailure,
  mtnRefusal,
} from './failure-codes.ts';
import {
  HttpClient,
  type HttpAnswer,
  type HttpResult,
  objectAt,
  parseObject,
  textAt,
} from './http-client.ts';
import { providerWord } from './provider-word.ts';
import type { CallbackUrlOf, CheckResult, ProviderRail, ProviderRailOptions } from './provider-rail.ts';
import {
  type Direction,
  directionOf,
  type EnquiryResult,
  type IsToBeSent,
  type SubmitResult,
  type Terminal,
} from './rail.ts';
import { isOfAnother, referenceOf, uuidReference } from './reference.ts';
import {
  describe,
  enquiryWithoutAnswer,
  failed,
  moved,
  movedOf,
  OF_ANOTHER,
  submitWithoutAnswer,
  unusable,
} from './terminal.ts';
import {
  type CallResult,
  type Minted,
  sendWithToken,
  TokenCache,
  type TokenFailure,
  tokenIn,
} from './token-cache.ts';

export interface MtnCredentials {
  readonly subscriptionKey: string;
  readonly apiUser: string;
  readonly apiKey: string;
}

export interface MtnOptions extends ProviderRailOptions {
  readonly targetEnvironment: string;
  /** Null: the route does not collect. */
  readonly collection: MtnCredentials | null;
  /** Null: the route does not send. */
  readonly disbursement: MtnCredentials | null;
  readonly callbackUrl: CallbackUrlOf;
}

interface Product {
  readonly name: 'collection' | 'disbursement';
  /** Of the resource, e.g. "/collection/v1_0/requesttopay". */
  readonly path: string;
  readonly party: 'payer' | 'payee';
  readonly tokens: TokenCache;
  /** Of every call but the bearer token. */
  readonly headers: Readonly<Record<string, string>>;
}

const TOKEN_LIFE_SECONDS = 3_600;
const NOTE_LENGTH = 128;

export class MtnRail implements ProviderRail {
  readonly id: string;
  readonly maxConcurrency: number;
  readonly notFoundGraceMs: number;
  readonly forgetful: boolean;
  readonly #options: MtnOptions;
  readonly #http: HttpClient;
  readonly #products: Readonly<Record<Direction, Product | null>>;

  constructor(options: MtnOptions) {
    const { id, maxConcurrency, notFoundGraceMs, baseUrl, answerMs, collection, disbursement } = options;
    this.id = id;
    this.maxConcurrency = maxConcurrency;
    this.notFoundGraceMs = notFoundGraceMs;
    this.forgetful = options.forgetful;
    this.#options = options;
    const secrets = [collection, disbursement].flatMap((each) =>
      each === null ? [] : [each.subscriptionKey, each.apiKey],
    );
    this.#http = new HttpClient({ baseUrl, connections: maxConcurrency, answerMs, secrets });
    this.#products = {
      collect: collection && this.#product('collection', 'requesttopay', 'payer', collection),
      send: disbursement && this.#product('disbursement', 'transfer', 'payee', disbursement),
    };
  }

  async submit(transaction: PendingTransaction, isToBeSent?: IsToBeSent): Promise<SubmitResult> {
    const direction = directionOf(transaction);
    const product = this.#products[direction];
    if (product === null) {
      return failed('provider_rejected', null, `${this.id} has no credentials to ${direction}.`);
    }

    const callbackUrl = this.#options.callbackUrl(transaction);
    const body = JSON.stringify(this.#bodyOf(transaction, product));
    const result = await sendWithToken(product.tokens, (token) =>
      this.#http.request({
        method: 'POST',
        path: product.path,
        headers: {
          ...product.headers,
          Authorization: `Bearer ${token}`,
          'Content-Type': 'application/json',
          'X-Reference-Id': uuidReference(transaction.id),
          ...(callbackUrl === null ? {} : { 'X-Callback-Url': callbackUrl }),
        },
        body,
        isToBeSent,
      }),
    );
    return readSubmit(transaction, this.#options.currency, result);
  }

  async enquire(transaction: PendingTransaction): Promise<EnquiryResult> {
    const direction = directionOf(transaction);
    const product = this.#products[direction];
    if (product === null) return { type: 'unknown', reason: `no credentials to ${direction}` };
    const result = await sendWithToken(product.tokens, (token) =>
      this.#get(product, token, `${product.path}/${uuidReference(transaction.id)}`),
    );
    return readEnquiry(transaction, this.#options.currency, result);
  }

  async *check(msisdn: string | null): AsyncGenerator<CheckResult> {
    for (const product of Object.values(this.#products)) {
      if (product === null) continue;
      const { name } = product;
      const token = await product.tokens.get();
      const detail = token.type === 'token' ? 'granted' : token.reason;
      yield { what: `${name} token`, ok: token.type === 'token', detail };
      if (token.type !== 'token') continue;

      const balance = await this.#get(product, token.value, `/${name}/v1_0/account/balance`);
      yield checkOf(`${name} balance`, balance, (body) => {
        const amount = textAt(body, 'availableBalance');
        return amount === null ? null : `${amount} ${textAt(body, 'currency') ?? ''}`.trim();
      });
      if (msisdn === null) continue;
      const path = `/${name}/v1_0/accountholder/msisdn/${msisdn}/active`;
      yield checkOf(`${name} wallet holder`, await this.#get(product, token.value, path), ({ result }) => {
        if (result === true || result === 'true') return 'active';
        return result === undefined ? null : 'not active (wallet_inactive)';
      });
    }
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  #product(
    name: Product['name'],
    resource: string,
    party: Product['party'],
    credentials: MtnCredentials,
  ): Product {
    const { targetEnvironment, clock, answerMs } = this.#options;
    const headers = {
      'Ocp-Apim-Subscription-Key': credentials.subscriptionKey,
      'X-Target-Environment': targetEnvironment,
    };
    const tokens = new TokenCache(() => this.#mint(name, credentials), clock, answerMs);
    return { name, path: `/${name}/v1_0/${resource}`, party, tokens, headers };
  }

  async #mint(name: Product['name'], credentials: MtnCredentials): Promise<Minted | TokenFailure> {
    const { subscriptionKey, apiUser, apiKey } = credentials;
    const result = await this.#http.request({
      method: 'POST',
      path: `/${name}/token/`,
      headers: {
        Authorization: `Basic ${Buffer.from(`${apiUser}:${apiKey}`).toString('base64')}`,
        'Ocp-Apim-Subscription-Key': subscriptionKey,
      },
      body: null,
    });
    return tokenIn(result, TOKEN_LIFE_SECONDS, toldOf);
  }

  #get(product: Product, token: string, path: string): Promise<HttpResult> {
    const headers = { ...product.headers, Authorization: `Bearer ${token}` };
    return this.#http.request({ method: 'GET', path, headers, body: null });
  }

  #bodyOf(transaction: PendingTransaction, { party }: Product): Record<string, unknown> {
    const note = noteOf(transaction);
    return {
      amount: toMajorUnits(money(transaction.amount), transaction.currency),
      currency: this.#options.currency,
      externalId: referenceOf(transaction),
      [party]: { partyIdType: 'MSISDN', partyId: transaction.msisdn },
      payerMessage: note,
      payeeNote: note,
    };
  }
}

/** Of an answer without a token. A bad key is also seen as 500; that one may pass, so it is not held against the credentials. What was
 *  granted may stand in the body under another name: it is never shown. */
function toldOf(answer: HttpAnswer): string {
  return answer.status < 300 ? `HTTP ${answer.status} without access_token` : describe(answer);
}

const ACCEPTED: SubmitResult = { type: 'accepted', providerStatus: 'PENDING' };

function readSubmit(transaction: PendingTransaction, currency: string, result: CallResult): SubmitResult {
  const direction = directionOf(transaction);
  if (result.type !== 'answer') {
    return submitWithoutAnswer(
      result,
      (answer) => readSubmit(transaction, currency, answer),
      (code) => mtnRefusal(code, null, direction) !== null,
    );
  }
  const { status, text, mayBeCut } = result;
  const body = parseObject(text);
  const code = body === undefined ? null : textAt(body, 'code');
  // What was cut off may say that MTN has it.
  if (mayBeCut && body === undefined && status !== 202) {
    return unusable(result);
  }
  // What is no JSON came from something in between.
  const isPage = body === undefined && text !== '';
  if ((status === 409 && !isPage) || (code !== null && isMtnDuplicate(code))) {
    return { type: 'accepted', providerStatus: 'RESOURCE_ALREADY_EXIST' };
  }
  if (status === 429) return { ...unusable(result), type: 'not_accepted' };
  if (isPage) return unusable(result);
  if (status < 200 || status >= 300) return readRefusal(result, body ?? {}, direction);
  // 202 alone says that MTN took it, and needs no body: any other 2xx may be that of something in between.
  const silent: SubmitResult = status === 202 ? ACCEPTED : unusable(result);
  if (body === undefined) return silent;
  if (isOfAnother(textAt(body, 'externalId'), transaction)) return OF_ANOTHER;
  const read = readStatus(transaction, currency, body);
  if (read === null) return code === null ? silent : readRefusal(result, body, direction);
  if (read.type === 'pending') return { type: 'accepted', providerStatus: providerWord(read.word) };
  // It failed, and nobody has listed why: the enquiry says it again.
  if (read.failureCode !== null && isVague(read.failureCode)) {
    return unusable(result);
  }
  return read;
}

/** Only a listed code is final, and not where it may be a gateway's that gave up waiting, nor beside the 202 that took it; also that
 *  MTN does not let us in. Anything else may be about the way there, and MTN may have taken it: enquire. */
function readRefusal(
  answer: HttpAnswer,
  body: Readonly<Record<string, unknown>>,
  direction: Direction,
): SubmitResult {
  const { status } = answer;
  const code = textAt(body, 'code');
  const message = textAt(body, 'message');
  const unknown: SubmitResult = unusable(answer);
  if (status === 401 || status === 403) {
    if (code !== null && isMtnAmbiguous(code, direction)) return unknown;
    return failed('provider_rejected', code ?? String(status), message);
  }
  // A bad request, said by MTN and not by something in between, is refused for good.
  if (code === null && status === 400) return failed('provider_rejected', '400', message);
  const isRedirect = status >= 300 && status < 400;
  if (code === null || status === 202 || isRedirect || status === 408 || status > 500) return unknown;
  if (status === 500 && !isMtnConfigurationCode(code)) return unknown;
  const failure = mtnRefusal(code, message, direction);
  return failure === null ? unknown : failed(failure, code, message);
}

function readEnquiry(transaction: PendingTransaction, currency: string, result: CallResult): EnquiryResult {
  if (result.type !== 'answer') return enquiryWithoutAnswer(result);
  const body = parseObject(result.text);
  // A gateway that has no way to MTN for the moment says 404, too.
  if (result.status === 404 && isMtnNotFound(textAt(body ?? {}, 'code'))) return { type: 'not_found' };
  if (result.status !== 200 || body === undefined) return unusable(result);
  if (isOfAnother(textAt(body, 'externalId'), transaction)) return OF_ANOTHER;
  const read = readStatus(transaction, currency, body);
  if (read === null) return unusable(result);
  return read.type === 'pending' ? { type: 'pending', providerStatus: providerWord(read.word) } : read;
}

/** What a status answer says; null when it has no status, or is none. */
function readStatus(
  transaction: PendingTransaction,
  currency: string,
  body: Readonly<Record<string, unknown>>,
): Terminal | { readonly type: 'pending'; readonly word: string } | null {
  const word = textAt(body, 'status');
  const direction = directionOf(transaction);
  if (word === null || !isOfPayment(body, direction)) return null;
  switch (word.toUpperCase()) {
    case 'SUCCESSFUL':
    case 'REVERSED': {
      const what = movedOf(body, transaction, currency);
      const type = word.toUpperCase() === 'REVERSED' ? 'reversed' : 'succeeded';
      return moved(type, word, textAt(body, 'financialTransactionId'), what);
    }
    case 'FAILED':
    case 'REJECTED': {
      const { code, message } = reasonIn(body);
      if (code !== null) return failed(mtnFailure(code, message, direction), code, message);
      return failed(word.toUpperCase() === 'REJECTED' ? 'customer_declined' : 'unknown', word, message);
    }
  }
  // PENDING, and words that nobody has documented (TIMEOUT is one): only a known word is final.
  return { type: 'pending', word };
}

/** What MTN names in a status answer. */
const OF_PAYMENT = ['amount', 'currency', 'externalId', 'payer', 'payee', 'financialTransactionId'] as const;

/** A gateway says {"status": "failed"} as well, or 503, of the call: MTN names what it speaks of, or why in a word that is its own. */
function isOfPayment(body: Readonly<Record<string, unknown>>, direction: Direction): boolean {
  if (OF_PAYMENT.some((name) => (body[name] ?? null) !== null)) return true;
  const { code, message } = reasonIn(body);
  return code !== null && mtnRefusal(code, message, direction) !== null;
}

/** `reason` is seen as {code, message} and as a bare string. */
function reasonIn(body: Readonly<Record<string, unknown>>): { code: string | null; message: string | null } {
  const bare = textAt(body, 'reason');
  if (bare !== null) return { code: bare, message: null };
  const reason = objectAt(body, 'reason');
  return { code: textAt(reason, 'code'), message: textAt(reason, 'message') };
}

/** Shown to the payer and the payee; never empty. MTN refuses a payment for a character that it does not take, an apostrophe or
 *  an ampersand for instance, and does not say which: what is sent has letters without accents, digits and few signs. */
function noteOf({ note, reference }: PendingTransaction): string {
  const plain = (note ?? '').normalize('NFKD').replace(/[\p{M}'’]+/gu, '');
  const text = plain.replace(/[^A-Za-z0-9.,:_-]+/g, ' ').trim();
  return (text === '' ? reference : text).slice(0, NOTE_LENGTH);
}

function checkOf(
  what: string,
  result: HttpResult,
  read: (body: Readonly<Record<string, unknown>>) => string | null,
): CheckResult {
  if (result.type !== 'answer') return { what, ok: false, detail: result.reason };
  const body = parseObject(result.text);
  const detail = result.status === 200 && body !== undefined ? read(body) : null;
  return { what, ok: detail !== null, detail: detail ?? describe(result) };
}
