// Airtel's Open API: tokens, collections unsigned (v1) and signed (v2), disbursements with an encrypted PIN, refunds,
// enquiries, balance, wallet holders and encryption keys. As strict about headers and bodies as the public documents.
//
//   gateway            →  401 {error, error_description}; {status_code: "ROUTER…", status_message}
//   product            →  200 {data, status: {code, message, result_code, response_code, success}}, refusals included

import { randomBytes } from 'node:crypto';
import { LIMITS } from '../../limits.ts';
import { decrypt, hashOf, type KeyPair, makeKeyPair, type Padding, signatureIsOf } from './airtel-keys.ts';
import { type Answer, type Call, header, json, jsonBody, objectAt, type Respond, textAt } from './call.ts';
import type { CallbackSender } from './callback-sender.ts';
import { asOutcome } from './forced.ts';
import { type Network, tooPrecise } from './network.ts';
import { behaviourOfNumber } from './number-table.ts';
import { majorText, parseHundredths, type Payment, type Submission, type Till } from './payment.ts';
import { Tokens } from './tokens.ts';

/** An application of the developer portal. */
export interface AirtelApp {
  readonly clientId: string;
  readonly clientSecret: string;
  readonly till: Till;
  readonly pin: string;
  readonly pinPadding: Padding;
  /** Set in the portal, not per request; null: none is sent. */
  callbackUrl: string | null;
  /** Null: callbacks carry no hash. */
  readonly hashKey: string | null;
  /** True: v1 collections are refused, as in Uganda. */
  readonly signed: boolean;
}

export interface AirtelOptions {
  readonly network: Network;
  readonly callbacks: CallbackSender;
  readonly tokenSeconds: number;
}

const ID = /^[A-Za-z0-9]{4,64}$/;
const SIGNING_BITS = 2048;
const PIN_BITS: Readonly<Record<Padding, number>> = { pkcs1: 1024, 'oaep-sha256': 2048 };
const COLLECTED = 'DP00800001001';
const SENT = 'DP00900001001';

export class AirtelProtocol {
  readonly tokens: Tokens<AirtelApp>;
  readonly #network: Network;
  readonly #callbacks: CallbackSender;
  readonly #apps = new Map<string, AirtelApp>();
  readonly #byTill = new Map<Till, AirtelApp>();
  /** Made when first needed: it takes a quarter of a second. */
  #signing: KeyPair | null = null;
  readonly #pinKeys = new Map<Padding, KeyPair>();

