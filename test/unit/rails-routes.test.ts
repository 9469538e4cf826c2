// The file of routes: what it takes, and that everything wrong with it is named with its line, at once.
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { JsonSyntaxError, parseJsonWithLines } from '../../src/rails/routes-json.ts';
import { parseRoutesFile, RoutesFileError, type RoutesFile } from '../../src/rails/routes-file.ts';

const environment = {
  KEY: 'k1',
  API_KEY: 'k2',
  SECRET: 's',
  PIN: '1234',
  ENCRYPTED: Buffer.alloc(128, 'plain').toString('base64'),
  PORTAL: 'a-portal-secret-1',
};

const PUBLIC_KEY = generateKeyPairSync('rsa', { modulusLength: 1_024 })
  .publicKey.export({ type: 'spki', format: 'der' })
  .toString('base64');
const EC_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  .publicKey.export({ type: 'spki', format: 'pem' })
  .toString();
/** No PIN fits in it with OAEP. */
const SHORT_KEY = generateKeyPairSync('rsa', { modulusLength: 512 })
  .publicKey.export({ type: 'spki', format: 'pem' })
  .toString();
const MTN = {
  id: 'mtn_ug',
  country: 'UG',
  network: 'MTN',
  adapter: 'mtn',
  base_url: 'https://proxy.momoapi.mtn.com',
  target_environment: 'mtnuganda',
  collection: { subscription_key: { env: 'KEY' }, api_user: 'user', api_key: { env: 'API_KEY' } },
};
const AIRTEL = {
  id: 'airtel_ke',
  country: 'KE',
  network: 'AIRTEL',
  adapter: 'airtel',
  base_url: 'https://openapi.airtel.africa',
  client_id: 'client',
  client_secret: { env: 'SECRET' },
  collection_api: 'v1',
  disbursement: { pin: { env: 'PIN' }, pin_padding: 'oaep-sha256', public_key: PUBLIC_KEY },
  callback: { secret: { env: 'PORTAL' } },
};

function read(text: string, path = 'rails.json'): RoutesFile {
  return parseRoutesFile(text, path, { environment, openSealed: (sealed) => `opened ${sealed}` });
}

function problemsOf(routes: unknown, path?: string): readonly string[] {
  const text = typeof routes === 'string' ? routes : JSON.stringify({ routes }, null, 1);
  try {
    read(text, path);
    return [];
  } catch (error) {
    if (error instanceof RoutesFileError) return error.problems;
    throw error;
  }
}

t.test('a good file, with defaults', async (t) => {
  const { routes, callbackBaseUrl } = read(
    JSON.stringify({ callback_base_url: 'https://pay.example.com/', routes: [MTN, AIRTEL] }),
  );
  t.equal(callbackBaseUrl, 'https://pay.example.com', 'without a slash at its end');
  t.hasStrict(routes[0], {
    id: 'mtn_ug',
    currency: 'UGX',
    notFoundGraceMs: 120_000,
    collection: { subscriptionKey: 'k1', apiUser: 'user', apiKey: 'k2' },
    disbursement: null,
    callbacks: true,
  });
  t.hasStrict(routes[1], {
    currency: 'KES',
    amountDecimals: 2,
    disbursement: { pin: '1234', padding: 'oaep-sha256', publicKey: PUBLIC_KEY },
    callback: { secret: 'a-portal-secret-1', hashKey: null, hashOver: 'transaction' },
  });
});

t.test('what may be left out is read where it is there', async (t) => {
  const gh = { ...MTN, id: 'mtn_gh', country: 'GH', base_url: 'http://127.0.0.1:8082/mtn/' };
  const { collection, ...sending } = { ...gh, disbursement: MTN.collection, callbacks: false };
  const numbers = { answer_ms: 15_500, not_found_grace_seconds: 31, max_concurrency: 1, amount_decimals: 0 };
  const disbursement = { ...AIRTEL.disbursement, pin_padding: 'pkcs1' };
  const callback = { ...AIRTEL.callback, hash_key: { env: 'KEY' }, hash_over: 'body' };
  const airtel = { ...AIRTEL, country: 'UG', ...numbers, client_id: { env: 'KEY' }, disbursement, callback };
  const { routes } = read(JSON.stringify({ routes: [sending, airtel] }));
  const credentials = { subscriptionKey: 'k1', apiUser: 'user', apiKey: 'k2' };
  const baseUrl = 'http://127.0.0.1:8082/mtn';
  t.hasStrict(routes[0], { baseUrl, collection: null, disbursement: credentials, callbacks: false });
  t.hasStrict(routes[1], {
    adapter: 'airtel',
    answerMs: 15_500,
    notFoundGraceMs: 31_000,
    maxConcurrency: 1,
    amountDecimals: 0,
    clientId: 'k1',
    disbursement: { padding: 'pkcs1' },
    callback: { hashKey: 'k1', hashOver: 'body' },
  });
});

