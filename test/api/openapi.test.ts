// The OpenAPI document is sound, complete and true: a public linter finds nothing, every example is what its schema
// says, every path of the specification is there, and error codes are those of the one table.

import { join } from 'node:path';
import t from 'tap';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { ERROR_CODES, type ErrorCode } from '../../src/domain/error-code.ts';
import { feeOn } from '../../src/domain/fees.ts';
import { money } from '../../src/domain/money.ts';
import { errorCodesOf } from '../../src/http/openapi.ts';
import { merchantSurface } from '../../src/http/routes.ts';
import { CHARGE, startFront } from './front.ts';
import {
  assertEventMatchesOpenApi,
  assertSchema,
  assertStrictSchemas,
  examplesOf,
  linterSays,
  openApi,
} from './openapi-check.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

t.test('a public linter finds nothing', async (t) => {
  const said = await linterSays(openApi, join(temporaryDirectory(t), 'openapi.json'));
  t.match(said, /is valid/);
  t.notMatch(said, /\bwarnings?\b/i);
});

t.test(
  'a strict validator takes every schema; null stands beside names and objects, as generators of types have it',
  (t) => {
    t.doesNotThrow(() => assertStrictSchemas(openApi));
    t.end();
  },
);

t.test('every path of the specification is there, and no other', async (t) => {
  const operations = Object.entries(openApi.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  t.strictSame(operations.sort(), [
    'GET /openapi.json',
    'GET /v1/balances',
    'GET /v1/charges',
    'GET /v1/charges/{id}',
    'GET /v1/charges/{id}/timeline',
    'GET /v1/deposits/{id}',
    'GET /v1/payout_destinations',
    'GET /v1/payouts',
    'GET /v1/payouts/{id}',
    'GET /v1/transactions',
    'GET /v1/transactions/{id}',
    'GET /v1/withdrawals/{id}',
    'POST /v1/charges',
    'POST /v1/deposits',
    'POST /v1/payouts',
    'POST /v1/withdrawals',
  ]);
});

t.test('every example is what its schema says', async (t) => {
  const examples = examplesOf(openApi);
  for (const { where, schema, value } of examples) assertSchema(where, schema, value);
  t.ok(examples.length > 100, `${examples.length} examples`);
});

interface Described {
  readonly $ref?: string;
  readonly description?: string;
}

function descriptionOf({ $ref, description = '' }: Described): string {
  if ($ref === undefined) return description;
  return descriptionOf(openApi.components.schemas[$ref.split('/').at(-1)!] as Described);
}

t.test('what a field or a limit means is said where its name does not say it', (t) => {
  const said: Record<string, Record<string, RegExp>> = {
    CreateCharge: { network: /wins over/, country: /local format/ },
    CreateDeposit: { network: /wins over/, country: /local format/ },
    CreatePayout: { network: /network_required/, country: /account’s country/ },
    Charge: { fee: /0 until the charge succeeds/, net: /`amount` minus `fee`/ },
    Payout: { fee: /0 until the payout succeeds/, total_debited: /`amount` plus `fee`/ },
    Withdrawal: { fee: /from the start/, total_debited: /`amount` plus `fee`/ },
    Transaction: { fee: /0 until/, net: /Money in: `amount` minus `fee`\. Money out: `amount` plus `fee`/ },
    ChargePage: { has_more: /last page/, next_cursor: /`starting_after`/ },
    ChargeTimeline: { events: /in order/, ledger: /so far/ },
    TransactionDetail: { events: /in order/, ledger: /so far/ },
    PayoutDestination: { label: /your team/, status: /Only an `ACTIVE` wallet/ },
    Balance: { available: /held money is already excluded/, pending: /one day after/ },
  };
  for (const [name, fields] of Object.entries(said)) {
    const { properties } = openApi.components.schemas[name] as { properties: Record<string, Described> };
    for (const [field, meaning] of Object.entries(fields)) {
      t.match(descriptionOf(properties[field]!), meaning, `${name}.${field}`);
    }
  }
  for (const path of ['/v1/payouts', '/v1/withdrawals']) {
    t.match((openApi.paths[path]!['post'] as Described).description, /at most 60 .* in a minute/, path);
  }
  t.end();
});

t.test('what is a time in an answer is a date-time, as generators that make dates know it', (t) => {
  const formats = new Map<string, unknown>();
  for (const [name, schema] of Object.entries(openApi.components.schemas)) {
    const { properties = {} } = schema as { properties?: Record<string, { $ref?: string; format?: string }> };
    for (const [field, { $ref, format }] of Object.entries(properties)) {
      if (!field.endsWith('_at')) continue;
      const named = openApi.components.schemas[$ref?.split('/').at(-1) ?? ''] as
        { format?: string } | undefined;
      formats.set(`${name}.${field}`, named?.format ?? format);
    }
  }
  t.ok(formats.has('Charge.updated_at') && formats.has('PayoutDestination.active_at'));
  for (const [field, format] of formats) t.equal(format, 'date-time', field);
  t.end();
});

t.test('fees in examples are those of the default policy', async (t) => {
  const types = { charge: 'CHARGE', payout: 'PAYOUT', withdrawal: 'WITHDRAWAL' } as const;
  const fees: string[] = [];
  JSON.stringify(openApi, (_, value: unknown) => {
    const { object, amount, fee } = (value ?? {}) as {
      object?: keyof typeof types;
      amount: string;
      fee: string;
    };
    const type = object === undefined ? undefined : types[object];
    if (type === undefined || fee === '0') return value;
    const { UGX: terms = DEFAULT_POLICY.fees.PAYOUT.UGX } = DEFAULT_POLICY.fees[type];
    const quoted = feeOn(money(Number(amount)), terms);
    t.equal(fee, String(quoted), `${object} of ${amount}`);
    fees.push(type);
    return value;
  });
  t.strictSame(new Set(fees), new Set(Object.values(types)));
});

/** The status that each is created with. */
const CREATED_WITH: Readonly<Record<string, string>> = {
  payout: 'PENDING_PROVIDER',
  withdrawal: 'INITIATED',
};

t.test('an example was last changed when it came to its status', (t) => {
  let examples = 0;
  JSON.stringify(openApi, (_, value: unknown) => {
    const { object, status, created_at, updated_at, failure_code } = (value ?? {}) as Record<string, unknown>;
    if (typeof created_at !== 'string' || typeof updated_at !== 'string') return value;
    const ageMs = Date.parse(updated_at) - Date.parse(created_at);
    const what = `${String(object)} ${String(status)}`;
    t.equal(ageMs === 0, status === CREATED_WITH[String(object)], what);
    if (failure_code === 'expired') t.ok(ageMs >= DEFAULT_POLICY.chargeExpiryMs, `${what}, expired`);
    examples++;
    return value;
  });
  t.ok(examples > 20, `${examples} examples`);
  t.end();
});

t.test('each 401 has its challenge', async (t) => {
  const operations = Object.values(openApi.paths).flatMap((methods) => Object.values(methods));
  const unauthorized = operations
    .map(({ responses }) => responses['401'])
    .filter((each) => each !== undefined);
  t.equal(unauthorized.length, operations.length - 1, 'of every route but the document');
  for (const { headers } of unauthorized) {
    t.hasStrict(headers, { 'WWW-Authenticate': { schema: { const: 'Bearer' } } });
  }
});

t.test('each header that every such reply has is required: all but what says that it is a replay', (t) => {
  const optional = new Set<string>();
  const required = new Set<string>();
  for (const { responses } of Object.values(openApi.paths).flatMap((methods) => Object.values(methods))) {
    for (const { headers } of Object.values(responses)) {
      for (const [name, header] of Object.entries(headers)) {
        (header.required === true ? required : optional).add(name);
      }
    }
  }
  t.strictSame([...optional], ['Idempotent-Replayed']);
  t.strictSame([...required].sort(), ['Allow', 'Request-Id', 'Retry-After', 'WWW-Authenticate']);
  t.end();
});

t.test('Retry-After is shown as it is sent: whole seconds, one at least', async (t) => {
  const shown = new Map<string, unknown>();
  for (const { responses } of Object.values(openApi.paths).flatMap((methods) => Object.values(methods))) {
    for (const [status, { headers }] of Object.entries(responses)) {
      const header = headers['Retry-After'];
      if (header === undefined) continue;
      assertSchema(status, header.schema, header.example);
      t.throws(() => assertSchema(status, header.schema, 0), status);
      shown.set(status, header.example);
    }
  }
  t.strictSame([...shown.keys()].sort(), ['429', '503']);
  const busy = await startFront();
  busy.bus.answer = () => ({ type: 'unavailable' });
  t.teardown(() => busy.stop());
  const { status, headers } = await busy.post('/v1/charges', CHARGE);
  t.strictSame([status, headers['retry-after']], [503, String(shown.get('503'))]);
});

t.test('a 405 says what the path takes, as the document has it', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const { status, headers } = await front.post('/openapi.json', {});
  t.strictSame([status, headers['allow']], [405, 'GET, HEAD']);
  t.hasStrict(openApi.paths['/openapi.json']?.['get']?.responses['405']?.headers, {
    Allow: { schema: { type: 'string' } },
  });
});