  constructor({ network, callbacks, tokenSeconds }: AirtelOptions) {
    this.tokens = new Tokens(tokenSeconds);
    this.#network = network;
    this.#callbacks = callbacks;
    network.onCallback('airtel', (payment, onDone) => this.#sendCallback(payment, onDone));
  }

  static owns(path: string): boolean {
    return (
      path.startsWith('/merchant/') ||
      path.startsWith('/standard/') ||
      path.startsWith('/auth/') ||
      path.startsWith('/v1/rsa/')
    );
  }

  get isFull(): boolean {
    return this.#apps.size >= LIMITS.simulatorAppsMax;
  }

  /** What the developer portal does when an application is made; not when it is full. */
  register(app: Omit<AirtelApp, 'clientId' | 'clientSecret'>): AirtelApp & { readonly pinPublicKey: string } {
    const clientId = randomBytes(16).toString('hex');
    const made = { ...app, clientId, clientSecret: randomBytes(18).toString('base64url') };
    this.#apps.set(clientId, made);
    this.#byTill.set(made.till, made);
    return { ...made, pinPublicKey: this.#pinKey(app.pinPadding).publicKey };
  }

  /** False: there is no such application. */
  setCallbackUrl(clientId: string, url: string): boolean {
    const app = this.#apps.get(clientId);
    if (app === undefined) return false;
    app.callbackUrl = url;
    return true;
  }

  rotateKeys(): void {
    this.#signing = makeKeyPair(SIGNING_BITS);
  }

  handle(call: Call, respond: Respond): void {
    if (call.path === '/auth/oauth2/token') {
      const forced = this.#network.forced.answerTo('airtel', 'token', null);
      respond(forced === null ? this.#token(call) : asOutcome(forced));
      return;
    }
    const app = this.tokens.holderOf(header(call, 'authorization'));
    if (app === undefined) {
      respond(json(401, { error: 'invalid_token', error_description: 'Access token is invalid or expired' }));
      return;
    }
    const country = header(call, 'x-country');
    const currency = header(call, 'x-currency');
    if (country === undefined || currency === undefined) {
      respond(router('ROUTER003', 'Mandatory parameters are missing either in the header or body.'));
    } else if (country !== app.till.country) {
      respond(router('ROUTER007', 'Not authorized to perform any operations in the provided country.'));
    } else if (currency !== app.till.currency) {
      respond(router('ROUTER112', 'Invalid currency provided.'));
    } else {
      this.#route(call, app, respond);
    }
  }

  #route(call: Call, app: AirtelApp, respond: Respond): void {
    const { method, path } = call;
    if (method === 'POST') {
      if (path === '/merchant/v1/payments/') this.#collect(call, app, false, respond);
      else if (path === '/merchant/v2/payments/') this.#collect(call, app, true, respond);
      else if (path === '/standard/v2/disbursements/') this.#disburse(call, app, respond);
      else if (path === '/standard/v1/payments/refund') respond(this.#refund(call, app));
      else respond(noSuchPath());
      return;
    }
    if (method !== 'GET') {
      respond(noSuchPath());
      return;
    }
    const [, product = '', id = ''] = /^\/standard\/v[123]\/(\w+)\/(\w+)$/.exec(path) ?? [];
    if (path === '/v1/rsa/encryption-keys') respond(this.#encryptionKey());
    else if (path === '/standard/v1/users/balance') respond(balanceOf(app));
    else if (product === 'users') respond(holder(id));
    else if (product === 'payments') this.#enquire(app, 'collect', id, respond);
    else if (product !== 'disbursements') respond(noSuchPath());
    else if (call.query.get('transactionType') === 'B2C') this.#enquire(app, 'send', id, respond);
    else respond(router('ROUTER003', 'transactionType must be B2C.'));
  }

  // --- Tokens and keys -------------------------------------------------------------------------------------------------

  #token(call: Call): Answer {
    const body = jsonBody(call);
    if (call.method !== 'POST' || body === undefined) return noSuchPath();
    const { client_id: clientId, client_secret: secret, grant_type: grant } = body;
    const app = typeof clientId === 'string' ? this.#apps.get(clientId) : undefined;
    if (app === undefined || app.clientSecret !== secret || grant !== 'client_credentials') {
      return json(401, { error: 'invalid_client', error_description: 'Invalid client authentication' });
    }
    // Seen as a string and as a number.
    const seconds = this.tokens.lifeSeconds;
    const expiresIn = this.tokens.minted % 2 === 0 ? String(seconds) : seconds;
    return json(200, {
      token_type: 'bearer',
      access_token: this.tokens.mint(app, app),
      expires_in: expiresIn,
    });
  }

  #signingKey(): KeyPair {
    this.#signing ??= makeKeyPair(SIGNING_BITS);
    return this.#signing;
  }

  #pinKey(padding: Padding): KeyPair {
    const known = this.#pinKeys.get(padding);
    if (known !== undefined) return known;
    const made = makeKeyPair(PIN_BITS[padding]);
    this.#pinKeys.set(padding, made);
    return made;
  }

  #encryptionKey(): Answer {
    const { id, publicKey } = this.#signingKey();
    const data = { key_id: id, key: publicKey, valid_upto: new Date(Date.now() + 86_400_000).toISOString() };
    return json(200, { data, status: statusBlock('DP00800001027', 'SUCCESS', true) });
  }

  // --- Collect and send ------------------------------------------------------------------------------------------------

  #collect(call: Call, app: AirtelApp, signed: boolean, respond: Respond): void {
    const body = jsonBody(call);
    if (signed || app.signed) {
      const xKey = header(call, 'x-key');
      const xSignature = header(call, 'x-signature');
      const ok = signed && xKey !== undefined && xSignature !== undefined;
      if (!ok || !signatureIsOf(this.#signingKey(), call.body, xKey, xSignature)) {
        respond(refused('DP00800001026', 'Forbidden: x-signature and payload did not match.'));
        return;
      }
    }
    const submission = body === undefined ? notJson() : readCollection(body, app);
    if ('status' in submission) respond(submission);
    else this.#submit(submission, respond);
  }

  #disburse(call: Call, app: AirtelApp, respond: Respond): void {
    const body = jsonBody(call);
    if (body === undefined) {
      respond(notJson());
      return;
    }
    const submission = readDisbursement(body, app);
    if ('status' in submission) {
      respond(submission);
      return;
    }
    const pin = decrypt(this.#pinKey(app.pinPadding), app.pinPadding, textAt(body, 'pin'));
    if (pin === undefined) {
      respond(router('ROUTER116', 'The encrypted value of the pin is incorrect.'));
    } else if (pin !== app.pin) {
      respond(router('ROUTER115', 'Pin you have entered is incorrect.'));
    } else {
      this.#submit(submission, respond);
    }
  }

  #submit(submission: Submission, respond: Respond): void {
    const existing = this.#network.find(submission.till, submission.kind, submission.reference);
    if (existing === undefined) {
      this.#network.submit(submission, ANSWERS, respond);
      return;
    }
    const code = submission.kind === 'send' ? 'DP00900001017' : 'ESB000041';
    respond(this.#network.outageOf(existing) ?? refused(code, 'Duplicate transaction id.'));
  }