t.test('secrets from the environment, from files beside it, or sealed', async (t) => {
  const directory = t.testdir({ secret: 'from a file\n' });
  const path = join(directory, 'rails.json');
  writeFileSync(path, '{}');
  const collection = { ...MTN.collection, subscription_key: { file: 'secret' }, api_key: { sealed: 'v1.x' } };
  const { routes } = read(JSON.stringify({ routes: [{ ...MTN, collection }] }), path);
  t.hasStrict(routes[0], { collection: { subscriptionKey: 'from a file', apiKey: 'opened v1.x' } });
});

t.test('a line break after a secret is not part of it', async (t) => {
  const withBreaks = { ...environment, KEY: 'k1\n', API_KEY: ' k2\r\n', BLANK: ' \n' };
  const parse = (route: object): RoutesFile =>
    parseRoutesFile(JSON.stringify({ routes: [route] }), 'x', { environment: withBreaks, openSealed: null });
  const [route] = parse(MTN).routes;
  const collection = { subscriptionKey: 'k1', apiUser: 'user', apiKey: 'k2' };
  t.strictSame(route?.adapter === 'mtn' && route.collection, collection);
  const sealed = { ...MTN.collection, api_key: { sealed: 'v1.x' } };
  t.throws(() => parse({ ...MTN, collection: sealed }), /api_key: is sealed, and there is no MASTER_KEY/);
  const opened = (secret: string): RoutesFile =>
    parseRoutesFile(JSON.stringify({ routes: [{ ...MTN, collection: sealed }] }), 'x', {
      environment: withBreaks,
      openSealed: () => secret,
    });
  t.hasStrict(opened(' k3\r\n').routes[0], { collection: { apiKey: 'k3' } });
  t.throws(() => opened('\r\n'), /api_key: is sealed, and nothing is in it/);
  const blank = { ...MTN.collection, api_key: { env: 'BLANK' } };
  t.throws(() => parse({ ...MTN, collection: blank }), /the environment has no BLANK/);
});

t.test('a sandbox may have its own currency', async (t) => {
  const sandbox = { ...MTN, target_environment: 'sandbox', currency: 'EUR' };
  t.hasStrict(read(JSON.stringify({ routes: [sandbox] })).routes, [{ currency: 'EUR' }]);
  t.hasStrict(read(JSON.stringify({ routes: [{ ...MTN, currency: 'UGX' }] })).routes, [{ currency: 'UGX' }]);
});

