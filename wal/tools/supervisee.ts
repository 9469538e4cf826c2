// A tool's process, as the one that watches it (supervised.ts) knows it.

import { LogUnsearchable } from '../log-reader.ts';
import { noteUnreadable } from '../unreadable.ts';
import { LOG_UNSEARCHABLE, type ToTool } from './supervised.ts';
import type { Tool } from './tool.ts';

/** First of all: hears what of the data directory must not be read. */
export async function begin(): Promise<void> {
  // Whoever started this was killed, and can pass on no signal any more.
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  const { directory, unreadable } = await new Promise<ToTool>((resolve) => process.once('message', resolve));
  process.channel?.unref();
  if (unreadable !== null) noteUnreadable(directory, unreadable);
}

/** What keeps it from reading any of the log is for its starter to find out. */
export function telling(tool: Tool): Tool {
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
