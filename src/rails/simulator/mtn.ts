// MTN MoMo's protocol: tokens, collection, disbursement, refund, account-holder look-ups, balances and the sandbox's
// provisioning of API users. Written from the public documentation, as strict about headers and bodies as the real one.
//
//   gateway (subscription key, token)  →  401 {statusCode, message}
//   product (reference, body, rules)   →  400, 404, 409, 500 {code, message}

import { randomBytes } from 'node:crypto';
import { LIMITS } from '../../limits.ts';
import {
  type Answer,
  type Call,
  empty,
  header,
  isObject,
  json,
  jsonBody,
  objectAt,
  type Respond,
  textAt,
} from './call.ts';
import type { CallbackSender } from './callback-sender.ts';
import { asOutcome, numberInPath } from './forced.ts';
import { type Network, tooPrecise } from './network.ts';
import { behaviourOfNumber } from './number-table.ts';
import {
  type Kind,
  majorText,
  parseHundredths,
  type Payment,
  type Submission,
  type Till,
} from './payment.ts';
import { Tokens } from './tokens.ts';

export type MtnProduct = 'collection' | 'disbursement';

/** A subscription to one product, as the developer portal sells it. */
export interface MtnSubscription {
  readonly key: string;
  readonly product: MtnProduct;
  readonly targetEnvironment: string;
  readonly callbackMethod: 'PUT' | 'POST';
  /** As a bare string instead of {code, message}, which older versions of the API do. */
  readonly bareReasons: boolean;
  readonly till: Till;
}

interface ApiUser {
  readonly id: string;
  readonly callbackHost: string;
  readonly subscriptionKey: string;
  apiKey: string | null;
}

interface Session {
  readonly subscription: MtnSubscription;
  readonly user: ApiUser;
}

export interface MtnOptions {
  readonly network: Network;
  readonly callbacks: CallbackSender;
  readonly tokenSeconds: number;
}

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;

export class MtnProtocol {
  readonly tokens: Tokens<Session>;
  readonly #network: Network;
  readonly #callbacks: CallbackSender;
  readonly #subscriptions = new Map<string, MtnSubscription>();
  readonly #byTill = new Map<Till, MtnSubscription>();
  readonly #users = new Map<string, ApiUser>();

  constructor({ network, callbacks, tokenSeconds }: MtnOptions) {
    this.tokens = new Tokens(tokenSeconds);
    this.#network = network;
    this.#callbacks = callbacks;
    network.onCallback('mtn', (payment, onDone) => this.#sendCallback(payment, onDone));
  }

  static owns(path: string): boolean {
    return path.startsWith('/collection/') || path.startsWith('/disbursement/') || path.startsWith('/v1_0/');
  }

  get isFull(): boolean {
    return this.#subscriptions.size >= LIMITS.simulatorAppsMax;
  }

  /** What the developer portal does when a product is subscribed to. Null: it is full. */
  subscribe(subscription: Omit<MtnSubscription, 'key'>): string | null {
    if (this.isFull) return null;
    const key = randomBytes(16).toString('hex');
    const made = { ...subscription, key };
    this.#subscriptions.set(key, made);
    this.#byTill.set(made.till, made);
    return key;
  }

  handle(call: Call, respond: Respond): void {
    const { path } = call;
    if (path.startsWith('/v1_0/apiuser')) {
      respond(this.#provision(call));
      return;
    }
    const slash = path.indexOf('/', 1);
    const product = path.slice(1, slash) as MtnProduct;
    const rest = path.slice(slash);
    if (rest === '/token/' || rest === '/token') {
      const forced = this.#network.forced.answerTo('mtn', 'token', null);
      respond(forced === null ? this.#token(call, product) : asOutcome(forced));
      return;
    }
    const session = this.#session(call, product);
    if ('status' in session) respond(session);
    else this.#product(call, session, rest, respond);
  }

  // --- Provisioning and tokens -----------------------------------------------------------------------------------------

  #provision(call: Call): Answer {
    const subscription = this.#subscriptionOf(call);
    if (subscription === undefined) return badSubscription(call);
    if (call.path === '/v1_0/apiuser' && call.method === 'POST') return this.#createUser(call, subscription);

    const [, id = '', action] = /^\/v1_0\/apiuser\/([^/]+)(\/apikey)?$/.exec(call.path) ?? [];
    const user = this.#users.get(id);
    if (user === undefined) return resourceNotFound();
    if (action === undefined && call.method === 'GET') {
      const { callbackHost: providerCallbackHost } = user;
      return json(200, { providerCallbackHost, targetEnvironment: subscription.targetEnvironment });
    }
    if (action !== undefined && call.method === 'POST') {
      user.apiKey = randomBytes(16).toString('hex');
      return json(201, { apiKey: user.apiKey });
    }
    return resourceNotFound();
  }

  #createUser(call: Call, { key }: MtnSubscription): Answer {
    const id = header(call, 'x-reference-id');
    if (id === undefined || !UUID_V4.test(id)) return badReference();
    if (this.#users.has(id)) return duplicate();
    const host = jsonBody(call)?.['providerCallbackHost'];
    if (typeof host !== 'string' || host.includes('/') || host === '') {
      return refusal(400, 'VALIDATION_ERROR', 'providerCallbackHost must be a host name.');
    }
    if (this.#users.size >= LIMITS.simulatorUsersMax) {
      return refusal(503, 'SERVICE_UNAVAILABLE', 'Too many users.');
    }
    this.#users.set(id, { id, callbackHost: host, subscriptionKey: key, apiKey: null });
    return empty(201);
  }

  #token(call: Call, product: MtnProduct): Answer {
    if (call.method !== 'POST') return json(404, { statusCode: 404, message: 'Resource not found' });
    const subscription = this.#subscriptionOf(call);
    if (subscription === undefined || subscription.product !== product) return badSubscription(call);
    const [id, apiKey] = basicCredentials(header(call, 'authorization'));
    const user = this.#users.get(id);
    if (user === undefined || user.apiKey === null || user.apiKey !== apiKey) {
      return json(401, { error: 'login_failed' });
    }
    if (user.subscriptionKey !== subscription.key) return json(401, { error: 'login_failed' });
    const token = this.tokens.mint({ subscription, user }, user);
    return json(200, {
      access_token: token,
      token_type: 'access_token',
      expires_in: this.tokens.lifeSeconds,
    });
  }

  #subscriptionOf(call: Call): MtnSubscription | undefined {
    return this.#subscriptions.get(header(call, 'ocp-apim-subscription-key') ?? '');
  }

