// The session of a node in the cluster, on which its leases stand: renewed in time, begun anew when it was ended, and the
// ending of those of other nodes that are silent.
//
// Invariants:
//   - The holder counts its session from before it sent the renewal, an observer from when it saw it, and the observer must
//     win the compare-and-set on the session against the next renewal: clocks need not agree, only run at about the same
//     rate (leaseMarginMs). A wall clock that is set forward costs the holder the time to its next renewal, and nothing else.
//   - A session is said anew only while nobody can have ended it: of its end, too, nothing may be left in a bucket that was purged.
//   - Time in which this node could not renew its own session, or did not hear of that as others do, proves nothing about others: silence
//     is counted anew.
//   - Of what was dropped from the bucket nothing is left to compare with: once that is purged again a session, or a lease, that was said
//     again in between is overwritten, too. So it is silent only while this node has missed no message, and ended only if it has heard all.

import { LIMITS } from '../../limits.ts';
import type { LeaseTable, NodeEntry } from './lease-table.ts';
import { newSession } from '../subjects.ts';

/** Until when a session is certainly not ended by another, counted from one renewal of it. */
export interface Term {
  /** Monotonic milliseconds. */
  readonly until: number;
  /** The same by the wall clock, which goes on while the machine is suspended and the other stands still. */
  readonly untilByWall: number;
}

/** How late a node may hear, or renew its session, and yet know of the others. */
const UNHEARD_MS_MAX = LIMITS.leaseRenewMs * 3;

const NO_TERM: Term = { until: 0, untilByWall: 0 };

export function isWithin({ until, untilByWall }: Term): boolean {
  return performance.now() < until && Date.now() < untilByWall;
}

/** What a session says of its node. */
export type SessionWords = Omit<NodeEntry, 'session'>;

export interface NodeSessionOptions {
  readonly table: Pick<LeaseTable, 'nodes' | 'write' | 'heardUpTo' | 'missedNothingSince'>;
  readonly node: string;
  /** As it is now. */
  readonly words: () => SessionWords;
  /** Somebody else ended it: what it held is gone. The next one begins when this has resolved. */
  readonly onEnded: () => Promise<void>;
  /** It was dropped from the bucket, and was said again; it had until then before. What else this node has there may have been dropped once
   *  more since that was found, of which nothing told. */
  readonly onSaidAgain: (had: Term) => void;
  readonly onProblem: (problem: string, error?: unknown) => void;
}

export class NodeSession {
  readonly #options: NodeSessionOptions;
  #id = newSession();
  /** It was seen in the table, or written: leases may stand on it, and it may be ended. */
  #isInUse = false;
  #timer: NodeJS.Timeout | undefined;
  #term = NO_TERM;
  /** -Infinity: never; a process may be younger than any gap. */
  #renewedAt = -Infinity;
  /** When another process was last seen to be this node, monotonic milliseconds; -Infinity: never. */
  #rivalAt = -Infinity;
  #healthySince = Infinity;
  /** The first renewal that went through and was not heard of since; null: all were. */
  #unheard: { readonly revision: number; readonly sentAt: number } | null = null;
  /** The one under way. */
  #renewal: Promise<void> | null = null;
  #closed = false;

  constructor(options: NodeSessionOptions) {
    this.#options = options;
  }

  /** What leases name. Another one after it was ended. */
  get id(): string {
    return this.#id;
  }

