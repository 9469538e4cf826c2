// Isolation and throughput, receivers included, on this machine: with a fifth of a thousand endpoints hanging until their
// time-out, the others get their first attempt in time; and a backlog to healthy endpoints drains fast.
//
// LOAD=full asks for what is promised and wants the machine for itself. Without it, beside other tests, it is a fifth of that, and
// no time is asked for: who hangs does so for longer than the test may take, and whoever waited for them would never hear. Tap
// follows every asynchronous step, which halves the rate: actors/webhooks/README.md has the figure of the product alone.

import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import type { Test } from 'tap';
import type { LoadReport } from './webhooks-receiver-process.ts';
import { until } from '../until.ts';
import { makeCertificate } from './webhooks-receiver.ts';
import { accountIdOf, WebhookService } from './webhooks-service.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const isFull = process.env['LOAD'] === 'full';
const ENDPOINTS = isFull ? 1_000 : 200;
const EVENTS_PER_ENDPOINT = 6;
const EVENTS_PER_SECOND = 500;
const P99_MS = 2_000;
/** Longer than a test file may take. */
const HANGING_MS = 600_000;
const BACKLOG = isFull ? 6_000 : 2_000;
const certificate = await makeCertificate();

async function receivers(t: Test): Promise<{ process: ChildProcess; port: number }> {
  const child = fork(new URL('./webhooks-receiver-process.ts', import.meta.url));
  t.teardown(() => child.kill('SIGKILL'));
  child.send(certificate);
  const [port] = (await once(child, 'message')) as [number];
  return { process: child, port };
}

async function reportOf(child: ChildProcess): Promise<LoadReport> {
  child.send('report');
  const [report] = (await once(child, 'message')) as [LoadReport];
  return report;
}

const percentile = (sorted: readonly number[], part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Infinity;

void t.test(`a fifth of ${ENDPOINTS} endpoints hang: healthy ones hear all the same`, async (t) => {
  const { process: child, port } = await receivers(t);
  const service = await WebhookService.start({
    directory: temporaryDirectory(t),
    ca: certificate.cert,
    partitions: 4,
    ...(isFull ? {} : { attemptMs: HANGING_MS }),
  });
  t.teardown(() => service.stop());
  const accounts = Array.from({ length: ENDPOINTS }, (_, i) => accountIdOf(i + 1));
  const isHanging = (i: number): boolean => i % 5 === 0;
  await Promise.all(
    accounts.map((account, i) =>
      service.merchant(account, 'sk', `https://localhost:${port}/${isHanging(i) ? 'hang' : 'ok'}/${i}`),
    ),
  );
  const started = performance.now();
  const charges: Promise<unknown>[] = [];
  for (let sent = 0; sent < ENDPOINTS * EVENTS_PER_ENDPOINT; sent++) {
    if (isFull) await until(() => performance.now() >= started + (sent / EVENTS_PER_SECOND) * 1_000);
    else if (sent % ENDPOINTS === 0) await Promise.all(charges);
    charges.push(service.charge(accounts[sent % ENDPOINTS]!, 'sk', `order-${sent}-0000`, 'SUCCESSFUL'));
  }
  await Promise.all(charges);
  const healthy = charges.filter((_, i) => !isHanging(i % ENDPOINTS)).length;
  const lagsMs: number[] = [];
  let hanging = 0;
  const isHeard = async (): Promise<boolean> => {
    const report = await reportOf(child);
    lagsMs.push(...report.lagsMs);
    ({ hanging } = report);
    return lagsMs.length >= healthy && hanging >= ENDPOINTS / 5;
  };
  await until(isHeard, undefined, 120_000);
  lagsMs.sort((a, b) => a - b);
  const [p50, p99, worst] = [percentile(lagsMs, 0.5), percentile(lagsMs, 0.99), lagsMs.at(-1)];
  t.comment(`${healthy} events to healthy endpoints: p50 ${p50} ms, p99 ${p99} ms, max ${worst} ms`);
  t.comment(`hanging: ${hanging}; ${JSON.stringify(service.executor.gauges())}`);
  t.equal(lagsMs.length, healthy, 'each once');
  if (isFull) t.ok(p99 <= P99_MS);
});

void t.test('a backlog to healthy endpoints drains, each event once', async (t) => {
  const { process: child, port } = await receivers(t);
  const options = {
    directory: temporaryDirectory(t),
    ca: certificate.cert,
    partitions: 4,
    delivers: false,
    attemptMs: HANGING_MS,
  };
  const service = await WebhookService.start(options);
  t.teardown(() => service.stop());
  const accounts = Array.from({ length: 100 }, (_, i) => accountIdOf(i + 1));
  await Promise.all(
    accounts.map((account, i) => service.merchant(account, 'sk', `https://localhost:${port}/ok/${i}`)),
  );
  for (let from = 0; from < BACKLOG; from += 500) {
    const numbers = Array.from({ length: Math.min(500, BACKLOG - from) }, (_, i) => from + i);
    await Promise.all(
      numbers.map((n) => service.charge(accounts[n % 100]!, 'sk', `order-${n}-0000`, 'SUCCESSFUL')),
    );
  }
  const started = performance.now();
  service.deliver();
  let received = 0;
  while (received < BACKLOG) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    received += (await reportOf(child)).received;
  }
  const perSecond = Math.round((BACKLOG / (performance.now() - started)) * 1_000);
  t.comment(`${BACKLOG} deliveries over HTTPS and through the log: ${perSecond} a second`);
  t.equal(received, BACKLOG, `each once (${received})`);
  if (isFull) t.ok(perSecond >= 1_000);
});