  /** Who calls, or why they may not. */
  #session(call: Call, product: MtnProduct): Session | Answer {
    const subscription = this.#subscriptionOf(call);
    if (subscription === undefined || subscription.product !== product) return badSubscription(call);
    const session = this.tokens.holderOf(header(call, 'authorization'));
    if (session === undefined || session.subscription !== subscription) {
      return json(401, { message: 'Unauthorized', error: 'invalid_token' });
    }
    if (header(call, 'x-target-environment') !== subscription.targetEnvironment) {
      const message = 'Access to target environment is forbidden.';
      return refusal(500, 'NOT_ALLOWED_TARGET_ENVIRONMENT', message);
    }
    return session;
  }

  // --- Products --------------------------------------------------------------------------------------------------------

  #product(call: Call, session: Session, rest: string, respond: Respond): void {
    const { product } = session.subscription;
    const kinds = KINDS[product];
    for (const [resource, kind] of kinds) {
      if (rest === resource && call.method === 'POST') {
        this.#submit(call, session, kind, respond);
        return;
      }
      if (call.method === 'GET' && rest.startsWith(`${resource}/`)) {
        this.#enquire(session, kind, rest.slice(resource.length + 1), respond);
        return;
      }
    }
    respond(this.#account(call, session, rest));
  }

  #account(call: Call, { subscription }: Session, rest: string): Answer {
    if (call.method !== 'GET') return json(404, { statusCode: 404, message: 'Resource not found' });
    if (rest === '/v1_0/account/balance') {
      const { balance, currency } = subscription.till;
      return json(200, { availableBalance: majorText(balance), currency });
    }
    const holder = /^\/v1_0\/accountholder\/msisdn\/([0-9]{8,15})\/(active|basicuserinfo)$/i.exec(rest);
    const number = holder?.[1];
    if (number === undefined) return json(404, { statusCode: 404, message: 'Resource not found' });
    const forced = this.#network.forced.answerTo('mtn', 'any', numberInPath(call));
    if (forced !== null) {
      return { status: forced.status ?? 200, contentType: 'application/json', body: forced.body ?? '' };
    }
    const { code } = behaviourOfNumber(number, 'collect').mtn;
    if (code === 'PAYER_NOT_FOUND') return resourceNotFound();
    if (holder?.[2] === 'active') return json(200, { result: code !== 'SENDER_ACCOUNT_NOT_ACTIVE' });
    return json(200, { given_name: 'Sand', family_name: 'Box', status: 'active' });
  }

  #submit(call: Call, session: Session, kind: Kind, respond: Respond): void {
    const submission = kind === 'refund' ? this.#readRefund(call, session) : readPayment(call, session, kind);
    if ('status' in submission) {
      respond(submission);
      return;
    }
    const existing = this.#network.find(submission.till, kind, submission.reference);
    if (existing !== undefined) {
      respond(this.#network.outageOf(existing) ?? duplicate());
      return;
    }
    this.#network.submit(submission, ANSWERS, respond);
  }

  /** `POST /disbursement/v1_0/refund`: pays back a collection to who paid it. */
  #readRefund(call: Call, session: Session): Submission | Answer {
    const reference = header(call, 'x-reference-id');
    const body = jsonBody(call);
    const original = body?.['referenceIdToRefund'];
    if (reference === undefined || !UUID_V4.test(reference)) return badReference();
    if (body === undefined || typeof original !== 'string') {
      return validation('referenceIdToRefund is required.');
    }
    const refunded = this.#collectionOf(original);
    if (refunded === undefined || refunded.state !== 'succeeded') return resourceNotFound();
    const amount = parseHundredths(textAt(body, 'amount'));
    if (amount === null || amount > refunded.amount) return validation('amount is more than was collected.');
    const { subscription } = session;
    if (body['currency'] !== subscription.till.currency) return invalidCurrency();
    return {
      provider: 'mtn',
      kind: 'refund',
      till: subscription.till,
      reference: reference.toLowerCase(),
      externalId: textAt(body, 'externalId'),
      msisdn: refunded.msisdn,
      amountText: textAt(body, 'amount'),
      amount,
      currency: refunded.currency,
      payerMessage: textAt(body, 'payerMessage'),
      payeeNote: textAt(body, 'payeeNote'),
      callbackUrl: header(call, 'x-callback-url') ?? null,
    };
  }

  #collectionOf(reference: string): Payment | undefined {
    for (const { till } of this.#subscriptions.values()) {
      const payment = this.#network.find(till, 'collect', reference.toLowerCase());
      if (payment !== undefined) return payment;
    }
    return undefined;
  }

  #enquire({ subscription }: Session, kind: Kind, reference: string, respond: Respond): void {
    const payment = this.#network.find(subscription.till, kind, reference.toLowerCase());
    const forced = this.#network.forced.answerTo('mtn', 'enquiry', payment?.msisdn ?? null);
    if (forced !== null) respond(asOutcome(forced));
    else if (payment === undefined) respond(resourceNotFound());
    else respond(this.#network.outageOf(payment) ?? json(200, statusOf(payment, subscription.bareReasons)));
  }

  #sendCallback(payment: Payment, onDone: (() => void) | null): void {
    const { callbackUrl: url, till } = payment;
    if (url === null) {
      onDone?.();
      return;
    }
    const subscription = this.#byTill.get(till);
    const { callbackMethod: method = 'PUT', bareReasons = false } = subscription ?? {};
    this.#callbacks.send({ url, method, body: JSON.stringify(statusOf(payment, bareReasons)), onDone });
  }
}

