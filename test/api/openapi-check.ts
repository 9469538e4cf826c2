// Whether a reply is what the OpenAPI document says. Everything a test of the API gets back should pass through here.

import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { ERROR_CODES, type ErrorCode } from '../../src/domain/error-code.ts';
import { merchantSurface } from '../../src/http/routes.ts';
import type { PlainRequest } from '../../src/http/route.ts';

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: object;
}
interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly parameters?: readonly Parameter[];
  readonly responses: Readonly<Record<string, OperationReply>>;
}
interface OperationReply {
  readonly headers: Readonly<Record<string, Header>>;
  readonly content?: Readonly<Record<string, Media>>;
}
interface Header {
  readonly required?: boolean;
  readonly schema: { readonly type: string };
  readonly example?: unknown;
}
interface Media {
  readonly schema: { readonly $ref?: string };
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}
export interface OpenApiDocument {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly webhooks: Readonly<
    Record<
      string,
      {
        readonly post: {
          readonly operationId: string;
          readonly description: string;
          readonly parameters: readonly Parameter[];
          readonly requestBody: { content: Record<string, Media> };
        };
      }
    >
  >;
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> };
}

/** The document as the service serves it. */
export const openApi: OpenApiDocument = (() => {
  const route = merchantSurface([]).routes.find(({ path }) => path === '/openapi.json');
  if (route?.type !== 'plain') throw new Error('there is no /openapi.json');
  const answer = route.handle({} as PlainRequest);
  if (answer instanceof Promise || answer.type !== 'body') throw new Error('/openapi.json has no body');
  return JSON.parse(answer.body) as OpenApiDocument;
})();

const ROOT = join(import.meta.dirname, '../..');
const DOCUMENT = 'https://daftari.test/openapi.json';
const OPERATOR_DOCUMENT = 'https://daftari.test/operator/openapi.json';
/** Of RFC 3339, as JSON Schema has it. */
const DATE_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/i;
const ajv = new Ajv2020({ strict: false, allErrors: true, formats: { 'date-time': DATE_TIME } });
ajv.addSchema({ $id: DOCUMENT, components: closed(openApi.components) });
const validators = new Map<string, ValidateFunction>();

/** `path`: as requested, with or without its query. Throws when the reply is not in the document. */
export function assertMatchesOpenApi(method: string, path: string, status: number, body: unknown): void {
  const [bare = ''] = path.split('?');
  const { template, operation } = operationOf(openApi, method, bare);
  if (operation === undefined) {
    // What no route matched: the error body is all there is to say.
    if (status !== 404 && status !== 405) throw new Error(`${method} ${bare} is not in the document`);
    assertSchema('ErrorReply', { $ref: '#/components/schemas/ErrorReply' }, body);
    return;
  }
  const where = `${method} ${template} ${status}`;
  const media = operation.responses[String(status)]?.content?.['application/json'];
  if (media === undefined) throw new Error(`${where} is not in the document: ${JSON.stringify(body)}`);
  assertSchema(where, media.schema, body);
  if (status < 400) return;
  assertKnownCode(where, media, status, body);
  assertFaultAsShown(where, media, body);
}

/** Our headers, whatever the document says. */
const HEADERS = ['Request-Id', 'Idempotent-Replayed', 'Retry-After', 'WWW-Authenticate', 'Allow'];

/** The same for its headers: all that the document requires of such a reply are there, and none that it does not have. */
export function assertHeadersMatchOpenApi(
  method: string,
  path: string,
  status: number,
  headers: Headers,
): void {
  const [bare = '', query] = path.split('?');
  const { template, operation } = operationOf(openApi, method, bare);
  if (operation === undefined) return;
  const where = `${method} ${template} ${status}`;
  for (const name of HEADERS) {
    const value = headers.get(name);
    const header = operation.responses[String(status)]?.headers[name];
    if (value === null && header?.required !== true) continue;
    if (value === null) throw new Error(`${where}: no ${name}`);
    if (header === undefined) throw new Error(`${where}: ${name} is not in the document`);
    const { schema } = header;
    assertSchema(`${where}: ${name}`, schema, schema.type === 'integer' ? Number(value) : value);
  }
  if (status >= 400) return;
  const sent = new URLSearchParams(query);
  for (const parameter of operation.parameters ?? []) {
    if (parameter.in !== 'query' || !parameter.required || sent.has(parameter.name)) continue;
    throw new Error(`${where}: answered without ${parameter.name}`);
  }
}

/** The same for a reply of the operator API, whose document is the one that it serves; and for what was sent, if it was taken. */
export function assertMatchesOperatorApi(
  document: OpenApiDocument,
  method: string,
  path: string,
  sent: unknown,
  { status, body }: { readonly status: number; readonly body: unknown },
): void {
  const [bare = ''] = path.split('?');
  const { template, operation } = operationOf(document, method, bare);
  if (operation === undefined) return;
  const where = `${method} ${template} ${status}`;
  const content = operation.responses[String(status)]?.content;
  if (content === undefined) throw new Error(`${where} is not in the document: ${JSON.stringify(body)}`);
  const taken = operation.requestBody?.content['application/json'];
  if (status < 300 && taken !== undefined) {
    assertOperatorSchema(document, `${where}: sent`, taken.schema, sent);
  }
  const media = content['application/json'];
  if (media === undefined) return;
  assertOperatorSchema(document, where, media.schema, body);
  if (status >= 400) assertKnownCode(where, media, status, body);
}

