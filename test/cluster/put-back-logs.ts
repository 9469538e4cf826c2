// Logs of nodes put back into streams that have nothing, as the runbook says (deploy/README.md, day 11).
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { streamTools } from '../../deploy/stream-tools.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { runTool, type ToolRun } from '../unit/wal/run-tool.ts';
import { link } from './adapters.ts';

interface NodeLog {
  readonly name: string;
  readonly dataDir: string;
}

/** `ends`: a directory to be made, for where each of them ends. Resolves with what put-back said of each. */
export async function putBackLogs(
  natsUrl: string,
  replicas: 1 | 3,
  ends: string,
  nodes: readonly NodeLog[],
): Promise<ToolRun[]> {
  mkdirSync(ends);
  for (const { name, dataDir } of nodes) {
    const { out } = await runTool(logTools, 'inspect', '--data', dataDir, '--json');
    writeFileSync(join(ends, `${name}.json`), out);
  }
  const written: ToolRun[] = [];
  for (const { dataDir } of nodes) {
    const tools = streamTools(() => link(natsUrl, 'operator'));
    const from = ['--data', dataDir, '--ends', ends, '--replicas', String(replicas), '--yes'];
    written.push(await runTool(tools, 'put-back', ...from));
  }
  return written;
}
