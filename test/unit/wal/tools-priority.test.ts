// How much of the machine a log tool takes beside a service.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { areOthersBusy } from '../../../wal/tools/priority.ts';

const PRIORITY = join(import.meta.dirname, '../../../wal/tools/priority.ts');
/** Prints its priority, and what the system says of its session before and after. A session that was not begun since the machine
 *  was started is of no group, and the system says nothing of it. */
const PROGRAM = `
  const { letServicesGoFirst } = await import(${JSON.stringify(PRIORITY)});
  const { readFileSync } = await import('node:fs');
  const { getPriority } = await import('node:os');
  const session = () => readFileSync('/proc/self/autogroup', 'latin1').trim();
  const before = session();
  letServicesGoFirst();
  for (let look = 0; look < 100 && !session().endsWith('nice 19'); look++) {
    if (process.argv[1] === 'another') break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  process.stdout.write(JSON.stringify([getPriority(), before, session()]));
`;

t.test(
  'a session of its own goes behind all others, another one stays as it was',
  {
    skip: existsSync('/proc/self/autogroup') ? false : 'the system shares nothing out between sessions',
  },
  async (t) => {
    const run = (command: string, ...args: string[]): [number, string, string] => {
      const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
      t.equal(stderr, '');
      return JSON.parse(stdout);
    };
    const evaluate = ['--input-type=module', '--eval', PROGRAM];
    t.match(run('setsid', '--wait', process.execPath, ...evaluate), [
      19,
      /^\/autogroup-\d+ nice \d+$/,
      /^\/autogroup-\d+ nice 19$/,
    ]);
    const [priority, before, after] = run(process.execPath, ...evaluate, 'another');
    t.equal(priority, 19);
    t.equal(after, before);
  },
);

/** Prints the priority of a tool at work, and whether its threads are to rest. */
const TOOL = `
  const { letServicesGoFirst, letsOthersGoFirst } = await import(${JSON.stringify(PRIORITY)});
  const { ownTerminal, runTools } = await import(${JSON.stringify(join(PRIORITY, '../tool.ts'))});
  const { getPriority } = await import('node:os');
  const tool = {
    name: 'look',
    summary: '',
    help: '',
    options: {},
    async run() {
      letServicesGoFirst();
      return { sound: true, report: [getPriority(), letsOthersGoFirst()], lines: [] };
    },
  };
  process.exitCode = await runTools('wal', [tool], ['look', '--json', ...process.argv.slice(1)], ownTerminal());
`;

t.test('a tool that is asked for at full speed goes behind nobody', async (t) => {
  const run = (...args: string[]): unknown => {
    const given = ['--input-type=module', '--eval', TOOL, '--', ...args];
    const { stdout, stderr } = spawnSync(process.execPath, given, { encoding: 'utf8' });
    t.equal(stderr, '');
    return JSON.parse(stdout);
  };
  t.strictSame(run(), [19, true]);
  t.strictSame(run('--full-speed'), [getPriority(), false]);
});

t.test('others are busy who use a quarter of the cores, whatever it uses itself', async (t) => {
  const before = { atMs: 1_000, busyMs: 50_000, ownMs: 700 };
  const after = (ownMs: number, othersMs: number) => ({
    atMs: before.atMs + 100,
    busyMs: before.busyMs + ownMs + othersMs,
    ownMs: before.ownMs + ownMs,
  });
  t.notOk(areOthersBusy(before, after(0, 0), 2));
  t.notOk(areOthersBusy(before, after(200, 0), 2), 'all cores, by itself');
  t.notOk(areOthersBusy(before, after(150, 50), 2));
  t.ok(areOthersBusy(before, after(140, 60), 2));
  t.ok(areOthersBusy(before, after(0, 200), 2));
  t.notOk(areOthersBusy(before, after(100, 200), 16), 'there are cores enough');
});
