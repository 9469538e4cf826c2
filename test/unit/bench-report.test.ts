// What the bench prints and draws, and what its command line takes.

import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import t from 'tap';
import { parseCommand, UsageError } from '../../bench/options.ts';
import { againstText, compareText } from '../../bench/report/compare.ts';
import { htmlOf } from '../../bench/report/html.ts';
import { plot } from '../../bench/report/plot.ts';
import { fixed, reportText, scenarioText } from '../../bench/report/table.ts';
import {
  PERCENTILES,
  reportOf,
  type Figure,
  type Load,
  type Repeat,
  type Report,
} from '../../bench/result.ts';
import { latencyFigures } from '../../bench/scenarios/peaks.ts';

const load: Load = {
  label: 'service, <peak>',
  driver: 'node',
  loop: 'open',
  connections: 256,
  offeredPerSecond: 5_000,
  warmUpSeconds: 1,
  seconds: 3,
  statuses: { 201: 15_000, 503: 2 },
  errors: { timeout: 1 },
  unsent: 4,
  perSecond: 5_000,
  latency: { meanMs: 2, maxMs: 30, percentiles: PERCENTILES.map((percent) => [percent, percent / 10]) },
  driverLateMsP99: 0.5,
  series: [4_900, 5_000, 5_100],
  processes: [
    {
      name: 'service',
      cpu: 0.8,
      rssMiB: 400,
      anonMiB: 300,
      anonGrowth: 1,
      threads: [{ name: 'node (main)', cpu: 0.7 }],
    },
  ],
  log: {
    flushesPerSecond: 400,
    recordsPerFlush: 25,
    flushMeanMs: 1.5,
    bytesPerRecord: 160,
    recordsPerSecond: 10_000,
  },
};

function repeat(peak: number): Repeat {
  return {
    figures: [
      { name: 'service, peak', unit: '/s', value: peak, better: 'more' },
      { name: 'service / bare', unit: '×', value: peak / 40_000, better: 'more', target: 0.5 },
    ],
    loads: [load, { ...load, label: 'more', offeredPerSecond: 10_000 }],
    checks: [{ what: 'ids exist', passed: peak > 1_000, detail: '9 of 10' }],
    notes: ['a note'],
  };
}

function report(peaks: number[]): Report {
  return {
    format: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    seconds: 12,
    command: 'npm run bench -- charges',
    conditions: {
      cores: 2,
      cpu: 'A processor',
      memoryMiB: 8_000,
      node: 'v22.0.0',
      kernel: 'linux 6',
      commit: 'abc1234',
      dataDirectory: '/data',
      fileSystem: 'ext4',
      fsync: { perSecond: 5_000, p50Ms: 0.2, p99Ms: 0.4 },
      loadAverage: 0.1,
      closedLoopDriver: 'wrk',
    },
    scenarios: [{ name: 'charges', repeats: peaks.map(repeat) }],
  };
}

function withFigure(report: Report, name: string, unit: string, value: number): Report {
  const figure: Figure = { name, unit, value, better: 'more' };
  const scenarios = report.scenarios.map(({ repeats, ...scenario }) => {
    return { ...scenario, repeats: repeats.map((one) => ({ ...one, figures: [...one.figures, figure] })) };
  });
  return { ...report, scenarios };
}

t.test('of few answers no percentile is told that none of them lies beyond', async (t) => {
  const told = (done: number, refused: number, unsent: number): string[] => {
    const statuses = { '201': done, '503': refused };
    return latencyFigures({ ...load, statuses, unsent }, 0.5).map(({ name }) => name.split(' ')[0]!);
  };
  t.strictSame(told(2_000, 0, 0), ['p50', 'p99', 'p99.9']);
  t.strictSame(told(900, 50, 50), ['p50', 'p99', 'p99.9'], 'whatever became of them');
  t.strictSame(told(900, 50, 49), ['p50', 'p99']);
  t.strictSame(told(99, 0, 0), ['p50']);
});

