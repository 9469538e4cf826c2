// What the bench starts may die under it: that fails the scenario at hand, says who died of what, and lets the others go on.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { HistoryJob } from '../../bench/history/job.ts';
import { writeHistory } from '../../bench/history/write-history.ts';
import type { Driven } from '../../bench/load/drive.ts';
import { parseMetrics, sumOf, type Metric } from '../../bench/measure/metrics.ts';
import { startChild } from '../../bench/servers/child.ts';
import { childrenOf } from '../../deploy/stop-signal.ts';
import { until } from '../until.ts';
import { driveOn, portOf } from './bench-endpoint.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

/** Before the load: how much it has made, until that stands still. */
const ASKED_BEFORE = 2;

/** On an endpoint that answers, and says this at /metrics. */
async function driveOnSound(t: Test, readMetrics: () => Promise<Metric[]>): Promise<Driven> {
  const endpoint = createServer((request, response) => {
    request.resume();
    response.writeHead(201).end('{}');
  });
  return driveOn(t, await portOf(t, endpoint), {
    readMetrics,
    ratePerSecond: 100,
    warmUpSeconds: 0.2,
    seconds: 0.8,
  });
}

const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

t.test('the end of a load is when its time is over: what is told later is of an idle server', async (t) => {
  let asked = 0;
  const { atEnd } = await driveOnSound(t, async () => parseMetrics(`asked ${++asked}`));
  t.equal(sumOf(atEnd!, 'asked'), ASKED_BEFORE + 2, 'when it began, and when it ended');
  t.ok(asked > ASKED_BEFORE + 2, 'and later, for what it has made');
});

t.test('a service that has died', async (t) => {
  let asked = 0;
  await t.rejects(
    driveOnSound(t, async () => {
      if (++asked > ASKED_BEFORE) throw new Error('it ended');
      return [];
    }),
    /it ended/,
  );
});

t.test('a driver that is killed', async (t) => {
  const before = timers();
  let asked = 0;
  await t.rejects(
    driveOnSound(t, async () => {
      if (++asked > ASKED_BEFORE) for (const pid of childrenOf(process.pid)) process.kill(pid, 'SIGKILL');
      return [];
    }),
    /the driver ended with SIGKILL/,
  );
  t.equal(timers(), before, 'nothing goes on that would keep the bench from ending');
});

t.test('a driver that finds nobody', async (t) => {
  // The port is reserved: nobody takes it meanwhile.
  await t.rejects(driveOn(t, 1, {}), /^the driver ended with 1: connect ECONNREFUSED/);
});

t.test('a history that cannot be written', async (t) => {
  const job: HistoryJob = {
    dataDir: join(t.testdir({ file: '' }), 'file', 'data'),
    partitions: 4,
    accounts: 1,
    deposits: 0,
    transactions: 0,
    historyAccounts: 1,
    shape: 'charges',
    firstNumber: 0,
    idsKept: 1,
    webhookUrl: null,
    keysFile: 'keys',
    idsFile: 'ids',
  };
  await t.rejects(
    writeHistory(job, () => {}),
    /^the history writer ended with 1: .*ENOTDIR/,
  );
});

t.test('a child tells how it ended, and what it said last', async (t) => {
  const program =
    'process.stdout.write("ready\\n"); setTimeout(() => { process.stderr.write("no room\\n"); process.exitCode = 3; }, 50)';
  const child = await startChild({
    command: process.execPath,
    args: ['-e', program],
    env: process.env,
    cwd: process.cwd(),
    isReady: (line) => line === 'ready',
    readyMs: 60_000,
  });
  t.match(await until(() => child.lastWords() ?? '', Boolean), /^ended with 3:\nready/);
  await until(() => child.lastWords()!.endsWith('no room'));
});

const isRoot = process.getuid?.() === 0;

t.test('a disk that takes no report', { skip: isRoot ? false : 'a report in /dev needs root' }, async (t) => {
  const html = join(temporaryDirectory(t), 'report.html');
  const args = ['bench/cli.ts', 'bare', '--form', 'smoke', '--json', '/dev/full', '--html', html];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  t.equal(status, 1);
  t.match(stdout, /^bare {3}\(1 repeat\)$/m, 'what was measured is told');
  t.match(stderr, /^The report is not in \/dev\/full: ENOSPC: .*$/m);
  t.match(readFileSync(html, 'utf8'), /<html/);
});
