// What the tools print may be a merchant's or a provider's choice: a terminal obeys none of it.
import t from 'tap';
import { UsageError, type Tool } from '../../../wal/tools/tool.ts';
import { runTool } from './run-tool.ts';

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
