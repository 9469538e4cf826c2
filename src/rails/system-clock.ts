// The machine's time as rails and pollers see it. Its intervals never keep a process alive: stopping is the owner's.

import type { Clock } from './rail.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  every(intervalMs, run) {
    const interval = setInterval(run, intervalMs).unref();
    return () => clearInterval(interval);
  },
};
