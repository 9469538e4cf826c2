// Rails that lose answers, refuse, and take their time.

import type { Clock } from '../../src/rails/rail.ts';
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
  rail.onSubmit = (transaction) => {
    if (random() >= trouble()) return later(provider.submit(transaction));
    if (random() < 0.3) return BUSY;
    if (random() < 0.5) provider.submit(transaction);
    return later(LOST);
  };
  rail.onEnquire = (transaction) => {
    return random() < trouble() ? later(LOST) : later(provider.enquire(transaction));
  };
}
