// Every word and code of the providers' lists, forced at the simulator and read by the real adapters: which failure code
// it becomes, whose fault it is, and that what is not final ends nothing.
import t from 'tap';
import type { FailureCode } from '../../src/domain/transaction.ts';
import { referenceOf } from '../../src/rails/reference.ts';
import { until } from '../until.ts';
import { outcomeOf, startRails, transactionOf } from './rails-setup.ts';

const rails = await startRails();
t.teardown(() => rails.stop());

type Codes = readonly (readonly [code: string, collect: FailureCode, send: FailureCode])[];

const MTN: Codes = [
  ['NOT_ENOUGH_FUNDS', 'insufficient_funds', 'provider_rejected'],
  ['LOW_BALANCE_OR_PAYEE_LIMIT_REACHED_OR_NOT_ALLOWED', 'insufficient_funds', 'provider_rejected'],
  ['APPROVAL_REJECTED', 'customer_declined', 'customer_declined'],
  ['REJECTED', 'customer_declined', 'customer_declined'],
  ['PAYMENT_NOT_APPROVED', 'customer_declined', 'customer_declined'],
  ['PAYER_NOT_FOUND', 'wallet_not_found', 'provider_rejected'],
  ['PAYEE_NOT_FOUND', 'provider_rejected', 'wallet_not_found'],
  ['PAYER_LIMIT_REACHED', 'wallet_limit_exceeded', 'provider_rejected'],
  ['PAYEE_LIMIT_REACHED', 'provider_rejected', 'wallet_limit_exceeded'],
  ['PAYEE_NOT_ALLOWED_TO_RECEIVE', 'provider_rejected', 'wallet_inactive'],
  ['SENDER_ACCOUNT_NOT_ACTIVE', 'wallet_inactive', 'provider_rejected'],
  ['EXPIRED', 'expired', 'expired'],
  ['COULD_NOT_PERFORM_TRANSACTION', 'expired', 'unknown'],
  ['NOT_ALLOWED', 'provider_rejected', 'provider_rejected'],
  ['NOT_ALLOWED_TARGET_ENVIRONMENT', 'provider_rejected', 'provider_rejected'],
  ['INVALID_CALLBACK_URL_HOST', 'provider_rejected', 'provider_rejected'],
  ['INVALID_CURRENCY', 'provider_rejected', 'provider_rejected'],
  // In no list, and of the same kind.
  ['NOT_ALLOWED_CALLER', 'provider_rejected', 'provider_rejected'],
  ['INVALID_API_USER', 'provider_rejected', 'provider_rejected'],
  ['SERVICE_UNAVAILABLE', 'provider_unavailable', 'provider_unavailable'],
  ['INTERNAL_PROCESSING_ERROR', 'unknown', 'unknown'],
  ['TRANSACTION_CANCELED', 'unknown', 'unknown'],
  ['A_WORD_NOBODY_KNOWS', 'unknown', 'unknown'],
];

const AIRTEL: Codes = [
  ['DP00800001002', 'customer_declined', 'customer_declined'],
  ['DP00800001003', 'wallet_limit_exceeded', 'wallet_limit_exceeded'],
  ['DP00800001004', 'provider_rejected', 'provider_rejected'],
  ['DP00800001005', 'customer_unreachable', 'customer_unreachable'],
  ['DP00800001007', 'insufficient_funds', 'insufficient_funds'],
  ['DP00800001008', 'provider_rejected', 'provider_rejected'],
  ['DP00800001009', 'provider_rejected', 'provider_rejected'],
  ['DP00800001010', 'wallet_inactive', 'wallet_inactive'],
  ['DP00800001024', 'expired', 'expired'],
  ['DP00800001026', 'provider_rejected', 'provider_rejected'],
  ['DP00800001029', 'expired', 'expired'],
  ['DP00900001003', 'wallet_limit_exceeded', 'wallet_limit_exceeded'],
  ...['004', '005', '007', '010', '013', '016'].map(
    (end) => [`DP00900001${end}`, 'provider_rejected', 'provider_rejected'] as const,
  ),
  ['DP00900001009', 'wallet_inactive', 'wallet_inactive'],
  ['DP00900001012', 'invalid_msisdn', 'invalid_msisdn'],
  ['DP02200000002', 'wallet_not_found', 'wallet_not_found'],
  ['ESB000033', 'invalid_msisdn', 'invalid_msisdn'],
  ['ESB000036', 'invalid_msisdn', 'invalid_msisdn'],
  ...['001', '002', '003', '004', '005', '006', '007', '112', '114', '116', '119'].map(
    (end) => [`ROUTER${end}`, 'provider_rejected', 'provider_rejected'] as const,
  ),
  ['ROUTER115', 'customer_declined', 'provider_rejected'],
  ['DP00800001077', 'unknown', 'unknown'],
];

