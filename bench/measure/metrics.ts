// The Prometheus text format, as far as /metrics of the service uses it.

export interface Metric {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^(?<name>[a-zA-Z_:][\w:]*)(?:\{(?<labels>.*)\})? (?<value>\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Metric[] {
  return text.split('\n').flatMap((line) => {
    const groups = LINE.exec(line)?.groups;
    if (groups === undefined) return [];
    const labels = Object.fromEntries(
      Array.from((groups['labels'] ?? '').matchAll(LABEL), ([, name, value]) => [name!, value!]),
    );
    return [{ name: groups['name']!, labels, value: Number(groups['value']) }];
  });
}

/** Sum over every combination of labels that has these. Throws where there is none: a time or a length of 0 meets any target. */
export function sumOf(
  metrics: readonly Metric[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number {
  const found = withLabels(metrics, name, labels);
  if (found.length === 0) throw new Error(`there is no ${name} ${JSON.stringify(labels)} at /metrics`);
  return found.reduce((sum, { value }) => sum + value, 0);
}

/** The same of a counter, which is 0 where it is not told: it may not have counted yet. */
export function countOf(
  metrics: readonly Metric[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number {
  return withLabels(metrics, name, labels).reduce((sum, { value }) => sum + value, 0);
}

function withLabels(
  metrics: readonly Metric[],
  name: string,
  labels: Readonly<Record<string, string>>,
): readonly Metric[] {
  return metrics
    .filter((metric) => metric.name === name)
    .filter((metric) => Object.entries(labels).every(([key, value]) => metric.labels[key] === value));
}
