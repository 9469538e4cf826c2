// What a log tool that reads a live directory costs the service: charges at their peak while one is at work, against charges
// before and after it.

import { join } from 'node:path';
import type { Scenario } from '../bench.ts';
import { checkReplays, checkTrialBalances } from '../check.ts';
import type { Check, Figure, Load } from '../result.ts';
import { repeatTool } from '../servers/repeat-tool.ts';
import { chargesInTurn } from './charges-in-turn.ts';
import { withTarget } from './peaks.ts';

const TARGET = 0.9;

/** `inspect` is none of them: it reads what it shows, and is done. */
const TOOLS: readonly { readonly name: string; readonly writes: boolean }[] = [
  { name: 'verify', writes: false },
  { name: 'replay', writes: false },
  { name: 'replay --verify', writes: false },
  { name: 'backup', writes: true },
  { name: 'export', writes: true },
];

export const tools: Scenario = {
  name: 'tools',
  summary: 'charges while a log tool reads the live directory, against charges alone',
  needs: null,
  async run(bench) {
    const { accounts, recoveryTransactions: transactions, idsChecked } = bench.options;
    const prepared = await bench.prepare({
      transactions,
      historyAccounts: accounts,
      deposits: 2,
      shape: 'mixed',
    });
    const server = await bench.serviceAtRest(prepared);
    const charges = chargesInTurn(bench, prepared, server);
    const alone = [await charges.drive('alone', 0.5)];
    const figures: Figure[] = [];
    const ran: Check[] = [];
    const runs: string[] = [];
    for (const { name, writes } of TOOLS) {
      const before = alone.at(-1)!;
      const directory = bench.directory();
      const tool = bench.keep(
        repeatTool({
          checkout: bench.checkout,
          argsOf: (n) => [
            ...name.split(' '),
            '--data',
            prepared.dataDir,
            ...(writes ? ['--to', join(directory, String(n))] : []),
          ],
          signal: bench.signal,
        }),
      );
      bench.progress(`${name}: opening the log`);
      await tool.reading();
      const beside = await charges.drive(`beside ${name}`, 1);
      await bench.stop(tool);
      const failure = tool.failure();
      ran.push({ what: `${name} was at work`, passed: failure === null, detail: failure ?? 'until the end' });
      runs.push(`${name} ${tool.runs()}`);
      const after = await charges.drive(`after ${name}`, 0.5);
      alone.push(after);
      figures.push(ratioOf(name, beside.perSecond / meanOf([before, after])));
    }
    const last = charges.done.at(-1)!;
    return {
      figures: [
        { name: 'service alone, peak', unit: '/s', value: meanOf(alone), better: 'more' },
        ...figures,
      ],
      loads: charges.done.map(({ driven }) => driven.load),
      checks: [
        ...(await charges.checks()),
        ...ran,
        await checkReplays(server, last.work, last.driven, idsChecked),
        await checkTrialBalances(server, prepared.keysFile),
      ],
      notes: [
        `a history of ${transactions} transactions, ${prepared.records} records`,
        `CPU time of tools is in that of others; what came to its end began anew: ${runs.join(', ')}`,
      ],
    };
  },
};

function ratioOf(name: string, value: number): Figure {
  return withTarget({ name: `beside ${name} / alone`, unit: '×', value, better: 'more' }, TARGET);
}

/** 2xx a second. */
function meanOf(loads: readonly Load[]): number {
  return loads.reduce((sum, { perSecond }) => sum + perSecond, 0) / loads.length;
}
