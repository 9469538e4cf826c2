// What goes to the providers, whole: every call of the two adapters, with its headers and its body, as the providers' documents have them.
// The simulator takes what the adapters send; here stands what that is.
import {
  constants,
  createDecipheriv,
  generateKeyPairSync,
  type KeyObject,
  privateDecrypt,
} from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { AirtelRail } from '../../src/rails/airtel.ts';
import { MtnRail } from '../../src/rails/mtn.ts';
import type { CheckResult, ProviderRail } from '../../src/rails/provider-rail.ts';
import { referenceOf, uuidReference } from '../../src/rails/reference.ts';
import { systemClock } from '../../src/rails/system-clock.ts';
import { DrivenClock } from '../unit/pollers-driven.ts';
import { transactionOf } from './rails-setup.ts';

interface Call {
  readonly line: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

let calls: Call[] = [];
/** By the end of the path: what is answered, with HTTP 200. */
let answers: Readonly<Record<string, object>> = {};
const server = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8');
  request.on('data', (text: string) => (body += text));
  request.on('end', () => {
    const { method = '', url = '', headers } = request;
    calls.push({ line: `${method} ${url}`, headers, body });
    const end = Object.keys(answers).find((path) => url.endsWith(path));
    response.end(JSON.stringify(end === undefined ? { access_token: 'a-token' } : answers[end]));
  });
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
t.teardown(() => server.close());
t.beforeEach(() => {
  calls = [];
  answers = {};
});

const COMMON = {
  country: 'UG',
  baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/base/`,
  maxConcurrency: 1,
  answerMs: 60_000,
  notFoundGraceMs: 1_000,
  forgetful: false,
  clock: systemClock,
} as const;

const AIRTEL = {
  ...COMMON,
  id: 'airtel_ug',
  currency: 'UGX',
  clientId: 'client',
  clientSecret: 'secret',
  amountDecimals: 0,
} as const;

/** Without those of every HTTP request. */
function own({ headers }: Call): object {
  const { host, connection, 'accept-encoding': coding, 'user-agent': agent, ...rest } = headers;
  t.match(host, /^127\.0\.0\.1:/);
  t.strictSame([connection, coding, agent], ['keep-alive', 'identity', 'Daftari/1.0']);
  return rest;
}

/** Of a call with a body: the headers that go with it are checked here. */
function ownOfJson(call: Call): object {
  const { 'content-type': type, 'content-length': length, ...rest } = own(call) as Record<string, string>;
  t.strictSame([type, length], ['application/json', String(Buffer.byteLength(call.body))]);
  return rest;
}

async function checksOf(rail: ProviderRail, msisdn: string | null): Promise<CheckResult[]> {
  const checks = [];
  for await (const check of rail.check(msisdn)) checks.push(check);
  return checks;
}

function basic(credentials: string): string {
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

t.test('MTN', async (t) => {
  const rail = new MtnRail({
    ...COMMON,
    id: 'mtn_ug',
    currency: 'EUR',
    targetEnvironment: 'sandbox',
    collection: { subscriptionKey: 'key-c', apiUser: 'user-c', apiKey: 'secret-c' },
    disbursement: { subscriptionKey: 'key-d', apiUser: 'user-d', apiKey: 'secret-d' },
    callbackUrl: ({ type }) => (type === 'CHARGE' ? 'https://pay.example/hook' : null),
  });
  t.teardown(() => rail.close());
  const products = [
    { type: 'CHARGE', name: 'collection', resource: 'requesttopay', party: 'payer', end: 'c' },
    { type: 'PAYOUT', name: 'disbursement', resource: 'transfer', party: 'payee', end: 'd' },
  ] as const;

  for (const { type, name, resource, party, end } of products) {
    calls = [];
    const charge = transactionOf({ type, amount: 1_050_000, note: '(Shoes, 2 pairs!)' });
    await rail.submit(charge);
    await rail.enquire(charge);
    const [token, submit, enquiry] = calls as [Call, Call, Call];
    t.equal(token.line, `POST /base/${name}/token/`);
    t.strictSame(
      own(token),
      {
        authorization: basic(`user-${end}:secret-${end}`),
        'ocp-apim-subscription-key': `key-${end}`,
        'content-length': '0',
      },
      'the empty body is said to be empty',
    );
    const ours = {
      authorization: 'Bearer a-token',
      'ocp-apim-subscription-key': `key-${end}`,
      'x-target-environment': 'sandbox',
    };
    t.equal(submit.line, `POST /base/${name}/v1_0/${resource}`);
    t.strictSame(ownOfJson(submit), {
      ...ours,
      'x-reference-id': uuidReference(charge.id),
      ...(type === 'CHARGE' ? { 'x-callback-url': 'https://pay.example/hook' } : {}),
    });
    t.strictSame(JSON.parse(submit.body), {
      amount: '1050000',
      currency: 'EUR',
      externalId: referenceOf(charge),
      [party]: { partyIdType: 'MSISDN', partyId: charge.msisdn },
      payerMessage: 'Shoes, 2 pairs',
      payeeNote: 'Shoes, 2 pairs',
    });
    t.equal(enquiry.line, `GET /base/${name}/v1_0/${resource}/${uuidReference(charge.id)}`);
    t.strictSame(own(enquiry), ours);
    t.equal(calls.length, 3, 'one token for both');
  }

  calls = [];
  answers = { '/balance': { availableBalance: 12.5, currency: 'EUR' }, '/active': { result: 'true' } };
  const granted = { ok: true, detail: 'granted' };
  t.strictSame(await checksOf(rail, '256772000001'), [
    { what: 'collection token', ...granted },
    { what: 'collection balance', ok: true, detail: '12.5 EUR' },
    { what: 'collection wallet holder', ok: true, detail: 'active' },
    { what: 'disbursement token', ...granted },
    { what: 'disbursement balance', ok: true, detail: '12.5 EUR' },
    { what: 'disbursement wallet holder', ok: true, detail: 'active' },
  ]);
  t.strictSame(
    calls.map(({ line }) => line),
    ['collection', 'disbursement'].flatMap((name) => [
      `GET /base/${name}/v1_0/account/balance`,
      `GET /base/${name}/v1_0/accountholder/msisdn/256772000001/active`,
    ]),
  );
  for (const [index, call] of calls.entries()) {
    t.strictSame(own(call), {
      authorization: 'Bearer a-token',
      'ocp-apim-subscription-key': index < 2 ? 'key-c' : 'key-d',
      'x-target-environment': 'sandbox',
    });
  }

  answers = { '/balance': { availableBalance: '7' }, '/active': { result: false } };
  const other = await checksOf(rail, '256772000001');
  t.strictSame(other.slice(1, 3), [
    { what: 'collection balance', ok: true, detail: '7' },
    { what: 'collection wallet holder', ok: true, detail: 'not active (wallet_inactive)' },
  ]);
  answers = { '/balance': {}, '/active': {} };
  t.strictSame((await checksOf(rail, '256772000001')).slice(1, 3), [
    { what: 'collection balance', ok: false, detail: 'HTTP 200: {}' },
    { what: 'collection wallet holder', ok: false, detail: 'HTTP 200: {}' },
  ]);
  t.equal((await checksOf(rail, null)).length, 4, 'no number, no wallet holder');
});

t.test('MTN, with one product: the other is neither asked nor checked', async (t) => {
  const rail = new MtnRail({
    ...COMMON,
    id: 'mtn_ug',
    currency: 'UGX',
    targetEnvironment: 'mtnuganda',
    collection: null,
    disbursement: { subscriptionKey: 'key-d', apiUser: 'user-d', apiKey: 'secret-d' },
    callbackUrl: () => null,
  });
  t.teardown(() => rail.close());
  t.match(await rail.submit(transactionOf()), {
    type: 'failed',
    failureCode: 'provider_rejected',
    failureMessage: 'mtn_ug has no credentials to collect.',
    ourFault: true,
  });
  t.match(await rail.enquire(transactionOf()), { type: 'unknown', reason: /no credentials to collect/ });
  t.strictSame(calls, []);
  const whats = (await checksOf(rail, null)).map(({ what }) => what);
  t.strictSame(whats, ['disbursement token', 'disbursement balance']);
});

/** PKCS#1 v1.5 by hand: Node has no such decryption of its own any more. */
function opened(key: KeyObject, text: string): string {
  const block = privateDecrypt({ key, padding: constants.RSA_NO_PADDING }, Buffer.from(text, 'base64'));
  return block.subarray(block.indexOf(0, 2) + 1).toString();
}

t.test('Airtel', async (t) => {
  const pinKeys = generateKeyPairSync('rsa', { modulusLength: 1_024 });
  const signingKeys = generateKeyPairSync('rsa', { modulusLength: 1_024 });
  const der = { type: 'spki', format: 'der' } as const;
  const railOf = (collectionApi: 'v1' | 'v2') => {
    const rail = new AirtelRail({
      ...AIRTEL,
      collectionApi,
      disbursement: {
        pin: '1234',
        padding: 'pkcs1',
        // As PEM; the other has base64 alone.
        publicKey: `\n${pinKeys.publicKey.export({ type: 'spki', format: 'pem' }).toString()}`,
      },
    });
    t.teardown(() => rail.close());
    return rail;
  };
  const always = { accept: '*/*', 'x-country': 'UG', 'x-currency': 'UGX', authorization: 'Bearer a-token' };
  const collectionOf = (charge: ReturnType<typeof transactionOf>, reference: string) => ({
    reference,
    subscriber: { country: 'UG', currency: 'UGX', msisdn: charge.msisdn.slice(3) },
    transaction: { amount: 10_500, country: 'UG', currency: 'UGX', id: referenceOf(charge) },
  });

  const rail = railOf('v1');
  const charge = transactionOf({ network: 'AIRTEL', amount: 10_500, note: 'Shoes, 2 pairs' });
  await rail.submit(charge);
  await rail.enquire(charge);
  const [token, collect, enquiry] = calls as [Call, Call, Call];
  t.equal(token.line, 'POST /base/auth/oauth2/token');
  t.strictSame(ownOfJson(token), { accept: '*/*' });
  t.strictSame(JSON.parse(token.body), {
    client_id: 'client',
    client_secret: 'secret',
    grant_type: 'client_credentials',
  });
  t.equal(collect.line, 'POST /base/merchant/v1/payments/');
  t.strictSame(ownOfJson(collect), always);
  t.strictSame(JSON.parse(collect.body), collectionOf(charge, 'Shoes2pairs'));
  t.equal(enquiry.line, `GET /base/standard/v1/payments/${referenceOf(charge)}`);
  t.strictSame(own(enquiry), always);

  calls = [];
  const payout = transactionOf({ type: 'PAYOUT', network: 'AIRTEL', amount: 10_500 });
  await rail.submit(payout);
  await rail.enquire(payout);
  const [send, sent] = calls as [Call, Call];
  t.equal(send.line, 'POST /base/standard/v2/disbursements/');
  t.strictSame(ownOfJson(send), always);
  const { pin, ...rest } = JSON.parse(send.body) as { pin: string };
  t.equal(opened(pinKeys.privateKey, pin), '1234');
  t.strictSame(rest, {
    payee: { msisdn: payout.msisdn.slice(3), currency: 'UGX' },
    reference: payout.reference.replace('-', ''),
    transaction: { amount: 10_500, id: referenceOf(payout), type: 'B2C' },
  });
  t.equal(sent.line, `GET /base/standard/v2/disbursements/${referenceOf(payout)}?transactionType=B2C`);
  t.strictSame(own(sent), always);

  for (const [note, shown] of [
    ['Tea!', null],
    ['Tea 2', 'Tea2'],
    ['x '.repeat(100), 'x'.repeat(64)],
  ] as const) {
    calls = [];
    const noted = transactionOf({ network: 'AIRTEL', amount: 10_500, note });
    await rail.submit(noted);
    t.strictSame(JSON.parse(calls[0]!.body), collectionOf(noted, shown ?? referenceOf(noted)), note);
  }

  const signing = railOf('v2');
  calls = [];
  answers = { '/encryption-keys': { data: { key: signingKeys.publicKey.export(der).toString('base64') } } };
  await signing.submit(charge);
  const [, keys, signed] = calls as [Call, Call, Call];
  t.equal(keys.line, 'GET /base/v1/rsa/encryption-keys');
  t.strictSame(own(keys), always);
  t.equal(signed.line, 'POST /base/merchant/v2/payments/');
  const { 'x-signature': signature, 'x-key': xKey, ...others } = ownOfJson(signed) as Record<string, string>;
  t.strictSame(others, always);
  t.strictSame(JSON.parse(signed.body), collectionOf(charge, 'Shoes2pairs'));
  const [aesKey, iv] = opened(signingKeys.privateKey, xKey!)
    .split(':')
    .map((text) => Buffer.from(text, 'base64')) as [Buffer, Buffer];
  t.strictSame([aesKey.length, iv.length], [32, 16]);
  const decipher = createDecipheriv('aes-256-cbc', aesKey, iv);
  t.equal(decipher.update(signature!, 'base64', 'utf8') + decipher.final('utf8'), signed.body);

  calls = [];
  const said = { status: { success: true, code: '200', response_code: 'x' } };
  answers = {
    ...answers,
    '/balance': { ...said, data: { balance: '12', currency: 'UGX' } },
    '/users/701234567': { ...said, data: { is_barred: true } },
  };
  t.strictSame(await checksOf(signing, '256701234567'), [
    { what: 'token', ok: true, detail: 'granted' },
    { what: 'balance', ok: true, detail: '12 UGX' },
    { what: 'signing key', ok: true, detail: 'published' },
    { what: 'wallet holder', ok: true, detail: 'barred (wallet_inactive)' },
  ]);
  for (const call of calls) t.strictSame(own(call), always);
  t.strictSame(
    calls.map(({ line }) => line),
    ['GET /base/standard/v1/users/balance', 'GET /base/standard/v1/users/701234567'],
  );

  const users = { ...said, data: { is_barred: false } };
  answers = { '/balance': { ...said, data: { balance: 7 } }, '/users/701234567': users };
  t.strictSame(
    (await checksOf(rail, '256701234567')).slice(1),
    [
      { what: 'balance', ok: true, detail: '7' },
      { what: 'wallet holder', ok: true, detail: 'registered' },
    ],
    'where nothing is signed no key is asked for',
  );
  answers = { '/balance': said, '/encryption-keys': said };
  const [, balance, key, ...none] = await checksOf(railOf('v2'), null);
  t.match(balance, { what: 'balance', ok: false, detail: /^HTTP 200: / });
  t.strictSame(key, { what: 'signing key', ok: false, detail: 'none, or not an RSA key: HTTP 200' });
  t.strictSame(none, []);
});

t.test(
  'a key to sign with is asked for once by many, and again when it is over, or an hour old',
  async (t) => {
    const start = Date.parse('2026-07-01T12:00:00Z');
    const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 1_024 });
    const key = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
    for (const [valid_upto, goodForMs] of [
      ['2026-07-01T12:10:00Z', 600_000],
      ['2026-07-02T12:00:00Z', 3_600_000],
      ['2026-07-01T11:59:00Z', 3_600_000],
      [undefined, 3_600_000],
    ] as const) {
      const clock = new DrivenClock(start);
      const rail = new AirtelRail({
        ...AIRTEL,
        maxConcurrency: 3,
        clock,
        collectionApi: 'v2',
        disbursement: null,
      });
      t.teardown(() => rail.close());
      calls = [];
      answers = { '/encryption-keys': { data: { key, valid_upto } } };
      const fetched = (): number => calls.filter(({ line }) => line.endsWith('/encryption-keys')).length;
      const submit = () => rail.submit(transactionOf({ network: 'AIRTEL' }));
      await Promise.all([submit(), submit(), submit()]);
      t.equal(fetched(), 1);
      await clock.advance(goodForMs - 1, goodForMs);
      await submit();
      t.equal(fetched(), 1, `until its end, ${valid_upto}`);
      await clock.advance(1);
      await submit();
      t.equal(fetched(), 2, `and not beyond, ${valid_upto}`);
    }
  },
);

t.test('a check that is granted no token says why, and asks for nothing with it', async (t) => {
  answers = { token: { token: 'under another name' }, 'token/': {} };
  const secrets = { subscriptionKey: 'k', apiUser: 'u', apiKey: 's' };
  const mtn = new MtnRail({
    ...COMMON,
    id: 'mtn_ug',
    currency: 'UGX',
    targetEnvironment: 'mtnuganda',
    collection: secrets,
    disbursement: secrets,
    callbackUrl: () => null,
  });
  const airtel = new AirtelRail({ ...AIRTEL, collectionApi: 'v2', disbursement: null });
  t.teardown(() => Promise.all([mtn.close(), airtel.close()]));
  const detail = 'token: HTTP 200 without access_token';
  t.strictSame(await checksOf(mtn, '256772000001'), [
    { what: 'collection token', ok: false, detail },
    { what: 'disbursement token', ok: false, detail },
  ]);
  t.strictSame(await checksOf(airtel, '256701234567'), [
    { what: 'token', ok: false, detail: 'token: HTTP 200' },
  ]);
  t.equal(calls.length, 3);
});
