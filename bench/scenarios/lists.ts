// Pages of lists as one account's history grows: every filter combination must cost the same at any size. The history is
// one account's, which is the worst case; it grows between the sizes within one repeat.
//
// What is compared is CPU time of the service a page: throughput would also measure whoever else uses the cores.

import type { Bench, Prepared, Scenario } from '../bench.ts';
import { checkAnswers, spread } from '../check.ts';
import { getAs } from '../load/send-once.ts';
import { linesOf, targetsOf } from '../load/work.ts';
import { timeOf } from '../../src/domain/id.ts';
import { latencyAt, type Check, type Figure, type Load } from '../result.ts';
import type { Service } from '../servers/start-service.ts';
import { workOf } from './peaks.ts';

const CONNECTIONS = 16;
const GROWTH_TARGET = 2;
const REFERENCES = 500;
/** Of a form's load: there are many kinds of page. */
const SECONDS_PART = 0.3;
const US_PER_SECOND = 1e6;
const NOTHING = 'that match nothing';
const PATHS_CHECKED = 10;

export const lists: Scenario = {
  name: 'lists',
  summary: 'pages of one account’s history, by filter and by size of the history',
  needs: null,
  async run(bench) {
    const { listTransactions } = bench.options;
    const directory = bench.directory();
    const figures: Figure[] = [];
    const loads: Load[] = [];
    const checks: Check[] = [];
    const costs = new Map<string, number[]>();
    let written = 0;
    for (const size of listTransactions) {
      const wishes = { accounts: 1, deposits: 2, shape: 'mixed', firstNumber: written } as const;
      const prepared = await bench.prepare({ ...wishes, transactions: size - written }, directory);
      written = size;
      const server = await bench.serviceAtRest(prepared);
      for (const [kind, paths] of await pagesOf(server, prepared, size)) {
        const { load, cost } = await measurePages(bench, server, prepared, `${kind}, ${size}`, paths);
        loads.push(load);
        checks.push(checkAnswers(load), await checkRows(server, prepared, `${kind}, ${size}`, paths));
        costs.set(kind, [...(costs.get(kind) ?? []), cost ?? latencyAt(load.latency, 50) * 1_000]);
        const name = `${kind} at ${size.toLocaleString('en')} transactions`;
        figures.push({ name, unit: 'µs', value: costs.get(kind)!.at(-1)!, better: 'less' });
      }
      await bench.stop(server);
    }
    for (const [kind, of] of costs) {
      const value = of.at(-1)! / of[0]!;
      figures.push({
        name: `${kind}, largest / smallest`,
        unit: '×',
        value,
        better: 'less',
        target: GROWTH_TARGET,
      });
    }
    return { figures, loads, checks, notes: ['CPU of the service a page; pages of 25'] };
  },
};

async function measurePages(
  bench: Bench,
  server: Service,
  prepared: Prepared,
  label: string,
  paths: readonly string[],
): Promise<{ load: Load; cost: number | null }> {
  const { load } = await bench.drive({
    label,
    server,
    work: workOf(bench, prepared, ['list'], { lists: paths }),
    connections: CONNECTIONS,
    seconds: bench.options.seconds * SECONDS_PART,
    warmUpSeconds: Math.min(1, bench.options.warmUpSeconds),
  });
  const cpu = load.processes[0]?.cpu;
  return { load, cost: cpu === undefined ? null : (cpu / load.perSecond) * US_PER_SECOND };
}

/** An empty page is cheap, whatever the history: of some paths, as many rows as there should be. */
async function checkRows(
  server: Service,
  prepared: Prepared,
  label: string,
  paths: readonly string[],
): Promise<Check> {
  const [key = ''] = linesOf(prepared.keysFile);
  const counts = await Promise.all(
    spread(paths, PATHS_CHECKED).map(async (path) => (await get(server, key, path)).data.length),
  );
  const isEmpty = label.startsWith(NOTHING);
  return {
    what: `${label}: pages ${isEmpty ? 'are empty' : 'have rows'}`,
    passed: counts.every((count) => (count === 0) === isEmpty),
    detail: `rows: ${counts.join(', ')}`,
  };
}

/** Kinds of pages, each with the paths it takes in turn. */
async function pagesOf(server: Service, prepared: Prepared, size: number): Promise<Map<string, string[]>> {
  const [key = ''] = linesOf(prepared.keysFile);
  const ids = targetsOf(prepared.idsFile, [key]);
  const middle = new Date(timeOf(ids[ids.length >> 1]!.id)).toISOString();
  const half = await get(server, key, `/v1/charges?limit=1&created_before=${middle}`);
  const references = Array.from(
    { length: Math.min(REFERENCES, size) },
    (_, n) => `h-${Math.floor((n * size) / Math.min(REFERENCES, size))}`,
  );
  return new Map([
    ['newest', ['/v1/transactions', '/v1/charges']],
    ['from the middle', [`/v1/charges?starting_after=${encodeURIComponent(half.next_cursor ?? '')}`]],
    ['by status', ['/v1/charges?status=FAILED', '/v1/transactions?status=SUCCESSFUL']],
    ['by type', ['/v1/transactions?type=PAYOUT', '/v1/transactions?type=DEPOSIT']],
    ['by reference', references.map((reference) => `/v1/transactions?reference=${reference}`)],
    ['by time and status', [`/v1/charges?status=FAILED&network=MTN&created_before=${middle}`]],
    [NOTHING, ['/v1/charges?status=REVERSED&country=KE', '/v1/transactions?currency=KES&type=CHARGE']],
  ]);
}

interface Page {
  readonly data: readonly unknown[];
  readonly next_cursor: string | null;
}

async function get(server: Service, key: string, path: string): Promise<Page> {
  const response = await getAs(server, key, path);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Page;
}
