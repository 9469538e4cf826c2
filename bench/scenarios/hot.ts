// One merchant against many: one account is one actor in one partition, so all its charges go through one mailbox and one
// batch, where those of many are spread over all partitions.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Scenario } from '../bench.ts';
import {
  checkAnswers,
  checkListed,
  checkMade,
  checkReplays,
  checkTrialBalances,
  type Done,
} from '../check.ts';
import { linesOf } from '../load/work.ts';
import type { Load } from '../result.ts';
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
    const done: Done[] = [];
    const drive = async (label: string, keysFile: string, part: number): Promise<Load> => {
      const work = workOf(bench, prepared, ['charge'], { keysFile });
      const driven = await bench.drive({ label, server, work, seconds: seconds * part });
      done.push({ work, driven });
      return driven.load;
    };
    const before = await drive(`${spreadAccounts} accounts, before`, prepared.keysFile, 0.5);
    const one = await drive('one account', oneKey, 1);
    const after = await drive(`${spreadAccounts} accounts, after`, prepared.keysFile, 0.5);

    const spread = (before.perSecond + after.perSecond) / 2;
    const hottest = one.perSecond;
    const loads = [before, one, after];
    return {
      figures: [
        { name: `${spreadAccounts} accounts, peak`, unit: '/s', value: spread, better: 'more' },
        { name: 'one account, peak', unit: '/s', value: hottest, better: 'more' },
        withTarget({ name: 'one / many', unit: '×', value: hottest / spread, better: 'more' }, SPREAD_TARGET),
      ],
      loads,
      checks: [
        ...loads.map(checkAnswers),
        ...done.map(({ work, driven }) => checkMade(work, driven)),
        await checkListed(server, done),
        ...(await Promise.all(
          done.map(({ work, driven }) => checkReplays(server, work, driven, idsChecked)),
        )),
        await checkTrialBalances(server, oneKey),
        await checkTrialBalances(server, prepared.keysFile),
      ],
      notes: [],
    };
  },
};
