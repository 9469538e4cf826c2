// Runs a tool of `npm run wal` in this process and keeps what it prints.

import { Progress } from '../../../wal/tools/progress.ts';
import { runTools } from '../../../wal/tools/tool.ts';
import type { Tool } from '../../../wal/tools/tool.ts';

/** For what a test runs without a terminal. */
export const quiet = new Progress({ write: () => {}, shown: false, overwrites: false });

export interface ToolRun {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

/** `args`: the tool's name, then what a shell would give it. Where it can rest it does not: this process has other tools to run, and
 *  services to start. */
export async function runTool(tools: readonly Tool[], ...args: string[]): Promise<ToolRun> {
  let out = '';
  let err = '';
  const terminal = {
    out: (text: string) => void (out += text),
    err: (text: string) => void (err += text),
    errIsTty: false,
    env: {},
  };
  const tool = tools.findLast(({ name }) => name === args[0]);
  const rests = tool !== undefined && (tool.data !== false || Object.hasOwn(tool.options, 'full-speed'));
  const status = await runTools('wal', tools, rests ? [...args, '--full-speed'] : args, terminal);
  return { status, out, err };
}
