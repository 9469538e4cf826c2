// A directory that a tool has for as long as it works. It may be as large as the log and has all that the log says, so an
// interrupted tool (Ctrl-C, a timer's time-out, a closed terminal) does not leave it behind.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Whoever removes it where this process is ended by a signal that nobody hears. */
let watcher: (path: string) => void = () => {};

export function watchTemporaries(by: typeof watcher): void {
  watcher = by;
}

const interrupts = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export async function withTemporary<T>(
  prefix: string,
  use: (path: string) => Promise<T>,
  parent: string = tmpdir(),
): Promise<T> {
  const path = mkdtempSync(join(parent, prefix));
  watcher(path);
  const remove = (): void => rmSync(path, { recursive: true, force: true });
  const unhear = (): void => interrupts.forEach((each) => void process.off(each, end));
  const end = (signal: NodeJS.Signals): void => {
    remove();
    // Not before: npm passes a Ctrl-C on that was heard already, and the second would end this halfway.
    unhear();
    process.kill(process.pid, signal);
  };
  // Before whoever ends the first process of a container by them, which no signal of its own ends.
  for (const each of interrupts) process.prependListener(each, end);
  try {
    return await use(path);
  } finally {
    unhear();
    remove();
  }
}
