// A caller's own name for a field or parameter, as a refusal repeats it: not by the kilobyte.

import { rejection, type Rejection } from '../domain/error-code.ts';
import { LIMITS } from '../limits.ts';

/** `problem`: a predicate, as in "is given more than once". */
export function invalidField(name: string, problem: string): Rejection {
  const param = echoed(name);
  return rejection('validation_failed', `\`${param}\` ${problem}.`, param);
}

export function echoed(name: string): string {
  if (name.length <= LIMITS.echoedNameMax) return name;
  // A cut may fall between the halves of one character.
  return `${name.slice(0, LIMITS.echoedNameMax).toWellFormed()}…`;
}
