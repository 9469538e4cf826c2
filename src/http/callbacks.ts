// `/callbacks/…`: where providers knock. Whatever they send is handed on as it is, with the path that names rail and
// token; the answer says only whether anybody knew it. A callback is a hint, never proof, so nothing here trusts it.

import { Type } from './json-schema.ts';
import { rejection } from '../domain/error-code.ts';
import { JSON_TYPE, jsonAnswer, UNAVAILABLE, type Answer, type RawRequest, type RawRoute } from './route.ts';

/** `unknown`: no rail or token has this path. `busy`: nobody has looked into it yet; try again later. */
export type CallbackResult = 'accepted' | 'unknown' | 'busy';
export type OnCallback = (callback: RawRequest) => CallbackResult | Promise<CallbackResult>;

const NOT_FOUND = rejection('not_found');

/** MTN calls with PUT or POST, Airtel with POST (rails: src/rails/README.md). */
export function callbackRoutes(onCallback: OnCallback): readonly RawRoute[] {
  return (['POST', 'PUT'] as const).map((method) => ({
    type: 'raw',
    method,
    path: '/callbacks/*',
    operationId: `${method.toLowerCase()}Callback`,
    tag: 'Callbacks',
    summary: 'Provider callback',
    description: 'For providers only. The path names the rail and carries an unguessable token.',
    parameters: {},
    reply: {
      status: 200,
      description: 'Taken note of: whoever is not told so may send it again.',
      contentType: JSON_TYPE,
      schema: Type.Object({}),
      examples: { taken: {} },
    },
    errors: ['not_found', 'body_too_large', 'service_unavailable'],
    handle: (request) => {
      const result = onCallback(request);
      return result instanceof Promise ? result.then(answerTo) : answerTo(result);
    },
  }));
}

function answerTo(result: CallbackResult): Answer {
  switch (result) {
    case 'accepted':
      return jsonAnswer(200, '{}');
    case 'unknown':
      return { type: 'rejected', rejection: NOT_FOUND };
    case 'busy':
      return { type: 'rejected', rejection: UNAVAILABLE };
  }
}
