// The OpenAPI 3.1 document of a surface, made from its registry: nothing in it is written a second time. Schemas with a
// title become components. Routes of the callbacks are left out: they are between us and the providers.

import type { TSchema } from './json-schema.ts';
import { assert } from '../domain/assert.ts';
import { ERROR_CODES, type ErrorCode } from '../domain/error-code.ts';
import { deriveId } from '../domain/id.ts';
import type { EventType } from '../domain/webhook-message.ts';
import * as examples from './examples.ts';
import { JSON_TYPE, type Route, type Surface } from './route.ts';
import { ErrorReply, eventSchema, IdempotencyKey, pascalCase } from './schemas.ts';

type Json = Record<string, unknown>;

export interface DocumentInfo {
  readonly title: string;
  readonly description: string;
  /** What bearer token to send. */
  readonly token: string;
  /** Description of each tag that the routes use. */
  readonly tags: Readonly<Record<string, string>>;
  readonly hasWebhooks: boolean;
}

/** The version in the path. */
const VERSION = '1.0.0';

const REQUEST_ID = 'req_7M2N9X5T6V1B000000000000R7';

/** Errors that every route of a kind can answer, before those the route names itself. */
const COMMON_ERRORS = {
  create: [
    'invalid_json',
    'validation_failed',
    'idempotency_key_required',
    'idempotency_key_invalid',
    'authentication_required',
    'invalid_api_key',
    'secret_key_required',
    'live_mode_not_enabled',
    'body_too_large',
    'unsupported_media_type',
    'idempotency_key_reused',
    'service_unavailable',
  ],
  read: [
    'authentication_required',
    'invalid_api_key',
    'secret_key_required',
    'live_mode_not_enabled',
    'service_unavailable',
  ],
  plain: ['service_unavailable'],
  raw: [],
} as const satisfies Record<Route['type'], readonly ErrorCode[]>;

/** Every error code that a route may answer, in the order of the table of codes. */
export function errorCodesOf(route: Route): ErrorCode[] {
  const codes = new Set<ErrorCode>([...COMMON_ERRORS[route.type], ...route.errors]);
  if (route.type === 'read' && route.query !== null) {
    codes.add('unknown_parameter').add('validation_failed');
    if ('starting_after' in route.query.properties) codes.add('invalid_cursor');
  }
  if (route.type === 'plain') {
    if (route.authorised) codes.add('authentication_required').add('invalid_api_key');
    if (route.query !== null) codes.add('unknown_parameter').add('validation_failed');
    if (route.body !== null) {
      codes.add('invalid_json').add('validation_failed').add('unsupported_media_type');
    }
    // Also of one that is passed over.
    if (route.method !== 'GET') codes.add('body_too_large');
    for (const { notFound } of Object.values(route.parameters)) codes.add(notFound);
  }
  return (Object.keys(ERROR_CODES) as ErrorCode[]).filter((code) => codes.has(code));
}

export function openApiDocument(surface: Surface, info: DocumentInfo): Json {
  const components = new Components();
  const routes = surface.routes.filter((route) => route.type !== 'raw');
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    (paths[path] ??= {})[route.method.toLowerCase()] = operationOf(route, components);
  }
  const webhooks = info.hasWebhooks ? { webhooks: webhooksOf(components) } : {};
  return {
    openapi: '3.1.0',
    info: {
      title: info.title,
      version: VERSION,
      description: info.description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    // Relative to where the document was fetched from.
    servers: [{ url: '/' }],
    tags: Object.entries(info.tags).map(([name, description]) => ({ name, description })),
    paths,
    ...webhooks,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: info.token } },
      schemas: components.schemas,
    },
  };
}

// ---- Operations

function operationOf(route: Route, components: Components): Json {
  const open = route.type === 'plain' && !route.authorised;
  return {
    operationId: route.operationId,
    tags: [route.tag],
    summary: route.summary,
    description: route.description,
    security: open ? [] : [{ bearer: [] }],
    ...parametersOf(route, components),
    ...bodyOf(route, components),
    responses: {
      [route.reply.status]: successOf(route, components),
      ...errorsOf(route, components),
    },
  };
}

