// What deliveries cost in memory: a million retries that wait for their time, at start and while none is due; and what is in a
// checkpoint.

import t from 'tap';
import { createWebhooksGroup } from '../../actors/webhooks/group.ts';
import { readConfig } from '../../src/config.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import type { Views } from '../../wal/types.ts';
import { collectGarbage } from '../garbage.ts';
import { appId, delivered, DrivenWebhooks } from './webhooks-driven.ts';

const MILLION = 1_000_000;

/** A checkpoint with a million rows in `due`, made as they are read. */
const views: Views = {
  get: () => undefined,
  *range(table) {
    if (table !== 'due') return;
    for (let i = 0; i < MILLION; i++) {
      const key = Buffer.from(makeId('delivery', `${encodeTime(i)}${'0'.repeat(16)}`)).toString('latin1');
      yield { key, value: String(2_000_000_000_000 + ((i * 7_919) % 50_000_000)) };
    }
  },
};

void t.test('1,000,000 scheduled retries use under 500 MiB and cost nothing until due', async (t) => {
  await collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const policy = { retryMs: readConfig({}).webhookRetryMs, retentionMs: 30 * 86_400_000 };
  const logic = createWebhooksGroup(policy).open(0, views, { writesRows: false, sequence: 0 });
  await collectGarbage();
  const mebibytes = (process.memoryUsage().heapUsed - before) / 2 ** 20;
  t.comment(`${mebibytes.toFixed(0)} MiB`);
  t.same(logic.scheduled, { firsts: 0, retries: MILLION });
  t.ok(mebibytes < 500);
  const started = performance.now();
  for (let i = 0; i < 10_000; i++) {
    if (logic.takeAttempts(1_900_000_000_000 + i, 1_000).length > 0) t.fail('none is due');
  }
  const microseconds = (performance.now() - started) / 10;
  t.comment(`${microseconds.toFixed(2)} µs a tick`);
  t.ok(microseconds < 1_000);
});

void t.test('what is newer than the checkpoint holds nothing in memory that is older', async (t) => {
  const driven = new DrivenWebhooks({});
  driven.connect(appId(1), 'https://example.com/');
  for (let i = 0; i < 10; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
  // The one that was there first is the last to change.
  for (const delivery of driven.due().reverse()) driven.record(delivery, delivered, 0.5);
  driven.logic.evict(driven.log.length - 1);
  t.equal(driven.list({}).data.length, 1, 'the rows of the others are the views’, which have none');
});
