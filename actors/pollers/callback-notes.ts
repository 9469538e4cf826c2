// Callbacks that no answer of a provider has explained yet. One that waits for longer is noted at its account: however this process ends,
// the next poller of its transaction then asks, too. The note is resolved when the provider has explained it.
//
// Invariants: a note is resolved only when its account has the answer to an enquiry that began after the last callback; a transaction
// has at most one command about its note on its way. What the poller before has sent may resolve its notes for as long as a command may
// take: until then none of them stands for a callback that came here. A poller that may have lost its partition resolves none.

import type { Reply } from '../../src/bus/bus.ts';
import type { NoteCallback, NotedCallback, ResolveReconciliation } from '../../src/domain/account-command.ts';
import { LIMITS } from '../../src/limits.ts';
import { messageDeadline, type PursuitOptions } from './keeper.ts';
import { keepRecent } from './recent.ts';
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
  'partition' | 'bus' | 'monotonic' | 'deadlineClock' | 'holds'
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
  /** Ids of the last notes that were resolved here, or may have been: of their being made the feed may tell afterwards. */
  readonly #resolvedHere = new Set<string>();
  #telling = 0;
  /** From then on nothing of what a poller before has sent arrives. */
  readonly #aloneFrom: number;
  #stopping = false;

  constructor(options: CallbackNotesOptions) {
    this.#options = options;
    this.#aloneFrom = options.monotonic() + LIMITS.pollerCommandDeadlineMs;
  }

  /** Nothing is on its way to an account. */
  get isIdle(): boolean {
    return this.#telling === 0;
  }

  /** A note was found. False: nobody here asks what it is about. */
  found(id: string, noteId: string): boolean {
    // It stands for no callback that has come since.
    if (this.#resolvedHere.has(noteId)) return true;
    const unexplained = this.#all.get(id);
    if (unexplained === undefined) return false;
    if (unexplained.isTelling || unexplained.noteId !== null) return true;
    unexplained.noteId = noteId;
    if (this.#options.monotonic() < this.#aloneFrom) return true;
    this.#due.delete(id);
    this.#options.onNoted(id);
    return true;
  }

  isNoted(id: string): boolean {
    return (this.#all.get(id)?.noteId ?? null) !== null && !this.#due.has(id);
  }

  /** A callback came. `noteId`: of its note, where one was found. */
  came(id: string, accountId: string, noteId: string | null): void {
    const before = this.#all.get(id);
    if (before !== undefined) {
      Object.assign(before, { isAsked: false, verdict: null, isExplained: false });
      // Whether there is a note of this one, too, its account knows: a person may have resolved that of the one before.
      if (!before.isTelling && !this.#due.has(id)) this.#later(before);
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

  tick(): void {
    const now = this.#options.monotonic();
    for (const unexplained of this.#due.values()) {
      if (unexplained.dueAt > now) return;
      this.#tell(unexplained);
    }
  }

  /** Notes what is not noted yet: nobody here asks any more. */
  stop(): void {
    this.#stopping = true;
    const due = [...this.#due.values()];
    for (const unexplained of due) this.#tell(unexplained);
  }

  #later(unexplained: Unexplained): void {
    unexplained.dueAt = Math.max(this.#options.monotonic() + LIMITS.pollerNoteAfterMs, this.#aloneFrom);
    this.#due.set(unexplained.id, unexplained);
  }

  #explained(unexplained: Unexplained): void {
    unexplained.isExplained = true;
    if (unexplained.isTelling) return;
    if (unexplained.noteId === null) this.drop(unexplained.id);
    else this.#tell(unexplained);
  }

  #tell(unexplained: Unexplained): void {
    const { bus, partition, holds } = this.#options;
    const { id, accountId, noteId, isExplained } = unexplained;
    const noteToResolve = isExplained ? noteId : null;
    // The next poller asks, and resolves it: it may stand for a callback that came there.
    if (noteToResolve !== null && (this.#stopping || !holds())) return this.drop(id);
    if (noteToResolve !== null) {
      this.#resolvedHere.add(noteToResolve);
      keepRecent(this.#resolvedHere);
    }
    unexplained.isTelling = true;
    this.#due.delete(id);
    this.#telling++;
    const deadline = messageDeadline(this.#options);
    const command: NoteCallback | ResolveReconciliation =
      noteToResolve === null
        ? { type: 'NoteCallback', accountId, deadline, transactionId: id }
        : {
            type: 'ResolveReconciliation',
            accountId,
            deadline,
            reconciliationId: noteToResolve,
            ...RESOLVED,
          };
    bus.send('accounts', partition, command, (reply) => {
      this.#telling--;
      unexplained.isTelling = false;
      // It was let go of.
      if (this.#all.get(id) !== unexplained) return;
      if (noteToResolve === null) this.#noted(unexplained, reply);
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
        return isExplained ? this.#explained(unexplained) : this.#later(unexplained);
      case 'unknown':
        unexplained.noteId = null;
        return this.#later(unexplained);
    }
  }

  #resolved(unexplained: Unexplained, { type }: Reply): void {
    const isOver = type === 'done' || type === 'rejected';
    if (isOver && unexplained.isExplained) return this.drop(unexplained.id);
    // Another callback came meanwhile: it needs a note of its own.
    if (isOver) unexplained.noteId = null;
    this.#later(unexplained);
  }
}