function parametersOf(route: Route, components: Components): Json {
  const parameters: Json[] = Object.entries(route.parameters).map(([name, { schema }]) => ({
    name,
    in: 'path',
    required: true,
    ...described(schema, components),
  }));
  if (route.type === 'create') {
    parameters.push({
      name: 'Idempotency-Key',
      in: 'header',
      required: true,
      ...described(IdempotencyKey, components),
      example: '5f0c8a52-3c1e-4b52-9d0e-1f6f1c5c8c11',
    });
  }
  if (route.type === 'plain' && route.authorised && route.method !== 'GET') parameters.push(operatorHeader());
  if ((route.type === 'read' || route.type === 'plain') && route.query !== null) {
    const properties: Readonly<Record<string, TSchema>> = route.query.properties;
    for (const [name, schema] of Object.entries(properties)) {
      parameters.push({ name, in: 'query', required: false, ...described(schema, components) });
    }
  }
  return parameters.length === 0 ? {} : { parameters };
}

/** For the audit log: of changes alone. */
function operatorHeader(): Json {
  return {
    name: 'Operator',
    in: 'header',
    required: false,
    description:
      'Who makes the change, as the audit log names them: printable ASCII, of which 64 characters are kept. ' +
      'Without it: `operator`.',
    schema: { type: 'string' },
    example: 'amina',
  };
}

function described(schema: TSchema, components: Components): Json {
  const { description } = schema as { description?: string };
  return { ...(description === undefined ? {} : { description }), schema: components.emit(schema) };
}

function bodyOf(route: Route, components: Components): Json {
  if ((route.type !== 'create' && route.type !== 'plain') || route.body === null) return {};
  return {
    requestBody: {
      required: true,
      content: {
        [JSON_TYPE]: { schema: components.emitTaken(route.body), examples: valuesOf(route.bodyExamples) },
      },
    },
  };
}

function successOf(route: Route, components: Components): Json {
  const { description, contentType, schema, examples: shown } = route.reply;
  return {
    description,
    headers: {
      ...requestIdHeader(),
      ...(route.type === 'create' ? replayedHeader() : {}),
    },
    content: { [contentType]: { schema: components.emit(schema), examples: valuesOf(shown) } },
  };
}

function errorsOf(route: Route, components: Components): Record<string, Json> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of errorCodesOf(route)) {
    const { status } = ERROR_CODES[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    Array.from(byStatus, ([status, codes]) => [status, errorReply(route, codes, components)]),
  );
}

function errorReply(route: Route, codes: readonly ErrorCode[], components: Components): Json {
  const lines = codes.map((code) => `- \`${code}\`: ${ERROR_CODES[code].meaning} ${ERROR_CODES[code].mend}`);
  return {
    description: `${route.type === 'create' ? 'Nothing was created.\n\n' : ''}${lines.join('\n')}`,
    headers: {
      ...requestIdHeader(),
      ...(codes.includes('rate_limit_exceeded') ? retryAfterHeader(RATE_LIMITED) : {}),
      ...(codes.includes('service_unavailable') ? retryAfterHeader(UNAVAILABLE_NOW) : {}),
      ...(codes.some((code) => ERROR_CODES[code].status === 401) ? challengeHeader() : {}),
      ...(codes.includes('method_not_allowed') ? allowHeader() : {}),
    },
    content: {
      [JSON_TYPE]: {
        schema: components.emit(ErrorReply),
        examples: Object.fromEntries(codes.map((code) => [code, { value: errorExample(route, code) }])),
      },
    },
  };
}

function errorExample(route: Route, code: ErrorCode): Json {
  const param = faultOf(code, namesOf(route));
  return { error: { code, message: ERROR_CODES[code].meaning, param, request_id: REQUEST_ID } };
}

/** What `param` says of a code: the first of these that the route takes; null where it takes none. */
const FAULTS: Readonly<Partial<Record<ErrorCode, readonly string[]>>> = {
  invalid_cursor: ['starting_after'],
  not_permitted: ['by'],
  invalid_msisdn: ['msisdn'],
  network_required: ['network'],
  network_not_supported: ['network', 'destination'],
  currency_mismatch: ['currency'],
  amount_below_minimum: ['amount'],
  amount_above_maximum: ['amount'],
  daily_limit_exceeded: ['amount'],
  monthly_limit_exceeded: ['amount'],
  destination_not_active: ['destination'],
  destination_not_found: ['destination'],
};
const UNKNOWN_NAME = 'page';

/** `names`: what the route takes. */
function faultOf(code: ErrorCode, names: readonly string[]): string | null {
  if (code === 'unknown_parameter') return UNKNOWN_NAME;
  if (code === 'validation_failed') return names[0] ?? UNKNOWN_NAME;
  return FAULTS[code]?.find((name) => names.includes(name)) ?? null;
}

