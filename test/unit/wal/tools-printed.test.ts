// What the tools print may be a merchant's or a provider's choice: a terminal obeys none of it. What cannot be printed is not taken
// for said.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { UsageError, type Tool } from '../../../wal/tools/tool.ts';
import { runTool } from './run-tool.ts';
import { next, write } from './tool-logs.ts';

const cli = fileURLToPath(new URL('../../../wal/cli.ts', import.meta.url));
/** As a file on a disk without room. */
const FULL = '/dev/full';

/** Clears the screen by both escapes, goes back to the line's begin, turns the direction of writing, separates lines. */
const CHOSEN = 'top\u001b[2Jup\u009b2J\r\u0007\t\u202e\u2066\u2028\u007f';
const ESCAPED = 'top\\u001b[2Jup\\u009b2J\\u000d\\u0007\\u0009\\u202e\\u2066\\u2028\\u007f';
const WRITTEN = 'Zoë, 5 000 – ✓ 🙂 عربي';

function saying(run: Tool['run']): readonly Tool[] {
  return [{ name: 'say', summary: 'Says it.', help: '', options: {}, run }];
}

t.test('controls and what turns the direction of writing are spelled out', async (t) => {
  const tools = saying(async () => ({
    sound: true,
    report: { text: CHOSEN + WRITTEN },
    lines: [CHOSEN, WRITTEN],
  }));
  t.equal((await runTool(tools, 'say')).out, `${ESCAPED}\n${WRITTEN}\n`);
  const { out } = await runTool(tools, 'say', '--json');
  t.strictSame(JSON.parse(out), { text: CHOSEN + WRITTEN }, 'as JSON it is the same text');
  t.notMatch(out, /[\u007f\u009b\u202e\u2066\u2028]/);
});

t.test('and so they are in what is wrong', async (t) => {
  for (const error of [new Error(CHOSEN), new UsageError(CHOSEN)]) {
    const tools = saying(() => Promise.reject(error));
    t.ok((await runTool(tools, 'say')).err.startsWith(`say: ${ESCAPED}\n`));
  }
});

t.test(
  'a result that a full disk does not take is a failure, and is said to be',
  {
    skip: existsSync(FULL) ? false : `needs ${FULL}`,
  },
  async (t) => {
    const data = next();
    await write(data, 2);
    const into = (where: string, ...args: string[]) => {
      const command = ['-c', `"$@" ${where}`, 'bash', process.execPath, cli, ...args, '--data', data];
      const { status, stderr } = spawnSync('bash', command, { encoding: 'utf8' });
      return { status, stderr };
    };
    const told =
      'What it found could not be written to standard output: ENOSPC: no space left on device, write\n';
    for (const args of [['verify'], ['verify', '--json'], ['inspect', '--help']]) {
      t.strictSame(into(`> ${FULL}`, ...args), { status: 1, stderr: told }, args.join(' '));
    }
    t.equal(into(`2> ${FULL}`, 'verify', '--wrong').status, 2, 'of what was wrong the status says it');
  },
);
