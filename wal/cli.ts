#!/usr/bin/env node
// The operator's tools for the log: `npm run wal -- <tool>`. Each runs in a process of its own (tools/cli.ts), since a damaged file
// can end the process that reads it; this one waits for it, and says why it ended.
import { fileURLToPath } from 'node:url';
import { endBySignal, STOP_SIGNALS } from '../src/end-process.ts';
import { processLimitsProblem } from '../src/process-limits.ts';
import { isDeath } from '../src/damage/reader-process.ts';
import { WAL_LIMITS } from './limits.ts';
import { supervised } from './tools/supervised.ts';

const WRONGLY_ASKED = 2;
const NEXT_REMOVES = 'nothing of it counts, and the next run removes what it wrote';
/** Of those that write. */
const LEFT = {
  backup: NEXT_REMOVES,
  archive: NEXT_REMOVES,
  export: NEXT_REMOVES,
  import:
    'a log to which it had appended is opened by nothing else until it has come to its end: run it again',
  trim: 'what it had removed stays so: run it again for the rest',
  restore: 'what it wrote is no log, and nothing opens it: the same command begins anew',
};

const problem = processLimitsProblem('a tool of the log', {
  openFiles: WAL_LIMITS.toolOpenFilesMin,
  addressSpace: WAL_LIMITS.logMapBytes + WAL_LIMITS.viewsMapBytes,
});
if (problem === null) process.exitCode = await run();
else {
  process.stderr.write(`${problem}, then try again.\n`);
  process.exitCode = WRONGLY_ASKED;
}

function run(): Promise<number> {
  return supervised({
    program: fileURLToPath(new URL('tools/cli.ts', import.meta.url)),
    args: process.argv.slice(2),
    stopSignals: STOP_SIGNALS,
    left: LEFT,
    elsewhere: new Set(['restore']),
    endBy: endBySignal,
    isDeath,
    // However long it takes: whoever asks waits for nothing else. LMDB is loaded only for it.
    prove: async (directory, onReading) =>
      (await import('../src/damage/files-proof.ts')).proveFiles(directory, null, onReading),
  });
}
