// A run: conditions first, then every scenario as often as was asked for, repeats interleaved, and what came of it.
//
// Repeats go round the scenarios (a b c, a b c), not (a a, b b): a machine that changes with time then shows as spread within
// each scenario, not as a difference between them. A second checkout is measured beside the first, scenario by scenario.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Bench, type Scenario } from './bench.ts';
import { commitOf, findConditions } from './measure/conditions.ts';
import { UsageError, type RunOptions } from './options.ts';
import type { Failure, Repeat, Report } from './result.ts';
import { inTurn, measureSideBySide } from './side-by-side.ts';
import { removeDirectory } from '../deploy/remove-directory.ts';
import { makeWithParents } from '../wal/make-with-parents.ts';
import { SCENARIOS } from './scenarios/all.ts';

/** PostgreSQL runs as a user of its own. */
const READABLE = 0o755;
const HERE = join(import.meta.dirname, '..');

export interface RunListener {
  progress(text: string): void;
  finished(scenario: string, repeat: number): void;
  failed(scenario: string, error: unknown): void;
}

export interface Ran {
  readonly report: Report;
  /** Of the other checkout; null: none was asked for. Its repeats are the pairs of the report's. */
  readonly against: Report | null;
}

/** One checkout in a run. */
interface Side {
  readonly bench: Bench;
  readonly commit: string | null;
  readonly repeats: ReadonlyMap<string, Repeat[]>;
}

/** When `stop` is aborted, it ends what it has started, removes what it has made, and rejects with the reason. */
export async function run(
  options: RunOptions,
  command: string,
  listener: RunListener,
  stop?: AbortSignal,
): Promise<Ran> {
  const scenarios = chosen(options);
  const startedAt = new Date();
  const root = rootOf(options.directory);
  try {
    listener.progress('measuring the disk');
    const conditions = conditionsOf(root, options);
    const checkouts = options.against === null ? [HERE] : [HERE, options.against];
    const sides = checkouts.map((checkout): Side => {
      const bench = new Bench(options, checkout, root, (text) => listener.progress(text), stop);
      const repeats = new Map<string, Repeat[]>(scenarios.map(({ name }) => [name, []]));
      return { bench, commit: commitOf(checkout), repeats };
    });
    const failures: Failure[] = [];
    // What a scenario dies of when it is asked to stop is no failure of its own.
    const asked: RunListener = {
      ...listener,
      failed(scenario, error) {
        stop?.throwIfAborted();
        failures.push({ scenario, error: error instanceof Error ? error.message : String(error) });
        listener.failed(scenario, error);
      },
    };
    if (options.sideBySide) await runSideBySide(sides, scenarios, asked);
    else await runInTurn(sides, scenarios, options.repeats, asked);
    stop?.throwIfAborted();
    const seconds = (Date.now() - startedAt.getTime()) / 1_000;
    const [report, against = null] = sides.map(({ commit, repeats }): Report => ({
      format: 1,
      startedAt: startedAt.toISOString(),
      seconds,
      command,
      conditions: { ...conditions, commit },
      scenarios: Array.from(repeats, ([name, of]) => ({ name, repeats: of })).filter(
        (each) => each.repeats.length > 0,
      ),
      failures,
    }));
    return { report: report!, against };
  } finally {
    if (options.directory === null) await removeDirectory(root);
  }
}

async function runInTurn(
  sides: readonly Side[],
  scenarios: readonly Scenario[],
  repeats: number,
  listener: RunListener,
): Promise<void> {
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const scenario of scenarios) await runOnAll(inTurn(sides, repeat), scenario, repeat, listener);
  }
}

async function runSideBySide(
  sides: readonly Side[],
  scenarios: readonly Scenario[],
  listener: RunListener,
): Promise<void> {
  const benches = sides.map(({ bench }) => bench);
  for (const { name, peak } of scenarios) {
    try {
      const measured = await measureSideBySide(benches, peak!, (repeat) => listener.finished(name, repeat));
      for (const [index, { repeats }] of sides.entries()) repeats.get(name)!.push(...measured[index]!);
    } catch (error) {
      listener.failed(name, error);
    } finally {
      for (const bench of benches) await cleared(bench, name, listener);
    }
  }
}

/** When it fails on one none has this repeat. */
async function runOnAll(
  sides: readonly Side[],
  scenario: Scenario,
  repeat: number,
  listener: RunListener,
): Promise<void> {
  const results: Repeat[] = [];
  for (const { bench } of sides) {
    const result = await runOnce(bench, scenario, repeat, listener);
    if (result === null) return;
    results.push(result);
  }
  for (const [index, { repeats }] of sides.entries()) repeats.get(scenario.name)!.push(results[index]!);
}

/** Null when it failed. */
async function runOnce(
  bench: Bench,
  scenario: Scenario,
  repeat: number,
  listener: RunListener,
): Promise<Repeat | null> {
  try {
    const result = await scenario.run(bench, repeat);
    listener.finished(scenario.name, repeat);
    return result;
  } catch (error) {
    listener.failed(scenario.name, error);
    return null;
  } finally {
    await cleared(bench, scenario.name, listener);
  }
}

/** What could not be stopped is told, as what could not be measured is: hours of load are not lost by it. */
async function cleared(bench: Bench, scenario: string, listener: RunListener): Promise<void> {
  try {
    await bench.clear();
  } catch (error) {
    listener.failed(scenario, error);
  }
}

function chosen(options: RunOptions): readonly Scenario[] {
  const { scenarios: names, sideBySide, peer } = options;
  if (names.length === 0) {
    return SCENARIOS.filter(({ needs, peak }) => needs === null && (!sideBySide || peak !== undefined));
  }
  const scenarios = names.map((name) => named(name, sideBySide));
  if (peer !== null && !scenarios.some(({ hasPeer }) => hasPeer === true)) {
    throw new UsageError(`--peer: none of ${names.join(', ')} is measured against one`);
  }
  return scenarios;
}

function named(name: string, sideBySide: boolean): Scenario {
  const scenario = SCENARIOS.find((each) => each.name === name);
  if (scenario === undefined) {
    throw new UsageError(`no scenario "${name}"; there are ${SCENARIOS.map((each) => each.name).join(', ')}`);
  }
  if (sideBySide && scenario.peak === undefined) {
    throw new UsageError(`${name} is no load on one service: it cannot be measured side by side`);
  }
  return scenario;
}

/** The first that writes there. */
function conditionsOf(root: string, { fsyncSeconds, wrk }: RunOptions): ReturnType<typeof findConditions> {
  try {
    return findConditions(root, fsyncSeconds, wrk);
  } catch (error) {
    throw new UsageError(`nothing can be measured in ${root}: ${(error as Error).message}; see --directory`);
  }
}

function rootOf(directory: string | null): string {
  if (directory === null) return mkdtempSync(join(tmpdir(), 'daftari-bench-'));
  try {
    makeWithParents(directory, READABLE);
  } catch (error) {
    throw new UsageError(`--directory: ${(error as Error).message}`);
  }
  return directory;
}
