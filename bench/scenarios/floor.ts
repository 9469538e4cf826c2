// What the parts allow: HTTP and the log alone, without a service between them (../servers/floor.ts), against the bare handler.
// A service on them is no faster; how far it is from that is its own.

import { join } from 'node:path';
import type { Scenario } from '../bench.ts';
import { checkAnswers } from '../check.ts';
import type { Figure, Load } from '../result.ts';
import type { Server } from '../servers/server.ts';
import { startBare, TYPICAL_BODY } from '../servers/start-bare.ts';
import { startFloor } from '../servers/start-floor.ts';
import { cpuFigure, mainThreadCost, workOf } from './peaks.ts';

/** What is measured, by its records before the answer. */
const FLOORS = { 1: 'created', 2: 'created and accepted' } as const;

export const floor: Scenario = {
  name: 'floor',
  summary: 'the bare handler with the log behind it and no service: what no service on them exceeds',
  needs: null,
  async run(bench) {
    const prepared = await bench.prepare();
    const bodies = { postBody: TYPICAL_BODY, getBody: TYPICAL_BODY };
    const peakOf = async (label: string, server: Server): Promise<Load> =>
      (await bench.drive({ label, server, work: workOf(bench, prepared, ['charge']) })).load;

    const bare = bench.keep(await startBare(bodies));
    const before = await peakOf('bare, before', bare);
    const loads: Load[] = [];
    for (const records of [1, 2] as const) {
      const directory = join(bench.directory(), 'data');
      const { partitions } = bench.options;
      const options = { postBody: TYPICAL_BODY, directory, partitions, records };
      const server = bench.keep(await startFloor(options));
      loads.push(await peakOf(FLOORS[records], server));
      await bench.stop(server);
    }
    const after = await peakOf('bare, after', bare);

    const barePerSecond = (before.perSecond + after.perSecond) / 2;
    const figures: Figure[] = [
      { name: 'bare, peak', unit: '/s', value: barePerSecond, better: 'more' },
      ...cpuFigure('bare, CPU a request', mainThreadCost(before)),
      ...loads.flatMap((load): Figure[] => [
        { name: `${load.label}, peak`, unit: '/s', value: load.perSecond, better: 'more' },
        { name: `${load.label} / bare`, unit: '×', value: load.perSecond / barePerSecond, better: 'more' },
        ...cpuFigure(`${load.label}, CPU of the main thread a request`, mainThreadCost(load)),
      ]),
    ];
    const all = [before, ...loads, after];
    return { figures, loads: all, checks: all.map(checkAnswers), notes: [] };
  },
};