const KINDS: Readonly<Record<MtnProduct, readonly (readonly [string, Kind])[]>> = {
  collection: [
    ['/v1_0/requesttopay', 'collect'],
    ['/v2_0/requesttopay', 'collect'],
  ],
  disbursement: [
    ['/v1_0/transfer', 'send'],
    ['/v2_0/transfer', 'send'],
    ['/v1_0/refund', 'refund'],
  ],
};

const ANSWERS = {
  // Settled in the answer is ours: the real one answers 202 without a body, whatever follows.
  accepted: (payment: Payment): Answer =>
    payment.behaviour.answer === 'settled' ? json(202, statusOf(payment, false)) : empty(202),
  refused: ({ reason }: Payment): Answer => refusal(500, reason?.code ?? '', reason?.message ?? ''),
  full: (): Answer => json(503, { statusCode: 503, message: 'Service Unavailable' }),
};

// --- Bodies ------------------------------------------------------------------------------------------------------------

function readPayment(
  call: Call,
  { subscription, user }: Session,
  kind: 'collect' | 'send',
): Submission | Answer {
  const reference = header(call, 'x-reference-id');
  if (reference === undefined || !UUID_V4.test(reference)) return badReference();
  if (!(header(call, 'content-type') ?? '').startsWith('application/json')) {
    return json(415, { statusCode: 415, message: 'Unsupported Media Type' });
  }
  const body = jsonBody(call);
  if (body === undefined) return validation('The body is not a JSON object.');

  const problem = problemWith(body, kind === 'collect' ? 'payer' : 'payee');
  if (problem !== null) return validation(problem);
  const amount = parseHundredths(body['amount'] as string) ?? 0;
  const { till } = subscription;
  if (body['currency'] !== till.currency) return invalidCurrency();
  if (tooPrecise(amount, till)) return validation(`${till.currency} has no decimals.`);

  const callbackUrl = header(call, 'x-callback-url') ?? null;
  if (callbackUrl !== null && URL.parse(callbackUrl)?.hostname !== user.callbackHost) {
    return refusal(500, 'INVALID_CALLBACK_URL_HOST', 'Callback URL host is not the registered one.');
  }
  const party = objectAt(body, kind === 'collect' ? 'payer' : 'payee');
  return {
    provider: 'mtn',
    kind,
    till,
    reference: reference.toLowerCase(),
    externalId: body['externalId'] as string,
    msisdn: party['partyId'] as string,
    amountText: body['amount'] as string,
    amount,
    currency: till.currency,
    payerMessage: textAt(body, 'payerMessage'),
    payeeNote: textAt(body, 'payeeNote'),
    callbackUrl,
  };
}

