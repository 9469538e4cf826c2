// Calls that are answered by a function of the surface rather than by an account: operator API, health, the OpenAPI
// document, callbacks. Same checks, other order: authorisation before the body is read.

import { rejection } from '../domain/error-code.ts';
import type { Call } from './call.ts';
import { bearerOf } from './caller.ts';
import { MalformedBody, parseJson } from './json-body.ts';
import type { Answer, PlainRequest, PlainRoute, RawRoute, Surface } from './route.ts';
import type { ParsedQuery, ValidateBody } from './validator.ts';

export interface PlainCallFacts {
  readonly route: PlainRoute;
  readonly authorise: Surface['authorise'];
  readonly names: readonly string[];
  readonly patterns: readonly RegExp[];
  readonly parseQuery: ((raw: string) => ParsedQuery) | null;
  readonly validate: ValidateBody | null;
}

export interface PlainHead {
  readonly path: string;
  readonly query: string;
  readonly authorization: string;
  /** The `Operator` header; "" without one. */
  readonly operator: string;
  /** In the order of the path. */
  readonly parameters: readonly string[];
}

export function plain(facts: PlainCallFacts, call: Call, head: PlainHead): void {
  const { route } = facts;
  if (route.authorised) {
    const refusal = facts.authorise?.(bearerOf(head.authorization)) ?? null;
    if (refusal !== null) {
      call.refuse(refusal);
      return;
    }
  }
  const wrong = facts.patterns.findIndex((pattern, index) => !pattern.test(head.parameters[index] ?? ''));
  if (wrong !== -1) {
    const parameter = Object.values(route.parameters)[wrong];
    call.refuse(rejection(parameter?.notFound ?? 'not_found'));
    return;
  }
  const query = facts.parseQuery?.(head.query) ?? { values: {}, problem: null };
  if (query.problem !== null) {
    call.refuse(query.problem);
    return;
  }
  const { validate } = facts;
  if (validate === null) {
    const answer = (): void => run(facts, call, head, query.values, null);
    if (call.safe) answer();
    // One that comes all the same may be malformed, which the HTTP library answers with 400.
    else call.receive(() => call.begin(answer));
    return;
  }
  call.receive((bytes) => {
    const body = parseJson(bytes);
    const problem = body instanceof MalformedBody ? body.rejection : validate(body);
    if (problem !== null) {
      call.refuse(problem);
      return;
    }
    call.begin(() => run(facts, call, head, query.values, body));
  });
}

function run(
  facts: PlainCallFacts,
  call: Call,
  head: PlainHead,
  query: Record<string, unknown>,
  body: unknown,
): void {
  const deadline = call.wait();
  const request: PlainRequest = {
    path: head.path,
    parameters: Object.fromEntries(facts.names.map((name, index) => [name, head.parameters[index] ?? ''])),
    query,
    body,
    operator: head.operator === '' ? null : head.operator,
    requestId: call.requestId,
    deadline,
  };
  reply(call, facts.route.handle(request));
}

function reply(call: Call, answer: Answer | Promise<Answer>): void {
  if (!(answer instanceof Promise)) {
    call.answer(answer);
    return;
  }
  // A rejected promise is an assertion: it is left unhandled on purpose, and stops the process.
  void answer.then((given) => {
    call.answer(given);
  });
}

export function raw(route: RawRoute, call: Call, path: string): void {
  call.receive((bytes) => {
    call.wait();
    const { method } = route;
    const { requestId } = call;
    const request = { method, path, body: Buffer.from(bytes), requestId };
    call.begin(() => reply(call, route.handle(request)));
  });
}
