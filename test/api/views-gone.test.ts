// A start over a long log whose views are gone: they are made by as many threads as are worth it, it says so, also where that is
// one, and every balance is what it was.

import { rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { linesOf } from '../../bench/load/work.ts';
import { parseApiKey } from '../../src/http/api-key.ts';
import { LIMITS } from '../../src/limits.ts';
import { writeTransactions } from '../history.ts';
import { type Running, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const ACCOUNTS = 8;
/** A transaction has three records and more. */
const transactionsOf = (threads: number): number =>
  Math.ceil((threads * LIMITS.viewThreadRecordsMin) / 3) + 1_000;

const root = temporaryDirectory(t);

/** A log of many transactions, with its views. Returns the keys of its accounts, and how many records it has. */
async function write(dataDir: string, partitions: number, transactions: number) {
  const keysFile = `${dataDir}-keys`;
  const { records } = await writeTransactions({
    dataDir,
    keysFile,
    partitions,
    accounts: ACCOUNTS,
    deposits: 1,
    transactions,
    shape: 'mixed',
  });
  return { keys: linesOf(keysFile), records };
}

interface Started {
  readonly service: Running;
  /** Of those about views that are made. */
  readonly said: any[];
  readonly balances: readonly string[];
}

async function start(dataDir: string, partitions: number, keys: readonly string[]): Promise<Started> {
  const lines: any[] = [];
  const environment = { LOG_LEVEL: 'info', DEMO: 'false', PARTITIONS: String(partitions) };
  const service = await startService(environment, dataDir, (line) => {
    lines.push(JSON.parse(line));
  });
  const answers = await Promise.all(keys.map((key) => service.merchant('GET', '/v1/balances', { key })));
  const said = lines.filter(({ threads }) => threads !== undefined);
  return { service, said, balances: answers.map(({ text }) => text) };
}

t.test('views that are gone are made by several threads, and are what they were', async (t) => {
  const dataDir = join(root, 'many');
  const { keys, records } = await write(dataDir, 4, transactionsOf(2));
  const kept = await start(dataDir, 4, keys);
  t.same(kept.said, [], 'a start from the checkpoint needs none');
  await kept.service.stop();

  rmSync(join(dataDir, 'views'), { recursive: true });
  const { service, said, balances } = await start(dataDir, 4, keys);
  t.equal(balances.length, ACCOUNTS);
  t.strictSame(balances, kept.balances);
  const threads = Math.min(2, availableParallelism());
  t.hasStrict(said[0], { group: 'accounts', threads, message: 'making the views from the log' });
  t.hasStrict(said.at(-1), { done: said[0].records, secondsLeft: 0, message: 'the views are made' });
  t.ok(said[0].records >= records, 'all that was written, and what the service wrote since');
  for (const key of keys) {
    const { accountId } = parseApiKey(key)!;
    const trial = await service.operator('GET', `/operator/v1/accounts/${accountId}/trial_balance`);
    t.hasStrict(trial, { status: 200, body: { balanced: true } });
  }
  await service.stop();
});

t.test('where there is one thread for it, the start says how far it is, too', async (t) => {
  const dataDir = join(root, 'one');
  const { keys, records } = await write(dataDir, 1, transactionsOf(1));
  rmSync(join(dataDir, 'views'), { recursive: true });
  const { service, said, balances } = await start(dataDir, 1, keys);
  t.equal(balances.length, ACCOUNTS);
  t.hasStrict(said[0], { group: 'accounts', threads: 1, message: 'making the views from the log' });
  t.ok(said[0].records >= records);
  t.hasStrict(said.at(-1), { done: said[0].records, secondsLeft: 0, message: 'the views are made' });
  await service.stop();
});
