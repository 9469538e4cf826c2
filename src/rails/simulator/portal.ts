// What a person does in the providers' web portals (subscribe, register an application), as calls; and the simulator's
// own controls for tests: forced answers and outcomes, expiry of tokens, rotation of keys, counts.
//
//   POST   /portal/mtn/subscriptions   {product, target_environment, country, currency, callback_method?, bare_reasons?,
//                                       balance?}                     → {subscription_key}
//   POST   /portal/airtel/apps         {country, currency, merchant?, callback_url?, callback_hash?, pin_padding?, signed?, balance?,
//                                       amount_decimals?}
//                                      → {client_id, client_secret, pin, pin_public_key, hash_key}
//   POST   /portal/airtel/apps/:client_id   {callback_url}
//   POST   /simulator/answers          ForcedAnswer      POST /simulator/outcomes   ForcedOutcome
//   DELETE /simulator/forced           forgets both
//   POST   /simulator/expire-tokens    POST /simulator/rotate-keys
//   POST   /simulator/one-token        from now on a new token revokes the one before of the same credentials
//   GET    /simulator/counts           GET  /simulator/transactions?limit=
//   POST   /simulator/transactions/:number/approve | decline | reverse | callback
//
// A control that is wrong is 400, and names the field; one for which there is no room 400 or 409.

import { randomBytes, randomInt } from 'node:crypto';
import type { AirtelProtocol } from './airtel.ts';
import { type Answer, type Call, empty, json, jsonBody } from './call.ts';
import type { CallbackSender } from './callback-sender.ts';
import type { MtnProtocol } from './mtn.ts';
import type { Network } from './network.ts';
import { decimalsOf, majorText, parseHundredths, type Payment, type Provider, type Till } from './payment.ts';

export interface PortalParts {
  readonly network: Network;
  readonly mtn: MtnProtocol;
  readonly airtel: AirtelProtocol;
  readonly callbacks: CallbackSender;
}

/** Enough for any test, in hundredths. */
const START_BALANCE = 1_000_000_000_000;

export class Portal {
  readonly #parts: PortalParts;
  #nextTill = 1;
  /** By provider, merchant and country: the processes of one merchant have one till, one application, and one subscription to
   *  each product, however often they start. */
  readonly #tills = new Map<string, Till>();
  /** Their keys, by till and product. */
  readonly #subscriptions = new Map<string, string>();
  readonly #apps = new Map<Till, ReturnType<AirtelProtocol['register']>>();

  constructor(parts: PortalParts) {
    this.#parts = parts;
  }

  static owns(path: string): boolean {
    return path.startsWith('/portal/') || path.startsWith('/simulator/');
  }

  handle(call: Call): Answer {
    const { method, path } = call;
    const { network, mtn, airtel, callbacks } = this.#parts;
    const body = jsonBody(call) ?? {};
    switch (`${method} ${path}`) {
      case 'POST /portal/mtn/subscriptions':
        return this.#subscribe(body);
      case 'POST /portal/airtel/apps':
        return this.#register(body);
      case 'POST /simulator/answers':
        return forced(network.forced.addAnswer(body));
      case 'POST /simulator/outcomes':
        return forced(network.forced.addOutcome(body));
      case 'DELETE /simulator/forced':
        network.forced.clear();
        return empty(204);
      case 'POST /simulator/expire-tokens':
        mtn.tokens.expireAll();
        airtel.tokens.expireAll();
        return empty(204);
      case 'POST /simulator/one-token':
        mtn.tokens.oneEach = true;
        airtel.tokens.oneEach = true;
        return empty(204);
      case 'POST /simulator/rotate-keys':
        airtel.rotateKeys();
        return empty(204);
      case 'GET /simulator/counts': {
        const { sent, failed, lost } = callbacks;
        const tokens = mtn.tokens.minted + airtel.tokens.minted;
        const sends = { callbacks_sent: sent, callbacks_failed: failed, callbacks_lost: lost };
        return json(200, { ...network.counts(), ...sends, tokens_minted: tokens });
      }
      case 'GET /simulator/transactions': {
        const limit = call.query.get('limit') ?? '25';
        if (!/^\d{1,4}$/.test(limit)) return wrong('limit');
        return json(200, { data: newest(network, Number(limit)).map(summaryOf) });
      }
    }
    const [, clientId] = /^\/portal\/airtel\/apps\/(\w+)$/.exec(path) ?? [];
    if (clientId !== undefined && method === 'POST') return this.#setCallback(clientId, body);
    return this.#act(call);
  }

