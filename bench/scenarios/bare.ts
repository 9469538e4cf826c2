// The bare handler alone: what the machine, the driver and uWebSockets.js allow, and how much that moves by itself.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Scenario } from '../bench.ts';
import { checkAnswers } from '../check.ts';
import type { Kind, Work } from '../load/work.ts';
import { latencyAt, type Figure, type Load } from '../result.ts';
import { startBare, TYPICAL_BODY } from '../servers/start-bare.ts';

/** As long as a real one. */
const KEY = `sk_live_${'0'.repeat(58)}`;
const ID = `chg_${'0'.repeat(26)}`;
const HALF = 0.5;

export const bare: Scenario = {
  name: 'bare',
  summary: 'the uWebSockets.js handler that every ratio is taken against',
  needs: null,
  async run(bench) {
    const directory = bench.directory();
    const keysFile = join(directory, 'keys');
    const idsFile = join(directory, 'ids');
    writeFileSync(keysFile, `${KEY}\n`);
    writeFileSync(idsFile, `0 ${ID}\n`);
    const work = (kind: Kind): Work => {
      return {
        kinds: [kind],
        keysFile,
        idsFile,
        lists: [],
        msisdn: '+256772000065',
        prefix: bench.nextPrefix(),
      };
    };
    const server = bench.keep(await startBare({ postBody: TYPICAL_BODY, getBody: TYPICAL_BODY }));
    const post = (await bench.drive({ label: 'bare, POST', server, work: work('charge') })).load;
    const get = (await bench.drive({ label: 'bare, GET', server, work: work('read') })).load;
    const ratePerSecond = post.perSecond * HALF;
    const open = (
      await bench.drive({ label: 'bare, POST, 50 % of peak', server, work: work('charge'), ratePerSecond })
    ).load;

    const loads: Load[] = [post, get, open];
    const figures: Figure[] = [
      { name: 'POST, peak', unit: '/s', value: post.perSecond, better: 'more' },
      { name: 'GET, peak', unit: '/s', value: get.perSecond, better: 'more' },
      { name: 'POST, p99 at 50 % of peak', unit: 'ms', value: latencyAt(open.latency, 99), better: 'less' },
    ];
    return { figures, loads, checks: loads.map(checkAnswers), notes: [] };
  },
};