// [key as it is sent, whether it is taken]
const idempotencyKeys: [string, boolean][] = [
  ['abcdefgh', true],
  ['a bc \\ ~"', true],
  ['x'.repeat(255), true],
  ['abcdefg', false],
  ['x'.repeat(256), false],
  ['abcd\tefgh', false],
  // What HTTP leaves of them is shorter.
  ['        ', false],
  [' abcdefg', false],
  ['abcdefg ', false],
];

t.test('an Idempotency-Key is taken where the document says so, and nowhere else', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const { parameters = [] } = openApi.paths['/v1/charges']!['post']!;
  const { schema } = parameters.find(({ name }) => name === 'Idempotency-Key')!;
  for (const [key, isTaken] of idempotencyKeys) {
    const { status } = await front.post('/v1/charges', CHARGE, { 'Idempotency-Key': key });
    t.equal(status, isTaken ? 201 : 400, JSON.stringify(key));
    const isInDocument = (): void => assertSchema('Idempotency-Key', schema, key);
    if (isTaken) t.doesNotThrow(isInDocument, JSON.stringify(key));
    else t.throws(isInDocument, JSON.stringify(key));
  }
});

// [as it is sent, whether it is taken]
const moments: [string, boolean][] = [
  ['2026-01-01', true],
  ['2026-01-01T00:00', true],
  ['2026-01-01T00:00:00.123456Z', true],
  ['2026-01-01t03:00:00+03:00', true],
  ['0001-01-01T00:00:00Z', true],
  ['2026-01-01 00:00:00Z', false],
  ['2026-01', false],
  ['20260101', false],
  ['1767225600', false],
  ['yesterday', false],
  ['', false],
];

