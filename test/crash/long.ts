// The long form of service.test.ts: npm run test:crash -- --cycles N --seed S. Exit status 0 only when nothing was lost.

import { endWithChildren } from '../../deploy/stop-signal.ts';
import { readLongOptions } from '../long-options.ts';
import { runCycles } from './cycles.ts';

const { cycles, seed } = readLongOptions(
  'npm run test:crash -- [--cycles N, default 300] [--seed S, default random]',
  { cycles: 300 },
);
endWithChildren();
const print = (line: string): void => void process.stdout.write(`${line}\n`);

print(`seed ${seed}: rerun with npm run test:crash -- --cycles ${cycles} --seed ${seed}`);
const { faults, ...report } = await runCycles({ cycles, seed, onProgress: print });
for (const fault of faults) print(`FAULT ${fault}`);
print(JSON.stringify({ ...report, faults: faults.length }));
process.exitCode = faults.length === 0 ? 0 : 1;
