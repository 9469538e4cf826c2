// Reports as text for a terminal.

import { summarize } from '../statistics.ts';
import type { Check, Conditions, Figure, Load, Repeat, Report, ScenarioResult } from '../result.ts';
import { latencyAt } from '../result.ts';

/** Cores; the bench itself uses less. */
const OTHERS_TOLD = 0.1;

export function conditionsText(conditions: Conditions): string {
  const { cores, cpu, memoryMiB, node, kernel, fsync, fileSystem, closedLoopDriver, loadAverage, commit } =
    conditions;
  return [
    `${cores} cores (${cpu}), ${memoryMiB} MiB, Node ${node}, ${kernel}, commit ${commit ?? 'unknown'}`,
    `disk ${fileSystem ?? 'unknown'}: ${fixed(fsync.perSecond)} fsyncs of 4 KiB a second, p50 ${fixed(fsync.p50Ms)} ms, p99 ${fixed(fsync.p99Ms)} ms`,
    `load average ${fixed(loadAverage)} at the start; closed loops by ${closedLoopDriver}; the driver shares the cores`,
  ].join('\n');
}

/** Median of the repeats, their spread, and whether the target is met. */
export function scenarioText({ name, repeats }: ScenarioResult): string {
  const failed = failedChecks(repeats);
  const rows = figuresOf(repeats).map(({ figure, values }) => {
    const { median, spread } = summarize(values);
    return [
      figure.name,
      `${fixed(median)}${figure.unit === '' ? '' : ` ${figure.unit}`}`,
      values.length > 1 ? `± ${fixed(spread * 100)} %` : '',
      targetText(figure, judge(figure, median, failed)),
    ];
  });
  const passed = repeats.flatMap(({ checks }) => checks).length - failed.length;
  const notes = [...new Set(repeats.flatMap((repeat) => repeat.notes))];
  return [
    `${name}   (${repeats.length} ${repeats.length === 1 ? 'repeat' : 'repeats'})`,
    aligned(rows),
    ...loadsText(repeats.at(-1)?.loads ?? []),
    `  checks: ${passed} passed, ${failed.length} failed`,
    ...failed.map(({ what, detail }) => `  FAILED ${what}: ${detail}`),
    ...othersText(repeats).map((text) => `  ${text}`),
    ...notes.map((note) => `  ${note}`),
  ].join('\n');
}

export function reportText(report: Report): string {
  const failed = failuresOf(report).map((text) => `FAILED ${text}`);
  return [
    conditionsText(report.conditions),
    ...report.scenarios.map(scenarioText),
    ...(failed.length === 0 ? [] : [failed.join('\n')]),
  ].join('\n\n');
}

/** What could not be measured, and of what it died first. */
export function failuresOf({ failures = [] }: Report): string[] {
  return Array.from(
    Map.groupBy(failures, ({ scenario }) => scenario),
    ([scenario, of]) => {
      const times = of.length === 1 ? '' : ` ${of.length} times, first`;
      return `${scenario} could not be measured${times}: ${of[0]!.error}`;
    },
  );
}

export function failedChecks(repeats: readonly Repeat[]): Check[] {
  return repeats.flatMap(({ checks }) => checks.filter(({ passed }) => !passed));
}

export interface FigureValues {
  readonly figure: Figure;
  /** One for each repeat that has it. */
  readonly values: readonly number[];
}

export function figuresOf(repeats: readonly Repeat[]): FigureValues[] {
  const byName = new Map<string, { figure: Figure; values: number[] }>();
  for (const figure of repeats.flatMap(({ figures }) => figures)) {
    const known = byName.get(figure.name);
    if (known === undefined) byName.set(figure.name, { figure, values: [figure.value] });
    else known.values.push(figure.value);
  }
  return [...byName.values()];
}

export type Verdict = 'met' | 'missed' | 'not judged, a check failed';

/** Whoever answers without doing the work is quick: figures whose checks failed meet nothing. Null: there is no target. */
export function judge({ better, target }: Figure, value: number, failed: readonly Check[]): Verdict | null {
  if (target === undefined) return null;
  if (failed.length > 0) return 'not judged, a check failed';
  return (better === 'more' ? value >= target : value <= target) ? 'met' : 'missed';
}

/** With its sign. */
export function targetOf({ better, target }: Figure): string {
  return target === undefined ? '' : `${better === 'more' ? '≥' : '≤'} ${fixed(target)}`;
}

function targetText(figure: Figure, verdict: Verdict | null): string {
  if (verdict === null) return '';
  return `target ${targetOf(figure)}: ${verdict === 'missed' ? 'MISSED' : verdict}`;
}

/** Nothing when there was nobody to speak of. */
export function othersText(repeats: readonly Repeat[]): string[] {
  const most = Math.max(0, ...repeats.flatMap(({ loads }) => loads.map(({ othersCpu }) => othersCpu ?? 0)));
  if (most < OTHERS_TOLD) return [];
  return [`others used up to ${fixed(most)} cores during a load: the figures are of what they left`];
}

/** The loads of one repeat, each with its own conditions. */
function loadsText(loads: readonly Load[]): string[] {
  const rows = loads.map((load) => [
    load.label,
    load.offeredPerSecond === null ? 'closed loop' : `${fixed(load.offeredPerSecond)}/s offered`,
    `${load.connections} conn, ${load.driver}`,
    `${fixed(load.perSecond)}/s`,
    latencyText(load),
    [
      ...load.processes.map(({ name, cpu, anonMiB }) => `${name} ${fixed(cpu)} cores ${fixed(anonMiB)} MiB`),
      ...(typeof load.othersCpu === 'number' ? [`others ${fixed(load.othersCpu)} cores`] : []),
    ].join(', '),
    load.log === null
      ? ''
      : `${fixed(load.log.recordsPerFlush)} records a flush, ${fixed(load.log.flushesPerSecond)} flushes/s of ${fixed(load.log.flushMeanMs)} ms`,
  ]);
  return rows.length === 0 ? [] : ['  loads of the last repeat:', aligned(rows)];
}

/** With what of it is not the service's: how late the driver was, and what it could not send in time. */
function latencyText({ latency, driverLateMsP99, unsent }: Load): string {
  const late = driverLateMsP99 === null ? '' : `, driver late p99 ${fixed(driverLateMsP99)} ms`;
  const waited = unsent === 0 ? '' : `, ${unsent.toLocaleString('en')} unsent`;
  return `p50 ${fixed(latencyAt(latency, 50))}, p99 ${fixed(latencyAt(latency, 99))} ms${late}${waited}`;
}

/** Rows with their cells under each other, indented. */
export function aligned(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => (widths[column] = Math.max(widths[column] ?? 0, cell.length)));
  }
  return rows
    .map((row) => `  ${row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ')}`.trimEnd())
    .join('\n');
}

/** Three digits that matter: nobody's measurement has more. */
export function fixed(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  if (size === 0) return '0';
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(size >= 1 ? 2 : 3);
}