for (const [network, codes] of [
  ['MTN', MTN],
  ['AIRTEL', AIRTEL],
] as const) {
  for (const [direction, type] of [
    ['collect', 'CHARGE'],
    ['send', 'PAYOUT'],
  ] as const) {
    t.test(`${network} ${direction}: the code of a failure`, async (t) => {
      for (const [code, collect, send] of codes) {
        const expected = direction === 'collect' ? collect : send;
        const transaction = transactionOf({ network, type });
        const message = `about 256771234567: ${code}`;
        const outcome = { msisdn: transaction.msisdn.slice(-9), state: 'failed', code, message };
        await rails.control('POST', '/simulator/outcomes', outcome);
        const rail = rails.rail(transaction.provider);
        t.equal((await rail.submit(transaction)).type, 'accepted', code);
        const result = await outcomeOf(rail, transaction);
        t.hasStrict(result, { type: 'failed', failureCode: expected }, `${code} is ${expected}`);
        if (result.type !== 'failed') continue;
        t.equal(result.ourFault, expected === 'provider_rejected');
        t.ok(result.providerStatus?.includes(code), 'the raw code is kept');
        t.notMatch(result.failureMessage, /256771234567/, 'no full number in a message');
      }
    });
  }
}

t.test('codes that are not final end nothing', async (t) => {
  const notFinal = [
    ...['000', '006', '025'].map((end) => `DP00800001${end}`),
    ...['000', '006', '011', '014', '015', '017'].map((end) => `DP00900001${end}`),
    ...['01', '04', '08', '14', '41', '45'].map((end) => `ESB0000${end}`),
    '0000900',
    'ROUTER117',
  ];
  for (const code of notFinal) {
    for (const type of ['CHARGE', 'PAYOUT'] as const) {
      const transaction = transactionOf({ network: 'AIRTEL', type });
      const rail = rails.rail(transaction.provider);
      const outcome = { msisdn: transaction.msisdn.slice(-9), state: 'failed', code, settleAfterMs: 0 };
      await rails.control('POST', '/simulator/outcomes', outcome);
      await rail.submit(transaction);
      await answerWith(transaction.msisdn, 'enquiry', 200, airtelStatus('TF', code));
      t.not((await rail.enquire(transaction)).type, 'failed', `TF with ${code}`);
    }
  }
});

function airtelStatus(word: string | null, code: string, success: boolean | string = true): object {
  return {
    ...(word === null ? {} : { data: { transaction: { status: word, message: 'x' } } }),
    status: { code: '200', response_code: code, success },
  };
}

async function answerWith(
  msisdn: string,
  on: string,
  status: number,
  body: object | string,
  times = 1,
): Promise<void> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const answer = { msisdn: msisdn.slice(-9), on, status, body: text, times };
  await rails.control('POST', '/simulator/answers', answer);
}

