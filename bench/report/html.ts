// A report as one page that stands alone: every figure with its spread and target, its conditions, and the plots.

import type { Load, Report, ScenarioResult } from '../result.ts';
import { latencyAt } from '../result.ts';
import { summarize } from '../statistics.ts';
import { againstText } from './compare.ts';
import { escape, plot, type Line } from './plot.ts';
import {
  conditionsText,
  failedChecks,
  failuresOf,
  figuresOf,
  fixed,
  judge,
  othersText,
  targetOf,
} from './table.ts';

const STYLE = `
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1b1b }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc }
table { border-collapse: collapse; margin: 0.5rem 0; font-size: 14px }
td, th { padding: 2px 12px 2px 0; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.missed { color: #b00020; font-weight: 600 } .met { color: #1d7a3a }
.plots { display: flex; flex-wrap: wrap; gap: 1rem } .plots svg { width: 32rem; max-width: 100% }
svg text { font: 11px system-ui, sans-serif; fill: #333 } svg .title { font-size: 13px; font-weight: 600 }
svg .grid { stroke: #e2e2e2; stroke-width: 1 }
pre { background: #f5f5f5; padding: 0.8rem; overflow-x: auto; font-size: 13px }
summary { cursor: pointer }
`;

export function htmlOf(report: Report): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Daftari benchmarks</title>
<style>${STYLE}</style></head>
<body>
<h1>Daftari benchmarks</h1>
<p>${escape(report.startedAt)}, ${fixed(report.seconds)} s: <code>${escape(report.command)}</code></p>
<pre>${escape(conditionsText(report.conditions))}</pre>
<p>Figures are medians of the repeats; ± is half of the way from the smallest to the largest. Latencies of open loops are
from the intended send time.</p>
${failuresOf(report)
  .map((text) => `<p class="missed">${escape(text)}</p>`)
  .join('\n')}
${report.against === undefined ? '' : `<pre>${escape(againstText(report.against, report))}</pre>`}
${report.scenarios.map(scenarioHtml).join('\n')}
${report.against === undefined ? '' : otherHtml(report.against)}
</body>
</html>
`;
}

function otherHtml({ conditions, scenarios }: Report): string {
  const commit = conditions.commit ?? 'unknown';
  return `<h1>Of commit ${escape(commit)}, measured in turn with it</h1>\n${scenarios.map(scenarioHtml).join('\n')}`;
}

function scenarioHtml(scenario: ScenarioResult): string {
  const { name, repeats } = scenario;
  const failed = failedChecks(repeats);
  const rows = figuresOf(repeats).map(({ figure, values }) => {
    const { median, spread } = summarize(values);
    const met = judge(figure, median, failed);
    const verdict = met === null ? '' : `<span class="${met === 'met' ? 'met' : 'missed'}">${met}</span>`;
    const noise = values.length > 1 ? `± ${fixed(spread * 100)} %` : '';
    return `<tr><td>${escape(figure.name)}</td><td class="number">${fixed(median)}</td><td>${figure.unit}</td><td>${noise}</td><td>${targetOf(figure)}</td><td>${verdict}</td></tr>`;
  });
  const checks = repeats.flatMap((repeat) => repeat.checks);
  const notes = [...new Set(repeats.flatMap((repeat) => repeat.notes))];
  return `<h2>${escape(name)}</h2>
<table>${rows.join('')}</table>
<p>${repeats.length} ${repeats.length === 1 ? 'repeat' : 'repeats'}; ${checks.length - failed.length} checks passed, ${failed.length} failed. ${escape(notes.join('; '))}</p>
${othersText(repeats)
  .map((text) => `<p>${escape(text)}</p>`)
  .join('')}