t.test('the table tells the median, the spread, the target and the checks', async (t) => {
  const text = scenarioText(report([20_000, 22_000, 24_000]).scenarios[0]!);
  t.match(text, /service, peak +22,000 \/s +± 9\.09 %/);
  t.match(text, /service \/ bare +0\.550 × .*target ≥ 0\.500: met/);
  t.match(text, /checks: 3 passed, 0 failed/);
  t.match(text, /p50 5\.00, p99 9\.90 ms, driver late p99 0\.500 ms, 4 unsent /);
  const bad = scenarioText(report([900]).scenarios[0]!);
  t.match(bad, /not judged/);
  t.match(scenarioText(report([1_001]).scenarios[0]!), /MISSED/);
  t.match(bad, /FAILED ids exist: 9 of 10/);
});

t.test('no target is met by figures whose checks failed', async (t) => {
  const [scenario] = report([20_000, 22_000]).scenarios;
  const [one, other] = scenario!.repeats;
  const checks = [{ what: 'ids exist', passed: false, detail: '9 of 10' }];
  const untrue = { ...scenario!, repeats: [one!, { ...other!, checks }] };
  t.match(scenarioText(scenario!), /target ≥ 0\.500: met$/m);
  t.match(scenarioText(untrue), /target ≥ 0\.500: not judged, a check failed$/m);
  t.match(htmlOf({ ...report([]), scenarios: [scenario!] }), /class="met">met</);
  const page = htmlOf({ ...report([]), scenarios: [untrue] });
  t.match(page, /class="missed">not judged, a check failed</);
  t.notMatch(page, /class="met">/);
});

t.test('a figure that is no number in one repeat is none, and meets nothing', async (t) => {
  const withNone = (repeats: readonly Repeat[]): Report => ({
    ...report([]),
    scenarios: [{ name: 'charges', repeats }],
  });
  const none = withNone([20_000, 22_000, Number.NaN].map((peak) => ({ ...repeat(peak), checks: [] })));
  const first = withNone(none.scenarios[0]!.repeats.toReversed());
  for (const each of [none, first, reportOf(JSON.stringify(none))]) {
    t.match(reportText(each), /service \/ bare +NaN .* MISSED/);
    t.match(compareText(report([20_000, 22_000]), each), /service, peak +21,000 → NaN .* no number/);
  }
});

t.test('a target is met by what just reaches it, and repeats and checks are counted', async (t) => {
  const figure = (value: number, better: 'more' | 'less'): Figure => {
    return { name: better, unit: 'ms', value, better, target: 10 };
  };
  const check = { what: 'ids exist', passed: true, detail: '' };
  const of = (values: readonly number[], failed: number): string => {
    const repeats = values.map((value, nth) => ({
      figures: [figure(value, 'more'), figure(value, 'less')],
      loads: [{ ...load, label: `load ${nth + 1}` }],
      checks: [check, { ...check, passed: nth >= failed }],
      notes: [],
    }));
    return scenarioText({ name: 'charges', repeats });
  };
  const met = of([8, 10, 12], 0);
  t.match(
    met,
    /^charges {3}\(3 repeats\)\n {2}more {2}10\.0 ms {2}± 20\.0 % {2}target ≥ 10\.0: met\n {2}less .* ≤ 10\.0: met$/m,
  );
  t.match(met, /^ {2}checks: 6 passed, 0 failed$/m);
  t.match(met, /loads of the last repeat:\n {2}load 3 /);
  t.match(
    of([10.1], 0),
    /\(1 repeat\)\n {2}more {2}10\.1 ms {4}target ≥ 10\.0: met\n {2}less .* ≤ 10\.0: MISSED$/m,
  );
  t.match(
    of([9.9, 9.9], 0),
    /\(2 repeats\)\n {2}more .*± 0 % .* ≥ 10\.0: MISSED\n {2}less .* ≤ 10\.0: met$/m,
  );
  t.match(of([10, 10, 10], 2), /^ {2}checks: 4 passed, 2 failed$/m);
});