/** `schema`: of the operators' document, with its references. */
export function assertOperatorSchema(
  document: OpenApiDocument,
  where: string,
  schema: object,
  value: unknown,
): void {
  if (ajv.getSchema(OPERATOR_DOCUMENT) === undefined) {
    ajv.addSchema({ $id: OPERATOR_DOCUMENT, components: closed(document.components) });
  }
  assertSchema(where, schema, value, OPERATOR_DOCUMENT);
}

/** That a strict validator takes every schema, and that null stands beside names and objects, as generators of types have it. */
export function assertStrictSchemas(document: OpenApiDocument): void {
  const strict = new Ajv2020({ strict: true, formats: { 'date-time': true } });
  strict.addVocabulary(['components']);
  strict.addSchema({ $id: 'https://daftari.test/strict.json', components: document.components });
  for (const source of new Set(schemasOf(document).map((schema) => JSON.stringify(schema)))) {
    strict.compile(JSON.parse(source.replaceAll('"#/', '"https://daftari.test/strict.json#/')) as object);
    if (/"enum":\[[^\]]*,null\]|"type":\["object","null"\]/.test(source)) throw new Error(source);
  }
}

/** Those of the components, and those that stand where they are used. */
function schemasOf(document: OpenApiDocument): object[] {
  const schemas: object[] = [];
  JSON.stringify(document, (name, value: unknown) => {
    if (name === 'schema') schemas.push(value as object);
    if (name === 'schemas') schemas.push(...Object.values(value as Record<string, object>));
    return value;
  });
  return schemas;
}

/** What a public linter says of it. */
export async function linterSays(document: OpenApiDocument, file: string): Promise<string> {
  writeFileSync(file, JSON.stringify(document, null, 1));
  const { stderr } = await promisify(execFile)(
    process.execPath,
    [join(ROOT, 'node_modules/.bin/redocly'), 'lint', '--max-problems', '1000', file],
    {
      cwd: ROOT,
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', CI: 'true' },
    },
  );
  return stderr;
}

/** Each example of a body that is sent or answered, with what it is an example of. */
export function examplesOf(
  document: OpenApiDocument,
): { readonly where: string; readonly schema: object; readonly value: unknown }[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { requestBody, responses }]) =>
      [requestBody, ...Object.values(responses)]
        .flatMap((body) => Object.values(body?.content ?? {}))
        .flatMap(({ schema, examples = {} }) =>
          Object.entries(examples).map(([name, { value }]) => ({
            where: `${method} ${path}: example ${name}`,
            schema,
            value,
          })),
        ),
    ),
  );
}

function operationOf(
  document: OpenApiDocument,
  method: string,
  path: string,
): {
  readonly template: string | undefined;
  readonly operation: Operation | undefined;
} {
  const template = Object.keys(document.paths).find((known) => patternOf(known).test(path));
  const operation = template === undefined ? undefined : document.paths[template]?.[method.toLowerCase()];
  return { template, operation };
}

/** A webhook's body, whatever its type. */
export function assertEventMatchesOpenApi(event: unknown): void {
  const { type } = event as { type: string };
  const media = openApi.webhooks[type]?.post.requestBody.content['application/json'];
  if (media === undefined) throw new Error(`${type} is not in the document's webhooks`);
  assertSchema(type, media.schema, event);
}

/** A webhook's body and its headers, by their names in lower case. */
export function assertDeliveryMatchesOpenApi(
  event: unknown,
  headers: Readonly<Record<string, unknown>>,
): void {
  assertEventMatchesOpenApi(event);
  const { type } = event as { type: string };
  for (const { name, schema } of openApi.webhooks[type]!.post.parameters) {
    assertSchema(`${type}: ${name}`, schema, headers[name.toLowerCase()]);
  }
}

/** `schema`: of the document, with its references. */
export function assertSchema(where: string, schema: object, value: unknown, document = DOCUMENT): void {
  const source = JSON.stringify(schema).replaceAll('"#/', `"${document}#/`);
  let validate = validators.get(source);
  if (validate === undefined) {
    validate = ajv.compile(closed(JSON.parse(source)) as object);
    validators.set(source, validate);
  }
  if (!validate(value)) {
    throw new Error(`${where}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value, null, 1)}`);
  }
}

/** The document leaves room for fields to come; what is given today it names. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const inner = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]));
  return inner['type'] === 'object' && 'properties' in inner
    ? { additionalProperties: false, ...inner }
    : inner;
}

function assertKnownCode(where: string, media: Media, status: number, body: unknown): void {
  const { code } = errorOf(body);
  if (ERROR_CODES[code].status !== status) throw new Error(`${where}: ${code} has another status`);
  if (media.examples?.[code] === undefined) throw new Error(`${where}: the document does not name ${code}`);
}

function errorOf(body: unknown): { readonly code: ErrorCode; readonly param: string | null } {
  return (body as { error: { code: ErrorCode; param: string | null } }).error;
}

/** An example that names the field at fault stands for answers that do. */
function assertFaultAsShown(where: string, media: Media, body: unknown): void {
  const { code, param } = errorOf(body);
  const shown = errorOf(media.examples?.[code]?.value).param;
  if ((shown === null) !== (param === null)) {
    throw new Error(`${where}: ${code} has the param ${param}, and ${shown} in the document`);
  }
}

function patternOf(template: string): RegExp {
  return new RegExp(`^${template.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}
