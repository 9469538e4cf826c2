// Runs one scenario of the bench in its shortest form, as `npm run bench -- <scenario> --form smoke` does.

import type { Test } from 'tap';
import { parseCommand } from '../../bench/options.ts';
import { reportText } from '../../bench/report/table.ts';
import { run } from '../../bench/run.ts';

export function smokeTest(t: Test, scenario: string, more: readonly string[] = []): void {
  t.test(
    `the scenario ${[scenario, ...more].join(' ')} runs, and what it acknowledged is true`,
    async (t) => {
      const args = [scenario, '--form', 'smoke', ...more];
      const command = parseCommand(args);
      if (command.type !== 'run') throw new Error('it names a run');
      const errors: unknown[] = [];
      const { report, against } = await run(command.options, args.join(' '), {
        progress: () => {},
        finished: () => {},
        failed: (_, error) => errors.push(error),
      });
      t.strictSame(errors, []);
      t.equal(against !== null, command.options.against !== null);
      for (const side of against === null ? [report] : [report, against]) {
        const repeats = side.scenarios.flatMap((each) => each.repeats);
        t.equal(repeats.length, 1);
        const [repeat] = repeats;
        t.strictSame(
          repeat?.checks.filter(({ passed }) => !passed),
          [],
          'every check passed',
        );
        for (const { name, value } of repeat?.figures ?? []) {
          t.ok(Number.isFinite(value), `${name} is a number`);
        }
        for (const { label, perSecond } of repeat?.loads ?? []) t.ok(perSecond > 0, `${label} was answered`);
        t.match(reportText(side), new RegExp(`^${scenario} `, 'm'));
      }
    },
  );
}
