#!/usr/bin/env node
// The process of a tool: wal/cli.ts starts it, and says what of the data directory it must not read. Only puts the tools and the
// terminal together.
import { endBySignals } from '../../src/end-process.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { LogUnsearchable } from '../log-reader.ts';
import { noteUnreadable } from '../unreadable.ts';
import { walTools } from './all.ts';
import { type FromTool, LOG_UNSEARCHABLE, type ToTool } from './supervised.ts';
import { watchTemporaries } from './temporary.ts';
import { ownTerminal, runTools, type Tool } from './tool.ts';

endBySignals();
// The socket of the directory that it writes and LMDB's files are made as this says, as the service's are.
process.umask(0o077);

// Whoever started this was killed, and can pass on no signal any more.
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
const { directory, unreadable } = await new Promise<ToTool>((resolve) => process.once('message', resolve));
process.channel?.unref();
if (unreadable !== null) noteUnreadable(directory, unreadable);

watchTemporaries((temporary) => process.send?.({ temporary } satisfies FromTool));

process.exitCode = await runTools(
  'npm run wal --',
  [...walTools, ...logTools].map(telling),
  process.argv.slice(2),
  ownTerminal(),
);

/** What keeps it from reading any of the log is for its starter to find out. */
function telling(tool: Tool): Tool {
  return {
    ...tool,
    run: async (input) => {
      try {
        return await tool.run(input);
      } catch (error) {
        if (error instanceof LogUnsearchable) process.exit(LOG_UNSEARCHABLE);
        throw error;
      }
    },
  };
}
