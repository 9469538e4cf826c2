#!/usr/bin/env node
// The process of a tool: wal/cli.ts starts it, and says what of the data directory it must not read. Only puts the tools and the
// terminal together.
import { endBySignals } from '../../src/end-process.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { walTools } from './all.ts';
import type { FromTool } from './supervised.ts';
import { begin, telling } from './supervisee.ts';
import { watchTemporaries } from './temporary.ts';
import { ownTerminal, runTools } from './tool.ts';

endBySignals();
// The socket of the directory that it writes and LMDB's files are made as this says, as the service's are.
process.umask(0o077);

await begin();

watchTemporaries((temporary) => process.send?.({ temporary } satisfies FromTool));

process.exitCode = await runTools(
  'npm run wal --',
  [...walTools, ...logTools].map(telling),
  process.argv.slice(2),
  ownTerminal(),
);
