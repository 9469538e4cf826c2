// The operator's tools for rails: `npm run rails -- check | reconcile | seal`. Each runs in a process of its own (tools/cli.ts), since a
// damaged log can end the process that reads it; this one waits for it, and says why it ended.

import { fileURLToPath } from 'node:url';
import { supervised } from '../../wal/tools/supervised.ts';
import { isDeath } from '../damage/reader-process.ts';
import { endBySignal, STOP_SIGNALS } from '../end-process.ts';

process.exitCode = await supervised({
  program: fileURLToPath(new URL('tools/cli.ts', import.meta.url)),
  args: process.argv.slice(2),
  stopSignals: STOP_SIGNALS,
  left: {},
  elsewhere: new Set(['check', 'seal']),
  endBy: endBySignal,
  isDeath,
  prove: async (directory, onReading) =>
    (await import('../damage/files-proof.ts')).proveFiles(directory, null, onReading),
});
