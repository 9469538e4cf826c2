// Bad input of every kind gets its own clear error and changes nothing: no input whatever gives a 5xx. What the front
// alone can judge; what accounts judge (numbers, limits, balances) is in spec-creates.test.ts and its neighbours.

import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { ERROR_CODES, type ErrorCode } from '../../src/domain/error-code.ts';
import { makeApiKey } from '../../src/http/api-key.ts';
import { ACCOUNT_ID, CHARGE, requestBytes, SECRET_KEY, startFront, type Answer } from './front.ts';
import { assertMatchesOpenApi } from './openapi-check.ts';

const front = await startFront();
t.teardown(() => front.stop());

const PAYOUT = { ...CHARGE };
const WITHDRAWAL = { amount: '500', currency: 'UGX', destination: 'wal_x', reference: 'w' };

function refused(t: Test, answer: Answer, code: ErrorCode, param: string | null): void {
  t.equal(answer.status, ERROR_CODES[code].status);
  t.match(answer.headers['request-id'], /^req_[0-9A-HJKMNP-TV-Z]{26}$/);
  t.equal(answer.headers['content-type'], 'application/json');
  t.strictSame(Object.keys(answer.body), ['error']);
  const { error } = answer.body;
  t.hasStrict(error, { code, param, request_id: answer.headers['request-id'] });
  t.type(error.message, 'string');
  t.ok(error.message.length > 10 && error.message.length < 400, error.message);
}

