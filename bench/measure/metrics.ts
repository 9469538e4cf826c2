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

/** Sum over every combination of labels that has these. */
export function sumOf(
  metrics: readonly Metric[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number {
  return metrics
    .filter((metric) => metric.name === name)
    .filter((metric) => Object.entries(labels).every(([key, value]) => metric.labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0);
}