/** Fields of its body and parameters of its query. */
function namesOf(route: Route): string[] {
  const body = route.type === 'create' || route.type === 'plain' ? route.body : null;
  const query = route.type === 'read' || route.type === 'plain' ? route.query : null;
  return [body, query].flatMap((schema) => Object.keys(schema?.properties ?? {}));
}

function valuesOf(shown: Readonly<Record<string, unknown>>): Json {
  return Object.fromEntries(Object.entries(shown).map(([name, value]) => [name, { value }]));
}

// Required: those that every such reply has. A type made of one that is not may be undefined.
function requestIdHeader(): Json {
  return { 'Request-Id': { description: 'Id of this request.', required: true, schema: { type: 'string' } } };
}
function replayedHeader(): Json {
  return {
    'Idempotent-Replayed': {
      description:
        'Set when this is the stored answer of an earlier request with the same Idempotency-Key. You may have sent it once: ' +
        'where an answer is lost between our nodes, the request is handed on again.',
      schema: { type: 'string', const: 'true' },
    },
  };
}
/** Of the minute that an account's requests are counted in what is left, rounded up. */
const RATE_LIMITED = { description: 'Seconds until one more is taken: 60 at most.', example: 17 };
/** Nobody knows how long it will be. */
const UNAVAILABLE_NOW = { description: 'Seconds to wait, at least, before it is tried again.', example: 1 };

function retryAfterHeader(said: { readonly description: string; readonly example: number }): Json {
  return { 'Retry-After': { ...said, required: true, schema: { type: 'integer', minimum: 1 } } };
}
function allowHeader(): Json {
  return {
    Allow: { description: 'The methods that the path takes.', required: true, schema: { type: 'string' } },
  };
}
function challengeHeader(): Json {
  return {
    'WWW-Authenticate': {
      description: 'How to authenticate.',
      required: true,
      schema: { type: 'string', const: 'Bearer' },
    },
  };
}

// ---- Webhooks

/** `before`: the statuses that the object had until then, of which the event's id comes. */
const EVENT_EXAMPLES = {
  'charge.successful': { object: examples.chargeSuccessful, before: 3 },
  'charge.failed': { object: examples.chargeFailed, before: 3 },
  'charge.reversed': { object: examples.chargeReversed, before: 4 },
  'deposit.successful': { object: examples.depositSuccessful, before: 3 },
  'deposit.failed': { object: examples.depositFailed, before: 3 },
  'payout.successful': { object: examples.payoutSuccessful, before: 2 },
  'payout.failed': { object: examples.payoutFailed, before: 2 },
  'withdrawal.successful': { object: examples.withdrawalSuccessful, before: 2 },
  'withdrawal.failed': { object: examples.withdrawalFailed, before: 1 },
} as const satisfies Record<EventType, object>;

function webhooksOf(components: Components): Record<string, Json> {
  return Object.fromEntries(
    (Object.keys(EVENT_EXAMPLES) as EventType[]).map((type) => [type, { post: webhookOf(type, components) }]),
  );
}

function webhookOf(type: EventType, components: Components): Json {
  const [kind, outcome] = type.split('.');
  return {
    operationId: `on${pascalCase(type)}`,
    tags: ['Webhooks'],
    summary: `A ${kind} is ${outcome === 'reversed' ? 'reversed' : `final: ${outcome}`}`,
    description:
      'POSTed to the webhook URL of the app. Answer 2xx within 10 seconds, or it is tried again: 8 attempts in all, ' +
      'over about 25 hours. Deliveries may be repeated and out of order: deduplicate on `id`, and never move an order ' +
      'backwards. New types may come: answer 2xx to those that you do not know.',
    security: [],
    parameters: webhookHeaders(type),
    requestBody: {
      required: true,
      content: {
        [JSON_TYPE]: {
          schema: components.emit(eventSchema(type)),
          examples: { event: { value: eventExample(type) } },
        },
      },
    },
    responses: {
      '2XX': { description: 'Delivered. The body is ignored.' },
      default: { description: 'Not delivered, tried again. Redirects are not followed.' },
    },
  };
}

function eventExample(type: EventType): Json {
  const { object, before } = EVENT_EXAMPLES[type];
  return {
    id: deriveId('event', object.id, before),
    object: 'event',
    type,
    created_at: object.updated_at,
    data: { object },
  };
}