t.test('a time of a list is taken where the document says so, and nowhere else', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  for (const name of ['created_after', 'created_before']) {
    const { parameters = [] } = openApi.paths['/v1/charges']!['get']!;
    const { schema } = parameters.find((each) => each.name === name)!;
    for (const [moment, isTaken] of moments) {
      const { status } = await front.get(`/v1/charges?${name}=${encodeURIComponent(moment)}`);
      t.equal(status, isTaken ? 200 : 400, `${name}=${moment}`);
      const isInDocument = (): void => assertSchema(name, schema, moment);
      if (isTaken) t.doesNotThrow(isInDocument, moment);
      else t.throws(isInDocument, moment);
    }
  }
});

t.test('operations, webhooks among them, have names that are spelled alike', (t) => {
  const operations = [openApi.paths, openApi.webhooks].flatMap(Object.values).flatMap(Object.values);
  const ids = operations.map(({ operationId }) => operationId);
  t.equal(new Set(ids).size, ids.length);
  t.ok(ids.includes('listCharges') && ids.includes('onChargeSuccessful'));
  for (const id of ids) t.match(id, /^[a-z]+(?:[A-Z][a-z]+)+$/);
  t.end();
});

t.test(
  'each object has a name of its own, as generators for Go, Python and PHP need it to make a type',
  (t) => {
    for (const [name, schema] of Object.entries(openApi.components.schemas)) {
      const { properties = {} } = schema as { properties?: Record<string, { type?: string }> };
      for (const [field, { type }] of Object.entries(properties)) t.not(type, 'object', `${name}.${field}`);
    }
    t.end();
  },
);

t.test('what is given may get more fields in the document, what is taken may not', (t) => {
  for (const [name, schema] of Object.entries(openApi.components.schemas)) {
    const { type, additionalProperties } = schema as { type?: string; additionalProperties?: boolean };
    if (type !== 'object') continue;
    t.equal(additionalProperties === false, name.startsWith('Create'), name);
  }
  t.end();
});

