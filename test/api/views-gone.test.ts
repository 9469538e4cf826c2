// A start over a long log whose views are gone: they are made by as many threads as are worth it, it says so, and every
// balance is what it was.

import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { writeHistory } from '../../bench/history/write-history.ts';
import { linesOf } from '../../bench/load/work.ts';
import { parseApiKey } from '../../src/http/api-key.ts';
import { LIMITS } from '../../src/limits.ts';
import { type Running, startService } from './start.ts';

const ACCOUNTS = 8;
/** Of three records and more. */
const TRANSACTIONS = Math.ceil((2 * LIMITS.catchUpRecordsPerThreadMin) / 3) + 1_000;

const root = mkdtempSync(join(tmpdir(), 'daftari-views-gone-'));
t.teardown(() => rmSync(root, { recursive: true }));
const dataDir = join(root, 'data');
const keysFile = join(root, 'keys');

function keys(): string[] {
  return linesOf(keysFile);
}

interface Started {
  readonly service: Running;
  readonly lines: any[];
  readonly balances: readonly string[];
}

async function start(): Promise<Started> {
  const lines: any[] = [];
  const service = await startService({ LOG_LEVEL: 'info', DEMO: 'false' }, dataDir, (line) => {
    lines.push(JSON.parse(line));
  });
  const answers = await Promise.all(keys().map((key) => service.merchant('GET', '/v1/balances', { key })));
  return { service, lines, balances: answers.map(({ text }) => text) };
}

t.test('views that are gone are made by several threads, and are what they were', async (t) => {
  const { records } = await writeHistory(
    {
      dataDir,
      partitions: 4,
      keysFile,
      accounts: ACCOUNTS,
      deposits: 1,
      transactions: TRANSACTIONS,
      historyAccounts: ACCOUNTS,
      shape: 'mixed',
      firstNumber: 0,
      idsFile: null,
      idsKept: 0,
      webhookUrl: null,
    },
    () => {},
  );
  const kept = await start();
  t.notOk(
    kept.lines.some(({ threads }) => threads !== undefined),
    'a start from the checkpoint needs none',
  );
  await kept.service.stop();

  rmSync(join(dataDir, 'views'), { recursive: true });
  const { service, lines, balances } = await start();
  t.equal(balances.length, ACCOUNTS);
  t.strictSame(balances, kept.balances);
  const said = lines.filter(({ threads }) => threads !== undefined);
  if (availableParallelism() > 1) {
    t.hasStrict(said[0], { group: 'accounts', threads: 2, message: 'making the views from the log' });
    t.hasStrict(said.at(-1), { done: said[0].records, secondsLeft: 0, message: 'the views are made' });
    t.ok(said[0].records >= records, 'all that was written, and what the service wrote since');
  }
  for (const key of keys()) {
    const { accountId } = parseApiKey(key)!;
    const trial = await service.operator('GET', `/operator/v1/accounts/${accountId}/trial_balance`);
    t.hasStrict(trial, { status: 200, body: { balanced: true } });
  }
  await service.stop();
});
