// Callbacks that no answer of a provider has explained yet. One that waits for longer is noted at its account: however this process ends,
// the next poller of its transaction then asks, too. The note is resolved when the provider has explained it.
//
// Invariants: a note is resolved only when its account has the answer to an enquiry that began after the last callback; a transaction
// has at most one command about its note on its way.

import type { Reply } from '../../src/bus/bus.ts';
import type { NoteCallback, NotedCallback, ResolveReconciliation } from '../../src/domain/account-command.ts';
import { LIMITS } from '../../src/limits.ts';
import { messageDeadline, type PursuitOptions } from './keeper.ts';
import type { Verdict } from './verdict.ts';

interface Unexplained {
  readonly id: string;
  readonly accountId: string;
  /** When its account is to be told something about it. */
  dueAt: number;
  /** An enquiry is made for it. */
  isAsked: boolean;
  /** What came of that is on its way to its account. */
  verdict: Verdict | null;
  isExplained: boolean;
  /** Id of the note; null: it has none, or nobody knows. */
  noteId: string | null;
  isTelling: boolean;
}

export interface CallbackNotesOptions extends Pick<
  PursuitOptions,
  'partition' | 'bus' | 'now' | 'deadlineClock'
> {
  /** It is durable that a callback about this transaction came. */
  readonly onNoted: (id: string) => void;
}

const RESOLVED = { operator: 'daftari', resolution: 'The provider was asked, and answered.' } as const;

export class CallbackNotes {
  readonly #options: CallbackNotesOptions;
  /** By transaction. */
  readonly #all = new Map<string, Unexplained>();
  /** Those whose account is to be told something later, what is due first comes first. */
  readonly #due = new Map<string, Unexplained>();
  #telling = 0;

  constructor(options: CallbackNotesOptions) {
    this.#options = options;
  }

  /** Nothing is on its way to an account. */
  get isIdle(): boolean {
    return this.#telling === 0;
  }

  /** A note was found. False: nobody here asks what it is about. */
  found(id: string, noteId: string): boolean {
    const unexplained = this.#all.get(id);
    if (unexplained === undefined) return false;
    if (unexplained.isTelling || unexplained.noteId !== null) return true;
    unexplained.noteId = noteId;
    this.#due.delete(id);
    this.#options.onNoted(id);
    return true;
  }

  isNoted(id: string): boolean {
    return (this.#all.get(id)?.noteId ?? null) !== null;
  }

  /** A callback came. `noteId`: of its note, where one was found. */
  came(id: string, accountId: string, noteId: string | null): void {
    const before = this.#all.get(id);
    if (before !== undefined) {
      // Its note may be resolved by now.
      if (before.isExplained && !before.isTelling) before.noteId = null;
      Object.assign(before, { isAsked: false, verdict: null, isExplained: false });
      return;
    }
    if (this.#all.size >= LIMITS.pollerWaitersMax) return;
    const unexplained = {
      id,
      accountId,
      dueAt: 0,
      isAsked: false,
      verdict: null,
      isExplained: false,
      noteId,
      isTelling: false,
    };
    this.#all.set(id, unexplained);
    if (noteId === null) this.#later(unexplained);
  }

  /** An enquiry is about to be made. */
  asked(id: string): void {
    const unexplained = this.#all.get(id);
    if (unexplained !== undefined) unexplained.isAsked = true;
  }

  /** The last enquiry said nothing that its account has yet to hear. */
  answered(id: string): void {
    const unexplained = this.#all.get(id);
    if (unexplained?.isAsked === true) this.#explained(unexplained);
  }

  /** The last enquiry said what its account is told now. */
  concluded(id: string, verdict: Verdict): void {
    const unexplained = this.#all.get(id);
    if (unexplained?.isAsked === true) unexplained.verdict = verdict;
  }

  /** Its account has it. */
  taken(id: string, verdict: Verdict): void {
    const unexplained = this.#all.get(id);
    if (unexplained?.verdict === verdict) this.#explained(unexplained);
  }

  /** Nobody here asks about it any more. A note stays for the next poller, and for people. */
  drop(id: string): void {
    this.#all.delete(id);
    this.#due.delete(id);
  }

  tick(now: number): void {
    for (const unexplained of this.#due.values()) {
      if (unexplained.dueAt > now) return;
      this.#tell(unexplained);
    }
  }

  /** Notes what is not noted yet: nobody here asks any more. */
  stop(): void {
    const due = [...this.#due.values()];
    for (const unexplained of due) this.#tell(unexplained);
  }

  #later(unexplained: Unexplained): void {
    unexplained.dueAt = this.#options.now() + LIMITS.pollerNoteAfterMs;
    this.#due.set(unexplained.id, unexplained);
  }

  #explained(unexplained: Unexplained): void {
    unexplained.isExplained = true;
    if (unexplained.isTelling) return;
    if (unexplained.noteId === null) this.drop(unexplained.id);
    else this.#tell(unexplained);
  }

  #tell(unexplained: Unexplained): void {
    const { bus, partition } = this.#options;
    const { id, accountId, noteId } = unexplained;
    unexplained.isTelling = true;
    this.#due.delete(id);
    this.#telling++;
    const deadline = messageDeadline(this.#options);
    const command: NoteCallback | ResolveReconciliation =
      noteId === null
        ? { type: 'NoteCallback', accountId, deadline, transactionId: id }
        : { type: 'ResolveReconciliation', accountId, deadline, reconciliationId: noteId, ...RESOLVED };
    bus.send('accounts', partition, command, (reply) => {
      this.#telling--;
      unexplained.isTelling = false;
      // It was let go of.
      if (this.#all.get(id) !== unexplained) return;
      if (noteId === null) this.#noted(unexplained, reply);
      else this.#resolved(unexplained, reply);
    });
  }

  #noted(unexplained: Unexplained, reply: Reply): void {
    const { id, isExplained } = unexplained;
    switch (reply.type) {
      case 'done':
        unexplained.noteId = (JSON.parse(reply.body) as NotedCallback).id;
        this.#options.onNoted(id);
        if (isExplained) this.#tell(unexplained);
        return;
      case 'rejected':
        return this.drop(id);
      case 'unavailable':
        return isExplained ? this.drop(id) : this.#later(unexplained);
      case 'unknown':
        return this.#later(unexplained);
    }
  }

  #resolved(unexplained: Unexplained, { type }: Reply): void {
    const isOver = type === 'done' || type === 'rejected';
    // Another callback came meanwhile: it needs a note, whether this one is resolved or not.
    if (!unexplained.isExplained) unexplained.noteId = null;
    else if (isOver) return this.drop(unexplained.id);
    this.#later(unexplained);
  }
}