t.test('others who used the cores are told, where there were any', async (t) => {
  const beside = (othersCpu: number): Report => {
    const [scenario] = report([20_000]).scenarios;
    const [one] = scenario!.repeats;
    return {
      ...report([]),
      scenarios: [{ ...scenario!, repeats: [{ ...one!, loads: [{ ...load, othersCpu }] }] }],
    };
  };
  const words = /others used up to 1\.20 cores during a load/;
  t.match(reportText(beside(1.2)), words);
  t.match(htmlOf(beside(1.2)), words);
  t.notMatch(reportText(beside(0.03)), /others used/);
  t.notMatch(reportText(report([20_000])), /others/, 'a report that does not know');
});

t.test('what could not be measured is told wherever the report is read', async (t) => {
  const died = { scenario: 'reads', error: 'the service <ended>' };
  const whole = report([20_000]);
  const part = { ...whole, failures: [died, died] };
  const words = /reads could not be measured 2 times, first: the service/;
  t.match(reportText(part), new RegExp(`FAILED ${words.source} <ended>`));
  t.match(htmlOf(part), new RegExp(`${words.source} &lt;ended&gt;`));
  t.match(compareText(whole, part), new RegExp(`^after: ${words.source} <ended>`, 'm'));
  for (const text of [reportText(whole), htmlOf(whole), compareText(whole, whole)]) {
    t.notMatch(text, /could not be measured/);
  }
});

t.test('numbers have three digits', async (t) => {
  t.strictSame([0, 0.01234, 1.234, 12.34, 123.4, 1_234_567].map(fixed), [
    '0',
    '0.012',
    '1.23',
    '12.3',
    '123',
    '1,234,567',
  ]);
});

t.test('compare prints ratios, and says what is within the noise', async (t) => {
  const same = compareText(report([20_000, 21_000, 20_500]), report([20_200, 20_900, 20_700]));
  t.match(
    same,
    /service, peak .*× 1\.010 +within the noise of the repeats \(which show changes above 5\.68 %\)/,
  );
  const worse = compareText(report([20_000, 20_100, 20_050]), report([15_000, 15_100, 15_050]));
  t.match(worse, /service, peak .*× 0\.751 +WORSE \(± 0\.766 %\)/);
  t.match(worse, /\n\n2 of 2 figures differ; at 95 %, one in twenty does where nothing was changed$/);
  const [before, after] = [
    [20_000, 20_100],
    [15_000, 15_100],
  ].map((peaks) => withFigure(report(peaks), 'bare, peak', '/s', 40_000));
  const mixed = compareText(before!, after!);
  t.match(mixed, /bare, peak +40,000 → 40,000 \/s +× 1\.000 +within the noise/);
  t.match(mixed, /\n\n2 of 3 figures differ/);
  t.match(compareText(report([2_000]), report([3_000])), /too few repeats[^\n]*$/, 'none is judged');
  const none = compareText(report([20_000, 21_000, 20_500]), report([20_000, 0, 20_500]));
  t.match(none, /service, peak +20,500 → 20,000 \/s +× 0\.976 +a repeat has 0, of which there is no ratio/);
  t.notMatch(none, /too few repeats/);
  const other = { ...report([1]), conditions: { ...report([1]).conditions, cores: 64 } };
  t.match(compareText(report([1]), other), /differs: cores: 2 \/ 64/);
  const quicker = { ...report([1]).conditions, fsync: { perSecond: 7_500, p50Ms: 0.1, p99Ms: 0.2 } };
  t.match(
    compareText(report([1]), { ...report([1]), conditions: quicker }),
    /^fsyncs a second: × 1\.50; commits/m,
  );
  const two = compareText(report([20_000, 21_000, 20_500]), report([20_000, 0]));
  t.match(two, /× 0\.488 +a repeat has 0/, 'two are enough otherwise');
  t.match(compareText(report([20_000, 21_000]), report([20_000])), /too few repeats/);
  const elsewhere = { ...report([1]), scenarios: [{ name: 'reads', repeats: [repeat(1)] }] };
  t.match(compareText(report([1]), elsewhere), /differs: scenarios: charges \/ reads/);
  const exported = { ...report([1]), conditions: { ...report([1]).conditions, commit: null } };
  t.match(compareText(report([1]), exported), /commits abc1234 → unknown$/m);
});

