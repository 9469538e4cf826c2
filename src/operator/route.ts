// How an operator's route is written: what differs between them; the rest of the registry's entry is made here. A route
// that changes something is audited, without exception, because this is the only way to write one.

import { Type } from '../http/json-schema.ts';
import type { Static, TObject, TSchema } from '../http/json-schema.ts';
import { doneReply, type Reply } from '../bus/bus.ts';
import type { Repeatable } from '../domain/account-command.ts';
import type { ErrorCode } from '../domain/error-code.ts';
import { requestHashOf } from '../http/account-calls.ts';
import { answerOf, JSON_TYPE, plainRoute } from '../http/route.ts';
import type { Answer, Method, PathParameter, PlainRequest, PlainRoute } from '../http/route.ts';
import { audited, operatorOf } from './audit.ts';
import { LIMITS } from '../limits.ts';
import { printable } from '../../wal/printable.ts';
import type { OperatorContext } from './context.ts';
import { PATH_PARAMETERS } from './schemas.ts';

/** The names of a path's parameters: of '/accounts/:account_id/users/:user_id' these are 'account_id' and 'user_id'. */
type NamesIn<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | NamesIn<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;

interface OperatorRequest<Body, Query, Path extends string> {
  readonly body: Body;
  readonly query: Query;
  readonly parameters: Readonly<Record<NamesIn<Path>, string>>;
  /** Who acts. */
  readonly operator: string;
  /** Of a command; milliseconds since 1970. */
  readonly deadline: number;
}

/** By name. */
type Examples = Readonly<Record<string, unknown>>;

interface OperatorRoute<Body extends TObject, Query extends TObject, Path extends string> {
  readonly method: Method;
  /** Below /operator/v1. */
  readonly path: Path;
  readonly operationId: string;
  readonly summary: string;
  /** What it does and changes, and what comes next. */
  readonly description: string;
  /** After "Who may: ". Left out: whoever has the token. */
  readonly who?: string;
  readonly tag?: string;
  readonly body?: Body;
  readonly bodyExamples?: Examples;
  readonly query?: Query;
  /** Of the answer when it is done; default 200. */
  readonly status?: 200 | 201;
  readonly reply: TSchema;
  /** What the reply is. */
  readonly answers: string;
  readonly examples: Examples;
  readonly errors?: readonly ErrorCode[];
  /** A reply of the bus is its own answer. */
  readonly handle: (
    request: OperatorRequest<Static<Body>, Static<Query>, Path>,
    /** The account that the path names; "" where it names none. */
    accountId: string,
  ) => Promise<Reply | Answer>;
}

export function operatorRoute<Body extends TObject, Query extends TObject, Path extends string>(
  context: OperatorContext,
  route: OperatorRoute<Body, Query, Path>,
): PlainRoute {
  const { method, operationId, summary, tag = 'Accounts', status = 200, errors = [] } = route;
  const { who = 'whoever has the operator token.' } = route;
  const path = `/operator/v1${route.path}`;
  const action = `${method} ${path}`;
  const handle = async (request: PlainRequest<Static<Body>, Static<Query>>): Promise<Answer> => {
    const change = async (): Promise<Answer> => {
      const { body, query, parameters, deadline } = request;
      const names = parameters as Readonly<Record<NamesIn<Path>, string>>;
      const asked = { body, query, parameters: names, operator: operatorOf(request), deadline };
      const result = await route.handle(asked, parameters['account_id'] ?? '');
      return shown(isReply(result) ? answerOf(result, status) : result);
    };
    return method === 'GET' ? change() : audited(context, action, request, change);
  };
  return plainRoute({
    method,
    path,
    operationId,
    tag,
    summary,
    description: `${route.description}\n\nWho may: ${who}`,
    parameters: parametersOf(path),
    authorised: true,
    query: route.query ?? (Type.Object({}, { additionalProperties: false }) as unknown as Query),
    body: route.body ?? null,
    bodyExamples: route.bodyExamples ?? {},
    reply: {
      status,
      description: route.answers,
      contentType: JSON_TYPE,
      schema: route.reply,
      examples: route.examples,
    },
    errors,
    handle,
  });
}

function parametersOf(path: string): Readonly<Record<string, PathParameter>> {
  const names = Array.from(path.matchAll(/:(\w+)/g), ([, name]) => name as keyof typeof PATH_PARAMETERS);
  return Object.fromEntries(names.map((name) => [name, PATH_PARAMETERS[name]]));
}

/** The rows that a query asks for, as every message of a list takes them. */
export function pageOf(query: { readonly limit?: number; readonly starting_after?: string }) {
  return { limit: query.limit ?? LIMITS.operatorPageDefault, startingAfter: query.starting_after ?? null };
}

/** Of a create that may be sent again. */
export function repeatableOf(body: { readonly idempotency_key?: string }): Repeatable | null {
  const { idempotency_key: idempotencyKey } = body;
  if (idempotencyKey === undefined) return null;
  return { idempotencyKey, requestHash: requestHashOf(JSON.stringify(body)) };
}

/** A reply that no partition gives: it is made here. */
export function done(body: object): Reply {
  return doneReply(JSON.stringify(body));
}

/** People have it shown by their terminals, and merchants, their endpoints and providers choose much of its text. */
function shown(answer: Answer): Answer {
  return answer.type === 'body' ? { ...answer, body: printable(answer.body) } : answer;
}

function isReply(result: Reply | Answer): result is Reply {
  return result.type === 'done' || result.type === 'unavailable' || result.type === 'rejected';
}