// [what is wrong, path, body, code, param]
const bodies: [string, string, unknown, ErrorCode, string | null][] = [
  ['no body', '/v1/charges', '', 'invalid_json', null],
  ['half an object', '/v1/charges', '{"amount":', 'invalid_json', null],
  ['text after the object', '/v1/charges', '{}x', 'invalid_json', null],
  ['single quotes', '/v1/charges', "{'amount':'1'}", 'invalid_json', null],
  ['an array', '/v1/charges', '[]', 'invalid_json', null],
  ['null', '/v1/charges', 'null', 'invalid_json', null],
  ['a string', '/v1/charges', '"x"', 'invalid_json', null],
  ['a number', '/v1/charges', '1', 'invalid_json', null],
  ['a byte order mark', '/v1/charges', Buffer.from('\uFEFF{}'), 'invalid_json', null],
  ['not UTF-8', '/v1/charges', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 'invalid_json', null],
  ['UTF-16', '/v1/charges', Buffer.from('{}', 'utf16le'), 'invalid_json', null],
  ['60 KB of brackets', '/v1/charges', '['.repeat(60_000), 'invalid_json', null],
  ['deep nesting', '/v1/charges', `${'['.repeat(30_000)}${']'.repeat(30_000)}`, 'invalid_json', null],
  [
    'deep nesting in a field',
    '/v1/charges',
    `{"metadata":${'['.repeat(30_000)}${']'.repeat(30_000)}}`,
    'validation_failed',
    'amount',
  ],
  ['an empty object', '/v1/charges', {}, 'validation_failed', 'amount'],
  ['an unknown field', '/v1/charges', { ...CHARGE, colour: 'red' }, 'validation_failed', 'colour'],
  [
    'a very long unknown field',
    '/v1/charges',
    { ...CHARGE, ['x'.repeat(9_000)]: 1 },
    'validation_failed',
    `${'x'.repeat(128)}…`,
  ],
  [
    'an unknown field just short enough to be repeated whole',
    '/v1/charges',
    { ...CHARGE, ['x'.repeat(128)]: 1 },
    'validation_failed',
    'x'.repeat(128),
  ],
  [
    'half a surrogate pair under a very long name',
    '/v1/charges',
    { ...CHARGE, ['x'.repeat(9_000)]: '\ud800' },
    'validation_failed',
    `${'x'.repeat(128)}…`,
  ],
  [
    'an inexact integer under a very long name',
    '/v1/charges',
    `{"metadata":{"${'x'.repeat(9_000)}":12345678901234567891}}`,
    'validation_failed',
    `metadata.${'x'.repeat(119)}…`,
  ],
  [
    '__proto__',
    '/v1/charges',
    JSON.stringify(CHARGE).replace('{', '{"__proto__":{"a":1},'),
    'validation_failed',
    '__proto__',
  ],
  [
    'two amounts',
    '/v1/charges',
    JSON.stringify(CHARGE).replace('{', '{"amount":"1",'),
    'validation_failed',
    'amount',
  ],
  [
    'a name twice in metadata',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, metadata: { b: 1 } }).replace('"b":1', '"b":1,"b":2'),
    'validation_failed',
    'metadata.b',
  ],
  ['constructor', '/v1/charges', { ...CHARGE, constructor: {} }, 'validation_failed', 'constructor'],
  [
    'a payout field on a charge',
    '/v1/charges',
    { ...CHARGE, narration: 'x' },
    'validation_failed',
    'narration',
  ],
  [
    'a charge field on a payout',
    '/v1/payouts',
    { ...PAYOUT, description: 'x' },
    'validation_failed',
    'description',
  ],
  [
    'a number for a withdrawal',
    '/v1/withdrawals',
    { ...WITHDRAWAL, msisdn: '1' },
    'validation_failed',
    'msisdn',
  ],
  ['no amount', '/v1/charges', without('amount'), 'validation_failed', 'amount'],
  ['no currency', '/v1/charges', without('currency'), 'validation_failed', 'currency'],
  ['no msisdn', '/v1/charges', without('msisdn'), 'validation_failed', 'msisdn'],
  ['no reference', '/v1/charges', without('reference'), 'validation_failed', 'reference'],
  [
    'no destination',
    '/v1/withdrawals',
    { amount: '500', currency: 'UGX', reference: 'w' },
    'validation_failed',
    'destination',
  ],
  ...[
    500,
    null,
    '',
    ' 500',
    '0500',
    '00',
    '+500',
    '-500',
    '500.0',
    '5e2',
    '0x10',
    '1,000',
    '٥',
    '9007199254740992',
    '99999999999999999999',
    '500\n',
    true,
    {},
    ['500'],
  ].map((amount): [string, string, unknown, ErrorCode, string] => [
    `amount ${JSON.stringify(amount)}`,
    '/v1/charges',
    { ...CHARGE, amount },
    'validation_failed',
    'amount',
  ]),
  ...['usd', 'ugx', '', null, 800].map((currency): [string, string, unknown, ErrorCode, string] => [
    `currency ${currency}`,
    '/v1/charges',
    { ...CHARGE, currency },
    'validation_failed',
    'currency',
  ]),
  ...['', 'a b', 'a/b', 'é', 'x'.repeat(129), 'a\n', 1, null].map(
    (reference): [string, string, unknown, ErrorCode, string] => [
      `reference ${JSON.stringify(reference).slice(0, 20)}`,
      '/v1/charges',
      { ...CHARGE, reference },
      'validation_failed',
      'reference',
    ],
  ),
  ['a number as msisdn', '/v1/charges', { ...CHARGE, msisdn: 256772123456 }, 'validation_failed', 'msisdn'],
  ['an empty msisdn', '/v1/charges', { ...CHARGE, msisdn: '' }, 'validation_failed', 'msisdn'],
  ['a very long msisdn', '/v1/charges', { ...CHARGE, msisdn: '2'.repeat(33) }, 'validation_failed', 'msisdn'],
  ['another network', '/v1/charges', { ...CHARGE, network: 'VODAFONE' }, 'validation_failed', 'network'],
  ['another country', '/v1/charges', { ...CHARGE, country: 'TZ' }, 'validation_failed', 'country'],
  [
    'a long description',
    '/v1/charges',
    { ...CHARGE, description: 'é'.repeat(256) },
    'validation_failed',
    'description',
  ],
  [
    'a description that is no text',
    '/v1/charges',
    { ...CHARGE, description: 1 },
    'validation_failed',
    'description',
  ],
  [
    'a long narration',
    '/v1/payouts',
    { ...PAYOUT, narration: 'x'.repeat(101) },
    'validation_failed',
    'narration',
  ],
  ['metadata as a list', '/v1/charges', { ...CHARGE, metadata: [] }, 'validation_failed', 'metadata'],
  ['metadata as text', '/v1/charges', { ...CHARGE, metadata: 'x' }, 'validation_failed', 'metadata'],
  ['metadata of 21 keys', '/v1/charges', { ...CHARGE, metadata: keys(21) }, 'validation_failed', 'metadata'],
  [
    'nested metadata',
    '/v1/charges',
    { ...CHARGE, metadata: { a: { b: 1 } } },
    'validation_failed',
    'metadata.a',
  ],
  [
    'a list in metadata',
    '/v1/charges',
    { ...CHARGE, metadata: { a: [] } },
    'validation_failed',
    'metadata.a',
  ],
  [
    'a long value in metadata',
    '/v1/charges',
    { ...CHARGE, metadata: { 'a/b~1c': 'x'.repeat(513) } },
    'validation_failed',
    'metadata.a/b~1c',
  ],
  [
    '1e400 in metadata',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, metadata: { a: 'big' } }).replace('"big"', '1e400'),
    'validation_failed',
    'metadata.a',
  ],
  [
    'an integer in metadata that would come back as another',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, metadata: { a: 'long' } }).replace('"long"', '12345678901234567891'),
    'validation_failed',
    'metadata.a',
  ],
  [
    'a fraction in metadata that would come back as another',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, metadata: { a: 'long' } }).replace('"long"', '12345678901234567890.5'),
    'validation_failed',
    'metadata.a',
  ],
  [
    'a name in metadata that is cut between the halves of a character',
    '/v1/charges',
    { ...CHARGE, metadata: { [`${'x'.repeat(118)}\u{1f600}`]: {} } },
    'validation_failed',
    `metadata.${'x'.repeat(118)}\ufffd…`,
  ],
  [
    'brackets deeper than the stack, and a long number',
    '/v1/charges',
    `{"x":${'['.repeat(30_000)}1234567890123456${']'.repeat(30_000)}}`,
    'validation_failed',
    'amount',
  ],
  [
    '__proto__ in metadata',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, metadata: { a: 7 } }).replace('"a"', '"__proto__"'),
    'validation_failed',
    'metadata.__proto__',
  ],
  [
    'half a surrogate pair',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, description: 'x\ud800' }),
    'validation_failed',
    'description',
  ],
  [
    'half a surrogate pair in a name',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, ['\ud800']: 1 }),
    'validation_failed',
    '\ufffd',
  ],
  [
    'half a surrogate pair in a name of metadata',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, metadata: { ['\udc00']: 'x' } }),
    'validation_failed',
    'metadata',
  ],
  [
    'half a surrogate pair in metadata',
    '/v1/charges',
    JSON.stringify({ ...CHARGE, metadata: { a: '\udc00' } }),
    'validation_failed',
    'metadata.a',
  ],
];

