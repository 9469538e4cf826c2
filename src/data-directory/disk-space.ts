// Free space of the disk that the data directory is on, looked at all the time. A commit that finds no room ends the process,
// and a start needs room too: what is below the reserve is for finishing, and for handing over, what was begun.

import { statfsSync, type StatsFs } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { LIMITS } from '../limits.ts';
import type { Log } from '../observability/log.ts';

const MIB = 1024 * 1024;

export interface DiskSpaceOptions {
  readonly directory: string;
  /** 0: never short. */
  readonly reserveBytes: number;
  /** The disk is short, and in what way, also at first; null: it has room again. */
  readonly onChange: (shortage: string | null) => void;
  /** Its space cannot be told: once, until it can be again. */
  readonly onError: (error: Error) => void;
}

export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  readonly #timer: NodeJS.Timeout;
  #freeBytes: number;
  #looking = false;
  #canTell = true;

  /** Throws when the directory is not there. */
  constructor(options: DiskSpaceOptions) {
    this.#options = options;
    this.#freeBytes = freeBytesOf(statfsSync(options.directory));
    if (this.isShort) options.onChange(this.shortage);
    this.#timer = setInterval(() => void this.#look(), LIMITS.diskLookMs).unref();
  }

  /** For this process, as last seen. */
  get freeBytes(): number {
    return this.#freeBytes;
  }

  get reserveBytes(): number {
    return this.#options.reserveBytes;
  }

  get isShort(): boolean {
    return this.#freeBytes < this.#options.reserveBytes;
  }

  /** Of the reserve less than half is left. */
  get isNearlyFull(): boolean {
    return this.#freeBytes < this.#options.reserveBytes / 2;
  }

  /** What is wrong, and what to do; null: nothing is. */
  get shortage(): string | null {
    if (!this.isShort) return null;
    const { directory, reserveBytes } = this.#options;
    return (
      `the disk of ${directory} has ${Math.floor(this.#freeBytes / MIB)} MiB free, less than the reserve of ` +
      `${Math.floor(reserveBytes / MIB)} MiB (DISK_RESERVE_MB): make room`
    );
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    // A disk that hangs answers late.
    if (this.#looking) return;
    this.#looking = true;
    try {
      const wasShort = this.isShort;
      this.#freeBytes = freeBytesOf(await statfs(this.#options.directory));
      this.#canTell = true;
      if (this.isShort !== wasShort) this.#options.onChange(this.shortage);
    } catch (error) {
      if (this.#canTell) this.#options.onError(error as Error);
      this.#canTell = false;
    } finally {
      this.#looking = false;
    }
  }
}

/** Has the log say it: what happens while the disk is short, and when it has room again. */
export function tellDiskSpace(
  log: Log,
  said: { readonly short: string; readonly roomy: string },
): Pick<DiskSpaceOptions, 'onChange' | 'onError'> {
  return {
    onChange(shortage) {
      if (shortage === null) log.info({}, `the disk has room again: ${said.roomy}`);
      else log.error({ shortage }, said.short);
    },
    onError: (error) => log.warn({ err: error }, "the disk's free space cannot be told"),
  };
}

function freeBytesOf({ bavail, bsize }: StatsFs): number {
  return bavail * bsize;
}
