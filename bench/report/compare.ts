// Two reports side by side: the ratio of every figure, and whether it is more than the repeats differ among themselves.

import type { Figure, Report, ScenarioResult } from '../result.ts';
import { comparePairs, compareRepeats, median, type Comparison } from '../statistics.ts';
import { aligned, failedChecks, failuresOf, figuresOf, fixed, type FigureValues } from './table.ts';

/** Where a report goes to makes no other run of it. */
const REPORT_OPTIONS = / --(?:json|html)[= ]\S+/g;

/** Of two runs. */
export function compareText(before: Report, after: Report): string {
  return [...differences(before, after), ...ratios(before, after, compareRepeats)].join('\n');
}

/** Of one run, in which two checkouts were measured in turn. */
export function againstText(before: Report, after: Report): string {
  return [`in turn: ${commitsText(before, after)}, by pairs`, ...ratios(before, after, compareMeasured)].join(
    '\n',
  );
}

function commitsText(before: Report, after: Report): string {
  return `commits ${before.conditions.commit ?? 'unknown'} → ${after.conditions.commit ?? 'unknown'}`;
}

/** A figure that some repeats lack makes no pairs. */
function compareMeasured(before: readonly number[], after: readonly number[]): Comparison {
  return before.length === after.length ? comparePairs(before, after) : compareRepeats(before, after);
}

type Compare = (before: readonly number[], after: readonly number[]) => Comparison;

function* ratios(before: Report, after: Report, compare: Compare): Generator<string> {
  const verdicts: Comparison['verdict'][] = [];
  for (const scenario of after.scenarios) {
    const { name, repeats } = scenario;
    const old = before.scenarios.find((scenario) => scenario.name === name);
    if (old === undefined) continue;
    const oldFigures = figuresOf(old.repeats);
    const rows: string[][] = [];
    const figures = figuresOf(repeats);
    for (const { figure, values } of figures) {
      const oldValues = oldFigures.find((each) => isSame(each.figure, figure))?.values;
      if (oldValues === undefined) continue;
      const comparison = compare(oldValues, values);
      verdicts.push(comparison.verdict);
      rows.push([
        figure.name,
        `${fixed(median(oldValues))} → ${fixed(median(values))} ${figure.unit}`,
        `× ${comparison.ratio.toFixed(3)}`,
        verdictText(comparison, figure.better, Math.min(oldValues.length, values.length)),
      ]);
    }
    yield '';
    yield name;
    if (rows.length > 0) yield aligned(rows);
    yield* onlyText('before', oldFigures, figures);
    yield* onlyText('after', figures, oldFigures);
    yield* failedText('before', old);
    yield* failedText('after', scenario);
  }
  const judged = verdicts.filter((verdict) => verdict !== 'unknown').length;
  if (judged === 0) return;
  const differing = verdicts.filter((verdict) => verdict === 'differs').length;
  yield '';
  yield `${differing} of ${judged} figures differ; at 95 %, one in twenty does where nothing was changed`;
}

function isSame(one: Figure, other: Figure): boolean {
  return one.name === other.name && one.unit === other.unit;
}

/** What is compared with nothing. */
function* onlyText(
  which: string,
  figures: readonly FigureValues[],
  others: readonly FigureValues[],
): Generator<string> {
  const only = figures.filter(({ figure }) => !others.some((other) => isSame(other.figure, figure)));
  if (only.length > 0) yield `  only ${which}: ${only.map(({ figure }) => figure.name).join('; ')}`;
}

/** A figure whose checks failed is not a figure. */
function* failedText(which: string, { repeats }: ScenarioResult): Generator<string> {
  for (const { what, detail } of failedChecks(repeats)) yield `  FAILED ${which}: ${what}: ${detail}`;
}

function verdictText(
  { ratio, verdict, resolution }: Comparison,
  better: Figure['better'],
  repeats: number,
): string {
  const shown = `${fixed((resolution ?? 0) * 100)} %`;
  switch (verdict) {
    case 'unknown':
      if (Number.isNaN(ratio)) return 'no number to judge';
      return repeats < 2 ? 'too few repeats to tell' : 'a repeat has 0, of which there is no ratio to judge';
    case 'within noise':
      return `within the noise of the repeats (which show changes above ${shown})`;
    case 'differs':
      return `${judgement(ratio, better)} (± ${shown})`;
  }
}

function judgement(ratio: number, better: Figure['better']): string {
  if (better === 'neither') return 'differs';
  return ratio > 1 === (better === 'more') ? 'better' : 'WORSE';
}

/** What was not the same on both sides, before any figure is believed. */
function* differences(before: Report, after: Report): Generator<string> {
  const facts = ({ conditions, command, scenarios }: Report): [string, string][] => [
    ['command', command.replace(REPORT_OPTIONS, '')],
    ['scenarios', scenarios.map(({ name }) => name).join(', ') || 'none'],
    ['cores', String(conditions.cores)],
    ['CPU', conditions.cpu],
    ['memory', `${conditions.memoryMiB} MiB`],
    ['Node', conditions.node],
    ['kernel', conditions.kernel],
    ['file system', conditions.fileSystem ?? 'unknown'],
    ['driver', conditions.closedLoopDriver],
  ];
  const others = new Map(facts(after));
  for (const [what, value] of facts(before)) {
    if (others.get(what) !== value) yield `differs: ${what}: ${value} / ${others.get(what)}`;
  }
  for (const [which, report] of Object.entries({ before, after })) {
    for (const text of failuresOf(report)) yield `${which}: ${text}`;
  }
  const fsyncs = after.conditions.fsync.perSecond / before.conditions.fsync.perSecond;
  yield `fsyncs a second: × ${fsyncs.toFixed(2)}; ${commitsText(before, after)}`;
}
