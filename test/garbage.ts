// Collecting garbage at will, for tests of what is no longer referred to.

import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** In a turn of its own: until the end of its turn, what a WeakRef was made of or asked for stays. */
export async function collectGarbage(): Promise<void> {
  await setImmediate();
  collect();
}
