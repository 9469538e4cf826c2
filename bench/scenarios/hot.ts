// One merchant against many: one account is one actor in one partition, so all its charges go through one mailbox and one
// batch, where those of many are spread over all partitions.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Scenario } from '../bench.ts';
import { checkAnswers, checkMade, checkReplays, checkTrialBalances } from '../check.ts';
import { linesOf } from '../load/work.ts';
import { withTarget, workOf } from './peaks.ts';

const SPREAD_TARGET = 0.9;

export const hot: Scenario = {
  name: 'hot',
  summary: 'all charges on one account, against the same on many',
  needs: null,
  async run(bench) {
    const { spreadAccounts, seconds, idsChecked } = bench.options;
    const prepared = await bench.prepare({ accounts: spreadAccounts });
    const oneKey = join(prepared.dataDir, '..', 'one-key');
    writeFileSync(oneKey, `${linesOf(prepared.keysFile)[0]}\n`);
    const server = await bench.serviceAtRest(prepared);
    const half = { seconds: seconds / 2 };
    const many = () => workOf(bench, prepared, ['charge']);

    const before = await bench.drive({
      label: `${spreadAccounts} accounts, before`,
      server,
      work: many(),
      ...half,
    });
    const work = workOf(bench, prepared, ['charge'], { keysFile: oneKey });
    const one = await bench.drive({ label: 'one account', server, work });
    const after = await bench.drive({
      label: `${spreadAccounts} accounts, after`,
      server,
      work: many(),
      ...half,
    });

    const spread = (before.load.perSecond + after.load.perSecond) / 2;
    const hottest = one.load.perSecond;
    const loads = [before.load, one.load, after.load];
    return {
      figures: [
        { name: `${spreadAccounts} accounts, peak`, unit: '/s', value: spread, better: 'more' },
        { name: 'one account, peak', unit: '/s', value: hottest, better: 'more' },
        withTarget({ name: 'one / many', unit: '×', value: hottest / spread, better: 'more' }, SPREAD_TARGET),
      ],
      loads,
      checks: [
        ...loads.map(checkAnswers),
        checkMade(work, one),
        await checkReplays(server, work, one, idsChecked),
        await checkTrialBalances(server, oneKey),
      ],
      notes: [],
    };
  },
};
