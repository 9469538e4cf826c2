// The main process's end of the scrub: starts its process, and starts it again behind a partition that has ended it.

import type { GroupName } from '../bus/bus.ts';
import { nameOf } from '../../wal/types.ts';
import { unreadableIn } from '../../wal/unreadable.ts';
import type { Damage } from './damage.ts';
import { placesIn } from '../data-directory/identity.ts';
import { runReader } from './reader-process.ts';
import { Unread } from './unread.ts';

const PROGRAM = new URL('scrub-process.ts', import.meta.url);

type Place = Omit<Damage, 'problem'>;

/** What a scrub says: which batch is read next, or what is damaged. */
type Said = ({ readonly type: 'place' } & Place) | ({ readonly type: 'damage' } & Damage);

export class Scrub {
  readonly #directory: string;
  readonly #onDamage: (damage: Damage) => void;
  readonly #stopping = new AbortController();
  #running: Promise<void> | null = null;
  #checking: Promise<void> | null = null;
  /** To be checked when what is checked now is done. */
  readonly #asked = new Set<string>();

  constructor(directory: string, onDamage: (damage: Damage) => void) {
    this.#directory = directory;
    this.#onDamage = onDamage;
  }

  /** Checks the whole log once; resolves when done. One at a time: asked for again meanwhile, it is the same. */
  run(): Promise<void> {
    this.#running ??= this.#read(this.#all()).finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** Checks one partition without waiting for a check of them all; resolves when done. */
  check(group: GroupName, partition: number): Promise<void> {
    this.#asked.add(nameOf({ group, partition }));
    this.#checking ??= this.#checkAsked().finally(() => {
      this.#checking = null;
    });
    return this.#checking;
  }

  async stop(): Promise<void> {
    this.#asked.clear();
    this.#stopping.abort();
    await Promise.allSettled([this.#running, this.#checking]);
  }

  /** But for those that would end it. */
  #all(): string[] {
    const unreadable = unreadableIn(this.#directory)?.places ?? [];
    const leftOut = new Set(unreadable.map(nameOf));
    return placesIn(this.#directory)
      .map(nameOf)
      .filter((name) => !leftOut.has(name));
  }

  async #checkAsked(): Promise<void> {
    while (this.#asked.size > 0) {
      const names = [...this.#asked];
      this.#asked.clear();
      await this.#read(names);
    }
  }

  /** Names as "accounts/3". A partition whose reader is ended is read again: it is damaged when that ends the next one, too. */
  async #read(names: readonly string[]): Promise<void> {
    const { signal } = this.#stopping;
    const unread = new Unread(names);
    while (unread.names.length > 0) {
      let at: Place | null = null;
      const onSaid = (said: Said): void => {
        if (said.type === 'damage') this.#onDamage(said);
        else at = said;
      };
      const { ending, isDamaged } = await runReader(PROGRAM, [this.#directory, ...unread.names], {
        onSaid,
        signal,
      });
      if (ending === null || signal.aborted) return;
      // Assigned in what was called meanwhile.
      const place = at as Place | null;
      if (!isDamaged || place === null) {
        throw new Error(`the process that reads the log has ended: ${ending}`);
      }
      if (unread.endedBy(nameOf(place))) {
        this.#onDamage({ ...place, problem: `a process that reads it is ended (${ending})` });
      }
    }
  }
}
