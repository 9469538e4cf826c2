// Starts of the service over a history: from the checkpoint, from the log alone, and from a checkpoint of many accounts.
// What is measured is what an operator waits for: from the start of the process until it serves.

import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, Prepared, Scenario } from '../bench.ts';
import { spread } from '../check.ts';
import { getAs } from '../load/send-once.ts';
import { linesOf } from '../load/work.ts';
import { fixed } from '../report/table.ts';
import { sumOf } from '../measure/metrics.ts';
import type { Check, Figure } from '../result.ts';
import type { Service } from '../servers/start-service.ts';

const GB = 1e9;
const MILLION = 1e6;
const MS_PER_SECOND = 1_000;
const KEYS_ASKED = 50;
const REPLAY_SECONDS_PER_GB = 10;
const CHECKPOINT_SECONDS = 3;
const ACCOUNTS_SECONDS = 5;

export const recovery: Scenario = {
  name: 'recovery',
  summary: 'starts over a history: from the checkpoint, from the log alone, with many accounts',
  needs: null,
  async run(bench) {
    const { recoveryTransactions: transactions, recoveryAccounts, accounts } = bench.options;
    const prepared = await bench.prepare({
      transactions,
      historyAccounts: accounts,
      deposits: 2,
      shape: 'mixed',
    });
    const logBytes = statSync(join(prepared.dataDir, 'log', 'data.mdb')).size;

    const fromCheckpoint = await startOnce(bench, prepared);
    rmSync(join(prepared.dataDir, 'views'), { recursive: true });
    const fromLog = await startOnce(bench, prepared);
    const many = await startOnce(bench, await bench.prepare({ accounts: recoveryAccounts }));

    const replaySeconds = fromLog.recoverySeconds;
    const figures: Figure[] = [
      seconds('from the checkpoint, until it serves', fromCheckpoint.readySeconds, CHECKPOINT_SECONDS),
      seconds('from the log alone, until it serves', fromLog.readySeconds),
      seconds('full replay', replaySeconds),
      seconds('full replay, a GB of log', replaySeconds / (logBytes / GB), REPLAY_SECONDS_PER_GB),
      seconds('full replay, a million transactions', replaySeconds / (transactions / MILLION)),
      seconds('full replay, a million records', replaySeconds / (prepared.records / MILLION)),
      seconds(`${recoveryAccounts} accounts, from the checkpoint`, many.readySeconds, ACCOUNTS_SECONDS),
      { name: 'log, bytes a record on disk', unit: 'B', value: logBytes / prepared.records, better: 'less' },
      { name: 'log, bytes a transaction on disk', unit: 'B', value: logBytes / transactions, better: 'less' },
    ];
    return {
      figures,
      loads: [],
      checks: [sameBalances(fromCheckpoint, fromLog)],
      notes: [
        `${transactions} transactions, ${prepared.records} records, ${fixed(logBytes / MILLION)} MB of log: what a GB and a million take is reckoned from these`,
        `written through the actors at ${Math.round(transactions / prepared.seconds)} transactions a second`,
      ],
    };
  },
};

interface Started {
  readonly readySeconds: number;
  /** Of the accounts group alone. */
  readonly recoverySeconds: number;
  /** Of some accounts, as text. */
  readonly balances: readonly string[];
}

async function startOnce(bench: Bench, prepared: Prepared): Promise<Started> {
  bench.progress('starting over the history');
  const service = await bench.service(prepared);
  const metrics = await service.metrics();
  const started = {
    readySeconds: service.readyMs / MS_PER_SECOND,
    recoverySeconds: sumOf(metrics, 'daftari_recovery_seconds', { group: 'accounts' }),
    balances: await balancesOf(service, prepared),
  };
  await bench.stop(service);
  return started;
}

function balancesOf(service: Service, { keysFile }: Prepared): Promise<string[]> {
  return Promise.all(
    spread(linesOf(keysFile), KEYS_ASKED).map(async (key) => {
      const response = await getAs(service, key, '/v1/balances');
      const text = await response.text();
      // Two that are refused agree as well.
      if (!response.ok) throw new Error(`/v1/balances: ${response.status} ${text}`);
      return text;
    }),
  );
}

function sameBalances(before: Started, after: Started): Check {
  const different = before.balances.filter((text, place) => text !== after.balances[place]).length;
  return {
    what: 'balances from the log alone are those of the checkpoint',
    passed: different === 0,
    detail: `${before.balances.length - different} of ${before.balances.length} accounts agree`,
  };
}

function seconds(name: string, value: number, target?: number): Figure {
  return { name, unit: 's', value, better: 'less', ...(target === undefined ? {} : { target }) };
}
