// A machine's clock that is set back, by hand or by a start that put it forward for a while, stops nobody: requests are
// taken, and the times in the log never fall.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { groupOf } from '../../src/log-tools/data.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { type Running, startService } from './start.ts';

const DAY_MS = 86_400_000;
const realNow = Date.now;
const root = mkdtempSync(join(tmpdir(), 'daftari-clock-'));
t.teardown(() => {
  Date.now = realNow;
  rmSync(root, { recursive: true });
});

let aheadMs = 0;
Date.now = () => realNow() + aheadMs;

async function pay(service: Running): Promise<string> {
  const body = { currency: 'UGX', msisdn: '256772000001', amount: '5000', reference: 'clock' };
  const made = await service.merchant('POST', '/v1/charges', { body });
  t.match(made, { status: 201 });
  const read = await service.until(
    () => service.merchant('GET', `/v1/charges/${made.body.id}`),
    (answer) => answer.status !== 200 || answer.body.status === 'SUCCESSFUL',
  );
  t.match(read, { status: 200 });
  return made.body.created_at as string;
}

t.test('a clock set back while the service runs, and while it is stopped, refuses nobody', async (t) => {
  aheadMs = DAY_MS;
  const first = await startService({}, root);
  const ahead = await pay(first);
  aheadMs = 0;
  const back = await pay(first);
  t.ok(back >= ahead, 'time stands still, it does not fall');
  await first.stop();

  const second = await startService({}, root);
  t.ok((await pay(second)) >= back, 'nor does it over a restart');
  await second.stop();

  const log = LogReader.openReader({ directory: root });
  for (const { group, partition } of log.partitionNames()) {
    if (group !== 'accounts') continue;
    const times = [...log.read(group, partition, { fromSequence: 1 })].flatMap(({ records }) =>
      records.map((line) => (groupOf(group).decode(line) as AccountRecord).at),
    );
    t.strictSame(
      times,
      times.toSorted((a, b) => a - b),
      `accounts/${partition}`,
    );
  }
  await log.close();
});