function without(name: keyof typeof CHARGE): unknown {
  return { ...CHARGE, [name]: undefined };
}
function keys(count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, index]));
}

t.test('bodies', async (t) => {
  for (const [what, path, body, code, param] of bodies) {
    await t.test(`${what}: ${code}`, async (t) => {
      const answer = await front.post(path, body);
      refused(t, answer, code, param);
      assertMatchesOpenApi('POST', path, answer.status, answer.body);
      t.equal(front.bus.sent.at(-1)?.input, null, 'nothing to create is sent on');
    });
  }
});

// [what is wrong, headers (null: left out), code]
const headers: [string, Record<string, string | null>, ErrorCode][] = [
  ['no key', { Authorization: null }, 'authentication_required'],
  ['an empty key', { Authorization: '' }, 'authentication_required'],
  ['Bearer and nothing', { Authorization: 'Bearer' }, 'authentication_required'],
  ['another scheme', { Authorization: 'Basic dXNlcjpwYXNz' }, 'authentication_required'],
  ['not a key of ours', { Authorization: 'Bearer abc' }, 'invalid_api_key'],
  ['a key of another kind', { Authorization: `Bearer rk${SECRET_KEY.slice(2)}` }, 'invalid_api_key'],
  ['a key cut short', { Authorization: `Bearer ${SECRET_KEY.slice(0, 30)}` }, 'invalid_api_key'],
  [
    'a key without its last character',
    { Authorization: `Bearer ${SECRET_KEY.slice(0, -1)}` },
    'invalid_api_key',
  ],
  ['a key and more', { Authorization: `Bearer ${SECRET_KEY}x` }, 'invalid_api_key'],
  ['a key in lower case', { Authorization: `Bearer ${SECRET_KEY.toLowerCase()}` }, 'invalid_api_key'],
  [
    'a publishable key',
    { Authorization: `Bearer ${makeApiKey('publishable', ACCOUNT_ID)}` },
    'secret_key_required',
  ],
  ['no Idempotency-Key', { 'Idempotency-Key': null }, 'idempotency_key_required'],
  ['an empty Idempotency-Key', { 'Idempotency-Key': '' }, 'idempotency_key_required'],
  ['one of 7 characters', { 'Idempotency-Key': '1234567' }, 'idempotency_key_invalid'],
  ['one of 256 characters', { 'Idempotency-Key': 'x'.repeat(256) }, 'idempotency_key_invalid'],
  ['one that is not ASCII', { 'Idempotency-Key': 'caf\u00e9-caf\u00e9-1' }, 'idempotency_key_invalid'],
  ['one with a tab', { 'Idempotency-Key': 'abcd\tefgh' }, 'idempotency_key_invalid'],
  ['no Content-Type', { 'Content-Type': null }, 'unsupported_media_type'],
  ['a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, 'unsupported_media_type'],
  ['text', { 'Content-Type': 'text/plain' }, 'unsupported_media_type'],
  ['another JSON', { 'Content-Type': 'application/json-seq' }, 'unsupported_media_type'],
];

t.test('headers of a create', async (t) => {
  for (const [what, given, code] of headers) {
    await t.test(`${what}: ${code}`, async (t) => {
      const answer = await front.post('/v1/charges', CHARGE, given);
      refused(t, answer, code, null);
      assertMatchesOpenApi('POST', '/v1/charges', answer.status, answer.body);
      if (answer.status === 401) t.equal(answer.headers['www-authenticate'], 'Bearer');
    });
  }
});

t.test('of several faults the earliest in the order of checks is told', async (t) => {
  const bad = 'not json';
  refused(
    t,
    await front.post('/v1/charges', bad, { Authorization: null, 'Idempotency-Key': null }),
    'authentication_required',
    null,
  );
  refused(
    t,
    await front.post('/v1/charges', bad, { 'Idempotency-Key': null }),
    'idempotency_key_required',
    null,
  );
  t.equal(
    front.bus.sent.at(-1)?.idempotencyKey,
    null,
    'none: the account refuses it before it counts against a rate',
  );
  refused(t, await front.post('/v1/charges', bad), 'invalid_json', null);
  refused(t, await front.get('/v1/charges?x=1', { Authorization: null }), 'authentication_required', null);
});

t.test('what is nearly wrong is right', async (t) => {
  const fine: [string, unknown, Record<string, string>][] = [
    ['a charset', CHARGE, { 'Content-Type': 'application/json; charset=utf-8' }],
    ['a type in capitals', CHARGE, { 'Content-Type': 'Application/JSON' }],
    ['a scheme in lower case', CHARGE, { Authorization: `bearer ${SECRET_KEY}` }],
    ['a key of 8 characters', CHARGE, { 'Idempotency-Key': '12345678' }],
    ['a key of 255 characters', CHARGE, { 'Idempotency-Key': 'x'.repeat(255) }],
    ['null for what may be absent', { ...CHARGE, description: null, metadata: null }, {}],
    ['255 characters of any plane', { ...CHARGE, description: '😀'.repeat(255) }, {}],
    [
      'a whole surrogate pair, escaped',
      `${JSON.stringify(CHARGE).slice(0, -1)},"description":"\\ud83d\\ude00"}`,
      {},
    ],
    ['20 keys of metadata', { ...CHARGE, metadata: keys(20) }, {}],
    [
      'every kind of value in metadata',
      { ...CHARGE, metadata: { a: 'x'.repeat(512), b: 1.5, c: true, d: null, '': '' } },
      {},
    ],
    ['the largest amount', { ...CHARGE, amount: '9007199254740991' }, {}],
    ['128 characters of reference', { ...CHARGE, reference: 'aZ9._:-'.padEnd(128, 'x') }, {}],
  ];
  for (const [what, body, given] of fine) {
    const { status, text } = await front.post('/v1/charges', body, given);
    t.equal(status, 201, `${what}: ${text}`);
  }
});

const LISTS = ['/v1/charges', '/v1/payouts', '/v1/transactions', '/v1/balances', '/v1/payout_destinations'];
// [query, code, param] of every list
const anyQuery: [string, ErrorCode, string][] = [
  ['colour=red', 'unknown_parameter', 'colour'],
  ['Limit=1', 'unknown_parameter', 'Limit'],
  ['__proto__=1', 'unknown_parameter', '__proto__'],
  ['toString=1', 'unknown_parameter', 'toString'],
  ['%6c%6f%6c=1', 'unknown_parameter', 'lol'],
  ['%zz=1', 'validation_failed', '%zz'],
  [`%zz${'x'.repeat(900)}=1`, 'validation_failed', `%zz${'x'.repeat(125)}…`],
  [`${'x'.repeat(900)}=%zz`, 'validation_failed', `${'x'.repeat(128)}…`],
  [`${'x'.repeat(900)}=1&${'x'.repeat(900)}=1`, 'validation_failed', `${'x'.repeat(128)}…`],
  ['=1', 'unknown_parameter', ''],
];
// [query, code, param] of the lists that have pages
const pageQuery: [string, ErrorCode, string][] = [
  ...['0', '101', '-1', '1.5', '1e1', '025', '', 'x', '+5', '%20', '9'.repeat(30)].map(
    (limit): [string, ErrorCode, string] => [`limit=${limit}`, 'validation_failed', 'limit'],
  ),
  ['limit=1&limit=2', 'validation_failed', 'limit'],
  ['limit=%zz', 'validation_failed', 'limit'],
  ['limit=%ff', 'validation_failed', 'limit'],
  ['status=DONE', 'validation_failed', 'status'],
  ['status=', 'validation_failed', 'status'],
  ['status', 'validation_failed', 'status'],
  ['reference', 'validation_failed', 'reference'],
  ['reference=a%20b', 'validation_failed', 'reference'],
  [`reference=${'x'.repeat(129)}`, 'validation_failed', 'reference'],
  ['starting_after=', 'invalid_cursor', 'starting_after'],
  ['starting_after=x', 'invalid_cursor', 'starting_after'],
  ['starting_after=wal_01KAJ3W8Q07M4R2N9X5T6V1B00', 'invalid_cursor', 'starting_after'],
  ['starting_after=chg_01KAJ3W8Q07M4R2N9X5T6V1B0', 'invalid_cursor', 'starting_after'],
  ['starting_after=chg_01KAJ3W8Q07M4R2N9X5T6V1B0%00', 'invalid_cursor', 'starting_after'],
];
const objectQuery: [string, ErrorCode, string][] = [
  ['country=TZ', 'validation_failed', 'country'],
  ['network=mtn', 'validation_failed', 'network'],
  ['type=CHARGE', 'unknown_parameter', 'type'],
  ['currency=UGX', 'unknown_parameter', 'currency'],
  ...['yesterday', '2026-13-01', '2026-02-30', '1767225600', '2026-01-01T25:00:00Z', ''].map(
    (time): [string, ErrorCode, string] => [`created_after=${time}`, 'validation_failed', 'created_after'],
  ),
  ['created_before=x', 'validation_failed', 'created_before'],
];
const transactionQuery: [string, ErrorCode, string][] = [
  ['type=charge', 'validation_failed', 'type'],
  ['approval_status=MAYBE', 'validation_failed', 'approval_status'],
  ['currency=EUR', 'validation_failed', 'currency'],
  ['created_after=2026-01-01', 'unknown_parameter', 'created_after'],
  ['country=UG', 'unknown_parameter', 'country'],
];

t.test('queries', async (t) => {
  const cases = [
    ...LISTS.flatMap((path) => anyQuery.map((row) => [path, ...row] as const)),
    ...LISTS.slice(0, 3).flatMap((path) => pageQuery.map((row) => [path, ...row] as const)),
    ...LISTS.slice(0, 2).flatMap((path) => objectQuery.map((row) => [path, ...row] as const)),
    ...transactionQuery.map((row) => ['/v1/transactions', ...row] as const),
    ['/v1/balances', 'limit=1', 'unknown_parameter', 'limit'] as const,
  ];
  for (const [path, query, code, param] of cases) {
    await t.test(`${path}?${query.slice(0, 40)}: ${code}`, async (t) => {
      const answer = await front.get(`${path}?${query}`);
      refused(t, answer, code, param);
      assertMatchesOpenApi('GET', path, answer.status, answer.body);
    });
  }
});

// [path with its query, message]
const queriesInWords: [string, string][] = [
  ['/v1/charges?limit=0', '`limit` must be at least 1.'],
  ['/v1/charges?limit=101', '`limit` must be at most 100.'],
  ['/v1/charges?limit=x', '`limit` must be an integer.'],
  ['/v1/charges?country=TZ', '`country` must be one of UG, KE, GH.'],
  [
    '/v1/charges?created_after=x',
    '`created_after` must be an ISO 8601 date-time, e.g. 2026-03-01T09:30:00.000Z.',
  ],
  [
    '/v1/transactions?page=2',
    '`page` is not a parameter of this path. It takes type, status, approval_status, reference, currency, limit, starting_after.',
  ],
  ['/v1/balances?page=2', '`page` is not a parameter of this path. It takes none.'],
];
// [body of a charge, message]
const bodiesInWords: [unknown, string][] = [
  [without('amount'), '`amount` is required.'],
  [
    { ...CHARGE, amount: '05' },
    '`amount` must be integer minor units as a string: digits without sign, leading zero or decimals, at most 9007199254740991.',
  ],
  [{ ...CHARGE, reference: '' }, '`reference` must be 1 to 128 characters from A-Z a-z 0-9 . _ : -.'],
  [{ ...CHARGE, msisdn: 1 }, '`msisdn` must be a string.'],
  [{ ...CHARGE, network: 'mtn' }, '`network` must be one of MTN, AIRTEL.'],
  [{ ...CHARGE, description: 'x'.repeat(256) }, '`description` must be at most 255 characters.'],
  [{ ...CHARGE, metadata: [] }, '`metadata` must be an object or null.'],
  [{ ...CHARGE, metadata: keys(21) }, '`metadata` must have at most 20 keys.'],
  [{ ...CHARGE, metadata: { a: {} } }, '`metadata.a` must be a string or a number or a boolean or null.'],
  ...['0.10000000000000001', '1e400', '-1e400'].map((number): [string, string] => [
    JSON.stringify({ ...CHARGE, metadata: { a: 'N' } }).replace('"N"', number),
    '`metadata.a` is a number that a double does not keep exactly: send it as a string.',
  ]),
  [
    JSON.stringify({ ...CHARGE, metadata: { a: 1 } }).replace('"a"', '"__proto__"'),
    '`metadata.__proto__` is not allowed as a name.',
  ],
  [{ ...CHARGE, colour: 'red' }, '`colour` is not a field of this request.'],
  [Buffer.from('{"é":1}', 'latin1'), 'The body is not valid UTF-8.'],
  [gzipSync(JSON.stringify(CHARGE)), 'The body is compressed (gzip); send it as it is.'],
];

t.test('a refusal says in words what is wrong', async (t) => {
  for (const [path, message] of queriesInWords) {
    t.equal((await front.get(path)).body.error.message, message);
  }
  for (const [body, message] of bodiesInWords) {
    t.equal((await front.post('/v1/charges', body)).body.error.message, message);
  }
});

t.test('ids', async (t) => {
  const rows: [string, ErrorCode][] = [
    ['/v1/charges/x', 'charge_not_found'],
    ['/v1/charges/pyt_01KAJ3W8Q07M4R2N9X5T6V1B00', 'charge_not_found'],
    ['/v1/charges/chg_01kaj3w8q07m4r2n9x5t6v1b00', 'charge_not_found'],
    ['/v1/charges/%63hg_01KAJ3W8Q07M4R2N9X5T6V1B00', 'charge_not_found'],
    [`/v1/charges/${'x'.repeat(3_000)}`, 'charge_not_found'],
    ['/v1/charges/%00', 'charge_not_found'],
    ['/v1/charges/x/timeline', 'charge_not_found'],
    ['/v1/payouts/x', 'payout_not_found'],
    ['/v1/withdrawals/x', 'withdrawal_not_found'],
    ['/v1/deposits/x', 'deposit_not_found'],
    ['/v1/transactions/x', 'transaction_not_found'],
    ['/v1/transactions/wal_01KAJ3W8Q07M4R2N9X5T6V1B00', 'transaction_not_found'],
  ];
  for (const [path, code] of rows) {
    const answer = await front.get(path);
    refused(t, answer, code, null);
    t.equal(front.bus.sent.at(-1)?.id, '', 'what cannot be an id is not looked up');
    assertMatchesOpenApi('GET', path, answer.status, answer.body);
  }
});

t.test('paths and methods', async (t) => {
  for (const path of [
    '/',
    '/v1',
    '/v1/',
    '/v1/charge',
    '/v1/charges/',
    '/v1/charges//timeline',
    '/V1/charges',
    '//v1/charges',
    '/v1/%63harges',
    '/v1/charges/x/y',
    '/v1/charges/../balances',
    '/openapi-json',
    '/v2/charges',
  ]) {
    const answer = await front.get(path);
    refused(t, answer, 'not_found', null);
    assertMatchesOpenApi('GET', path, answer.status, answer.body);
  }
  const rows: [string, string, string][] = [
    ['PATCH', '/v1/charges', 'POST, GET, HEAD'],
    ['DELETE', '/v1/charges/chg_01KAJ3W8Q07M4R2N9X5T6V1B00', 'GET, HEAD'],
    ['POST', '/v1/charges/x', 'GET, HEAD'],
    ['GET', '/v1/deposits', 'POST'],
    ['GET', '/v1/withdrawals', 'POST'],
    ['POST', '/v1/balances', 'GET, HEAD'],
    ['OPTIONS', '/v1/charges', 'POST, GET, HEAD'],
    ['BREW', '/v1/charges', 'POST, GET, HEAD'],
    ['GET', '/callbacks/mtn_ug/x', 'POST, PUT'],
  ];
  for (const [method, path, allow] of rows) {
    const answer = await front.send(requestBytes(method, path, {}, null));
    refused(t, answer, 'method_not_allowed', null);
    t.equal(answer.headers['allow'], allow);
  }
});
