// Two reports side by side: the ratio of every figure, and whether it is more than the repeats differ among themselves.

import type { Report } from '../result.ts';
import { compareRepeats, median, type Comparison } from '../statistics.ts';
import { figuresOf, fixed } from './table.ts';

export function compareText(before: Report, after: Report): string {
  const lines = [...differences(before, after)];
  for (const { name, repeats } of after.scenarios) {
    const old = before.scenarios.find((scenario) => scenario.name === name);
    if (old === undefined) continue;
    const oldFigures = figuresOf(old.repeats);
    lines.push('', name);
    for (const { figure, values } of figuresOf(repeats)) {
      const oldValues = oldFigures.find((each) => each.figure.name === figure.name)?.values;
      if (oldValues === undefined) continue;
      const comparison = compareRepeats(oldValues, values);
      const numbers = `${fixed(median(oldValues))} → ${fixed(median(values))} ${figure.unit}`;
      lines.push(
        `  ${figure.name.padEnd(44)}${numbers.padEnd(26)}× ${comparison.ratio.toFixed(3)}  ${verdictText(comparison, figure.better)}`,
      );
    }
  }
  return lines.join('\n');
}

function verdictText({ ratio, verdict, resolution }: Comparison, better: 'more' | 'less'): string {
  switch (verdict) {
    case 'unknown':
      return 'too few repeats to tell';
    case 'within noise':
      return `within the noise of the repeats (which show changes above ${fixed((resolution ?? 0) * 100)} %)`;
    case 'differs':
      return ratio > 1 === (better === 'more') ? 'better' : 'WORSE';
  }
}

/** What was not the same on both sides, before any figure is believed. */
function* differences(before: Report, after: Report): Generator<string> {
  const facts = ({ conditions, command }: Report): [string, string][] => [
    ['command', command],
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
  const fsyncs = after.conditions.fsync.perSecond / before.conditions.fsync.perSecond;
  yield `fsyncs a second: × ${fsyncs.toFixed(2)}; commits ${before.conditions.commit} → ${after.conditions.commit}`;
}