t.test('no type that is made of the document hides one of the language', (t) => {
  for (const name of Object.keys(openApi.components.schemas)) t.notOk(name in globalThis, name);
  t.end();
});

t.test('the webhooks are the nine events, each with its body and headers', async (t) => {
  t.strictSame(Object.keys(openApi.webhooks), [
    'charge.successful',
    'charge.failed',
    'charge.reversed',
    'deposit.successful',
    'deposit.failed',
    'payout.successful',
    'payout.failed',
    'withdrawal.successful',
    'withdrawal.failed',
  ]);
  for (const [type, { post }] of Object.entries(openApi.webhooks)) {
    const media = post.requestBody.content['application/json'];
    t.match(
      (media!.schema as Described).$ref,
      /\/(Charge|Deposit|Payout|Withdrawal)[A-Z][a-z]+Event$/,
      'has a name',
    );
    const value = media!.examples?.['event']?.value;
    assertEventMatchesOpenApi(value);
    t.hasStrict(value, { type, object: 'event', data: { object: { object: type.split('.')[0] } } });
    const names = post.parameters.map(({ name }) => name);
    t.match(post.description, /New types may come: answer 2xx to those that you do not know/);
    t.strictSame(names, ['User-Agent', 'Service-Signature', 'Service-Event-Id', 'Service-Event-Type']);
  }
});

t.test(
  'no two examples of webhooks have one id: whoever goes by it would take the second for the first',
  (t) => {
    const ids = new Map<string, string>();
    for (const [type, { post }] of Object.entries(openApi.webhooks)) {
      const value = post.requestBody.content['application/json']!.examples?.['event']?.value as {
        id: string;
        created_at: string;
        data: { object: { id: string; updated_at: string } };
      };
      const { id, created_at, data } = value;
      t.notOk(ids.has(id), `${type} has an id of its own`);
      t.equal(id.slice(4, -2), data.object.id.slice(4, -2), 'which is derived from its object');
      t.equal(created_at, data.object.updated_at, 'as it came to its status');
      ids.set(id, type);
    }
    const [timeline] = examplesOf(openApi).filter(({ where }) => where.includes('/{id}/timeline'));
    const { events } = timeline!.value as { events: readonly { id: string; status: string }[] };
    t.equal(ids.get(events.find(({ status }) => status === 'SUCCESSFUL')!.id), 'charge.successful');
    t.end();
  },
);

t.test(
  'what has one value says so to generators that know const, and to those that know lists of names',
  (t) => {
    const names = new Set<string>();
    for (const schema of Object.values(openApi.components.schemas)) {
      const { properties = {} } = schema as {
        properties?: Record<string, { const?: string; enum?: string[] }>;
      };
      for (const { const: only, enum: listed = [] } of Object.values(properties)) {
        if (only === undefined) continue;
        t.strictSame(listed, [only], only);
        names.add(only);
      }
    }
    for (const type of Object.keys(openApi.webhooks)) t.ok(names.has(type), `${type} is told by its type`);
    t.end();
  },
);

t.test('every error code of a route stands under its status, with what it means', async (t) => {
  for (const route of merchantSurface([]).routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    const operation = openApi.paths[path]?.[route.method.toLowerCase()];
    for (const code of errorCodesOf(route)) {
      const { status, meaning, mend } = ERROR_CODES[code];
      const reply = operation?.responses[String(status)] as { description?: string } | undefined;
      t.ok(reply?.description?.includes(`\`${code}\`: ${meaning} ${mend}`), `${route.operationId}: ${code}`);
    }
  }
});

t.test('every code is of some route, or of none for a reason', async (t) => {
  const named = new Set(merchantSurface([]).routes.flatMap(errorCodesOf));
  const elsewhere: ErrorCode[] = [
    'not_found', // no route
    'not_permitted', // the operator API's
    'conflict',
  ];
  t.strictSame(
    Object.keys(ERROR_CODES).filter((code) => !named.has(code as ErrorCode)),
    Object.keys(ERROR_CODES).filter((code) => elsewhere.includes(code as ErrorCode)),
  );
});

t.test('it is served to anybody, as it is', async (t) => {
  const front = await startFront();
  t.teardown(() => front.stop());
  const answer = await front.get('/openapi.json', { Authorization: null });
  t.equal(answer.status, 200);
  t.equal(answer.headers['content-type'], 'application/json');
  t.strictSame(answer.body, openApi);
});
