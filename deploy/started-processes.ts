// Which processes `npm run cluster` has started, in a file beside their data: they run on when it is killed, and the next start's
// would write to the same directories beside them. A line each, from when it is started: its mark (wal/process-mark.ts), its name.

import { appendFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { aliveIn, markOf, readOrNull } from '../wal/process-mark.ts';

export class StartedProcesses {
  readonly #directory: string;
  readonly #file: string;

  constructor(directory: string) {
    this.#directory = directory;
    this.#file = join(directory, 'processes');
  }

  /** To be called before any is started. Throws when one of the start before is alive, and says how to end it. */
  begin(): void {
    const lines = readOrNull(this.#file)?.split('\n').slice(0, -1) ?? [];
    const left = lines.flatMap((line) => {
      const pid = aliveIn(line);
      return pid === null ? [] : [{ pid, name: line.split(' ').slice(2).join(' ') }];
    });
    if (left.length === 0) return rmSync(this.#file, { force: true });
    throw new Error(
      `The cluster in ${this.#directory} was killed, and what it had started runs on: ` +
        `${left.map(({ name, pid }) => `${name} (process ${pid})`).join(', ')}. ` +
        `End that first: kill -9 ${left.map(({ pid }) => pid).join(' ')}`,
    );
  }

  /** `pid` undefined: it could not be started. */
  note(name: string, pid: number | undefined): void {
    if (pid !== undefined) appendFileSync(this.#file, `${markOf(pid)} ${name}\n`);
  }
}
