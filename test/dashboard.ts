// The dashboard of deploy/grafana, as far as tests read it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>;
  readonly targets?: readonly { readonly expr: string }[];
}

const file = join(import.meta.dirname, '../deploy/grafana/dashboard.json');

export const { panels } = JSON.parse(readFileSync(file, 'utf8')) as { readonly panels: readonly Panel[] };

/** With Grafana's variables in them. */
export const queries: readonly string[] = panels.flatMap(({ targets = [] }) =>
  targets.map(({ expr }) => expr),
);
