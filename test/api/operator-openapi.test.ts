// The operators' OpenAPI document can be read as their reference, and made a client of: a public linter finds nothing, every operation
// says what it does and who may, what it takes and gives has names and examples, and changes are those that are audited.

import { join } from 'node:path';
import t from 'tap';
import {
  assertOperatorSchema,
  assertStrictSchemas,
  examplesOf,
  linterSays,
  type OpenApiDocument,
} from './openapi-check.ts';
import { startOperator } from './operator-harness.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const operator = await startOperator(temporaryDirectory(t));
t.teardown(() => operator.stop());
const document = operator.document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
);

t.test('a public linter finds nothing', async (t) => {
  const said = await linterSays(document, join(temporaryDirectory(t), 'operator.json'));
  t.match(said, /is valid/);
  t.notMatch(said, /\bwarnings?\b/i);
});

t.test('each operation says what it is for, what it does and who may', (t) => {
  for (const { operationId, path, summary, description } of operations) {
    t.match(summary, /^[A-Z].{8,}[^.]$/, operationId);
    if (path === '/openapi.json') continue;
    t.match(description, /^[^\n]{40,}[.]\n\nWho may: [^\n]{10,}[.]$/, operationId);
  }
  t.end();
});

t.test('what is to be called next is an operation', (t) => {
  const ids = new Set(operations.map(({ operationId }) => operationId));
  const named = operations.flatMap(({ description }) =>
    Array.from(description.matchAll(/`([a-z]+[A-Z]\w+)`/g), ([, name = '']) => name),
  );
  t.ok(named.includes('connectApp'));
  t.strictSame(
    named.filter((name) => !ids.has(name)),
    [],
  );
  t.end();
});

t.test('of a revoked wallet it is said that what waits for approval keeps its money on hold', (t) => {
  const revoke = operations.find(({ operationId }) => operationId === 'revokeWallet');
  t.match(revoke?.description, /wait for approval keep their money on hold: `rejectWithdrawal` returns it\./);
  t.end();
});

t.test('a read says that it changes nothing; a change may say who makes it, for the audit log', (t) => {
  for (const { operationId, path, method, description, parameters = [] } of operations) {
    const isRead = method === 'get' || operationId === 'revealSigningSecret';
    if (path !== '/openapi.json') t.equal(description.startsWith('Changes nothing'), isRead, operationId);
    const names = parameters.map(({ name }) => name);
    t.equal(names.includes('Operator'), method !== 'get', operationId);
  }
  t.end();
});

t.test('what a member has to be is said where `by` names one', (t) => {
  for (const { operationId, description, parameters = [], requestBody } of operations) {
    const taken = requestBody?.content['application/json']?.schema ?? {};
    const fields = Object.keys(resolved(document, taken).properties ?? {});
    const takesBy = [...fields, ...parameters.map(({ name }) => name)].includes('by');
    // Here it is no member.
    if (operationId === 'resolveReconciliation') continue;
    t.equal(/Who may: .*(?:`by`)/.test(description), takesBy, operationId);
  }
  t.end();
});

t.test('what is sent and answered has examples, which are what their schemas say', (t) => {
  for (const { operationId, requestBody, responses } of operations) {
    const bodies = [requestBody, ...Object.values(responses)];
    for (const media of bodies.flatMap((body) => Object.values(body?.content ?? {}))) {
      t.not(Object.keys(media.examples ?? {}).length, 0, operationId);
    }
  }
  for (const { where, schema, value } of examplesOf(document)) {
    t.doesNotThrow(() => assertOperatorSchema(document, where, schema, value), where);
  }
  t.doesNotThrow(() => assertStrictSchemas(document));
  t.end();
});

t.test('each object has a name of its own, as generators need it to make a type', (t) => {
  for (const { operationId, requestBody, responses } of operations) {
    for (const media of [requestBody, ...Object.values(responses)].flatMap((body) =>
      Object.entries(body?.content ?? {}),
    )) {
      const [type, { schema }] = media;
      if (type === 'application/json') t.ok('$ref' in schema, operationId);
    }
  }
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    const { properties = {} } = schema as Schema;
    t.strictSame(anonymousIn(properties), [], name);
    for (const [field, property] of Object.entries(properties)) {
      t.not(JSON.stringify(property), '{}', `${name}.${field} is described`);
    }
  }
  t.end();
});

interface Schema {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, unknown>>;
}

function resolved({ components }: OpenApiDocument, schema: Schema): Schema {
  return (components.schemas[schema.$ref?.split('/').at(-1) ?? ''] ?? schema) as Schema;
}

function anonymousIn(properties: object): unknown[] {
  const found: unknown[] = [];
  JSON.stringify(properties, (_, value: unknown) => {
    if (typeof value === 'object' && value !== null && 'properties' in value) found.push(value);
    return value;
  });
  return found;
}
