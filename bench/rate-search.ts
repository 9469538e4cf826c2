// The search for the highest offered rate that still holds a bound. Pure but for the trials it asks for.
//
// Invariants: it answers with a rate that was tried and held, never with one it only reckoned; every trial is told, so that
// the report can draw latency against rate; the number of trials is bounded.

export interface RateTrial<Outcome> {
  readonly ratePerSecond: number;
  readonly held: boolean;
  readonly outcome: Outcome;
}

export interface RateSearch<Outcome> {
  /** 0: not even the lowest rate held. */
  readonly highestPerSecond: number;
  readonly trials: readonly RateTrial<Outcome>[];
}

export interface RateSearchOptions<Outcome> {
  readonly lowPerSecond: number;
  readonly highPerSecond: number;
  /** Stops when the rate is known to this part of itself: 0.05 is 5 %. */
  readonly precision: number;
  readonly trialsMax: number;
  readonly attempt: (ratePerSecond: number) => Promise<Outcome>;
  readonly holds: (outcome: Outcome, ratePerSecond: number) => boolean;
}

/** Bisects between a rate that holds and one that does not, by geometric means: rates are compared as ratios. */
export async function searchHighestRate<Outcome>(
  options: RateSearchOptions<Outcome>,
): Promise<RateSearch<Outcome>> {
  const trials: RateTrial<Outcome>[] = [];
  const holdsAt = async (ratePerSecond: number): Promise<boolean> => {
    const outcome = await options.attempt(ratePerSecond);
    const held = options.holds(outcome, ratePerSecond);
    trials.push({ ratePerSecond, held, outcome });
    return held;
  };

  let low = options.lowPerSecond;
  let high = options.highPerSecond;
  if (!(await holdsAt(low))) return { highestPerSecond: 0, trials };
  if (trials.length >= options.trialsMax) return { highestPerSecond: low, trials };
  if (await holdsAt(high)) return { highestPerSecond: high, trials };
  // Rates are whole: between neighbours there is none.
  while (trials.length < options.trialsMax && high - low > 1 && high / low > 1 + options.precision) {
    const middle = Math.round(Math.sqrt(low * high));
    if (await holdsAt(middle)) low = middle;
    else high = middle;
  }
  return { highestPerSecond: low, trials };
}