t.test('what is wrong is named, with its line', async (t) => {
  const change = (route: object, changes: object): object[] => [{ ...route, ...changes }];
  const withKey = (subscription_key: unknown) =>
    change(MTN, { collection: { ...MTN.collection, subscription_key } });
  const { target_environment: _, ...withoutTarget } = MTN;
  const { collection: __, ...withoutProducts } = MTN;
  const CASES: readonly (readonly [unknown, RegExp])[] = [
    [
      change(AIRTEL, { amount_decimals: 3 }),
      /:\d+: routes\[0\]\.amount_decimals: takes a whole number from 0 to 2/,
    ],
    [change(AIRTEL, { amount_decimals: '0' }), /amount_decimals: takes a whole number/],
    [change(AIRTEL, { country: 'UG', amount_decimals: 2 }), /amount_decimals: takes 0: UGX has no decimals/],
    [change(MTN, { amount_decimals: 0 }), /amount_decimals: is not a field here/],
    [change(MTN, { country: 'UGANDA' }), /^rails\.json:5: routes\[0\]\.country: takes "UG" or "KE" or "GH"$/],
    [change(MTN, { id: 'MTN UG' }), /:4: routes\[0\]\.id: takes a text like "mtn_ug"/],
    [change(MTN, { adapter: 'mpesa' }), /:7: routes\[0\]\.adapter: takes "mtn" or "airtel"/],
    [change(MTN, { base_url: 'http://proxy.momoapi.mtn.com' }), /:8: routes\[0\]\.base_url: takes https/],
    [change(MTN, { base_url: 'proxy' }), /base_url: takes an address/],
    [change(MTN, { base_url: 'https://user:word@host' }), /without credentials/],
    [change(MTN, { base_url: 'https://:word@host' }), /without credentials/],
    [change(MTN, { currency: 'KES' }), /currency: takes "UGX" or "EUR"/],
    [
      change(MTN, { currency: 'EUR' }),
      /^rails\.json:3: routes\[0\]\.currency: "EUR" is the sandbox's alone$/,
    ],
    ...[undefined, 'UGX'].map(
      (currency) =>
        [
          change(MTN, { target_environment: 'sandbox', currency }),
          /^rails\.json:3: routes\[0\]\.currency: the sandbox takes "EUR" alone$/,
        ] as const,
    ),
    [change(AIRTEL, { currency: 'EUR' }), /currency: takes "KES"$/],
    [change(MTN, { not_found_grace_seconds: 29 }), /grace_seconds: takes a whole number from 30 to 3600/],
    [change(MTN, { answer_ms: 60_000, not_found_grace_seconds: 119 }), /takes a whole number from 120 to/],
    [change(MTN, { max_concurrency: 0 }), /max_concurrency: takes a whole number from 1 to/],
    [change(MTN, { collcetion: {} }), /:19: routes\[0\]\.collcetion: is not a field here/],
    [[withoutTarget], /:3: routes\[0\]\.target_environment: is missing/],
    [[withoutProducts], /collection, disbursement or both are needed/],
    [withKey('plain'), /:11: routes\[0\]\.collection\.subscription_key: is a secret in plain text/],
    [withKey({ env: 'NOT_SET' }), /the environment has no NOT_SET/],
    [withKey({ file: '/nowhere' }), /\/nowhere cannot be read: ENOENT/],
    [withKey({ env: 'KEY', file: 'x' }), /takes \{"env"/],
    [change(AIRTEL, { collection_api: 'v3' }), /collection_api: takes "v1" or "v2"/],
    [change(AIRTEL, { callback: { secret: { env: 'PIN' } } }), /secret: takes 16 to 128/],
    [
      change(AIRTEL, { disbursement: { ...AIRTEL.disbursement, public_key: undefined } }),
      /disbursement\.public_key: is missing/,
    ],
    ...['x', EC_KEY, SHORT_KEY].map(
      (public_key) =>
        [
          change(AIRTEL, { disbursement: { ...AIRTEL.disbursement, public_key } }),
          /public_key: takes an RSA/,
        ] as const,
    ),
    // Too long for the key: it may be encrypted already, as Airtel's documents show one.
    ...['pkcs1', 'oaep-sha256'].map(
      (pin_padding) =>
        [
          change(AIRTEL, {
            disbursement: { ...AIRTEL.disbursement, pin: { env: 'ENCRYPTED' }, pin_padding },
          }),
          /^rails\.json:\d+: routes\[0\]\.disbursement\.pin: is longer than its public_key takes: give the PIN itself$/,
        ] as const,
    ),
    // One that is misspelt would not be heeded: callbacks are believed without their hash, for instance.
    [change(AIRTEL, { callback: { ...AIRTEL.callback, hashkey: {} } }), /callback\.hashkey: is not a field/],
    [
      change(AIRTEL, { disbursement: { ...AIRTEL.disbursement, padding: '' } }),
      /disbursement\.padding: is not a field/,
    ],
    [change(MTN, { collection: { ...MTN.collection, key: '' } }), /collection\.key: is not a field here/],
    [
      JSON.stringify({ callback_url: '', routes: [MTN] }),
      /^rails\.json:1: callback_url: is not a field here$/,
    ],
    [change(MTN, { answer_ms: 15_250, not_found_grace_seconds: 30 }), /takes a whole number from 31 to/],
    [change(MTN, { callbacks: 'no' }), /callbacks: takes true or false/],
    [change(MTN, { collection: 1 }), /collection: is not an object/],
    [change(MTN, { base_url: 5 }), /base_url: takes an address/],
    [change(MTN, { base_url: 'ftp://localhost' }), /base_url: takes https/],
    [change(MTN, { base_url: 'https://host?a=b' }), /without credentials, query/],
    [change(MTN, { base_url: 'https://host#a' }), /without credentials, query/],
    [withKey({ vault: 'KEY' }), /takes \{"env"/],
    [[5], /routes\[0\]: is not an object/],
    ['{}', /:1: routes: is missing/],
    [[MTN, { ...MTN, id: 'other' }], /UG MTN has a route at line 3 already/],
    [[MTN, { ...AIRTEL, id: 'mtn_ug' }], /id mtn_ug has a route at line 3 already/],
    [[], /at least one/],
    ['[]', /:1: the file: is not an object/],
    ['{"routes": 1}', /:1: routes: is not a list/],
    ['{\n"routes": [\n{"id": "a",}]}', /:3: a comma before \}/],
    ['{\n"a": 1,\n"a": 2}', /:3: a is given twice/],
    ['{\n"a": tru}', /:2: not JSON: tru/],
    ['{\n"a", 1}', /:2: , where : belongs/],
    ['{\n"a" "b"}', /:2: a text where : belongs/],
    ['{\n"a": }', /:2: \} where a value belongs/],
    ['{\n"a": 1 2}', /:2: a number or word where , or \} belongs/],
    ['', /:1: it ends where a value belongs/],
    ['{} x', /something follows the end/],
  ];
  for (const [routes, expected] of CASES) {
    const problems = problemsOf(routes);
    t.equal(problems.length, 1, `${JSON.stringify(routes).slice(0, 60)}: ${problems.join(' | ')}`);
    t.match(problems[0], expected);
    t.notMatch(problems.join(), /\bplain\b(?! text)/, 'no secret in a message');
  }
  const several = problemsOf([
    { ...MTN, country: 'X' },
    { ...AIRTEL, network: 'Y' },
  ]);
  t.equal(several.length, 2, 'all of them at once');
});

