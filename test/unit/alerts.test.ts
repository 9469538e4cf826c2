// The alerts of deploy/prometheus over time, as Prometheus itself has it: what fires, and above all what does not; and that it can
// compute what the dashboard of deploy/grafana shows. That their metrics exist is proven by test/api/operator-documents.test.ts.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { queries } from '../dashboard.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const ALERTS = join(import.meta.dirname, '../../deploy/prometheus/alerts.yaml');

const skip =
  spawnSync('promtool', ['--version']).status === 0
    ? false
    : 'promtool is not installed: apt-get install -y prometheus';

/** Series with their values, one a minute, in the notation of promtool. */
type Story = Readonly<Record<string, string>>;

interface Told {
  readonly title: string;
  readonly series: Story;
  readonly alert: string;
  /** Minutes. */
  readonly firesAt: readonly number[];
  readonly silentAt: readonly number[];
}

/** What promtool finds wrong; empty: nothing. */
function wrongWith(directory: string, { series, alert, firesAt, silentAt }: Told): string {
  const isFiring = (minute: number, value: number): object => ({
    expr: `count(ALERTS{alertname="${alert}", alertstate="firing"}) or vector(0)`,
    eval_time: `${minute}m`,
    exp_samples: [{ labels: '{}', value }],
  });
  const test = {
    rule_files: [ALERTS],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
        promql_expr_test: [...firesAt.map((at) => isFiring(at, 1)), ...silentAt.map((at) => isFiring(at, 0))],
      },
    ],
  };
  const file = join(directory, 'test.yaml');
  writeFileSync(file, JSON.stringify(test));
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' });
  return status === 0 ? '' : `${stdout}${stderr}`;
}

const log = (node: string): string =>
  `daftari_log_sequence{job="daftari", instance="${node}", group="accounts"}`;
const webhooks = (node: string): string =>
  `daftari_log_sequence{job="daftari", instance="${node}", group="webhooks"}`;
const feed = (node: string): string => `daftari_webhook_feed_sequence{job="daftari", instance="${node}"}`;
const started = (node: string): string => `process_start_time_seconds{job="daftari", instance="${node}"}`;

const NOT_TAKEN_UP = 'DaftariWebhooksNotTakenUp';
const answered = (status: string): string =>
  `daftari_http_request_duration_seconds_count{job="daftari", instance="a", surface="v1", status="${status}"}`;
const crowdedOut = (reason: string): string =>
  `daftari_http_crowded_out_total{job="daftari", instance="a", reason="${reason}"}`;

const lag = (group: string): string =>
  `daftari_checkpoint_lag_records{job="daftari", instance="a", group="${group}"}`;

const STARTS_AGAIN = 'DaftariStartsAgain';

