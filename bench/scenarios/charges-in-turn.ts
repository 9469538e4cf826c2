// One service under charges, one load after the other, for the scenarios that hold such loads against each other.

import type { Bench, Prepared } from '../bench.ts';
import { checkAnswers, checkListed, checkMade, type Done } from '../check.ts';
import type { Work } from '../load/work.ts';
import type { Check, Load } from '../result.ts';
import type { Server } from '../servers/server.ts';
import { workOf } from './peaks.ts';

export interface ChargesInTurn {
  /** All loads so far, the first of them first. */
  readonly done: readonly Done[];
  /** At their peak. `part`: of the seconds that a load takes. */
  drive(label: string, part: number, more?: Partial<Work>): Promise<Load>;
  /** Of all loads together, while nothing else has been created since. */
  checks(): Promise<Check[]>;
}

export function chargesInTurn(bench: Bench, prepared: Prepared, server: Server): ChargesInTurn {
  const done: Done[] = [];
  return {
    done,
    async drive(label, part, more = {}) {
      const work = workOf(bench, prepared, ['charge'], more);
      const driven = await bench.drive({ label, server, work, seconds: bench.options.seconds * part });
      done.push({ work, driven });
      return driven.load;
    },
    checks: async () => [
      ...done.map(({ driven }) => checkAnswers(driven.load)),
      ...done.map(({ work, driven }) => checkMade(work, driven)),
      await checkListed(server, done),
    ],
  };
}
