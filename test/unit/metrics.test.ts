// What GET /metrics says, in Prometheus' own text format, and what counting costs.
import t from 'tap';
import type { DiskSpace } from '../../src/data-directory/disk-space.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { CREATABLE_TYPES } from '../../src/domain/transaction.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { watchStorage } from '../../src/wiring/metrics.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { OPEN_ACCOUNT, openStorage, send, serve } from './storage-driven.ts';

const charges = { surface: 'v1', method: 'POST', path: '/v1/charges' };

/** Lines of one metric, without its comments. */
async function linesOf(metrics: Metrics, name: string): Promise<string[]> {
  const text = await metrics.text();
  return text.split('\n').filter((line) => line.startsWith(name));
}

t.test('every line is a comment or a sample, and every metric has its type once', async (t) => {
  const metrics = new Metrics();
  metrics.onReply(charges, 201, 3, null);
  metrics.decided('accounts', 'CreateCharge', 'done');
  metrics.flushed({ records: 3, bytes: 900, durationMs: 1.5 });
  const text = await metrics.text();
  const sample = /^[a-z_0-9]+(?:\{(?:[a-z_]+="[^"\n]*",?)+\})? (?:-?[\d.e+-]+|Nan|\+Inf)(?: \d+)?$/i;
  for (const line of text.split('\n')) {
    if (line !== '' && !/^# (?:HELP|TYPE) /.test(line)) t.match(line, sample);
  }
  const types = text.match(/^# TYPE \S+/gm) ?? [];
  t.equal(new Set(types).size, types.length);
  t.match(metrics.contentType, /^text\/plain/);
});

t.test('requests are counted by route and status, with their durations', async (t) => {
  const metrics = new Metrics();
  for (const durationMs of [0.4, 3, 3, 30_000]) metrics.onReply(charges, 201, durationMs, null);
  metrics.onReply(charges, 400, 1, 'invalid_msisdn');
  const lines = await linesOf(metrics, 'daftari_http_request_duration_seconds');
  const labels = 'surface="v1",method="POST",route="/v1/charges",status="201"';
  const values = lines.map((line) => line.replace(labels, '…'));
  t.ok(values.includes('daftari_http_request_duration_seconds_bucket{…,le="0.0005"} 1'));
  t.ok(values.includes('daftari_http_request_duration_seconds_bucket{…,le="0.005"} 3'), 'cumulative');
  t.ok(values.includes('daftari_http_request_duration_seconds_bucket{…,le="20"} 3'));
  for (const promised of ['0.01', '0.5', '3']) {
    t.ok(values.some((line) => line.includes(`le="${promised}"}`)));
  }
  t.ok(values.includes('daftari_http_request_duration_seconds_bucket{…,le="+Inf"} 4'));
  t.ok(values.includes('daftari_http_request_duration_seconds_count{…} 4'));
  t.match(
    values.find((line) => line.includes('_sum{…}')),
    / 30\.006/,
  );
  t.strictSame(await linesOf(metrics, 'daftari_http_errors_total'), [
    'daftari_http_errors_total{surface="v1",code="invalid_msisdn"} 1',
  ]);
});

t.test('commands are counted by type and outcome', async (t) => {
  const metrics = new Metrics();
  for (const outcome of ['done', 'reply', 'rejected']) metrics.decided('accounts', 'CreateCharge', outcome);
  t.strictSame(await linesOf(metrics, 'daftari_commands_total'), [
    'daftari_commands_total{group="accounts",type="CreateCharge",outcome="done"} 2',
    'daftari_commands_total{group="accounts",type="CreateCharge",outcome="rejected"} 1',
  ]);
  t.strictSame(
    await linesOf(metrics, 'daftari_commands_total'),
    await linesOf(metrics, 'daftari_commands_total'),
  );
});

t.test('gauges are read when asked for', async (t) => {
  const metrics = new Metrics();
  let depth = 3;
  let states: [string, number][] = [['PENDING_PROVIDER', 2]];
  metrics.gauge('daftari_open_holds', 'Holds.', () => depth);
  metrics.gaugeBy('daftari_transactions', 'By status.', 'status', () => states);
  t.strictSame(await linesOf(metrics, 'daftari_open_holds'), ['daftari_open_holds 3']);
  depth = 4;
  states = [['AWAITING_CUSTOMER', 1]];
  t.strictSame(await linesOf(metrics, 'daftari_open_holds'), ['daftari_open_holds 4']);
  t.strictSame(await linesOf(metrics, 'daftari_transactions'), [
    'daftari_transactions{status="AWAITING_CUSTOMER"} 1',
  ]);
});

t.test('what a process writes is told by group, of all its partitions together', async (t) => {
  const storage = openStorage(temporaryDirectory(t));
  t.teardown(() => storage.close());
  const metrics = new Metrics();
  watchStorage(metrics, storage, { freeBytes: 7_000, reserveBytes: 500 } as DiskSpace);
  let number = 0;
  const open = (partition: number): Promise<unknown> => {
    const accountId = makeId('account', `${encodeTime(++number)}${'0'.repeat(16)}`);
    return send(storage, partition, { ...OPEN_ACCOUNT, accountId });
  };
  for (const partition of [0, 1]) await serve(storage, partition);
  await storage.openPartition('platform', 0, { epoch: 1, replica: null, onFenced: null });
  await Promise.all([0, 0, 0, 1].map(open));
  const replies = [open(0), open(1)];
  const told = async (name: string): Promise<string[]> =>
    (await linesOf(metrics, `daftari_${name}`)).map((line) => line.replace(`daftari_${name}`, ''));
  t.strictSame(await told('mailbox_depth'), ['{group="accounts"} 2', '{group="platform"} 0']);
  await Promise.all(replies);
  t.strictSame(await told('mailbox_depth'), ['{group="accounts"} 0', '{group="platform"} 0']);
  t.strictSame(await told('log_sequence'), ['{group="accounts"} 6', '{group="platform"} 0']);
  t.strictSame(await told('checkpoint_lag_records'), ['{group="accounts"} 6', '{group="platform"} 0']);
  t.strictSame(await told('partitions_owned'), ['{group="accounts"} 2', '{group="platform"} 1']);
  t.strictSame(await told('disk_free_bytes'), [' 7000']);
  t.strictSame(await told('disk_reserve_bytes'), [' 500']);
});

t.test(
  'how transactions end is there before one has: where all of them fail, a share that fails can be told',
  async (t) => {
    const storage = openStorage(temporaryDirectory(t));
    t.teardown(() => storage.close());
    const metrics = new Metrics();
    watchStorage(metrics, storage, { freeBytes: 7_000, reserveBytes: 500 } as DiskSpace);
    const ends = CREATABLE_TYPES.flatMap((type) =>
      ['SUCCESSFUL', 'FAILED'].map(
        (status) => `daftari_transactions_entered_total{type="${type}",status="${status}"} 0`,
      ),
    );
    t.strictSame((await linesOf(metrics, 'daftari_transactions_entered_total')).toSorted(), ends.toSorted());
  },
);

t.test('counters of other parts, with and without labels, and histograms', async (t) => {
  const metrics = new Metrics();
  const plain = metrics.counter('daftari_a_total', 'A.', []);
  const labelled = metrics.counter('daftari_b_total', 'B.', ['rail']);
  const histogram = metrics.histogram('daftari_c_seconds', 'C.', [1, 2]);
  t.strictSame(
    await linesOf(metrics, 'daftari_a_total'),
    ['daftari_a_total 0'],
    'there before it is counted',
  );
  plain.add(2);
  labelled.add(1, 'mtn_ug');
  histogram.observe(1.5);
  t.strictSame(await linesOf(metrics, 'daftari_a_total'), ['daftari_a_total 2']);
  t.strictSame(await linesOf(metrics, 'daftari_b_total'), ['daftari_b_total{rail="mtn_ug"} 1']);
  t.strictSame(await linesOf(metrics, 'daftari_c_seconds'), [
    'daftari_c_seconds_bucket{le="1"} 0',
    'daftari_c_seconds_bucket{le="2"} 1',
    'daftari_c_seconds_bucket{le="+Inf"} 1',
    'daftari_c_seconds_sum 1.5',
    'daftari_c_seconds_count 1',
  ]);
});

t.test('a counter has the values of its labels that are known beforehand', async (t) => {
  const metrics = new Metrics();
  const counter = metrics.counter('daftari_a_total', 'A.', ['what'], [['forgot'], ['lost']]);
  counter.add(1, 'lost');
  t.strictSame(await linesOf(metrics, 'daftari_a_total'), [
    'daftari_a_total{what="forgot"} 0',
    'daftari_a_total{what="lost"} 1',
  ]);
});

t.test('who got no answer is counted from 0 on, so that the first is an increase', async (t) => {
  const metrics = new Metrics();
  metrics.onReply(charges, 201, 3, null);
  const series =
    'daftari_http_requests_without_reply_total{surface="v1",route="/v1/charges",reason="unknown"}';
  t.strictSame(await linesOf(metrics, series), [`${series} 0`]);
  metrics.onNoReply(charges, 'unknown');
  t.strictSame(await linesOf(metrics, series), [`${series} 1`]);
});

t.test('the process and its event loop are in it', async (t) => {
  const text = await new Metrics().text();
  for (const name of [
    'process_resident_memory_bytes',
    'nodejs_eventloop_lag_p99_seconds',
    'daftari_log_flush_seconds_count',
  ]) {
    t.match(text, new RegExp(`^${name} `, 'm'));
  }
});

t.test('counting a request and its command costs under 5 microseconds even on a busy machine', async (t) => {
  const metrics = new Metrics();
  const rounds = 200_000;
  const count = (): void => {
    metrics.onReply(charges, 201, 3, null);
    metrics.decided('accounts', 'CreateCharge', 'done');
  };
  for (let i = 0; i < rounds; i++) count();
  const start = process.cpuUsage();
  for (let i = 0; i < rounds; i++) count();
  const { user, system } = process.cpuUsage(start);
  const eachNs = Math.round(((user + system) * 1_000) / rounds);
  t.comment(`${eachNs} ns of processor time for both`);
  t.ok(eachNs < 5_000);
});
