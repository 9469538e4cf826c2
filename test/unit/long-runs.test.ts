// The long runs, asked for wrongly: none passes, and each says what is wrong and what it takes.

import { spawnSync } from 'node:child_process';
import t from 'tap';

const WRONG = [
  ['crash', '--cycles', '0', '--cycles is 1 at least'],
  ['crash', '--cycles', '1.5', '--cycles is a whole number, not "1.5"'],
  ['crash', '--cycle', '3', "Unknown option '--cycle'"],
  ['cluster', '--minutes', '0', '--minutes is 1 at least'],
  ['cluster', '--callers', '0', '--callers is 1 at least'],
] as const;

for (const [folder, name, value, why] of WRONG) {
  t.test(`test:${folder} -- ${name} ${value}`, (t) => {
    const args = [`test/${folder}/long.ts`, name, value];
    // Long enough to start: a run that began is no refusal.
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 20_000 });
    t.equal(status, 2);
    t.ok(stderr.includes(why), stderr);
    t.match(stderr, new RegExp(`^npm run test:${folder} -- `, 'm'));
    t.end();
  });
}
