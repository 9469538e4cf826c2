#!/usr/bin/env node
// The operator's tools for the log: `npm run wal -- <tool>`. Only puts the tools and the terminal together.
import { constants, setPriority } from 'node:os';
import { endBySignals } from '../src/end-process.ts';
import { logTools } from '../src/log-tools/commands.ts';
import { walTools } from './tools/all.ts';
import { ownTerminal, runTools } from './tools/tool.ts';

endBySignals();
// A service that runs beside it comes first.
setPriority(constants.priority.PRIORITY_LOW);

process.exitCode = await runTools(
  'npm run wal --',
  [...walTools, ...logTools],
  process.argv.slice(2),
  ownTerminal(),
);
