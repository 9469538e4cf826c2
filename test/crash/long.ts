// The long form of service.test.ts: npm run test:crash -- --cycles N --seed S. Exit status 0 only when nothing was lost.

import { parseArgs } from 'node:util';
import { runCycles } from './cycles.ts';

const { values } = parseArgs({
  options: {
    cycles: { type: 'string', default: '300' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
const print = (line: string): void => void process.stdout.write(`${line}\n`);

if (values.help) {
  print('npm run test:crash -- [--cycles N, default 300] [--seed S, default random]');
} else {
  print(
    `seed ${values.seed}: rerun with npm run test:crash -- --cycles ${values.cycles} --seed ${values.seed}`,
  );
  const { faults, ...report } = await runCycles({
    cycles: Number(values.cycles),
    seed: Number(values.seed),
    onProgress: print,
  });
  for (const fault of faults) print(`FAULT ${fault}`);
  print(JSON.stringify({ ...report, faults: faults.length }));
  process.exitCode = faults.length === 0 ? 0 : 1;
}
