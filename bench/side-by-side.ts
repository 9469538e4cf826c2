// Two checkouts under one kind of load, both started once and loaded in turn, a few seconds at a time. Both have compiled what
// they need and stand in the same minute of the same machine, so the ratios of the pairs show a smaller change than whole
// runs one after the other (README.md tells how small).

import type { Bench, Peak } from './bench.ts';
import { checkAnswers, checkListed, checkMade, checkTrialBalances, type Done } from './check.ts';
import { isCreate } from './load/work.ts';
import type { Check, Load, Repeat } from './result.ts';
import { startPeak, type StartedPeak } from './scenarios/peak-scenario.ts';
import { loadFigures, workOf } from './scenarios/peaks.ts';

/** Of each load, once its service is warm. */
const WARM_UP_SECONDS_MAX = 1;

interface Side extends StartedPeak {
  readonly bench: Bench;
  readonly repeats: Repeat[];
  /** All its loads, the warm-up among them. */
  readonly done: Done[];
}

/** For each bench its repeats; the n-th of one was measured beside the n-th of the others. */
export async function measureSideBySide(
  benches: readonly Bench[],
  peak: Peak,
  onRepeat: (repeat: number) => void,
): Promise<Repeat[][]> {
  const sides: Side[] = [];
  for (const bench of benches) {
    sides.push({ bench, ...(await startPeak(bench, peak)), repeats: [], done: [] });
  }
  const { repeats, warmUpSeconds } = benches[0]!.options;
  for (const side of sides) await load(side, peak, warmUpSeconds);
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const side of inTurn(sides, repeat)) {
      const loaded = await load(side, peak, Math.min(WARM_UP_SECONDS_MAX, warmUpSeconds));
      const { load: measured, checks } = loaded;
      side.repeats.push({ figures: loadFigures(measured), loads: [measured], checks, notes: [] });
    }
    onRepeat(repeat);
  }
  return Promise.all(sides.map(withBooksChecked));
}

/** Who is first changes with the repeat: a machine that tires in the course of a pair does so for both. */
export function inTurn<One>(sides: readonly One[], repeat: number): readonly One[] {
  return repeat % 2 === 0 ? sides : sides.toReversed();
}

async function load(
  { bench, prepared, service, done }: Side,
  { kinds }: Peak,
  warmUpSeconds: number,
): Promise<{ load: Load; checks: Check[] }> {
  const work = workOf(bench, prepared, kinds);
  const driven = await bench.drive({ label: 'service, peak', server: service, work, warmUpSeconds });
  done.push({ work, driven });
  return { load: driven.load, checks: [checkAnswers(driven.load), checkMade(work, driven)] };
}

/** What all loads together have left behind. */
async function withBooksChecked({ service, prepared, repeats, done }: Side): Promise<Repeat[]> {
  const creating = done.filter(({ work }) => work.kinds.some(isCreate));
  const checks = [
    ...(creating.length === 0 ? [] : [await checkListed(service, creating)]),
    await checkTrialBalances(service, prepared.keysFile),
  ];
  return repeats.map((repeat, index) =>
    index === repeats.length - 1 ? { ...repeat, checks: [...repeat.checks, ...checks] } : repeat,
  );
}