function webhookHeaders(type: EventType): Json[] {
  const header = (name: string, description: string, schema: Json): Json => ({
    name,
    in: 'header',
    required: true,
    description,
    schema,
  });
  return [
    header('User-Agent', 'Always the same.', { type: 'string', const: 'Service-Webhooks/1.0' }),
    header(
      'Service-Signature',
      '`t=<unix timestamp>,v1=<hex HMAC-SHA256>`: of `t`, a dot and the raw body, keyed with the whole signing ' +
        'secret. Reject a `t` more than 300 seconds off.',
      { type: 'string', pattern: '^t=\\d+,v1=[0-9a-f]{64}$' },
    ),
    header('Service-Event-Id', 'The `id` of the event.', { type: 'string' }),
    header('Service-Event-Type', 'The `type` of the event.', { type: 'string', const: type }),
  ];
}

// ---- Components

class Components {
  readonly schemas: Record<string, unknown> = {};
  readonly #sources = new Map<string, string>();

  /** JSON Schema of what is given, in which every titled schema is a reference to its component. It is open: fields may be added, and
   *  whoever goes by the document of today does not refuse them. */
  emit(schema: unknown): unknown {
    return this.#emit(schema, false);
  }

  /** The same of what is taken: no other fields are. */
  emitTaken(schema: unknown): unknown {
    return this.#emit(schema, true);
  }

  #emit(schema: unknown, isTaken: boolean): unknown {
    if (Array.isArray(schema)) return schema.map((item) => this.#emit(item, isTaken));
    if (typeof schema !== 'object' || schema === null) return schema;
    if ('x-shown' in schema) return this.#emit(schema['x-shown'], isTaken);
    const title = 'title' in schema && typeof schema.title === 'string' ? schema.title : null;
    if (title === null) return this.#inner(schema, isTaken);
    const source = JSON.stringify([schema, 'additionalProperties' in schema && isTaken]);
    const known = this.#sources.get(title);
    assert(known === undefined || known === source, `one schema has the title ${title}`);
    if (known === undefined) {
      this.#sources.set(title, source);
      this.schemas[title] = this.#inner(schema, isTaken);
    }
    return { $ref: `#/components/schemas/${title}` };
  }

  #inner(schema: object, isTaken: boolean): Json {
    const shown = Object.entries(asShown(schema as Json)).filter(
      ([name, value]) => isTaken || name !== 'additionalProperties' || value !== false,
    );
    return Object.fromEntries(
      shown.map(([name, value]) => [
        name,
        // Values of these are data or names, not schemas.
        name === 'enum' || name === 'required' || name === 'const'
          ? value
          : this.#member(name, value, isTaken),
      ]),
    );
  }

  #member(name: string, value: unknown, isTaken: boolean): unknown {
    if (name !== 'properties' || typeof value !== 'object' || value === null) {
      return this.#emit(value, isTaken);
    }
    return Object.fromEntries(
      Object.entries(value).map(([property, inner]) => [property, this.#emit(inner, isTaken)]),
    );
  }
}

/** What only our validator knows: the patterns and descriptions beside them say the same. */
const OUR_FORMATS: readonly unknown[] = ['amount', 'cursor', 'moment'];

/**
 * A schema without what is ours alone, and, where it has names and null, an object or many types, with each type by itself:
 * strict validators refuse the other form, and of what generators make of it some does not compile, takes no number or is
 * never null. What has one value is a list of one name, too: a generator that does not know `const` tells no event from
 * another by its type.
 */
function asShown({ 'x-rule': _, ...schema }: Json): Json {
  if (OUR_FORMATS.includes(schema['format'])) delete schema['format'];
  if ('const' in schema) schema['enum'] = [schema['const']];
  const { type, enum: names, maxLength, title, description, ...rest } = schema;
  if (!Array.isArray(type)) return schema;
  const isObject = type.includes('object');
  if (type.length === 2 && names === undefined && !isObject) return schema;
  assert(
    isObject || Object.keys(rest).length === 0,
    'each of several types is shown with all that is said of it',
  );
  const ofText = {
    ...(Array.isArray(names) && { enum: names.filter((name) => name !== null) }),
    ...(maxLength !== undefined && { maxLength }),
  };
  const anyOf = type.map((each: unknown) => ({
    type: each,
    ...(each === 'string' && ofText),
    ...(each === 'object' && rest),
  }));
  return { ...(title !== undefined && { title }), ...(description !== undefined && { description }), anyOf };
}