${failed.map(({ what, detail }) => `<p class="missed">${escape(what)}: ${escape(detail)}</p>`).join('')}
<div class="plots">${plotsOf(scenario).join('\n')}</div>
<details><summary>Loads and their conditions</summary>${loadsHtml(scenario)}</details>`;
}

function plotsOf({ name, repeats }: ScenarioResult): string[] {
  const loads = repeats.at(-1)?.loads ?? [];
  const open = loads.filter(({ loop }) => loop === 'open');
  return [
    plot({
      title: 'Latency by percentile (open loop)',
      xLabel: 'percentile',
      yLabel: 'ms',
      xLog: true,
      yLog: true,
      xText: (x) => `${trimPercent(100 - 100 / x)} %`,
      lines: open.map(percentileLine),
    }),
    plot({
      title: 'Throughput over time',
      xLabel: 'second',
      yLabel: 'answers a second',
      lines: loads
        .filter(({ series }) => series.length > 1)
        .map(({ label, series }) => ({
          label,
          points: series.map((value, second) => [second + 1, value] as const),
        })),
    }),
    plot({
      title: 'Latency against offered rate',
      xLabel: 'offered, requests a second',
      yLabel: 'ms',
      yLog: true,
      lines: rateLines(open),
    }),
    name === 'lists' ? listsPlot(repeats) : '',
  ].filter((svg) => svg !== '');
}

/** x is 1 / (1 - p): each step of a power of ten is one more nine. */
function percentileLine({ label, latency }: Load): Line {
  const points = latency.percentiles
    .filter(([percent]) => percent < 100)
    .map(([percent, ms]) => [100 / (100 - percent), ms] as const);
  return { label, points };
}

/** Of each server that took more than one. */
function rateLines(open: readonly Load[]): Line[] {
  const servers = [...Map.groupBy(open, ({ label }) => serverIn(label))].filter(
    ([, loads]) => loads.length > 1,
  );
  return servers.flatMap(([server, loads]) =>
    [50, 99, 99.9].map((percent) => rateLine(server, loads, percent)),
  );
}

/** With its colon, where a scenario has more than one. */
function serverIn(label: string): string {
  return label.slice(0, label.indexOf(': ') + 1);
}

function rateLine(server: string, loads: readonly Load[], percent: number): Line {
  const points = loads
    .map((load) => [load.offeredPerSecond ?? 0, latencyAt(load.latency, percent)] as const)
    .toSorted((a, b) => a[0] - b[0]);
  return { label: `${server} p${percent}`.trim(), points };
}

/** Figures named "… at N transactions" against N. */
function listsPlot(repeats: ScenarioResult['repeats']): string {
  const lines = new Map<string, [number, number][]>();
  for (const { figure, values } of figuresOf(repeats)) {
    const found = /^(?<label>.+) at (?<size>[\d,]+) transactions$/.exec(figure.name)?.groups;
    if (found === undefined || figure.unit !== 'µs') continue;
    const size = Number(found['size']!.replaceAll(',', ''));
    const label = found['label']!;
    lines.set(label, [...(lines.get(label) ?? []), [size, summarize(values).median]]);
  }
  return plot({
    title: 'Cost of a page against history',
    xLabel: 'transactions of the account',
    yLabel: 'µs',
    xLog: true,
    lines: Array.from(lines, ([label, points]) => ({ label, points })),
  });
}

function loadsHtml({ repeats }: ScenarioResult): string {
  const rows = repeats.flatMap(({ loads }, repeat) =>
    loads.map((load) => {
      const cells = [
        String(repeat + 1),
        escape(load.label),
        `${load.loop} loop by ${load.driver}, ${load.connections} connections, ${fixed(load.warmUpSeconds)} s + ${fixed(load.seconds)} s`,
        load.offeredPerSecond === null ? '' : fixed(load.offeredPerSecond),
        fixed(load.perSecond),
        countsText(load.statuses),
        countsText({ ...load.errors, ...(load.unsent === 0 ? {} : { unsent: load.unsent }) }),
        [50, 99, 99.9, 100].map((percent) => fixed(latencyAt(load.latency, percent))).join(' / '),
        load.driverLateMsP99 === null ? '' : fixed(load.driverLateMsP99),
        [
          ...load.processes.map(processText),
          ...(typeof load.othersCpu === 'number' ? [`others ${fixed(load.othersCpu)}`] : []),
        ].join('<br>'),
        load.log === null
          ? ''
          : `${fixed(load.log.recordsPerFlush)} records a flush, ${fixed(load.log.flushesPerSecond)} flushes/s, ${fixed(load.log.flushMeanMs)} ms each, ${fixed(load.log.bytesPerRecord)} B a record`,
      ];
      return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
    }),
  );
  const heads = [
    'repeat',
    'load',
    'driver',
    'offered /s',
    'done /s',
    'answers',
    'errors',
    'p50 / p99 / p99.9 / max ms',
    'driver late p99 ms',
    'CPU (cores), memory',
    'log',
  ];
  return `<table><tr>${heads.map((head) => `<th>${head}</th>`).join('')}</tr>${rows.join('')}</table>`;
}

function processText({ name, cpu, anonMiB, threads }: Load['processes'][number]): string {
  const parts = threads.map((thread) => `${escape(thread.name)} ${fixed(thread.cpu)}`).join(', ');
  return `${escape(name)} ${fixed(cpu)}, ${fixed(anonMiB)} MiB (${parts})`;
}

function countsText(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([what, count]) => `${escape(what)}: ${count.toLocaleString('en')}`)
    .join(', ');
}

function trimPercent(percent: number): string {
  return String(Number(percent.toFixed(4)));
}