t.test('compare tells of figures that only one of both has, or in another unit', async (t) => {
  const [whole, part] = [report([20_000, 21_000]), report([20_000, 21_000])];
  const changed = (change: (figure: Figure) => Figure[]): Report => ({
    ...part,
    scenarios: part.scenarios.map(({ name, repeats }) => {
      return { name, repeats: repeats.map((each) => ({ ...each, figures: each.figures.flatMap(change) })) };
    }),
  });
  const without = changed((figure) => (figure.name === 'service, peak' ? [] : [figure]));
  t.match(compareText(whole, without), /^  only before: service, peak$/m);
  t.match(compareText(without, whole), /^  only after: service, peak$/m);
  const inMinutes = changed((figure) =>
    figure.name === 'service, peak' ? [{ ...figure, unit: '/min' }] : [figure],
  );
  const text = compareText(whole, inMinutes);
  t.match(text, /^  only before: service, peak$/m);
  t.notMatch(text, /× 1\.000 .*\n.*× 1\.000/);
  t.notMatch(compareText(whole, whole), /only/);
});

t.test('what only follows from the load is neither better nor worse', async (t) => {
  const flushing = (times: readonly number[]): Report => ({
    ...report([]),
    scenarios: [
      {
        name: 'charges',
        repeats: times.map((value) => ({
          figures: [{ name: 'log, flushes', unit: '/s', value, better: 'neither' }],
          loads: [],
          checks: [],
          notes: [],
        })),
      },
    ],
  });
  const text = compareText(flushing([100, 101, 102]), flushing([170, 171, 172]));
  t.match(text, /log, flushes .*× 1\.693 +differs \(± /);
  t.notMatch(text, /better|WORSE/);
});

t.test('a comparison with figures whose checks failed says so', async (t) => {
  const [good, bad] = [report([20_000, 20_100]), report([900, 20_000])];
  for (const text of [compareText(bad, good), againstText(bad, good)]) {
    t.match(text, /^  FAILED before: ids exist: 9 of 10$/m);
    t.notMatch(text, /FAILED after/);
  }
  t.match(compareText(good, bad), /^  FAILED after: ids exist: 9 of 10$/m);
  t.notMatch(compareText(good, good), /FAILED/);
});

t.test('compare tells of another command, but for where its report went to', async (t) => {
  const by = (args: string): Report => ({ ...report([1]), command: `npm run bench -- charges${args}` });
  const before = by(' --json before.json --repeats 3');
  t.notMatch(compareText(before, by(' --json=after.json --repeats 3 --html /tmp/after.html')), /differs/);
  t.match(
    compareText(before, by(' --json after.json --repeats 4')),
    /differs: command: npm run bench -- charges --repeats 3 \/ npm run bench -- charges --repeats 4$/m,
  );
});

t.test('a report of two checkouts measured in turn has both, and compare tells of their pairs', async (t) => {
  const before = report([20_000, 10_000, 16_000]);
  const after = report([21_000, 10_520, 16_780]);
  const both = JSON.stringify({ ...after, against: before });
  t.strictSame(reportOf(both).against, before);
  t.throws(() => reportOf(both.replace(JSON.stringify(before), '{}')), /it has no format/);
  const directory = t.testdir({ 'both.json': both, 'one.json': JSON.stringify(after) });
  const compare = (name: string) =>
    spawnSync(process.execPath, ['bench/cli.ts', 'compare', `${directory}/${name}`], { encoding: 'utf8' });
  t.equal(compare('both.json').stdout, `${againstText(before, after)}\n`);
  t.match(compare('one.json'), {
    status: 2,
    stderr: /one\.json is of one checkout: compare takes two reports, /,
  });
});

t.test('two checkouts measured in turn are compared by pairs', async (t) => {
  // Each pair differs by 5 %, and the machine by more from pair to pair.
  const before = report([20_000, 10_000, 16_000]);
  const after = report([21_000, 10_520, 16_780]);
  t.match(againstText(before, after), /^in turn: commits abc1234 → abc1234, by pairs\n/);
  t.match(againstText(before, after), /service, peak .*× 1\.050 +better/);
  t.match(compareText(before, after), /service, peak .*within the noise/);
  t.match(againstText(before, report([21_000, 10_520])), /within the noise/, 'without pairs as two runs');
});

t.test('the page stands alone', async (t) => {
  const page = htmlOf(report([20_000, 21_000, 22_000]));
  t.match(page, /^<!doctype html>/);
  t.notMatch(page, /<script|<link|src=|https?:\/\//, 'it fetches nothing');
  t.match(page, /service, &lt;peak&gt;/, 'texts are escaped');
  t.notMatch(page, /<peak>/);
  for (const title of ['Latency by percentile', 'Throughput over time', 'Latency against offered rate']) {
    t.match(page, new RegExp(`<svg[^]*${title}`));
  }
  t.notMatch(page, /NaN|undefined/);
});

t.test('the page of two checkouts measured in turn has both, and their pairs', async (t) => {
  const before = {
    ...report([20_000, 10_000, 16_000]),
    conditions: { ...report([]).conditions, commit: 'old5678' },
  };
  const after = report([21_000, 10_520, 16_780]);
  const page = htmlOf({ ...after, against: before });
  t.match(page, /<pre>in turn: commits old5678 → abc1234, by pairs\n[^<]*service, peak .*× 1\.050 +better/);
  t.match(
    page,
    /<h2>charges<\/h2>[^]*<h1>Of commit old5678, measured in turn with it<\/h1>[^]*<h2>charges<\/h2>/,
  );
  t.notMatch(htmlOf(after), /in turn/);
});

t.test('latency is drawn against the rates of one server, not of two', async (t) => {
  const of = (...labels: string[]): string => {
    const loads = labels.map((label, n) => ({ ...load, label, offeredPerSecond: 1_000 * (n + 1) }));
    return htmlOf({
      ...report([]),
      scenarios: [{ name: 'cluster', repeats: [{ ...repeat(20_000), loads }] }],
    });
  };
  const names = (page: string): string[] =>
    Array.from(page.matchAll(/>(?:(\w+ replicas?): )?p99</g), ([, name = 'the only']) => name);
  t.strictSame(names(of('one replica: 50 %', 'three replicas: 50 %')), []);
  t.strictSame(names(of('one replica: 50 %', 'three replicas: 50 %', 'three replicas: 90 %')), [
    'three replicas',
  ]);
  t.strictSame(names(of('50 %', 'search, 2000/s')), ['the only']);
});

t.test('plots leave out what they cannot draw', async (t) => {
  const options = { title: 'x', xLabel: 'x', yLabel: 'y' };
  t.equal(plot({ ...options, lines: [] }), '');
  t.equal(plot({ ...options, yLog: true, lines: [{ label: 'a', points: [[1, 0]] }] }), '');
  t.notMatch(plot({ ...options, xLog: true, lines: [{ label: 'a', points: [[5, 5]] }] }), /NaN|Infinity/);
});

t.test('the command line', async (t) => {
  t.equal(parseCommand(['--help']).type, 'help');
  t.strictSame(parseCommand(['compare', 'a', 'b']), { type: 'compare', before: 'a', after: 'b' });
  const command = parseCommand([
    'charges',
    '--form',
    'standard',
    '--seconds',
    '2',
    '--list-transactions',
    '10,20',
  ]);
  t.hasStrict(command, {
    type: 'run',
    options: { scenarios: ['charges'], seconds: 2, listTransactions: [10, 20] },
  });
  // A checkout's service has that checkout as its working directory.
  t.hasStrict(parseCommand(['--directory', 'data', '--profile', 'profiles', '--against', '.']), {
    options: { directory: resolve('data'), profile: resolve('profiles') },
  });
  for (const wrong of [
    ['--form', 'huge'],
    ['--seconds', '-1'],
    ['--nothing'],
    ['compare'],
    ['compare', 'a', 'b', 'c'],
    ['--peer', 'mysql'],
    ['--against', 'test'],
  ]) {
    t.throws(() => parseCommand(wrong), UsageError, wrong.join(' '));
  }
});