  #refund(call: Call, { till }: AirtelApp): Answer {
    const moneyId = objectAt(jsonBody(call) ?? {}, 'transaction')['airtel_money_id'];
    for (const payment of this.#network.all()) {
      if (payment.till !== till || payment.kind !== 'collect' || payment.moneyId !== moneyId) continue;
      if (!this.#network.reverse(payment)) return refused('DP00800001008', 'The transaction was refused.');
      const data = { transaction: { airtel_money_id: moneyId, status: 'SUCCESS' } };
      return json(200, { data, status: statusBlock(COLLECTED, 'SUCCESS', true) });
    }
    return refused('DP00800001025', 'Transaction not found.');
  }

  // --- Enquiry and callbacks -------------------------------------------------------------------------------------------

  #enquire({ till }: AirtelApp, kind: 'collect' | 'send', id: string, respond: Respond): void {
    const payment = this.#network.find(till, kind, id);
    const forced = this.#network.forced.answerTo('airtel', 'enquiry', payment?.msisdn ?? null);
    if (forced !== null) {
      respond(asOutcome(forced));
    } else if (payment === undefined) {
      respond(refused(kind === 'collect' ? 'DP00800001025' : 'DP00900001015', 'Transaction not found.'));
    } else {
      respond(this.#network.outageOf(payment) ?? json(200, statusOf(payment)));
    }
  }

  #sendCallback(payment: Payment, onDone: (() => void) | null): void {
    const app = this.#byTill.get(payment.till);
    const url = app?.callbackUrl ?? null;
    if (app === undefined || url === null) {
      onDone?.();
      return;
    }
    const transaction = callbackTransaction(payment);
    const { hashKey } = app;
    const hash = hashKey === null ? {} : { hash: hashOf(hashKey, JSON.stringify(transaction)) };
    this.#callbacks.send({ url, method: 'POST', body: JSON.stringify({ transaction, ...hash }), onDone });
  }
}

const ANSWERS = {
  accepted: (payment: Payment): Answer => {
    const { kind, reference, moneyId } = payment;
    const settled = payment.behaviour.answer === 'settled';
    if (kind === 'collect' && !settled) {
      const data = { transaction: { id: reference, status: 'SUCCESS' } };
      return json(200, { data, status: statusBlock('DP00800001006', 'SUCCESS', true) });
    }
    const money = moneyId === null ? {} : { airtel_money_id: moneyId };
    const transaction = { reference_id: reference, ...money, id: reference, status: settled ? 'TS' : 'TIP' };
    const settledCode = kind === 'collect' ? COLLECTED : SENT;
    const code = settled ? settledCode : 'DP00900001006';
    return json(200, { data: { transaction }, status: statusBlock(code, 'SUCCESS', true) });
  },
  refused: ({ reason }: Payment): Answer =>
    reason?.code.startsWith('ROUTER') === true
      ? router(reason.code, reason.message)
      : refused(reason?.code ?? '', reason?.message ?? ''),
  full: (): Answer => json(503, { error: 'Service Unavailable' }),
};

// --- Bodies ------------------------------------------------------------------------------------------------------------

function readCollection(body: Record<string, unknown>, { till }: AirtelApp): Submission | Answer {
  const { reference } = body;
  const subscriber = objectAt(body, 'subscriber');
  const transaction = objectAt(body, 'transaction');
  if (subscriber['country'] !== till.country || transaction['country'] !== till.country) {
    return router('ROUTER006', 'Invalid country code provided.');
  }
  if (subscriber['currency'] !== till.currency || transaction['currency'] !== till.currency) {
    return router('ROUTER112', 'Invalid currency provided.');
  }
  if (!isNational(subscriber['msisdn'])) return refused('ESB000033', 'Invalid MSISDN.');
  return readMovement(till, 'collect', reference, transaction, subscriber['msisdn']);
}

function readDisbursement(body: Record<string, unknown>, { till }: AirtelApp): Submission | Answer {
  const { reference } = body;
  const payee = objectAt(body, 'payee');
  const transaction = objectAt(body, 'transaction');
  if (payee['currency'] !== till.currency) return router('ROUTER112', 'Invalid currency provided.');
  if (!isNational(payee['msisdn'])) return refused('DP00900001012', 'Mobile number entered is incorrect.');
  if (transaction['type'] !== 'B2C') return router('ROUTER003', 'transaction.type must be B2C.');
  return readMovement(till, 'send', reference, transaction, payee['msisdn']);
}

