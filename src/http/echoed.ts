// A caller's own name for a field or parameter, as a refusal repeats it: not by the kilobyte.

import { LIMITS } from '../limits.ts';

export function echoed(name: string): string {
  if (name.length <= LIMITS.echoedNameMax) return name;
  // A cut may fall between the halves of one character.
  return `${name.slice(0, LIMITS.echoedNameMax).toWellFormed()}…`;
}