  /** Nobody else can have ended it. */
  get isValid(): boolean {
    return isWithin(this.#term);
  }

  /** For how long anybody may have ended it, ms. */
  get invalidMs(): number {
    return this.isValid ? 0 : performance.now() - this.#term.until;
  }

  /** What was not heard by the node counts from here, monotonic milliseconds: since then every renewal went through, and was heard of.
   *  Infinity: the last ones are not. */
  get healthySince(): number {
    this.#noteHeard();
    return this.#unheardMs() > UNHEARD_MS_MAX ? Infinity : this.#healthySince;
  }

  /** As its last renewal has it. */
  get term(): Term {
    return this.#term;
  }

  /** Another process that is this node, too, for a person; null: none was seen lately. */
  get rival(): string | null {
    return performance.now() - this.#rivalAt < LIMITS.leaseMs ? rivalOf(this.#options.node) : null;
  }

  async start(): Promise<void> {
    await this.renew();
    this.#timer = setInterval(() => void this.#renewIfIdle(), LIMITS.leaseRenewMs);
  }

  /** What the words are now has been said when it resolves, if there was an answer. */
  async renew(): Promise<void> {
    // The one under way may say what they were.
    await this.#renewal;
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = null;
    });
    await this.#renewal;
  }

  async #renewIfIdle(): Promise<void> {
    if (this.#renewal === null) await this.renew();
  }

  async #renew(): Promise<void> {
    if (this.#closed) return;
    const { table, node, words, onProblem } = this.#options;
    try {
      const own = table.nodes.get(node);
      const isOurs = own?.value.session === this.#id;
      if (isOurs) this.#isInUse = true;
      if (own !== undefined && this.#isInUse) {
        const isEnded = own.value.state === 'dead';
        if (!isOurs && !isEnded) {
          this.#rivalAt = performance.now();
          onProblem(rivalOf(node));
        }
        // What was dropped from the bucket may have been its end.
        const mayBeEnded = own.isSpoilt === true && !this.isValid;
        if (!isOurs || isEnded || mayBeEnded) await this.#beginAnew();
      }
      const sentAt = performance.now();
      const sentAtByWall = Date.now();
      const entry = { session: this.#id, ...words() };
      const written = await table.write(`node.${node}`, entry, own?.revision ?? 0);
      if (written !== true) return;
      if (own?.revision === 0) this.#options.onSaidAgain(this.#term);
      this.#renewed(sentAt, sentAtByWall);
    } catch (error) {
      onProblem('the session could not be renewed', error);
    }
  }

  /** Whoever begins now would take this node for none. */
  async renewIfSpoilt(): Promise<void> {
    const { table, node } = this.#options;
    if (table.nodes.get(node)?.isSpoilt === true) await this.#renewIfIdle();
  }

  /** Ends the sessions of nodes that were silent for too long. */
  async endSilent(): Promise<void> {
    const { table, node, onProblem } = this.#options;
    // Also where nothing comes of it: how late this node hears is seen when it has heard.
    const { healthySince } = this;
    const now = performance.now();
    if (!this.isValid || now - this.#renewedAt > LIMITS.leaseRenewMs * 2) return;
    for (const [name, seen] of table.nodes) {
      if (name === node || seen.value.state === 'dead') continue;
      const isDropped = seen.isSpoilt === true;
      const missedNothingSince = isDropped ? table.missedNothingSince : 0;
      if (now - Math.max(seen.seenAt, healthySince, missedNothingSince) <= LIMITS.leaseMs) continue;
      const dead = { ...seen.value, state: 'dead' } as const;
      const ended = await table.write(`node.${name}`, dead, seen.revision, { ifAllHeard: isDropped });
      // Refused: it was renewed, and this node hears late.
      if (ended !== true) continue;
      onProblem(`node ${name} was silent for ${LIMITS.leaseMs} ms: its session is ended`);
    }
  }

  /** Ends it, so that nobody has to wait for its silence. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    // Of the two the one that is later would not be written.
    await this.#renewal;
    const { table, node } = this.#options;
    const own = table.nodes.get(node);
    if (own?.value.session !== this.#id || !this.isValid) return;
    this.#term = NO_TERM;
    await table.write(`node.${node}`, { ...own.value, state: 'dead' }, own.revision);
  }

  #renewed(sentAt: number, sentAtByWall: number): void {
    const gapMs = sentAt - this.#renewedAt;
    if (gapMs > UNHEARD_MS_MAX) this.#healthySince = performance.now();
    this.#noteWritten(sentAt);
    this.#isInUse = true;
    this.#renewedAt = sentAt;
    const validMs = LIMITS.leaseMs - LIMITS.leaseMarginMs;
    this.#term = { until: sentAt + validMs, untilByWall: sentAtByWall + validMs };
  }

  #noteWritten(sentAt: number): void {
    const { table, node } = this.#options;
    const revision = table.nodes.get(node)?.revision ?? 0;
    this.#noteHeard();
    // Of another bucket, whose revisions begin anew: of the one before nothing more is heard.
    const isAnother = this.#unheard !== null && revision < this.#unheard.revision;
    if (isAnother) this.#healthySince = performance.now();
    if (this.#unheard === null || isAnother) this.#unheard = { revision, sentAt };
  }

  #noteHeard(): void {
    if (this.#unheard === null || this.#options.table.heardUpTo < this.#unheard.revision) return;
    if (this.#unheardMs() > UNHEARD_MS_MAX) this.#healthySince = performance.now();
    this.#unheard = null;
  }

  #unheardMs(): number {
    return this.#unheard === null ? 0 : performance.now() - this.#unheard.sentAt;
  }

  async #beginAnew(): Promise<void> {
    this.#term = NO_TERM;
    this.#id = newSession();
    this.#isInUse = false;
    await this.#options.onEnded();
  }
}

function rivalOf(node: string): string {
  return `another process is node ${node} too: each needs a NODE_NAME of its own`;
}
