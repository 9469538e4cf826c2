// Time as rails and pollers see it, by the machine's clock or another. Its intervals never keep a process alive: stopping
// is the owner's.

import type { Clock } from './rail.ts';

export function clockBy(now: () => number): Clock {
  return {
    now,
    every(intervalMs, run) {
      const interval = setInterval(run, intervalMs).unref();
      return () => clearInterval(interval);
    },
  };
}

export const systemClock = clockBy(() => Date.now());
