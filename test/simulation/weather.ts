// Rails that lose answers, refuse, ask to be left alone, and take their time.

import { LIMITS } from '../../src/limits.ts';
import type { Clock } from '../../src/rails/rail.ts';
import type { Asked } from '../../src/rails/retry-after.ts';
import { BUSY, type DrivenRail, LOST, type Provider } from '../unit/pollers-driven.ts';

interface World {
  readonly provider: Provider;
  readonly clock: Clock;
}

/** Some trouble, as often as `trouble` says (0 to 1). */
export function stormy(
  { provider, clock }: World,
  rail: DrivenRail,
  random: () => number,
  trouble: () => number,
): void {
  const later = <Result>(result: Result): Result | Promise<Result> => {
    if (random() < 0.5) return result;
    const { promise, resolve } = Promise.withResolvers<Result>();
    const stop = clock.every(Math.ceil(random() * 5_000), () => {
      stop();
      resolve(result);
    });
    return promise;
  };
  const asking = <Result extends object>(result: Result): Result & Asked =>
    random() < 0.2 ? { ...result, retryAfterMs: Math.ceil(random() * LIMITS.railRetryAfterMsMax) } : result;
  rail.onSubmit = (transaction) => {
    if (random() >= trouble()) return later(provider.submit(transaction));
    if (random() < 0.3) return asking(BUSY);
    if (random() < 0.5) provider.submit(transaction);
    return later(asking(LOST));
  };
  rail.onEnquire = (transaction) => {
    return random() < trouble() ? later(asking(LOST)) : later(provider.enquire(transaction));
  };
}
