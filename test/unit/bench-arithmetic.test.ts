// The bench's own arithmetic: percentiles, ratios, noise, the search for a rate, and what it reads from /proc and /metrics.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { commitOf, findConditions } from '../../bench/measure/conditions.ts';
import { logUseBetween, readLogCounters } from '../../bench/measure/log-counters.ts';
import { countOf, parseMetrics, sumOf } from '../../bench/measure/metrics.ts';
import { growthOf, ProcessWatch, threadTimeOf } from '../../bench/measure/process-use.ts';
import { searchHighestRate } from '../../bench/rate-search.ts';
import { stagesOf } from '../../bench/report/profile.ts';
import {
  capacityOf,
  comparePairs,
  compareRepeats,
  median,
  percentile,
  ratioOf,
  summarize,
} from '../../bench/statistics.ts';
import { until } from '../until.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const hasGit = spawnSync('git', ['--version']).status === 0;
t.test('figures are of a commit only if nothing was changed since', { skip: !hasGit }, async (t) => {
  const directory = t.testdir({ 'code.ts': 'one' });
  const git = (...args: string[]): void => {
    const as = ['-c', 'user.name=x', '-c', 'user.email=x@x.test', '-c', 'commit.gpgsign=false'];
    const { status, stderr } = spawnSync('git', [...as, ...args], { cwd: directory, encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
  };
  git('init', '-q');
  git('add', 'code.ts');
  git('commit', '-q', '-m', 'one');
  writeFileSync(join(directory, 'result.json'), '{}');
  t.match(commitOf(directory), /^[0-9a-f]{7,}$/);
  writeFileSync(join(directory, 'code.ts'), 'two');
  t.match(commitOf(directory), /^[0-9a-f]{7,} with changes$/);
});

t.test('two benches measure one disk at once, and neither takes the file of the other', async (t) => {
  const directory = t.testdir({ 'fsync-probe': 'of another' });
  t.ok(findConditions(directory, 0.01, false).fsync.perSecond > 0);
  t.strictSame(readdirSync(directory), ['fsync-probe']);
});

const hasTaskset = spawnSync('taskset', ['--version']).status === 0;
t.test('the cores that are told are those that may be used', { skip: !hasTaskset }, async (t) => {
  const module = new URL('../../bench/measure/conditions.ts', import.meta.url);
  const code = `import { findConditions } from '${module.href}';
    process.stdout.write(String(findConditions(process.cwd(), 0.01, false).cores));`;
  const one = ['-c', '0', process.execPath, '--input-type=module', '-e', code];
  t.equal(spawnSync('taskset', one, { cwd: temporaryDirectory(t), encoding: 'utf8' }).stdout, '1');
});

t.test(
  'what others use is told: all that is busy, but for who is watched',
  { skip: !existsSync('/proc/stat') },
  async (t) => {
    const busy = spawn(process.execPath, ['-e', 'for (;;);']);
    t.teardown(() => busy.kill('SIGKILL'));
    const spent = (): number => threadTimeOf(readFileSync(`/proc/${busy.pid}/stat`, 'latin1'), null).seconds;
    const self = { name: 'self', pid: process.pid };
    const without = new ProcessWatch([self]);
    const withIt = new ProcessWatch([self, { name: 'busy', pid: busy.pid! }]);
    const before = spent();
    await until(() => spent() - before > 0.5);
    without.stop();
    withIt.stop();
    const it = withIt.uses().find(({ name }) => name === 'busy')!.cpu;
    t.ok(it > 0);
    const difference = without.othersCpu()! - withIt.othersCpu()!;
    t.comment(`it used ${it} cores, and others without it ${difference} less`);
    t.ok(Math.abs(difference - it) < 0.2 * it);
  },
);

t.test(
  'what a thread has spent that ended before its process is told',
  { skip: !existsSync('/proc/self/schedstat') },
  async (t) => {
    const worker = `
      const { parentPort } = require('node:worker_threads');
      parentPort.once('message', () => {
        const begun = process.cpuUsage().user;
        while (process.cpuUsage().user - begun < 300_000);
        parentPort.once('message', () => process.exit());
      });`;
    const code = `
      const worker = new (require('node:worker_threads').Worker)(${JSON.stringify(worker)}, { eval: true });
      worker.once('online', () => process.stdout.write('online'));
      worker.once('exit', () => process.stdout.write('ended'));
      process.stdin.on('data', () => worker.postMessage(''));`;
    const child = spawn(process.execPath, ['-e', code], { stdio: ['pipe', 'pipe', 'inherit'] });
    t.teardown(() => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    const begunAt = performance.now();
    const watch = new ProcessWatch([{ name: 'child', pid: child.pid! }]);
    const spentMs = (): number => watch.uses()[0]!.cpu * (performance.now() - begunAt);
    child.stdin.write('.');
    await until(() => spentMs() > 250);
    child.stdin.write('.');
    await once(child.stdout, 'data');
    watch.stop();
    t.ok(spentMs() > 250, `${spentMs()} ms`);
  },
);

t.test('growth compares the peaks of the last two quarters', async (t) => {
  t.equal(growthOf([100, 100, 50, 300, 60, 200, 100, 50]), 0.5);
  t.equal(growthOf([1, 2, 3, 4, 5, 6, 7, 8]), 8 / 6);
  t.equal(growthOf([1, 2, 3]), null);
});

t.test('medians and percentiles', async (t) => {
  t.equal(median([3]), 3);
  t.equal(median([9, 1, 5]), 5);
  t.equal(median([4, 1, 3, 2]), 2.5);
  const hundred = Array.from({ length: 100 }, (_, n) => 100 - n);
  t.equal(percentile(hundred, 50), 50);
  t.equal(percentile(hundred, 99), 99);
  t.equal(percentile(hundred, 99.5), 100);
  t.equal(percentile(hundred, 0), 1);
  t.equal(percentile([7], 99.9), 7);
  t.throws(() => median([]), /nothing/);
  t.throws(() => percentile([], 50), /nothing/);
});

t.test('repeats are summed up by their median and the half-width of their range', async (t) => {
  t.strictSame(summarize([90, 100, 120]), { median: 100, min: 90, max: 120, spread: 0.15 });
  t.strictSame(summarize([0, 0]), { median: 0, min: 0, max: 0, spread: 0 });
});

t.test('ratios', async (t) => {
  t.equal(ratioOf(6, 3), 2);
  t.equal(ratioOf(0, 0), 1);
  t.equal(ratioOf(1, 0), Infinity);
});

t.test('what CPU time allows: one core a thread, and no more than there are', async (t) => {
  t.equal(capacityOf({ busiestThread: 1 / 100, allThreads: 1 / 80 }, 2), 100, 'one thread is full first');
  t.equal(capacityOf({ busiestThread: 1 / 100, allThreads: 1 / 20 }, 2), 40, 'the cores are full first');
});

const MANY = Array.from({ length: 11 }, (_, n) => 1_000 + n);
/** Five of them a fifth more, the other six a little less. */
const TWO_HEAPS = MANY.map((value, n) => (n < 5 ? value * 1.2 : value - 20));

t.test('a difference within the noise of the repeats is told from one beyond it', async (t) => {
  const rows: [string, number[], number[], string][] = [
    ['the same', [100, 101, 99], [100, 101, 99], 'within noise'],
    ['2 % where repeats differ by 5 %', [95, 100, 105], [97, 102, 107], 'within noise'],
    ['30 % where repeats differ by 1 %', [100, 101, 99], [130, 131, 129], 'differs'],
    ['30 % where repeats differ by 30 %', [80, 100, 130], [104, 130, 169], 'within noise'],
    ['equal repeats that changed at all', [5, 5, 5], [6, 6, 6], 'differs'],
    ['a mean that rose while the median fell', MANY, TWO_HEAPS, 'within noise'],
    ['the other way', TWO_HEAPS, MANY, 'within noise'],
    ['one repeat', [100], [200], 'unknown'],
    ['no logarithm of nothing', [0, 0, 0], [1, 1, 1], 'unknown'],
  ];
  for (const [what, before, after, verdict] of rows) {
    t.equal(compareRepeats(before, after).verdict, verdict, what);
  }
  t.equal(compareRepeats([100, 100], [150, 150]).ratio, 1.5);
});

t.test('pairs are judged by their ratios: what the machine did to both of a pair is not in it', async (t) => {
  const rows: [string, number[], number[], string][] = [
    ['5 % in each pair, while the machine halves its speed', [100, 50, 80], [105, 52.6, 83.9], 'differs'],
    ['pairs that differ one way and the other', [100, 50, 80], [110, 45, 84], 'within noise'],
    ['nothing changed at all', [100, 50], [100, 50], 'within noise'],
    ['one pair', [100], [200], 'unknown'],
    ['no logarithm of nothing', [0, 0, 0], [1, 1, 1], 'unknown'],
  ];
  for (const [what, before, after, verdict] of rows) {
    t.equal(comparePairs(before, after).verdict, verdict, what);
  }
  t.equal(
    compareRepeats([100, 50, 80], [105, 52.6, 83.9]).verdict,
    'within noise',
    'without pairs nobody can tell',
  );
  t.equal(comparePairs([10, 20], [20, 10]).ratio, 1, 'the mean of a doubling and a halving');
  // ln of the ratios 1.1, 1.2, 1.3: mean 0.1800, standard error 0.0482, times 4.303 at 2 degrees of freedom.
  t.ok(Math.abs(comparePairs([1, 1, 1], [1.1, 1.2, 1.3]).resolution! - Math.expm1(0.2076)) < 0.001);
  // Of 62 pairs 1.98 standard errors are no difference: at 61 degrees of freedom 2.00 are needed.
  const ones = Array.from({ length: 62 }, () => 1);
  const pairs = ones.map((_, n) => Math.exp(1.98 / Math.sqrt(61) + (n % 2 === 0 ? 1 : -1)));
  t.equal(comparePairs(ones, pairs).verdict, 'within noise');
  t.throws(() => comparePairs([1], [1, 2]), /no pairs/);
});

t.test('noise is judged as Welch does', async (t) => {
  // ln values of 10, 11, 12 against 13, 14, 15: t = 4.13 at 3.66 degrees of freedom, critical 3.182 of the row below.
  const apart = compareRepeats([10, 11, 12], [13, 14, 15]);
  t.equal(apart.verdict, 'differs');
  const near = compareRepeats([10, 11, 12], [12, 13, 14]);
  t.equal(near.verdict, 'within noise');
  t.ok(near.resolution! > 0.15 && near.resolution! < 0.35, `it could have shown ${near.resolution}`);
});

t.test('what differs is told at 95 %, of however many pairs, and at no less', async (t) => {
  const exact = new Set([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 60, 120]);
  for (let freedom = 1; freedom <= 130; freedom++) {
    const count = freedom + 1;
    const apart = Array.from({ length: count }, (_, n) => (n % 2 === 0 ? 0.01 : -0.01));
    const mean = apart.reduce((sum, each) => sum + each, 0) / count;
    const variance = apart.reduce((sum, each) => sum + (each - mean) ** 2, 0) / freedom;
    const { resolution } = comparePairs(Array<number>(count).fill(1), apart.map(Math.exp));
    const share = shareWithin(Math.log1p(resolution!) / Math.sqrt(variance / count), freedom);
    t.ok(share > 0.9499, `${share} of what nothing has changed is within the noise, of ${count} pairs`);
    if (exact.has(freedom)) t.ok(share < 0.9501, `${share}, of ${count} pairs`);
  }
});

/** Of Student's distribution: how likely it is no further from 0 than `bound`. */
function shareWithin(bound: number, freedom: number): number {
  const STEPS = 4_000;
  // With tan θ √freedom in its place the density is cos θ to the power of freedom - 1, but for a factor.
  const upTo = (end: number): number => {
    let sum = 0;
    for (let n = 0; n < STEPS; n++) sum += Math.cos(((n + 0.5) / STEPS) * end) ** (freedom - 1);
    return (sum / STEPS) * end;
  };
  return upTo(Math.atan(bound / Math.sqrt(freedom))) / upTo(Math.PI / 2);
}

t.test('the search finds the highest rate that holds', async (t) => {
  const limit = 7_300;
  const asked: number[] = [];
  const search = await searchHighestRate({
    lowPerSecond: 1_000,
    highPerSecond: 20_000,
    precision: 0.02,
    trialsMax: 20,
    attempt: async (rate) => {
      asked.push(rate);
      return rate <= limit ? 5 : 50;
    },
    holds: (p99) => p99 <= 10,
  });
  t.ok(search.highestPerSecond <= limit && search.highestPerSecond > limit * 0.97);
  t.ok(asked.includes(search.highestPerSecond), 'a rate that was tried');
  t.ok(asked.length <= 12, `${asked.length} trials`);
  t.strictSame(
    search.trials.map(({ ratePerSecond, held }) => [ratePerSecond, held]),
    asked.map((rate) => [rate, rate <= limit]),
  );
});

t.test('the search at its ends', async (t) => {
  const trial = (limit: number, trialsMax: number, lowPerSecond = 100, highPerSecond = 1_000) =>
    searchHighestRate({
      lowPerSecond,
      highPerSecond,
      precision: 0.01,
      trialsMax,
      attempt: async (rate) => rate,
      holds: (rate) => rate <= limit,
    });
  t.equal((await trial(50, 10)).highestPerSecond, 0, 'not even the lowest');
  t.equal((await trial(5_000, 10)).highestPerSecond, 1_000, 'even the highest');
  const slow = await trial(7, 20, 1, 20);
  t.equal(slow.highestPerSecond, 7);
  const tried = slow.trials.map(({ ratePerSecond }) => ratePerSecond);
  t.equal(new Set(tried).size, tried.length, 'none is tried twice');
  const few = await trial(500, 4);
  t.equal(few.trials.length, 4);
  t.ok(few.highestPerSecond <= 500, 'never more than was shown to hold');
  const one = await trial(5_000, 1);
  t.strictSame([one.trials.length, one.highestPerSecond], [1, 100], 'no more than it may');
});

t.test('CPU time of a thread, whatever its name', async (t) => {
  const fields = 'S 1 1 1 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 11 0 12345';
  t.strictSame(threadTimeOf(`42 (node) ${fields}`, null), { name: 'node', seconds: 2 });
  t.strictSame(threadTimeOf(`42 (a) b (c) ${fields}`, null), { name: 'a) b (c', seconds: 2 });
  t.strictSame(threadTimeOf(`42 (node) ${fields}`, '2001500000 7 9\n'), { name: 'node', seconds: 2.0015 });
});

t.test(
  'CPU time of a short load is told as exactly as the process itself knows it',
  { skip: !existsSync('/proc/self/schedstat') },
  async (t) => {
    const code = `
      const { readSync, writeSync } = require('node:fs');
      const spent = () => { const { user, system } = process.cpuUsage(); return user + system; };
      writeSync(1, '0 ' + spent());
      for (;;) {
        readSync(0, Buffer.alloc(1));
        const start = spent();
        while (spent() < start + 25_000);
        writeSync(1, start + ' ' + spent());
      }`;
    const child = spawn(process.execPath, ['-e', code], { stdio: ['pipe', 'pipe', 'inherit'] });
    t.teardown(() => child.kill('SIGKILL'));
    const said = async (): Promise<number[]> =>
      String((await once(child.stdout, 'data'))[0])
        .split(' ')
        .map((micros) => Number(micros) / 1_000);
    let [, before = 0] = await said();
    for (let round = 0; round < 3; round++) {
      const begunAt = performance.now();
      const watch = new ProcessWatch([{ name: 'child', pid: child.pid! }]);
      const watchedAt = performance.now();
      child.stdin.write('.');
      const [start = 0, after = 0] = await said();
      const endsAt = performance.now();
      watch.stop();
      const { cpu } = watch.uses()[0]!;
      // Its time is between these: this process may be kept waiting at either end.
      const [leastMs, mostMs] = [cpu * (endsAt - watchedAt), cpu * (performance.now() - begunAt)];
      // As it says what it spent it spends more, which it may do before it is watched.
      const [workMs, allMs] = [after - start, after - before];
      t.ok(
        leastMs - 4 < allMs && workMs < mostMs + 4,
        `${workMs} to ${allMs} ms; told ${leastMs} to ${mostMs}`,
      );
      before = after;
    }
  },
);

t.test('the log between two scrapes', async (t) => {
  const text = (flushes: number, records: number, bytes: number) => `
# HELP daftari_log_flush_seconds From a batch
daftari_log_flush_seconds_bucket{le="0.001"} 3
daftari_log_flush_seconds_sum ${flushes * 0.002}
daftari_log_flush_seconds_count ${flushes}
daftari_log_flush_records_sum ${records}
daftari_log_bytes_total ${bytes}
other_total{route="/v1/\\"x\\"",status="201"} 5
other_total{route="/v1/y",status="201"} 7
`;
  const metrics = parseMetrics(text(1, 2, 3));
  t.equal(sumOf(metrics, 'other_total'), 12);
  t.equal(sumOf(metrics, 'other_total', { route: '/v1/y' }), 7);
  t.throws(() => sumOf(metrics, 'absent'), /no absent/, 'which is no 0');
  t.throws(() => sumOf(metrics, 'other_total', { route: '/v1/z' }), /no other_total/);
  t.equal(countOf(metrics, 'absent'), 0, 'what has not counted yet');

  const before = { ...readLogCounters(parseMetrics(text(10, 100, 10_000))), atMs: 0 };
  const after = { ...readLogCounters(parseMetrics(text(30, 500, 50_000))), atMs: 2_000 };
  const use = logUseBetween(before, after)!;
  t.equal(use.flushesPerSecond, 10);
  t.equal(use.recordsPerFlush, 20);
  t.equal(use.recordsPerSecond, 200);
  t.equal(use.bytesPerRecord, 100);
  t.ok(Math.abs(use.flushMeanMs - 2) < 1e-9);
  t.equal(logUseBetween(before, { ...before, atMs: 1_000 }), null, 'nothing was written');
});

t.test('a profile is grouped by stage, natives with whoever called them', async (t) => {
  const node = (id: number, functionName: string, url: string, children: number[] = []) => {
    return { id, callFrame: { functionName, url, lineNumber: 0 }, children };
  };
  const profile = {
    nodes: [
      node(1, '(root)', '', [2, 3, 5]),
      node(2, '(idle)', ''),
      node(3, 'create', 'file:///x/src/http/account-calls.ts', [4]),
      node(4, 'hash', 'node:internal/crypto/hash'),
      node(5, 'seal', 'file:///x/wal/batch.ts'),
    ],
    samples: [2, 3, 4, 5],
    timeDeltas: [9_000, 1_000, 2_000, 1_000],
  };
  const stages = stagesOf(JSON.stringify(profile));
  t.strictSame(stages, [
    { stage: 'http: read, validate, answer', ms: 3, part: 0.75 },
    { stage: 'log: seal, hash, commit', ms: 1, part: 0.25 },
  ]);
});

t.test('Welch: the side that varies decides how much the repeats can show', async (t) => {
  // Logarithms ln 1.1 apart: variance 0.009084, of three a standard error of 0.05503; t(2) = 4.303, so e^0.2368 - 1.
  const [steady, varied] = [
    [100, 100.001],
    [100, 110, 121],
  ];
  for (const { resolution } of [compareRepeats(steady, varied), compareRepeats(varied, steady)]) {
    t.ok(Math.abs((resolution ?? 0) - 0.2672) < 0.001, `${resolution}`);
  }
  t.hasStrict(compareRepeats([100], varied), { verdict: 'unknown', resolution: null });
  t.hasStrict(compareRepeats(varied, [100]), { verdict: 'unknown', resolution: null });
  t.hasStrict(compareRepeats([100, 100], [100, 100]), { ratio: 1, verdict: 'within noise', resolution: 0 });
  t.hasStrict(compareRepeats([100, 100], [101, 101]), { ratio: 1.01, verdict: 'differs', resolution: 0 });
});
