// The two answers that a query can have.

import { type ErrorCode, type Rejection, rejection } from '../../src/domain/error-code.ts';
import type { Answered } from '../runtime/group.ts';

/** `sequence`: what the body depends on; the answer is held back until that is durable. */
export function done(body: string, sequence: number): Answered {
  return { reply: { type: 'done', body, replayed: false }, sequence };
}

export function refuse(code: ErrorCode, param: string | null = null): Answered {
  return refuseWith(rejection(code, null, param));
}

export function refuseWith(refusal: Rejection): Answered {
  return { reply: { type: 'rejected', rejection: refusal }, sequence: 0 };
}