  #setCallback(clientId: string, { callback_url: url }: Record<string, unknown>): Answer {
    if (typeof url !== 'string') return wrong('callback_url');
    return this.#parts.airtel.setCallbackUrl(clientId, url) ? empty(204) : json(404, { error: 'not found' });
  }

  #act({ method, path }: Call): Answer {
    const [, number = '', action = ''] = /^\/simulator\/transactions\/(\d+)\/(\w+)$/.exec(path) ?? [];
    const { network } = this.#parts;
    const payment = network.byNumber(Number(number));
    if (method !== 'POST' || payment === undefined) return json(404, { error: 'not found' });
    return actOn(network, payment, action)
      ? json(200, summaryOf(payment))
      : json(409, { error: 'not possible' });
  }

  #subscribe(body: Record<string, unknown>): Answer {
    const { product, target_environment: targetEnvironment, callback_method: method = 'PUT' } = body;
    if (product !== 'collection' && product !== 'disbursement') return wrong('product');
    if (typeof targetEnvironment !== 'string') return wrong('target_environment');
    if (method !== 'PUT' && method !== 'POST') return wrong('callback_method');
    const till = this.#till('mtn', body);
    if ('status' in till) return till;
    const name = `${till.id} ${product}`;
    const known = this.#subscriptions.get(name);
    const subscription_key =
      known ??
      this.#parts.mtn.subscribe({
        product,
        targetEnvironment,
        callbackMethod: method,
        bareReasons: body['bare_reasons'] === true,
        till,
      });
    if (subscription_key === null) return FULL;
    this.#subscriptions.set(name, subscription_key);
    return json(201, { subscription_key });
  }

  #register(body: Record<string, unknown>): Answer {
    const { callback_url: callbackUrl, pin_padding: padding = 'pkcs1' } = body;
    if (padding !== 'pkcs1' && padding !== 'oaep-sha256') return wrong('pin_padding');
    const till = this.#till('airtel', body);
    if ('status' in till) return till;
    const known = this.#apps.get(till);
    const app =
      known ??
      this.#parts.airtel.register({
        till,
        pin: String(randomInt(1_000, 10_000)),
        pinPadding: padding,
        callbackUrl: typeof callbackUrl === 'string' ? callbackUrl : null,
        hashKey: body['callback_hash'] === true ? randomBytes(16).toString('hex') : null,
        signed: body['signed'] === true,
      });
    this.#apps.set(till, app);
    return json(201, {
      client_id: app.clientId,
      client_secret: app.clientSecret,
      pin: app.pin,
      pin_public_key: app.pinPublicKey,
      hash_key: app.hashKey,
    });
  }

  #till(provider: Provider, body: Record<string, unknown>): Till | Answer {
    const { country, currency, balance, merchant, amount_decimals: decimals } = body;
    if (typeof country !== 'string' || typeof currency !== 'string') return wrong(TILL_FIELDS);
    const name = typeof merchant === 'string' ? `${provider} ${merchant} ${country}` : null;
    const known = name === null ? undefined : this.#tills.get(name);
    if (known !== undefined) return known;
    const start =
      balance === undefined
        ? START_BALANCE
        : parseHundredths(typeof balance === 'number' ? String(balance) : '');
    if (start === null) return wrong(TILL_FIELDS);
    if (this.#parts[provider].isFull) return FULL;
    const id = `${provider}${this.#nextTill++}`;
    const amountDecimals = typeof decimals === 'number' ? decimals : decimalsOf(currency);
    const till = { id, provider, country, currency, amountDecimals, balance: start };
    if (name !== null) this.#tills.set(name, till);
    return till;
  }
}

/** A person plays the customer, or the network. False: its state does not allow it. */
export function actOn(network: Network, payment: Payment, action: string): boolean {
  const declined =
    payment.provider === 'mtn'
      ? { code: 'APPROVAL_REJECTED', message: 'rejected by the customer' }
      : { code: 'DP00800001002', message: 'rejected by the customer' };
  const acts: Readonly<Record<string, () => boolean>> = {
    approve: () => network.settle(payment, 'succeeded', null),
    decline: () => network.settle(payment, 'failed', declined),
    reverse: () => network.reverse(payment),
    callback: () => payment.accepted,
  };
  const done = Object.hasOwn(acts, action) && acts[action]!();
  if (done) network.sendCallback(payment);
  return done;
}

export function newest(network: Network, limit: number): Payment[] {
  const found: Payment[] = [];
  for (const payment of network.newest()) {
    if (found.length >= Math.min(limit, PAGE_LENGTH)) break;
    found.push(payment);
  }
  return found;
}

const PAGE_LENGTH = 1_000;

function summaryOf(payment: Payment): Record<string, unknown> {
  const { number, provider, kind, reference, externalId, msisdn, state, reason, moneyId, createdAt } =
    payment;
  return {
    number,
    provider,
    kind,
    reference,
    external_id: externalId,
    msisdn,
    amount: majorText(payment.amount),
    currency: payment.currency,
    state,
    reason: reason?.code ?? null,
    money_id: moneyId,
    behaviour: payment.behaviour.name,
    created_at: new Date(createdAt).toISOString(),
  };
}

const TILL_FIELDS = 'country, currency, balance';
const FULL = json(409, { error: 'too many subscriptions or applications: start the simulator anew' });

function forced(problem: string | null): Answer {
  return problem === null ? empty(204) : json(400, { error: problem });
}

function wrong(field: string): Answer {
  return json(400, { error: `${field}: missing or wrong` });
}
