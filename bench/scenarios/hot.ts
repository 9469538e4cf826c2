// One merchant against many: one account is one actor in one partition, so all its charges go through one mailbox and one
// batch, where those of many are spread over all partitions.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Scenario } from '../bench.ts';
import { checkReplays, checkTrialBalances } from '../check.ts';
import { linesOf } from '../load/work.ts';
import { chargesInTurn } from './charges-in-turn.ts';
import { withTarget } from './peaks.ts';

const SPREAD_TARGET = 0.9;

export const hot: Scenario = {
  name: 'hot',
  summary: 'all charges on one account, against the same on many',
  needs: null,
  async run(bench) {
    const { spreadAccounts, idsChecked } = bench.options;
    const prepared = await bench.prepare({ accounts: spreadAccounts });
    const oneKey = join(prepared.dataDir, '..', 'one-key');
    writeFileSync(oneKey, `${linesOf(prepared.keysFile)[0]}\n`);
    const server = await bench.serviceAtRest(prepared);
    const charges = chargesInTurn(bench, prepared, server);
    const before = await charges.drive(`${spreadAccounts} accounts, before`, 0.5);
    const one = await charges.drive('one account', 1, { keysFile: oneKey });
    const after = await charges.drive(`${spreadAccounts} accounts, after`, 0.5);

    const spread = (before.perSecond + after.perSecond) / 2;
    const hottest = one.perSecond;
    return {
      figures: [
        { name: `${spreadAccounts} accounts, peak`, unit: '/s', value: spread, better: 'more' },
        { name: 'one account, peak', unit: '/s', value: hottest, better: 'more' },
        withTarget({ name: 'one / many', unit: '×', value: hottest / spread, better: 'more' }, SPREAD_TARGET),
      ],
      loads: [before, one, after],
      checks: [
        ...(await charges.checks()),
        ...(await Promise.all(
          charges.done.map(({ work, driven }) => checkReplays(server, work, driven, idsChecked)),
        )),
        await checkTrialBalances(server, oneKey),
        await checkTrialBalances(server, prepared.keysFile),
      ],
      notes: [],
    };
  },
};