t.test('the answer to a submit', async (t) => {
  const CASES: readonly (readonly ['MTN' | 'AIRTEL', number, object | string, object])[] = [
    ['MTN', 202, '', { type: 'accepted' }],
    ['MTN', 202, '<html>a firewall</html>', { type: 'unknown' }],
    [
      'MTN',
      200,
      { status: 'SUCCESSFUL', amount: '500', currency: 'UGX' },
      { type: 'succeeded', amount: 500 },
    ],
    ['MTN', 200, { status: 'FAILED', reason: 'PAYER_NOT_FOUND' }, { failureCode: 'wallet_not_found' }],
    ['MTN', 300, '', { type: 'unknown' }],
    ['MTN', 302, { status: 'SUCCESSFUL', amount: '500' }, { type: 'unknown' }],
    [
      'MTN',
      200,
      { code: 'PAYER_NOT_FOUND', message: 'x' },
      { type: 'failed', failureCode: 'wallet_not_found' },
    ],
    [
      'MTN',
      400,
      { code: 'VALIDATION_ERROR', message: 'partyId is no MSISDN' },
      { failureCode: 'invalid_msisdn' },
    ],
    ['MTN', 400, { code: 'VALIDATION_ERROR', message: 'amount' }, { failureCode: 'provider_rejected' }],
    ['MTN', 400, '<html>', { type: 'unknown' }],
    ['MTN', 404, { statusCode: 404, message: 'Resource not found' }, { type: 'unknown' }],
    ['MTN', 409, { code: 'RESOURCE_ALREADY_EXIST' }, { type: 'accepted' }],
    ['MTN', 429, '', { type: 'not_accepted' }],
    ['MTN', 500, { code: 'NOT_ALLOWED', message: 'x' }, { failureCode: 'provider_rejected', ourFault: true }],
    ['MTN', 500, { code: 'INVALID_CURRENCY' }, { failureCode: 'provider_rejected', ourFault: true }],
    ['MTN', 500, { code: 'INTERNAL_PROCESSING_ERROR' }, { type: 'unknown' }],
    ['MTN', 500, { code: 'PAYER_NOT_FOUND' }, { type: 'unknown' }],
    ['MTN', 500, '', { type: 'unknown' }],
    ['MTN', 502, '<html>', { type: 'unknown' }],
    ['MTN', 503, '', { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('SUCCESS', 'DP00800001006'), { type: 'accepted' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00800001007', false), { failureCode: 'insufficient_funds' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00800001024', false), { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('TF', 'DP00800001024', false), { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00900001017', false), { type: 'accepted' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00800001066', false), { type: 'unknown' }],
    ['AIRTEL', 200, '<html>', { type: 'unknown' }],
    ['AIRTEL', 200, '', { type: 'unknown' }],
    ['AIRTEL', 400, { status_code: 'ROUTER112', status_message: 'x' }, { failureCode: 'provider_rejected' }],
    ['AIRTEL', 408, '', { type: 'unknown' }],
    ['AIRTEL', 429, '', { type: 'not_accepted' }],
    ['AIRTEL', 500, { error: 'x' }, { type: 'unknown' }],
    ['AIRTEL', 502, '<html>', { type: 'unknown' }],
    ['AIRTEL', 503, '', { type: 'not_accepted' }],
    ['AIRTEL', 504, '', { type: 'unknown' }],
  ];
  for (const [network, status, body, expected] of CASES) {
    const transaction = transactionOf({ network });
    await answerWith(transaction.msisdn, 'submit', status, body);
    const result = await rails.rail(transaction.provider).submit(transaction);
    t.match(result, expected, `${network} ${status} ${JSON.stringify(body)}`);
  }
});

t.test('whatever the note, what is sent of it is taken', async (t) => {
  const notes = [
    `a${'🥑'.repeat(254)}`,
    '🥑'.repeat(255),
    `${'x'.repeat(127)}🥑`,
    'x'.repeat(255),
    '\u0007 \n',
    '',
    "Joe's caf\u00e9 & co",
    "'&'",
  ];
  for (const network of ['MTN', 'AIRTEL'] as const) {
    for (const note of notes) {
      const transaction = transactionOf({ network, note });
      const { type } = await rails.rail(transaction.provider).submit(transaction);
      t.equal(type, 'accepted', JSON.stringify(note.slice(0, 20)));
    }
  }
});

t.test('what a merchant writes is what MTN shows to the payer and the payee', async (t) => {
  for (const type of ['CHARGE', 'PAYOUT'] as const) {
    for (const note of ["Joe's caf\u00e9 & co", null, "'&'"]) {
      const transaction = transactionOf({ type, note });
      await rails.rail(transaction.provider).submit(transaction);
      await outcomeOf(rails.rail(transaction.provider), transaction);
      const isOfIt = ({ body }: { readonly body: string }) => body.includes(referenceOf(transaction));
      const told = await until(() => rails.heard.find(isOfIt), Boolean);
      const shown = note?.startsWith('Joe') === true ? 'Joes cafe co' : transaction.reference;
      t.hasStrict(JSON.parse(told!.body), { payerMessage: shown, payeeNote: shown });
    }
  }
});

t.test('no answer to a submit fails what the provider may yet pay', async (t) => {
  const gateway = (code: string) => ({ status_code: code, status_message: 'x' });
  const CASES: readonly (readonly ['MTN' | 'AIRTEL', number, object | string, object])[] = [
    ['MTN', 202, { code: '202', message: 'Accepted' }, { type: 'unknown' }],
    ['MTN', 202, { message: 'Accepted' }, { type: 'accepted' }],
    ['MTN', 200, '', { type: 'unknown' }],
    ['MTN', 200, { message: 'We are back soon.' }, { type: 'unknown' }],
    ['MTN', 200, { status: 503, error: 'Service Unavailable' }, { type: 'unknown' }],
    ['MTN', 204, '', { type: 'unknown' }],
    ['MTN', 202, { code: 'PENDING', message: 'x' }, { type: 'unknown' }],
    ['MTN', 202, { code: 'PAYEE_NOT_FOUND', message: 'x' }, { type: 'unknown' }],
    ['MTN', 202, { code: 'RESOURCE_ALREADY_EXIST' }, { type: 'accepted' }],
    ['MTN', 200, { status: 'FAILED', amount: '500' }, { type: 'unknown' }],
    ['MTN', 202, { status: 'TIMEOUT' }, { type: 'accepted' }],
    ['MTN', 200, { status: 'TIMEOUT' }, { type: 'unknown' }],
    ['MTN', 200, { status: 'FAILED', amount: '500', reason: 'SERVICE_UNAVAILABLE' }, { type: 'unknown' }],
    ['MTN', 300, { code: 'PAYEE_NOT_FOUND' }, { type: 'unknown' }],
    ['MTN', 302, { code: 'PAYEE_NOT_FOUND' }, { type: 'unknown' }],
    ['MTN', 400, { message: 'Bad Request' }, { type: 'failed', failureCode: 'provider_rejected' }],
    ['MTN', 400, '<html>Bad Request</html>', { type: 'unknown' }],
    ['MTN', 400, { code: 'RESOURCE_ALREADY_EXIST' }, { type: 'accepted' }],
    ['MTN', 400, { code: 'A_WORD_NOBODY_KNOWS' }, { type: 'unknown' }],
    ['MTN', 400, { code: '__proto__' }, { type: 'unknown' }],
    ['MTN', 400, { code: 'INTERNAL_PROCESSING_ERROR' }, { type: 'unknown' }],
    ['MTN', 400, { code: 'NOT_ALLOWED' }, { type: 'failed', failureCode: 'provider_rejected' }],
    ['MTN', 401, { code: 'UNAUTHORIZED' }, { type: 'not_accepted' }],
    ['MTN', 403, { code: 'SERVICE_UNAVAILABLE' }, { type: 'unknown' }],
    ['MTN', 403, '<html>a firewall</html>', { type: 'unknown' }],
    ['MTN', 404, { code: 'RESOURCE_NOT_FOUND' }, { type: 'unknown' }],
    ['MTN', 408, { code: 'REQUEST_TIMEOUT' }, { type: 'unknown' }],
    ['MTN', 409, '', { type: 'accepted' }],
    ['MTN', 409, '<html>a firewall</html>', { type: 'unknown' }],
    ['MTN', 408, { code: 'PAYEE_NOT_FOUND' }, { type: 'unknown' }],
    ['MTN', 429, { code: 'RESOURCE_ALREADY_EXIST' }, { type: 'accepted' }],
    ['MTN', 499, { code: 'SERVICE_UNAVAILABLE' }, { type: 'unknown' }],
    ['MTN', 500, { code: 'RESOURCE_ALREADY_EXIST' }, { type: 'accepted' }],
    ['MTN', 501, { code: 'NOT_ALLOWED' }, { type: 'unknown' }],
    ['MTN', 504, { code: 'NOT_ALLOWED' }, { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('TF', 'DP00800001077'), { type: 'unknown' }],
    ['AIRTEL', 200, { data: { transaction: { status: 'TF' } } }, { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('TIP', 'DP00900001009', false), { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('TE', 'DP00900001000', false), { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('SUCCESS', 'DP00900001077', 'false'), { type: 'unknown' }],
    ['AIRTEL', 409, airtelStatus('TIP', 'DP00900001004', false), { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus(null, 'ESB000503', false), { type: 'unknown' }],
    ['AIRTEL', 300, airtelStatus('TF', 'DP00900001009', false), { type: 'unknown' }],
    ['AIRTEL', 400, airtelStatus(null, 'DP00900001009', false), { failureCode: 'wallet_inactive' }],
    ['AIRTEL', 400, airtelStatus('SUCCESS', 'DP00900001000'), { type: 'unknown' }],
    // Of another id, perhaps: the same amount to the same number, a moment ago.
    ['AIRTEL', 200, airtelStatus(null, 'DP00900001011', false), { type: 'unknown' }],
    ['AIRTEL', 400, airtelStatus(null, 'DP00900001011', false), { type: 'unknown' }],
    ['AIRTEL', 401, airtelStatus(null, 'DP00900001006', false), { type: 'unknown' }],
    ['AIRTEL', 403, { error: 'Forbidden' }, { type: 'not_accepted' }],
    ['AIRTEL', 403, '', { type: 'not_accepted' }],
    ['AIRTEL', 503, airtelStatus(null, 'DP00800001024', false), { type: 'unknown' }],
    ['AIRTEL', 401, { error_description: 'Invalid access token' }, { type: 'not_accepted' }],
    ['AIRTEL', 403, gateway('ROUTER117'), { type: 'unknown' }],
    ['AIRTEL', 403, gateway('ROUTER119'), { failureCode: 'provider_rejected' }],
    ['AIRTEL', 403, '<html>a firewall</html>', { type: 'unknown' }],
    ['AIRTEL', 403, airtelStatus('TIP', 'DP00900001004', false), { type: 'unknown' }],
    ['AIRTEL', 408, airtelStatus(null, 'DP00900001016', false), { type: 'unknown' }],
    ['AIRTEL', 429, airtelStatus('TIP', 'DP00900001000'), { type: 'unknown' }],
    ['AIRTEL', 429, { data: { transaction: { status: 'TIP' } } }, { type: 'unknown' }],
    ['AIRTEL', 500, gateway('ROUTER001'), { type: 'unknown' }],
    ['AIRTEL', 502, airtelStatus('TF', 'DP00900001010', false), { type: 'unknown' }],
    ['AIRTEL', 503, airtelStatus(null, 'DP00900001017', false), { type: 'accepted' }],
    ['AIRTEL', 504, gateway('ROUTER005'), { type: 'unknown' }],
  ];
  for (const [network, status, body, expected] of CASES) {
    const transaction = transactionOf({ network, type: 'PAYOUT' });
    await answerWith(transaction.msisdn, 'submit', status, body, 1_000_000);
    const rail = rails.rail(transaction.provider);
    // A 401 with a token that was just made is one of the token, and again until there is a newer one.
    const result = await until(
      () => rail.submit(transaction),
      ({ type }) => type !== 'not_accepted' || Object(expected).type === type,
    );
    t.match(result, expected, `${network} ${status} ${JSON.stringify(body)}`);
  }
});

t.test('a success in an answer that calls itself a refusal, or not final, is none', async (t) => {
  for (const type of ['CHARGE', 'PAYOUT'] as const) {
    for (const word of ['TS', 'TR']) {
      for (const body of [
        airtelStatus(word, 'DP00900001001', false),
        airtelStatus(word, 'DP00900001001', 'false'),
        airtelStatus(word, 'DP00900001009'),
        airtelStatus(word, 'DP00800001006'),
        airtelStatus(word, 'DP00900001000'),
        { ...airtelStatus(word, 'DP00900001001'), status_code: 'ROUTER117' },
      ]) {
        const submitted = transactionOf({ network: 'AIRTEL', type });
        const rail = rails.rail(submitted.provider);
        await answerWith(submitted.msisdn, 'submit', 200, body);
        t.match(await rail.submit(submitted), { type: /accepted|unknown/ }, JSON.stringify(body));
        const enquired = transactionOf({ network: 'AIRTEL', type });
        await rail.submit(enquired);
        await answerWith(enquired.msisdn, 'enquiry', 200, body);
        t.hasStrict(await rail.enquire(enquired), { type: 'pending' }, JSON.stringify(body));
      }
    }
  }
});

t.test('a success under a status that refuses is none; under a redirect nothing is final', async (t) => {
  for (const type of ['CHARGE', 'PAYOUT'] as const) {
    for (const [status, word, code] of [
      [302, 'TS', 'DP00900001001'],
      [400, 'TS', 'DP00900001001'],
      [404, 'TR', 'DP00900001001'],
      [409, 'TS', 'DP00800001001'],
      [302, 'TF', 'DP00900001009'],
    ] as const) {
      const body = airtelStatus(word, code);
      const submitted = transactionOf({ network: 'AIRTEL', type });
      const rail = rails.rail(submitted.provider);
      await answerWith(submitted.msisdn, 'submit', status, body);
      t.match(await rail.submit(submitted), { type: 'unknown' }, `submit ${status} ${word}`);
      const enquired = transactionOf({ network: 'AIRTEL', type });
      await rail.submit(enquired);
      await answerWith(enquired.msisdn, 'enquiry', status, body);
      t.match(await rail.enquire(enquired), { type: /pending|unknown/ }, `enquiry ${status} ${word}`);
    }
  }
});

t.test('an answer about another transaction of ours ends none', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    for (const [mtn, airtel] of [
      ['SUCCESSFUL', 'TS'],
      ['REJECTED', 'TE'],
    ]) {
      const transaction = transactionOf({ network, type: 'PAYOUT' });
      const other = referenceOf(transactionOf({ network, type: 'PAYOUT' }));
      const about = (id: string | boolean): object => {
        if (network === 'MTN') return { status: mtn, externalId: id };
        return { data: { transaction: { status: airtel, id } } };
      };
      const rail = rails.rail(transaction.provider);
      await answerWith(transaction.msisdn, 'submit', 200, about(other));
      t.match(await rail.submit(transaction), { type: 'unknown', reason: /another/ });
      t.equal((await rail.submit(transaction)).type, 'accepted');
      for (const id of [other, ` ${other.toLowerCase()} `]) {
        await answerWith(transaction.msisdn, 'enquiry', 200, about(id));
        t.match(await rail.enquire(transaction), { type: 'unknown', reason: /another/ });
      }
      // Ours in their case, and names that are not ours.
      for (const id of [referenceOf(transaction).toLowerCase(), 'theirs', '', false]) {
        await answerWith(transaction.msisdn, 'enquiry', 200, about(id));
        t.match(await rail.enquire(transaction), { type: /succeeded|failed/ }, `${mtn} ${id}`);
      }
    }
  }
});

t.test("a provider's word carries no full number, and is bounded; its codes stay whole", async (t) => {
  const long = `256771234567 ${'x'.repeat(1_000)}`;
  const CASES: readonly (readonly ['MTN' | 'AIRTEL', 'submit' | 'enquiry', object, string | RegExp])[] = [
    ['MTN', 'submit', { status: long, amount: 1 }, /^\*{4}567 x{56}$/],
    ['MTN', 'submit', { status: 'REJECTED', amount: 1, reason: { code: long } }, /^\*{4}567 x{56}$/],
    ['MTN', 'enquiry', { status: long, amount: 1 }, /^\*{4}567 x{56}$/],
    ['MTN', 'enquiry', { status: 'FAILED', amount: 1, reason: { code: long } }, /^\*{4}567 x{56}$/],
    ['AIRTEL', 'submit', airtelStatus(long, '200'), '200'],
    ['AIRTEL', 'submit', airtelStatus('SUCCESS', long), /^\*{4}567 x{56}$/],
    ['AIRTEL', 'enquiry', airtelStatus(long, '0000900'), /^\*{4}567 X{56}$/],
    ['AIRTEL', 'enquiry', airtelStatus('TF', long), /^TF \*{4}567 x{53}$/],
    ['AIRTEL', 'enquiry', airtelStatus('TS', long), /^TS \*{4}567 x{53}$/],
    ['AIRTEL', 'enquiry', airtelStatus('TS', 'DP00800001001'), 'TS DP00800001001'],
    ['AIRTEL', 'enquiry', airtelStatus('TIP', '0000900'), 'TIP 0000900'],
  ];
  for (const [network, on, body, providerStatus] of CASES) {
    const transaction = transactionOf({ network });
    const rail = rails.rail(transaction.provider);
    await answerWith(transaction.msisdn, on, 200, body);
    const submitted = await rail.submit(transaction);
    const result = on === 'submit' ? submitted : await rail.enquire(transaction);
    if (result.type !== 'unknown') t.match(result, { providerStatus }, JSON.stringify(body).slice(0, 60));
    t.notMatch(JSON.stringify(result), /256771234567/);
  }
});

t.test('a message shows no full number, however it is written', async (t) => {
  const CASES = [
    ['no wallet on 256771234567.', 'no wallet on ****567.'],
    ['+256 771 234 567 is barred', '+****567 is barred'],
    ['0771-234-567 or 0771 234567', '****567 or ****567'],
    ['(0771) 234 567 or 0771.234.567, +256 (771) 234/567', '(****567 or ****567, +****567'],
    ['771 234 567, 77 123 4567 or 771-234567', '****567, ****567 or ****567'],
    ['00256 771 234 567 or 00256-77-1234567', '****567 or ****567'],
    ['00256771 234567, 25677123 4567 or 07712345 67', '****567, ****567 or ****567'],
    ['771\u202f234\u2009567 or 77\u20111234567', '****567 or ****567'],
    ['no way for 41.210.141.2', 'no way for 41.210.141.2'],
    ['2026-11-21 10:30, limit 5 000 000', '2026-11-21 10:30, limit 5 000 000'],
    ['2026-11-21 9:30, 1 500 000 000 or 10 000 000', '2026-11-21 9:30, 1 500 000 000 or 10 000 000'],
    ['x'.repeat(1_000), 'x'.repeat(255)],
  ] as const;
  for (const [message, shown] of CASES) {
    const transaction = transactionOf({ network: 'MTN' });
    const rail = rails.rail(transaction.provider);
    await rail.submit(transaction);
    const reason = { code: 'PAYER_NOT_FOUND', message };
    await answerWith(transaction.msisdn, 'enquiry', 200, { status: 'FAILED', reason });
    const result = await rail.enquire(transaction);
    t.equal(result.type === 'failed' && result.failureMessage, shown);
  }
});

t.test("a provider's id of a payment is kept as it is, bounded", async (t) => {
  const CASES = [
    ['256771234567', '256771234567'],
    ['9'.repeat(1_000), '9'.repeat(64)],
    ['a half \ud800', 'a half \ufffd'],
  ] as const;
  for (const [id, providerTransactionId] of CASES) {
    for (const network of ['MTN', 'AIRTEL'] as const) {
      const transaction = transactionOf({ network });
      const rail = rails.rail(transaction.provider);
      await rail.submit(transaction);
      const paid = { data: { transaction: { status: 'TS', airtel_money_id: id } } };
      const body = network === 'MTN' ? { status: 'SUCCESSFUL', financialTransactionId: id } : paid;
      await answerWith(transaction.msisdn, 'enquiry', 200, body);
      const result = await rail.enquire(transaction);
      t.equal(result.type === 'succeeded' && result.providerTransactionId, providerTransactionId);
    }
  }
});

t.test('the answer to an enquiry', async (t) => {
  const success = { amount: '500', currency: 'UGX', status: 'SUCCESSFUL', financialTransactionId: 12 };
  const failed = { ...success, status: 'FAILED' };
  const CASES: readonly (readonly ['MTN' | 'AIRTEL', number, object | string, object])[] = [
    ['MTN', 200, success, { type: 'succeeded', amount: 500, currency: 'UGX', providerTransactionId: '12' }],
    ['MTN', 200, { ...success, amount: 500, surprise: [1] }, { type: 'succeeded', amount: 500 }],
    ['MTN', 200, { status: 'SUCCESSFUL', payer: {} }, { type: 'succeeded', amount: null, currency: null }],
    ['MTN', 200, { ...success, amount: '400' }, { type: 'succeeded', amount: 400 }],
    ['MTN', 200, { ...success, currency: 'KES', amount: '5' }, { amount: 500, currency: 'KES' }],
    ['MTN', 200, { ...success, currency: 'XAF' }, { type: 'succeeded', amount: 0, currency: null }],
    ['MTN', 200, { ...success, amount: '12abc' }, { type: 'succeeded', amount: 0 }],
    ['MTN', 200, { ...success, amount: { value: '400' } }, { type: 'succeeded', amount: 0 }],
    ['MTN', 200, { ...success, currency: ['KES'] }, { type: 'succeeded', amount: 0, currency: null }],
    ['MTN', 200, { ...success, amount: null, currency: null }, { amount: null, currency: null }],
    ['MTN', 200, { status: 'FAILED', reason: 'EXPIRED' }, { failureCode: 'expired' }],
    ['MTN', 200, { status: 'FAILED', reason: { code: 'EXPIRED', message: 'x' } }, { failureCode: 'expired' }],
    // With a byte order mark, as some gateways write it.
    ['MTN', 200, '\ufeff{"status":"FAILED","reason":"EXPIRED"}', { failureCode: 'expired' }],
    ['MTN', 200, failed, { type: 'failed', failureCode: 'unknown' }],
    ['MTN', 200, { ...failed, reason: 'SERVICE_UNAVAILABLE' }, { failureCode: 'provider_unavailable' }],
    ['MTN', 200, { ...failed, reason: 'constructor' }, { type: 'failed', failureCode: 'unknown' }],
    ['MTN', 200, { ...success, status: 'REJECTED' }, { failureCode: 'customer_declined' }],
    ['MTN', 200, { ...success, status: 'CREATED' }, { type: 'pending' }],
    ['MTN', 200, { ...success, status: 'TIMEOUT' }, { type: 'pending' }],
    ['MTN', 200, { status: 'TIMEOUT', reason: 'EXPIRED' }, { type: 'pending' }],
    ['MTN', 200, {}, { type: 'unknown' }],
    ['MTN', 200, { status: 503, error: 'Service Unavailable' }, { type: 'unknown' }],
    ['MTN', 200, [] as object, { type: 'unknown' }],
    ['MTN', 200, '<html>', { type: 'unknown' }],
    ['MTN', 404, { code: 'RESOURCE_NOT_FOUND' }, { type: 'not_found' }],
    ['MTN', 404, { code: 'TRANSACTION_NOT_FOUND' }, { type: 'not_found' }],
    ['MTN', 200, { code: 'RESOURCE_NOT_FOUND' }, { type: 'unknown' }],
    ['MTN', 400, { code: 'RESOURCE_NOT_FOUND' }, { type: 'unknown' }],
    ['MTN', 503, { code: 'TRANSACTION_NOT_FOUND' }, { type: 'unknown' }],
    // A gateway's, which has no way to it: the provider was not asked.
    ['MTN', 404, { statusCode: 404, message: 'Resource not found' }, { type: 'unknown' }],
    ['MTN', 404, { code: 'NOT_ALLOWED' }, { type: 'unknown' }],
    ['MTN', 404, '<html>', { type: 'unknown' }],
    ['MTN', 400, { status: 'FAILED', reason: 'EXPIRED' }, { type: 'unknown' }],
    ['MTN', 504, success, { type: 'unknown' }],
    ['MTN', 500, { code: 'NOT_ALLOWED' }, { type: 'unknown' }],
    ['MTN', 503, '', { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('TS', 'DP00800001001'), { type: 'succeeded', amount: null }],
    ['AIRTEL', 200, airtelStatus('TE', 'DP00800001029'), { failureCode: 'expired' }],
    ['AIRTEL', 200, airtelStatus('TF', 'DP00800001024'), { failureCode: 'expired' }],
    ['AIRTEL', 200, airtelStatus('TF', 'ESB000503'), { failureCode: 'provider_unavailable' }],
    ['AIRTEL', 200, { data: { transaction: { status: 'TF' } } }, { failureCode: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('TF', 'constructor'), { type: 'failed', failureCode: 'unknown' }],
    ['AIRTEL', 200, airtelStatus('TIP', 'DP00800001006'), { type: 'pending' }],
    ['AIRTEL', 200, airtelStatus('TA', 'DP00800001000'), { type: 'pending' }],
    ['AIRTEL', 200, airtelStatus('TI', 'DP00800001000'), { type: 'pending' }],
    ['AIRTEL', 200, airtelStatus('TX', 'DP00800001000'), { type: 'pending' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00800001025', false), { type: 'not_found' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00900001015', false), { type: 'not_found' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00800001026', false), { type: 'unknown' }],
    // Without a status it may be the enquiry that was refused.
    ['AIRTEL', 200, airtelStatus(null, 'DP00800001007', false), { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00900001009', false), { type: 'unknown' }],
    ['AIRTEL', 400, airtelStatus(null, 'DP00800001029', false), { type: 'unknown' }],
    ['AIRTEL', 200, airtelStatus(null, 'DP00800001001'), { type: 'unknown' }],
    ['AIRTEL', 400, airtelStatus(null, 'DP00800001025', false), { type: 'not_found' }],
    ['AIRTEL', 404, airtelStatus(null, 'DP00900001015', false), { type: 'not_found' }],
    ['AIRTEL', 404, { error: 'Not Found' }, { type: 'unknown' }],
    ['AIRTEL', 400, { error: 'Bad Request' }, { type: 'unknown' }],
    ['AIRTEL', 408, airtelStatus('TF', 'DP00800001029'), { type: 'unknown' }],
    ['AIRTEL', 429, airtelStatus(null, 'DP00800001025', false), { type: 'unknown' }],
    ['AIRTEL', 500, airtelStatus('TF', 'DP00800001029'), { type: 'unknown' }],
    ['AIRTEL', 503, airtelStatus('TS', 'DP00800001001'), { type: 'unknown' }],
    ['AIRTEL', 504, airtelStatus(null, 'DP00800001025', false), { type: 'unknown' }],
    ['AIRTEL', 502, '<html>', { type: 'unknown' }],
  ];
  for (const [network, status, body, expected] of CASES) {
    const transaction = transactionOf({ network });
    const rail = rails.rail(transaction.provider);
    await rail.submit(transaction);
    await answerWith(transaction.msisdn, 'enquiry', status, body);
    t.match(await rail.enquire(transaction), expected, `${network} ${status} ${JSON.stringify(body)}`);
  }
});