for (const told of [
  {
    title: 'nobody reads on for webhooks: an alert, until it is made good',
    series: {
      [log('a')]: '1000+60x60',
      [feed('a')]: '1000+60x10 1600x30 3520+60x20',
      [log('b')]: '500x60',
      [feed('b')]: '500x60',
    },
    alert: NOT_TAKEN_UP,
    firesAt: [26, 40],
    silentAt: [10, 20, 50],
  },
  {
    title: 'nobody reads on, and nothing new is written: one record is enough',
    series: { [log('a')]: '1000x5 1001x60', [feed('a')]: '1000x65' },
    alert: NOT_TAKEN_UP,
    firesAt: [30, 60],
    silentAt: [10],
  },
  {
    title: 'who reads a second behind is not told of',
    series: { [log('a')]: '1000+6000x60', [feed('a')]: '900+6000x60', [webhooks('a')]: '1+9000x60' },
    alert: NOT_TAKEN_UP,
    firesAt: [],
    silentAt: [10, 30, 60],
  },
  {
    title: 'partitions that move, accounts before their webhooks, are not told of',
    series: {
      [log('a')]: '1000x20 500x40',
      [log('b')]: '1000x20 1500x40',
      [feed('a')]: '1000x22 500x38',
      [feed('b')]: '1000x24 1500x36',
    },
    alert: NOT_TAKEN_UP,
    firesAt: [],
    silentAt: Array.from({ length: 60 }, (_, minute) => minute),
  },
  {
    title: 'a partition that is not served any more is told of by another alert alone',
    series: { [log('a')]: '1000+9x20 600+9x40', [feed('a')]: '1000+9x20 600+9x40' },
    alert: NOT_TAKEN_UP,
    firesAt: [],
    silentAt: Array.from({ length: 60 }, (_, minute) => minute),
  },
  {
    title: 'a node that is gone for minutes is not told of as webhooks that wait',
    series: {
      [log('a')]: '1000+9x60',
      [feed('a')]: '1000+9x60',
      [log('b')]: '1000+9x20 _x6 1300+9x30',
      [feed('b')]: '1000+9x20 _x6 1300+9x30',
    },
    alert: NOT_TAKEN_UP,
    firesAt: [],
    silentAt: Array.from({ length: 60 }, (_, minute) => minute),
  },
  {
    title: 'a process that ends again and again is told of, though each scrape finds one',
    series: { [started('a')]: '100x9 700x9 1300x9 1900x9 2500x60', [started('b')]: '100x100' },
    alert: STARTS_AGAIN,
    firesAt: [41, 60],
    silentAt: [35, 90],
  },
  {
    title: 'a process that was started for a new version is not told of',
    series: { [started('a')]: '100x9 700x9 1300x60' },
    alert: STARTS_AGAIN,
    firesAt: [],
    silentAt: [10, 20, 60],
  },
  {
    title: 'views that fall behind are told of long before changes are refused, whichever groups they are of',
    series: {
      [lag('accounts')]: `${LIMITS.checkpointLagMax / 50}x20 ${LIMITS.checkpointLagMax / 4}x30 0x20`,
      [lag('webhooks')]: `${LIMITS.checkpointLagMax / 50}x20 ${LIMITS.checkpointLagMax / 4}x30 0x20`,
    },
    alert: 'DaftariCheckpointsLag',
    firesAt: [40, 50],
    silentAt: [10, 20, 60],
  },
  ...(
    [
      ['DaftariNeedsAPerson', 'daftari_rail_notices_total', 'what="no_rail"', 60],
      ['DaftariOurFault', 'daftari_rail_our_faults_total', 'rail="mtn_ug"', 15],
      ['DaftariCallbacksUnknown', 'daftari_callbacks_unknown_total', 'rail="mtn_ug"', 60],
    ] as const
  ).flatMap(([alert, metric, label, minutes]) => {
    const counted = `${metric}{job="daftari", instance="a", ${label}}`;
    // The tests' time begins at 0.
    const stories: readonly (readonly [string, Story, number])[] = [
      [
        'by an instance that was not there before',
        { [started('a')]: '_x10 600x200', [counted]: '_x10 3x200' },
        10,
      ],
      ['once more by one that starts again', { [started('a')]: '0x99 6000x111', [counted]: '3x210' }, 100],
      ['by one that has run for long', { [started('a')]: '0x210', [counted]: '0x99 1x111' }, 100],
    ];
    return stories.map(([by, series, at]) => ({
      title: `${alert}: what is found before the first scrape is told of, too: ${by}`,
      series,
      alert,
      firesAt: [at + 1, at + minutes - 2],
      silentAt: [at - 1, at + minutes + 2],
    }));
  }),
  {
    title:
      'a service of which Prometheus finds no process any more is told of, as of a pod that no node takes',
    series: { 'up{job="daftari", instance="a"}': '1x9 _x20 1x30' },
    alert: 'DaftariGone',
    firesAt: [20, 28],
    silentAt: [5, 10, 35, 50],
  },
  {
    title: 'so is one that it never finds, as where its job has another name',
    series: { 'up{job="payments", instance="a"}': '1x30' },
    alert: 'DaftariGone',
    firesAt: [10, 30],
    silentAt: [],
  },
  {
    title: 'one that does not answer is told of as that',
    series: { 'up{job="daftari", instance="a"}': '1x9 0x20' },
    alert: 'DaftariGone',
    firesAt: [],
    silentAt: [5, 15, 25],
  },
  // 100 MB a day.
  ...(
    [
      ['is told of before changes are refused', 360_000_000, 268_435_456, [40, 100], [10]],
      ['with a long way to go is not told of', 500_000_000, 268_435_456, [], [10, 40, 100]],
      ['where nothing is kept back, before it is full', 90_000_000, 0, [40, 100], [10]],
    ] as const
  ).map(([what, free, reserve, firesAt, silentAt]) => ({
    title: `a disk that fills slowly ${what}`,
    series: {
      'daftari_disk_free_bytes{job="daftari", instance="a"}': `${free}-69444x120`,
      'daftari_disk_reserve_bytes{job="daftari", instance="a"}': `${reserve}x120`,
    },
    alert: 'DaftariDiskFillsUp',
    firesAt,
    silentAt,
  })),
  {
    title: 'bodies that come slowly, without end, are told of, until they end',
    series: { [crowdedOut('slow_body')]: '0x10 0+600x30 18000x30', [crowdedOut('connection')]: '0x70' },
    alert: 'DaftariSlowBodies',
    firesAt: [20, 40],
    silentAt: [10, 50, 70],
  },
  {
    title: 'and are no service that refuses what it is asked',
    series: {
      [crowdedOut('slow_body')]: '0+600x60',
      [answered('201')]: '0+600x60',
      [answered('503')]: '0+2x60',
    },
    alert: 'DaftariRefusesRequests',
    firesAt: [],
    silentAt: [10, 30, 60],
  },
  {
    title: 'a handful of clients that dawdled are nothing to be told of',
    series: { [crowdedOut('slow_body')]: '0x10 40x50' },
    alert: 'DaftariSlowBodies',
    firesAt: [],
    silentAt: [10, 15, 30, 60],
  },
  {
    title: 'connections that are closed as they come are told of, until there is room again',
    series: { [crowdedOut('connection')]: '0x10 0+60x30 1800x30', [crowdedOut('slow_body')]: '0x70' },
    alert: 'DaftariConnectionsRefused',
    firesAt: [20, 40],
    silentAt: [10, 50, 70],
  },
] satisfies readonly Told[]) {
  t.test(told.title, { skip }, async (t) => {
    t.equal(wrongWith(temporaryDirectory(t), told), '');
  });
}

t.test('from which lag on changes are refused is said as it is', (t) => {
  t.match(readFileSync(ALERTS, 'utf8'), `and at ${LIMITS.checkpointLagMax} changes are refused'`);
  t.end();
});

/** What promtool finds wrong with a file of rules; empty: nothing. */
function noRules(file: string): string {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
  return status === 0 ? '' : `${stdout}${stderr}`;
}

t.test('the rules are rules', { skip }, async (t) => {
  t.equal(noRules(ALERTS), '');
});

t.test('Prometheus can compute what the dashboard shows', { skip }, async (t) => {
  t.ok(queries.length > 10);
  // Grafana puts its variables in.
  const rules = queries.map((query, index) => ({
    record: `query:${index}`,
    expr: query.replaceAll('$__rate_interval', '5m').replaceAll(/\$(?:job|instance)/g, 'daftari'),
  }));
  const file = join(temporaryDirectory(t), 'dashboard.yaml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
  t.equal(noRules(file), '');
});
