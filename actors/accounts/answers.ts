// The two answers that a query can have. `sequence`: what it depends on; it is held back until that is durable.

import { doneReply, rejectedReply } from '../../src/bus/bus.ts';
import { type ErrorCode, type Rejection, rejection } from '../../src/domain/error-code.ts';
import type { Answered } from '../runtime/group.ts';

export function done(body: string, sequence: number): Answered {
  return { reply: doneReply(body), sequence };
}

/** Of what is not there: a crash brings nothing back. */
export function refuse(code: ErrorCode, param: string | null = null): Answered {
  return refuseWith(rejection(code, null, param), 0);
}

export function refuseWith(refusal: Rejection, sequence: number): Answered {
  return { reply: rejectedReply(refusal), sequence };
}
