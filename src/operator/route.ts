// How an operator's route is written: what differs between them; the rest of the registry's entry is made here. A route
// that changes something is audited, without exception, because this is the only way to write one.

import { Type } from 'typebox';
import type { Static, TObject, TSchema } from 'typebox';
import type { Reply } from '../bus/bus.ts';
import type { ErrorCode } from '../domain/error-code.ts';
import { answerOf, JSON_TYPE, plainRoute } from '../http/route.ts';
import type { Answer, Method, PathParameter, PlainRequest, PlainRoute } from '../http/route.ts';
import { audited } from './audit.ts';
import type { OperatorContext } from './context.ts';
import { PATH_PARAMETERS } from './schemas.ts';

interface OperatorRoute<Body extends TObject, Query extends TObject> {
  readonly method: Method;
  /** Below /operator/v1. */
  readonly path: string;
  readonly operationId: string;
  readonly summary: string;
  readonly tag?: string;
  readonly body?: Body;
  readonly query?: Query;
  /** Of the answer when it is done; default 200. */
  readonly status?: 200 | 201;
  readonly reply: TSchema;
  readonly errors?: readonly ErrorCode[];
  /** A reply of the bus is its own answer. */
  readonly handle: (
    request: PlainRequest<Static<Body>, Static<Query>>,
    /** The account that the path names; "" where it names none. */
    accountId: string,
  ) => Promise<Reply | Answer>;
}

export function operatorRoute<Body extends TObject, Query extends TObject>(
  context: OperatorContext,
  route: OperatorRoute<Body, Query>,
): PlainRoute {
  const { method, operationId, summary, tag = 'Accounts', body, query, status = 200, errors = [] } = route;
  const path = `/operator/v1${route.path}`;
  const action = `${method} ${path}`;
  const handle = async (request: PlainRequest<Static<Body>, Static<Query>>): Promise<Answer> => {
    const change = async (): Promise<Answer> => {
      const result = await route.handle(request, request.parameters['account_id'] ?? '');
      return isReply(result) ? answerOf(result, status) : result;
    };
    return method === 'GET' ? change() : audited(context, action, request, change);
  };
  return plainRoute({
    method,
    path,
    operationId,
    tag,
    summary,
    description: '',
    parameters: parametersOf(path),
    authorized: true,
    query: query ?? (Type.Object({}, { additionalProperties: false }) as unknown as Query),
    body: body ?? null,
    bodyExamples: {},
    reply: {
      status,
      description: summary,
      contentType: JSON_TYPE,
      schema: route.reply,
      examples: {},
    },
    errors,
    handle,
  });
}

function parametersOf(path: string): Readonly<Record<string, PathParameter>> {
  const names = Array.from(path.matchAll(/:(\w+)/g), ([, name]) => name as keyof typeof PATH_PARAMETERS);
  return Object.fromEntries(names.map((name) => [name, PATH_PARAMETERS[name]]));
}

function isReply(result: Reply | Answer): result is Reply {
  return result.type === 'done' || result.type === 'unavailable' || result.type === 'rejected';
}
