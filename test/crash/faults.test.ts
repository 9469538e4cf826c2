// What a disk, or a person, can do to the log of a stopped service. Each time `verify` finds it and says where, and the
// service refuses the partition that is damaged, says so, and serves the others.

import { cpSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { partitionOf } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { openLogDatabase } from '../../wal/lmdb.ts';
import type { LogDatabase } from '../../wal/lmdb.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { walTools } from '../../wal/tools/all.ts';
import type { Fault } from '../../wal/tools/verify.ts';
import { type Running, startService } from '../api/start.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const PARTITIONS = 4;
const root = temporaryDirectory(t);
const sound = join(root, 'sound');
/** As it was some payments before. */
const older = join(root, 'older');

interface Merchant {
  readonly accountId: string;
  readonly key: string;
  readonly partition: number;
}
/** One in each partition. */
const merchants: Merchant[] = [];
const WALLET = { currency: 'UGX', country: 'UG', msisdn: '256772000001' };

t.before(async () => {
  const service = await startService({}, sound);
  while (merchants.length < PARTITIONS) await openAccount(service);
  await payAll(service, 4);
  await service.stop();
  cpSync(sound, older, { recursive: true });
  const again = await startService({}, sound);
  await payAll(again, 4);
  await again.stop();
});

async function openAccount(service: Running): Promise<void> {
  const account = { name: 'Shop', country: 'UG', live: true };
  const { body: made } = await service.operator('POST', '/operator/v1/accounts', account);
  const partition = partitionOf(made.id, PARTITIONS);
  if (merchants.some((merchant) => merchant.partition === partition)) return;
  const app = { name: 'Shop', domain: 'shop.test' };
  const { body } = await service.operator('POST', `/operator/v1/accounts/${made.id}/apps`, app);
  merchants.push({ accountId: made.id, key: body.secret_key, partition });
}

async function payAll(service: Running, count: number): Promise<void> {
  for (const { key } of merchants) {
    for (let n = 0; n < count; n += 1) {
      const body = { ...WALLET, amount: '5000', reference: `pay-${n}` };
      const { body: made } = await service.merchant('POST', '/v1/charges', { body, key });
      await service.until(
        () => service.merchant('GET', `/v1/charges/${made.id}`, { key }),
        (answer) => answer.body.status === 'SUCCESSFUL',
      );
    }
  }
}

// --- The table -------------------------------------------------------------------------------------------------------------

interface Place {
  readonly group: string;
  readonly partition: number;
}
type Which = 'oldest' | 'middle' | 'newest';
type Damage = (directory: string, place: Place) => Promise<number>;

const flip =
  (which: Which): Damage =>
  async (directory, place) => {
    const { batch, bytes } = await batchOf(directory, place, which);
    const file = join(directory, 'log', 'data.mdb');
    const content = readFileSync(file);
    // Pages are copied when they are written: older copies may hold the batch, too.
    for (let at = content.indexOf(bytes); at >= 0; at = content.indexOf(bytes, at + 1)) {
      content[at + 64 + 20]! ^= 0x04;
    }
    writeFileSync(file, content);
    return batch;
  };

const remove =
  (which: Which): Damage =>
  async (directory, place) => {
    const { batch } = await batchOf(directory, place, which);
    await change(directory, (database) => database.remove([place.group, place.partition, batch]));
    return batch;
  };

const swap: Damage = async (directory, place) => {
  const { batch, bytes } = await batchOf(directory, place, 'middle');
  await change(directory, async (database) => {
    const next = Buffer.from(database.getBinary([place.group, place.partition, batch + 1]) ?? []);
    await database.put([place.group, place.partition, batch], next);
    await database.put([place.group, place.partition, batch + 1], bytes);
  });
  return batch;
};

const fromElsewhere: Damage = async (directory, place) => {
  const { batch } = await batchOf(directory, place, 'middle');
  const other = { ...place, partition: (place.partition + 1) % PARTITIONS };
  const { bytes } = await batchOf(directory, other, 'middle');
  await change(directory, (database) => database.put([place.group, place.partition, batch], bytes));
  return batch;
};

/** Only this partition's log is put back: its views, and the others, are newer. */
const olderLog: Damage = async (directory, place) => {
  const then = LogReader.openReader({ directory: older });
  const last = then.lastBatchNumber(place.group, place.partition);
  await then.close();
  const now = await batchOf(directory, place, 'newest');
  await change(directory, async (database) => {
    for (let batch = last + 1; batch <= now.batch; batch += 1) {
      await database.remove([place.group, place.partition, batch]);
    }
  });
  return now.batch;
};

/** The start reads the whole log again, and meets the damage on its way. */
const withoutViews =
  (damage: Damage): Damage =>
  (directory, place) => {
    rmSync(join(directory, 'views'), { recursive: true });
    return damage(directory, place);
  };

const table: [string, Damage][] = [
  ['a bit of the oldest batch turned over', flip('oldest')],
  ['a bit of a batch in the middle turned over', flip('middle')],
  ['a bit of the newest batch turned over', flip('newest')],
  ['the oldest batch is gone', remove('oldest')],
  ['a batch in the middle is gone', remove('middle')],
  ['the newest batch is gone', remove('newest')],
  ['two batches are swapped', swap],
  ['a batch of another partition is in its place', fromElsewhere],
  ['an older log was put under newer views', olderLog],
  ['the views are gone, and a bit in the middle turned over', withoutViews(flip('middle'))],
];

for (const [name, damage] of table) {
  t.test(`${name}: verify says where, and that partition alone is refused`, async (t) => {
    const victim = merchants[1]!;
    const place = { group: 'accounts', partition: victim.partition };
    const directory = copyOf(sound);
    const batch = await damage(directory, place);

    const { status, report } = await verify(directory);
    t.equal(status, 1);
    t.match(report.faults[0], place);
    const [fault = { batch: 0 }] = report.faults;
    t.ok(fault.batch >= 1 && fault.batch <= batch, 'at the batch, or where the rest is missed');

    const service = await startService({ LOG_LEVEL: 'silent' }, directory);
    t.teardown(() => service.stop());
    const readiness = await service.until(
      () => service.operator('GET', '/readyz'),
      (answer) => answer.status === 503,
    );
    t.match(readiness.text, new RegExp(`accounts/${victim.partition}`));
    const metrics = (await service.operator('GET', '/metrics')).text;
    t.match(metrics, /^daftari_partitions_damaged 1$/m);
    for (const merchant of merchants) {
      const expected = merchant === victim ? 503 : 200;
      t.equal((await service.merchant('GET', '/v1/balances', { key: merchant.key })).status, expected);
      const body = { ...WALLET, amount: '5000', reference: 'after' };
      const created = await service.merchant('POST', '/v1/charges', { body, key: merchant.key });
      t.equal(created.status, merchant === victim ? 503 : 201);
    }
  });
}

t.test('damage to the log of webhooks stops the webhooks of that partition, and no payment', async (t) => {
  const victim = merchants[1]!;
  const directory = copyOf(sound);
  await flip('middle')(directory, { group: 'webhooks', partition: victim.partition });
  t.hasStrict(await verify(directory), { status: 1 });
  const service = await startService({ LOG_LEVEL: 'silent' }, directory);
  t.teardown(() => service.stop());
  const readiness = await service.until(
    () => service.operator('GET', '/readyz'),
    (answer) => answer.status === 503,
  );
  t.match(readiness.text, new RegExp(`webhooks/${victim.partition}`));
  await payAll(service, 1);
});

t.test(
  'webhooks of a partition that turns out to be damaged are let go, those of the others are not',
  async (t) => {
    const [victim, other] = [merchants[1]!, merchants[2]!];
    // Every delivery fails once and then waits for its retry.
    const environment = { WEBHOOK_ALLOW_PRIVATE: 'true', WEBHOOK_RETRY_SECONDS: '3600' };
    const waiting = join(root, 'waiting');
    cpSync(sound, waiting, { recursive: true });
    const before = await startService(environment, waiting);
    for (const { accountId } of [victim, other]) {
      const apps = `/operator/v1/accounts/${accountId}/apps`;
      const [app] = (await before.operator('GET', apps)).body.data;
      await before.operator('PATCH', `${apps}/${app.id}`, { webhook_url: 'http://127.0.0.1:1/' });
    }
    await payAll(before, 4);
    await retriesWaiting(before, 8);
    await before.stop();

    for (const group of ['webhooks', 'accounts']) {
      const directory = copyOf(waiting);
      await flip('middle')(directory, { group, partition: victim.partition });
      const lines: string[] = [];
      const service = await startService({ ...environment, LOG_LEVEL: 'info' }, directory, (line) => {
        lines.push(line);
      });
      await service.until(
        () => service.operator('GET', '/readyz'),
        ({ text }) => text.includes(`${group}/${victim.partition}`),
      );
      const [ready, refused] = [/"ready"/, /this partition is not served/].map((words) => {
        return lines.findIndex((line) => words.test(line));
      });
      t.ok(ready! >= 0 && ready! < refused!, `${group}: it was served at first`);
      await retriesWaiting(service, 4);
      await service.stop();
    }
  },
);

async function retriesWaiting(service: Running, count: number): Promise<void> {
  await service.until(
    async () => {
      const { text } = await service.operator('GET', '/metrics');
      return /daftari_webhook_scheduled\{attempt="retries"\} (\d+)/.exec(text)?.[1];
    },
    (waiting) => waiting === String(count),
  );
}

t.test(
  'a partition that is refused while its pollers look for what is in flight holds up no start',
  async (t) => {
    const victim = merchants[1]!;
    const directory = copyOf(sound);
    const before = await startService({}, directory);
    // More than two pages, and nothing in it for webhooks: they read it all again, and meet the damage between two pages.
    const silent = { ...WALLET, msisdn: '256772000065', amount: '5000' };
    const count = 2 * LIMITS.pollerScanPageMax + 1;
    for (let n = 0; n < count; n += 50) {
      const created = await Promise.all(
        Array.from({ length: Math.min(50, count - n) }, (_, i) => {
          const body = { ...silent, reference: `silent-${n + i}` };
          return before.merchant('POST', '/v1/charges', { body, key: victim.key });
        }),
      );
      t.ok(created.every(({ status }) => status === 201));
    }
    await before.stop();
    await flip('middle')(directory, { group: 'accounts', partition: victim.partition });

    const lines: string[] = [];
    const service = await Promise.race([
      startService({ LOG_LEVEL: 'fatal' }, directory, (line) => void lines.push(line)),
      new Promise<null>((resolve) => setTimeout(() => resolve(null), 90_000).unref()),
    ]);
    if (service === null) throw new Error('the service does not listen');
    t.teardown(() => service.stop());
    t.match(lines.join(''), /this partition is not served/, 'it was refused before the service listened');
    for (const { key, accountId } of merchants) {
      const expected = accountId === victim.accountId ? 503 : 200;
      t.equal((await service.merchant('GET', '/v1/balances', { key })).status, expected);
    }
    t.match((await service.operator('GET', '/readyz')).text, new RegExp(`accounts/${victim.partition}`));
  },
);

t.test('batches that are gone in a row are told once, with all that was in them', async (t) => {
  const directory = copyOf(sound);
  const { partition } = merchants[0]!;
  const log = LogReader.openReader({ directory });
  const gone = [...log.read('accounts', partition, { afterBatch: 2 })].slice(0, 4);
  await log.close();
  await change(directory, (database) =>
    database.batch(() => gone.forEach(({ batch }) => void database.remove(['accounts', partition, batch]))),
  );
  const { report } = await verify(directory);
  const { firstSequence } = gone[0]!;
  const last = gone.at(-1)!;
  t.strictSame(
    report.faults.map((fault) => ({ ...fault, explanation: '', transactions: [] })),
    [
      {
        group: 'accounts',
        partition,
        batch: 3,
        sequence: firstSequence,
        problem: 'the batch is missing',
        explanation: '',
        firstSequence,
        lastSequence: last.firstSequence + last.records.length - 1,
        transactions: [],
      },
    ],
  );
});

t.test('a file that was cut off is refused as a whole, by name', async (t) => {
  const directory = copyOf(sound);
  const file = join(directory, 'log', 'data.mdb');
  truncateSync(file, Math.floor(statSync(file).size / 2));
  const { status, err } = await verify(directory);
  t.equal(status, 1);
  t.match(err, /data\.mdb was cut off/);
  await t.rejects(startService({ LOG_LEVEL: 'silent' }, directory), /data\.mdb was cut off/);
});

t.test('an older log file under newer views is found in every partition that went on', async (t) => {
  const directory = copyOf(sound);
  cpSync(join(older, 'log', 'data.mdb'), join(directory, 'log', 'data.mdb'));
  const { status, report } = await verify(directory);
  t.equal(status, 1);
  for (const { partition } of merchants) {
    const fault = report.faults.find((one) => one.group === 'accounts' && one.partition === partition);
    t.match(fault, { problem: /an older log was put in its place/ });
  }
  const service = await startService({ LOG_LEVEL: 'silent' }, directory);
  t.teardown(() => service.stop());
  for (const { key } of merchants) {
    t.equal((await service.merchant('GET', '/v1/balances', { key })).status, 503);
  }
  t.equal((await service.operator('GET', '/readyz')).status, 503);
});

// --- Helpers ---------------------------------------------------------------------------------------------------------------

let copies = 0;
function copyOf(directory: string): string {
  copies += 1;
  const copy = join(root, `copy-${copies}`);
  cpSync(directory, copy, { recursive: true, filter: (path) => !path.endsWith('/lock') });
  return copy;
}

async function batchOf(
  directory: string,
  { group, partition }: Place,
  which: Which,
): Promise<{ batch: number; bytes: Buffer }> {
  const log = LogReader.openReader({ directory });
  const full = [...log.read(group, partition, { afterBatch: 0 })].filter(({ records }) => records.length > 0);
  const index = { oldest: 0, middle: Math.floor(full.length / 2), newest: full.length - 1 }[which];
  const { batch, bytes } = full[index]!;
  const copied = Buffer.from(bytes);
  await log.close();
  return { batch, bytes: copied };
}

async function change(directory: string, act: (database: LogDatabase) => Promise<unknown>): Promise<void> {
  const database = openLogDatabase({ directory });
  await act(database);
  await database.close();
}

interface Verified {
  readonly status: number;
  readonly err: string;
  readonly report: { readonly faults: readonly Fault[] };
}

async function verify(directory: string): Promise<Verified> {
  const tools = [...walTools, ...logTools];
  const { status, out, err } = await runTool(tools, 'verify', '--json', '--data', directory);
  return { status, err, report: out === '' ? { faults: [] } : JSON.parse(out) };
}
