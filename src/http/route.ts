// What a route is: one entry gives the router, the validation, the types and the OpenAPI document. A surface is a set of
// routes that one server serves; merchants' and operators' differ in their tables only.
//
// Four kinds of route: `create` and `read` go over the bus to the account that the key names (the hot paths); `plain`
// is answered by a function here (operator API, health, the document); `raw` takes whatever is sent (callbacks).

import type { Static, TObject, TSchema } from './json-schema.ts';
import type { Reply } from '../bus/bus.ts';
import type { ByMerchant, CreateCommand, MerchantQuery } from '../domain/account-command.ts';
import { rejection, type ErrorCode, type Rejection } from '../domain/error-code.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface PathParameter {
  readonly schema: TSchema & { readonly pattern: string };
  /** Answered, in its place in the order of checks, when the path has something that cannot be an id. */
  readonly notFound: ErrorCode;
}

interface RouteFacts {
  readonly method: Method;
  /** With ":name" for parameters; a raw route may end in "*". */
  readonly path: string;
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  /** In the order of the path. */
  readonly parameters: Readonly<Record<string, PathParameter>>;
  readonly reply: {
    readonly status: 200 | 201;
    readonly description: string;
    readonly contentType: string;
    readonly schema: TSchema;
    /** By name. */
    readonly examples: Readonly<Record<string, unknown>>;
  };
  /** Beyond those of every route of its kind (openapi.ts adds them). */
  readonly errors: readonly ErrorCode[];
}

/** A call that creates one object: bearer key, Idempotency-Key, JSON body. */
export interface CreateRoute extends RouteFacts {
  readonly type: 'create';
  readonly creates: CreateCommand['type'];
  readonly body: TObject;
  readonly bodyExamples: Readonly<Record<string, unknown>>;
}

/** What a read knows when it becomes a message. */
export interface ReadCall<Query> extends ByMerchant {
  /** The path's parameter; "" where there is none. */
  readonly id: string;
  readonly query: Query;
}

export interface ReadRoute extends RouteFacts {
  readonly type: 'read';
  /** Null: the query is not looked at. Otherwise a parameter it does not name is refused. */
  readonly query: TObject | null;
  /** It waits in line (list-line.ts). */
  readonly isList?: true;
  readonly message: (call: ReadCall<Record<string, unknown>>) => MerchantQuery;
}

export interface PlainRequest<Body = unknown, Query = unknown> {
  /** As sent, without the query. */
  readonly path: string;
  /** As sent, checked against their patterns. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly query: Query;
  /** Null when the route takes none. */
  readonly body: Body;
  /** The `Operator` header: who acts, as they say; null without one. */
  readonly operator: string | null;
  readonly requestId: string;
  /** Milliseconds since 1970: past it the caller is cut off, whatever is answered. */
  readonly deadline: number;
}

export type Answer =
  | {
      readonly type: 'body';
      readonly status: number;
      readonly contentType: string;
      readonly body: string;
    }
  | { readonly type: 'rejected'; readonly rejection: Rejection }
  /** Nobody can say what became of it: the connection is closed without a status. */
  | { readonly type: 'unknown' };

export const JSON_TYPE = 'application/json';

export function jsonAnswer(status: number, body: string): Answer {
  return { type: 'body', status, contentType: JSON_TYPE, body };
}

/** The answer that a reply of the bus amounts to. */
export function answerOf(reply: Reply, status: number): Answer {
  switch (reply.type) {
    case 'done':
      return jsonAnswer(status, reply.body);
    case 'rejected':
      return reply;
    case 'unavailable':
      return { type: 'rejected', rejection: UNAVAILABLE };
    case 'unknown':
      return reply;
  }
}

export const UNAVAILABLE: Rejection = rejection('service_unavailable', null, null, 1);

export interface PlainRoute extends RouteFacts {
  readonly type: 'plain';
  /** False: anyone may call it; true: the surface's `authorise` decides. */
  readonly authorised: boolean;
  readonly query: TObject | null;
  readonly body: TObject | null;
  readonly bodyExamples: Readonly<Record<string, unknown>>;
  readonly handle: (request: PlainRequest) => Answer | Promise<Answer>;
}

export interface RawRequest {
  readonly method: string;
  readonly path: string;
  readonly body: Buffer;
  readonly requestId: string;
}

export interface RawRoute extends RouteFacts {
  readonly type: 'raw';
  readonly handle: (request: RawRequest) => Answer | Promise<Answer>;
}

export type Route = CreateRoute | ReadRoute | PlainRoute | RawRoute;

export interface Surface {
  /** In logs and metrics: "v1", "operator". */
  readonly name: string;
  readonly routes: readonly Route[];
  /** For plain routes that ask for it. `bearer`: the token behind "Bearer ", null when there is none. */
  readonly authorise: ((bearer: string | null) => Rejection | null) | null;
}

/** Ties the type of `query` to the schema. */
export function readRoute<Query extends TObject>(
  route: Omit<ReadRoute, 'type' | 'query' | 'message'> & {
    readonly query: Query | null;
    readonly message: (call: ReadCall<Static<Query>>) => MerchantQuery;
  },
): ReadRoute {
  // The schema was checked before `message` is called: this is where its type comes in.
  return { type: 'read', ...route, message: route.message as unknown as ReadRoute['message'] };
}

/** Ties the types of `body` and `query` to their schemas. */
export function plainRoute<Body extends TObject, Query extends TObject>(
  route: Omit<PlainRoute, 'type' | 'query' | 'body' | 'handle'> & {
    readonly query: Query | null;
    readonly body: Body | null;
    readonly handle: (request: PlainRequest<Static<Body>, Static<Query>>) => Answer | Promise<Answer>;
  },
): PlainRoute {
  return { type: 'plain', ...route, handle: route.handle as unknown as PlainRoute['handle'] };
}