/** Null: nothing is wrong. */
function problemWith(body: Record<string, unknown>, partyField: 'payer' | 'payee'): string | null {
  const { amount, currency, externalId } = body;
  if (typeof amount !== 'string' || !(Number(amount) > 0) || parseHundredths(amount) === null) {
    return 'amount must be a string in major units above 0.';
  }
  if (typeof currency !== 'string') return 'currency is required.';
  if (typeof externalId !== 'string' || externalId === '') return 'externalId is required.';
  const party = body[partyField];
  if (!isObject(party)) return `${partyField} is required.`;
  if (party['partyIdType'] !== 'MSISDN') return `${partyField}.partyIdType must be MSISDN.`;
  if (typeof party['partyId'] !== 'string' || !/^[1-9][0-9]{7,14}$/.test(party['partyId'])) {
    return `${partyField}.partyId must be an international number without +.`;
  }
  for (const name of ['payerMessage', 'payeeNote']) {
    const note = body[name];
    if (note === undefined) continue;
    if (typeof note !== 'string') return `${name} must be a string.`;
    if (!note.isWellFormed()) return `${name} is not text.`;
    if (NOT_TAKEN.test(note)) return `${name} has a character that is not supported.`;
    if (note.length > NOTE_LENGTH) return `${name} is longer than ${NOTE_LENGTH} characters.`;
  }
  return null;
}

const NOTE_LENGTH = 128;
/** "Having unsupported special characters in the Body request for example an apostrophe" is a bad request by MTN's list of
 *  common errors, which names no other; the ampersand is in public reports. */
const NOT_TAKEN = /['&]/;

const STATUS_WORDS = {
  pending: 'PENDING',
  succeeded: 'SUCCESSFUL',
  failed: 'FAILED',
  expired: 'FAILED',
  // Ours: MTN documents no word for it.
  reversed: 'REVERSED',
} as const satisfies Record<Payment['state'], string>;

/** The status answer, and the body of the callback. */
function statusOf(payment: Payment, bareReasons: boolean): Record<string, unknown> {
  const { kind, moneyId, externalId, msisdn, reason, state } = payment;
  const party = { partyIdType: 'MSISDN', partyId: msisdn };
  const moved = payment.amountMoved === null ? payment.amountText : majorText(payment.amountMoved);
  const status: Record<string, unknown> = {
    amount: state === 'pending' ? payment.amountText : moved,
    currency: payment.currencyMoved ?? payment.currency,
  };
  if (moneyId !== null) status['financialTransactionId'] = moneyId;
  status['externalId'] = externalId;
  status[kind === 'collect' ? 'payer' : 'payee'] = party;
  status['payerMessage'] = payment.payerMessage;
  status['payeeNote'] = payment.payeeNote;
  status['status'] = STATUS_WORDS[state];
  if (reason !== null) status['reason'] = bareReasons ? reason.code : reason;
  return status;
}

// --- Refusals ----------------------------------------------------------------------------------------------------------

function refusal(status: number, code: string, message: string): Answer {
  return json(status, { code, message });
}

function validation(message: string): Answer {
  return refusal(400, 'VALIDATION_ERROR', message);
}

function invalidCurrency(): Answer {
  return refusal(500, 'INVALID_CURRENCY', 'Currency not supported.');
}

function badReference(): Answer {
  return refusal(400, 'VALIDATION_ERROR', 'X-Reference-Id must be a UUID of version 4.');
}

function duplicate(): Answer {
  return refusal(409, 'RESOURCE_ALREADY_EXIST', 'Duplicated reference id. Creation of resource failed.');
}

function resourceNotFound(): Answer {
  return refusal(404, 'RESOURCE_NOT_FOUND', 'Requested resource was not found.');
}

function badSubscription(call: Call): Answer {
  const missing = header(call, 'ocp-apim-subscription-key') === undefined;
  const what = missing ? 'missing' : 'invalid';
  return json(401, { statusCode: 401, message: `Access denied due to ${what} subscription key.` });
}

function basicCredentials(authorization: string | undefined): [string, string] {
  if (authorization === undefined || !authorization.startsWith('Basic ')) return ['', ''];
  const text = Buffer.from(authorization.slice('Basic '.length), 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return [text.slice(0, colon), text.slice(colon + 1)];
}
