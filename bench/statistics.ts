// The bench's own arithmetic: what repeats say together, and when two measurements differ. Pure.
//
// Figures are compared as ratios, so differences are judged on logarithms, at 95 %. Repeats that have nothing to do with each
// other, by Welch's t-test: it asks for no equal spread and no equal number. Repeats in pairs, measured one after the other, by
// the t-test of their ratios: what the machine did to both of a pair is not in it. With fewer than two repeats on either
// side nobody can tell noise from change.

export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
  /** Half of the way from min to max, as a part of the median: "± 3 %". */
  readonly spread: number;
}

/** NaN where one of them is: sorting would put it anywhere. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('the median of nothing');
  if (values.some(Number.isNaN)) return Number.NaN;
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function summarize(values: readonly number[]): Summary {
  const middle = median(values);
  const min = Math.min(...values);
  const max = Math.max(...values);
  return { median: middle, min, max, spread: middle === 0 ? 0 : (max - min) / 2 / Math.abs(middle) };
}

/** The value below which `percent` of the values lie, by nearest rank. */
export function percentile(values: readonly number[], percent: number): number {
  if (values.length === 0) throw new Error('a percentile of nothing');
  const sorted = values.toSorted((a, b) => a - b);
  const rank = Math.ceil((percent / 100) * sorted.length);
  return sorted[Math.max(0, rank - 1)]!;
}

export interface Comparison {
  /** Median of the second over median of the first. */
  readonly ratio: number;
  /** 'unknown': too few repeats to tell, or one has nothing to take a ratio of. */
  readonly verdict: 'within noise' | 'differs' | 'unknown';
  /** The smallest relative change these repeats could have shown: 0.05 is 5 %. Null when unknown. */
  readonly resolution: number | null;
}

export function compareRepeats(before: readonly number[], after: readonly number[]): Comparison {
  const ratio = ratioOf(median(after), median(before));
  const isPositive = [...before, ...after].every((value) => value > 0);
  if (before.length < 2 || after.length < 2 || !isPositive) {
    return { ratio, verdict: 'unknown', resolution: null };
  }
  const a = meanAndVariance(before.map(Math.log));
  const b = meanAndVariance(after.map(Math.log));
  const shareA = a.variance / before.length;
  const shareB = b.variance / after.length;
  const error = Math.sqrt(shareA + shareB);
  if (error === 0) return { ratio, verdict: ratio === 1 ? 'within noise' : 'differs', resolution: 0 };
  const freedom =
    (shareA + shareB) ** 2 / (shareA ** 2 / (before.length - 1) + shareB ** 2 / (after.length - 1));
  const needed = criticalT(freedom) * error;
  const change = b.mean - a.mean;
  // Where the medians moved the other way, or not at all, the ratio that is told would belie the verdict.
  const differs = Math.abs(change) > needed && Math.sign(change) === Math.sign(Math.log(ratio));
  return { ratio, verdict: differs ? 'differs' : 'within noise', resolution: Math.expm1(needed) };
}

/** The n-th of `after` was measured beside the n-th of `before`. The ratio is the geometric mean of the pairs'. */
export function comparePairs(before: readonly number[], after: readonly number[]): Comparison {
  if (before.length !== after.length) throw new Error(`${before.length} and ${after.length} are no pairs`);
  const isPositive = [...before, ...after].every((value) => value > 0);
  if (before.length < 2 || !isPositive) {
    return { ratio: ratioOf(median(after), median(before)), verdict: 'unknown', resolution: null };
  }
  const logarithms = after.map((value, index) => Math.log(value / before[index]!));
  const { mean, variance } = meanAndVariance(logarithms);
  const needed = criticalT(before.length - 1) * Math.sqrt(variance / before.length);
  const verdict = Math.abs(mean) > needed ? 'differs' : 'within noise';
  return { ratio: Math.exp(mean), verdict, resolution: Math.expm1(needed) };
}

/** Requests a second that CPU time allows, when nobody else uses the cores: no thread has more than one core, all of them
 *  together no more than there are. Seconds a request. */
export function capacityOf(
  use: { readonly busiestThread: number; readonly allThreads: number },
  cores: number,
): number {
  return Math.min(1 / use.busiestThread, cores / use.allThreads);
}

/** 0 / 0 is 1: nothing changed. */
export function ratioOf(value: number, base: number): number {
  if (base !== 0) return value / base;
  return value === 0 ? 1 : Infinity;
}

function meanAndVariance(values: readonly number[]): { mean: number; variance: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, variance: squares / (values.length - 1) };
}

/** Two-sided 95 %, by degrees of freedom. */
const CRITICAL_T: readonly (readonly [number, number])[] = [
  [1, 12.706],
  [2, 4.303],
  [3, 3.182],
  [4, 2.776],
  [5, 2.571],
  [6, 2.447],
  [7, 2.365],
  [8, 2.306],
  [9, 2.262],
  [10, 2.228],
  [15, 2.131],
  [20, 2.086],
  [30, 2.042],
  [60, 2.0],
  [120, 1.98],
];

/** Rounds down to a row of the table: never more certain than the repeats allow. */
function criticalT(freedom: number): number {
  const first = CRITICAL_T[0]![1];
  return CRITICAL_T.reduce((found, [row, value]) => (freedom >= row ? value : found), first);
}