t.test('a secret in a file that is no JSON is in no message', async (t) => {
  const MALFORMED = [
    '{"pin": hunter2}',
    '{"pin": \'hunter2\'}',
    '{"pin": "hunter2}',
    '{"pin": "hunter2\\q"}',
    '{"pin" "hunter2"}',
    '{"pin": "x" "hunter2"}',
    '{"pin": "x" 72907290}',
    '{72907290}',
    '["x" "hunter2"]',
    '[1 72907290]',
  ];
  for (const text of MALFORMED) {
    const [problem] = problemsOf(text);
    t.match(problem, /^rails\.json:1: /);
    t.notMatch(problem, /hunter2|72907290/, text);
  }
});

t.test('of the longest file, which is no file of routes, the line at fault is told at once', async (t) => {
  const lines = Math.floor(LIMITS.routesFileBytesMax / 3) - 1;
  t.match(problemsOf(`[\n${'1,\n'.repeat(lines - 1)}}`), [
    `rails.json:${lines + 1}: } where a value belongs`,
  ]);
});

t.test('JSON with lines reads what JSON reads', async (t) => {
  const plain = ({ value }: ReturnType<typeof parseJsonWithLines>): unknown => {
    if (value instanceof Map) {
      return Object.fromEntries([...value].map(([name, node]) => [name, plain(node)]));
    }
    return Array.isArray(value) ? value.map(plain) : value;
  };
  for (const text of [
    '{}',
    '[]',
    '[1, -2.5e3, "a\\n\\u00e9\\"", true, null, [[]], {"a": {"b": []}}]',
    '"x"',
    ' {"a": 1}\r\n',
  ]) {
    t.strictSame(plain(parseJsonWithLines(text)), JSON.parse(text));
  }
  const WRONG = `[1,] {"a"1} {"a"1,2} {a:1} {1:2} {"a":1,"b","c":2} {"a":1"b""c":2} [1"b"2] 01 {`.split(' ');
  WRONG.push('"a\nb"', '['.repeat(40), '['.repeat(40) + ']'.repeat(40));
  for (const text of WRONG) t.throws(() => parseJsonWithLines(text), JsonSyntaxError, text);
});