function readMovement(
  till: Till,
  kind: 'collect' | 'send',
  reference: unknown,
  { id, amount }: Record<string, unknown>,
  msisdn: string,
): Submission | Answer {
  if (typeof reference !== 'string' || !ID.test(reference) || typeof id !== 'string' || !ID.test(id)) {
    return router('ROUTER003', 'reference and transaction.id take 4 to 64 letters and digits.');
  }
  const invalidAmount = kind === 'collect' ? 'DP00800001004' : 'DP00900001004';
  const hundredths = typeof amount === 'number' && amount > 0 ? parseHundredths(String(amount)) : null;
  if (hundredths === null || tooPrecise(hundredths, till)) {
    return refused(invalidAmount, 'Invalid amount.');
  }
  return {
    provider: 'airtel',
    kind,
    till,
    reference: id,
    externalId: reference,
    msisdn,
    amountText: String(amount),
    amount: hundredths,
    currency: till.currency,
    payerMessage: reference,
    payeeNote: '',
    callbackUrl: null,
  };
}

function isNational(msisdn: unknown): msisdn is string {
  return typeof msisdn === 'string' && /^[1-9][0-9]{8}$/.test(msisdn);
}

const STATUS_WORDS = {
  pending: 'TIP',
  succeeded: 'TS',
  failed: 'TF',
  expired: 'TE',
  // Ours: Airtel documents no word for it.
  reversed: 'TR',
} as const satisfies Record<Payment['state'], string>;

function statusOf(payment: Payment): Record<string, unknown> {
  const { kind, state, reason, moneyId, reference } = payment;
  const inProgress = kind === 'collect' ? 'DP00800001006' : 'DP00900001006';
  const done = kind === 'collect' ? COLLECTED : SENT;
  // The live system has the code of the acceptance beside TS as well, of a collection, and so has its documents' example.
  const isCollected = kind === 'collect' && state === 'succeeded';
  const code = reason?.code ?? (state === 'pending' || isCollected ? inProgress : done);
  const moved =
    payment.amountMoved === null
      ? {}
      : { amount: majorText(payment.amountMoved), currency: payment.currencyMoved ?? payment.currency };
  const transaction = {
    ...(state === 'succeeded' || state === 'reversed' ? { airtel_money_id: moneyId } : {}),
    ...moved,
    id: reference,
    message: reason?.message ?? (state === 'pending' ? 'Transaction in progress' : 'success'),
    status: STATUS_WORDS[state],
  };
  return { data: { transaction }, status: statusBlock(code, 'SUCCESS', true) };
}

function callbackTransaction(payment: Payment): Record<string, unknown> {
  const { state, reference, moneyId, amountMoved, reason } = payment;
  const statusCode = state === 'succeeded' || state === 'pending' ? 'TS' : 'TF';
  const amount = majorText(amountMoved ?? payment.amount);
  const message = state === 'succeeded' ? `Paid ${payment.currency} ${amount}` : (reason?.message ?? '');
  return {
    id: reference,
    message,
    status_code: state === 'reversed' ? 'TR' : statusCode,
    ...(moneyId === null ? {} : { airtel_money_id: moneyId }),
  };
}

function balanceOf({ till }: AirtelApp): Answer {
  const data = { balance: majorText(till.balance), currency: till.currency, account_status: 'Active' };
  return json(200, { data, status: statusBlock('DP02100000001', 'SUCCESS', true) });
}

function holder(msisdn: string): Answer {
  if (!isNational(msisdn)) return refused('DP02200000000', 'Invalid MSISDN.');
  const { code } = behaviourOfNumber(msisdn, 'collect').airtel;
  if (code === 'DP02200000002') return refused(code, 'User not found.');
  const barred = code === 'DP00800001010';
  const data = {
    first_name: 'Sand',
    last_name: 'Box',
    grade: 'SUBS',
    is_barred: barred,
    is_pin_set: true,
    msisdn,
    status: barred ? 'N' : 'Y',
  };
  return json(200, { data, status: statusBlock('DP02200000001', 'SUCCESS', true) });
}

// --- Refusals ----------------------------------------------------------------------------------------------------------

function statusBlock(responseCode: string, message: string, success: boolean): Record<string, unknown> {
  const resultCode = success ? 'ESB000010' : 'ESB000011';
  return { code: '200', message, result_code: resultCode, response_code: responseCode, success };
}

/** HTTP 200 that carries a refusal. */
function refused(code: string, message: string): Answer {
  if (code.startsWith('ESB')) {
    const status = { code: '200', message, result_code: code, success: false };
    return json(200, { status });
  }
  return json(200, { status: statusBlock(code, message, false) });
}

function router(code: string, message: string): Answer {
  return json(400, { status_code: code, status_message: message });
}

function notJson(): Answer {
  return router('ROUTER003', 'The body is not a JSON object.');
}

function noSuchPath(): Answer {
  return json(404, { error: 'Not Found', message: 'No message available' });
}
