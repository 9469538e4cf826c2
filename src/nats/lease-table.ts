// The KV bucket of node sessions and partition leases, as every node sees it. Changes are conditional on the revision that
// was seen: of two nodes that try the same, one succeeds.
//
//   node.<name>               a node's session: what it serves, and that it lives (renewed every leaseRenewMs)
//   lease.<group>.<partition> who may write the partition, in which session, under which epoch
//   want.<group>.<partition>  the node that should have the partition has a warm copy and waits for its release

import type { GroupName } from '../bus/bus.ts';
import type { Route, Routes } from '../bus/ownership.ts';
import type { NatsLink } from './connection.ts';
import { fieldsIn } from './fields-in.ts';
import { persist } from './persist.ts';
import type { StreamPublisher } from './stream-publisher.ts';
import { StreamReader } from './stream-reader.ts';
import type { StreamMessage } from './stream-reader.ts';
import { LEASE_STREAM, LEASE_SUBJECT_PREFIX, partitionKey } from './subjects.ts';

export interface NodeEntry {
  readonly session: string;
  /** Groups whose partitions it can own. */
  readonly groups: readonly GroupName[];
  /** dead: another node saw it silent for leaseMs and ended its session. */
  readonly state: 'live' | 'draining' | 'dead';
  /** Newest format of records that it reads; absent: a version from before there were two. */
  readonly newestFormat?: number;
  /** Its disk has hardly any room: partitions go to nodes without this, if there are any. */
  readonly isShort?: boolean;
  /** Partitions of which its copy is damaged, as `<group>.<partition>`: it never has them. Absent: none. */
  readonly damaged?: readonly string[];
  /** The same of those whose log it cannot prove to be whole: it has them only where nobody else can. */
  readonly unproven?: readonly string[];
}

export interface LeaseEntry {
  /** Null: released. */
  readonly node: string | null;
  readonly session: string | null;
  readonly epoch: number;
  /** It has been served, so its log is not empty: nobody may begin it anew. Absent: not known. */
  readonly hasBegun?: boolean;
  /** Its stream is being put back (deploy/put-back.ts), and has not all of it yet: nobody may serve it. */
  readonly puttingBack?: 'whole' | 'end';
}

export interface WantEntry {
  readonly node: string;
  readonly session: string;
}

export interface Seen<Value> {
  readonly value: Value;
  readonly revision: number;
  /** When this revision was first seen here, monotonic milliseconds. */
  readonly seenAt: number;
  /** At this revision stands what is no entry, or, where it is 0, nothing any more, and nobody has removed it by its key; `value`
   *  and `seenAt` are what was there before. */
  readonly isSpoilt?: boolean;
}

export class LeaseTable implements Routes {
  readonly nodes = new Map<string, Seen<NodeEntry>>();
  readonly leases = new Map<string, Seen<LeaseEntry>>();
  readonly wants = new Map<string, Seen<WantEntry>>();
  /** Revisions at which an operator has removed entries, by key: the bucket counts such a removal as what stands there. */
  readonly #removed = new Map<string, number>();
  readonly #link: NatsLink;
  readonly #publisher: StreamPublisher;
  readonly #reader: StreamReader;
  readonly #onProblem: (problem: string) => void;
  readonly #routeListeners: ((group: GroupName, partition: number) => void)[] = [];
  readonly #listeners: (() => void)[] = [];
  /** Of the last message read. */
  #sequence = 0;
  #onRead: (() => void)[] = [];
  #unanswered: string | null = null;

  constructor(
    link: NatsLink,
    publisher: StreamPublisher,
    onError: (error: Error) => void,
    onProblem: (problem: string) => void = () => {},
  ) {
    this.#onProblem = onProblem;
    this.#link = link;
    this.#publisher = publisher;
    this.#reader = new StreamReader({
      link,
      stream: LEASE_STREAM,
      from: 1,
      newestPerSubject: `${LEASE_SUBJECT_PREFIX}>`,
      onMessage: (message) => this.#onMessage(message),
      onError,
    });
  }

  /** Resolves when everything that stands in the bucket now has been read. Its newest message is the newest of its key, so
   *  that one, or a newer, comes; the count of messages still to come is not to be trusted while keys are written. */
  async ready(): Promise<void> {
    const { state } = await persist(() => this.#link.manager.streams.info(LEASE_STREAM));
    if (state.messages > 0) await this.#readUpTo(state.last_seq);
  }

  route(group: GroupName, partition: number): Route | null {
    const lease = this.lease(group, partition);
    if (lease === undefined || lease.value.node === null) return null;
    return { node: lease.value.node, epoch: lease.value.epoch };
  }

  lease(group: GroupName, partition: number): Seen<LeaseEntry> | undefined {
    return this.leases.get(partitionKey(group, partition));
  }

  onChange(listener: (group: GroupName, partition: number) => void): void {
    this.#routeListeners.push(listener);
  }

  /** Anything at all has changed. */
  onAnyChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** The session that the lease stands on has not ended. */
  isHeld(lease: LeaseEntry): boolean {
    if (lease.node === null) return false;
    const node = this.nodes.get(lease.node)?.value;
    return node !== undefined && node.session === lease.session && node.state !== 'dead';
  }

  /** For how long nothing has been heard of the holder, ms. It may be gone, or this process may hear of nobody: the table alone
   *  does not say, since sessions are ended by other nodes. */
  silentMs(lease: LeaseEntry): number {
    const node = lease.node === null ? undefined : this.nodes.get(lease.node);
    return node === undefined ? Infinity : performance.now() - node.seenAt;
  }

  /** Why the last write may not have been taken; null: it was, or somebody else was first. */
  get unanswered(): string | null {
    return this.#unanswered;
  }

  /** Writes if the key still has `revision` (0: no entry). False: somebody else was first. Null: nobody knows yet. */
  async write(
    key: string,
    value: NodeEntry | LeaseEntry | WantEntry,
    revision: number,
  ): Promise<boolean | null> {
    const data = Buffer.from(JSON.stringify(value));
    const result = await this.#publisher.publish(LEASE_SUBJECT_PREFIX + key, data, {
      lastSubjectSequence: revision === 0 ? (this.#removed.get(key) ?? 0) : revision,
    });
    if (result.type === 'unanswered' || result.type === 'full') {
      if (this.#unanswered === null) this.#onProblem(`${key} could not be written: ${result.description}`);
      this.#unanswered = result.description;
      return null;
    }
    this.#unanswered = null;
    if (result.type === 'conflict') {
      void this.noteDropped().catch(() => {});
      return false;
    }
    this.#apply(key, data, result.sequence);
    return true;
  }

  /** What was dropped from the bucket (its stream was purged, or somebody has limited it) no message tells of: those whose it is
   *  would wait for ever for whoever has written in its place, and who begins knows of none of it. They write it again. */
  async noteDropped(): Promise<void> {
    const { state } = await this.#link.manager.streams.info(LEASE_STREAM);
    // What was written in the place of an entry is known then.
    if (state.messages > 0) await this.#readUpTo(state.last_seq);
    let dropped = 0;
    for (const map of [this.nodes, this.leases, this.wants] as Map<string, Seen<unknown>>[]) {
      for (const [name, seen] of map) {
        if (seen.revision >= state.first_seq || seen.revision === 0) continue;
        map.set(name, { ...seen, revision: 0, isSpoilt: true });
        dropped++;
      }
    }
    for (const [key, revision] of this.#removed) if (revision < state.first_seq) this.#removed.delete(key);
    if (dropped === 0) return;
    this.#onProblem(
      `${LEASE_STREAM} was purged, or limited: ${dropped} entries of it are gone, and are written again`,
    );
    for (const listener of this.#listeners) listener();
  }

  async close(): Promise<void> {
    await this.#reader.close();
  }

  async #readUpTo(sequence: number): Promise<void> {
    while (this.#sequence < sequence) {
      await new Promise<void>((resolve) => this.#onRead.push(resolve));
    }
  }

  #onMessage(message: StreamMessage): void {
    const key = message.subject.slice(LEASE_SUBJECT_PREFIX.length);
    this.#apply(key, message.operation === null ? message.data : null, message.sequence);
    this.#sequence = message.sequence;
    for (const resolve of this.#onRead.splice(0)) resolve();
  }

  /** A revision comes twice: when this node has written it, and when it is read. */
  #apply(key: string, data: Buffer | null, revision: number): void {
    const dot = key.indexOf('.');
    const kind = key.slice(0, dot);
    const name = key.slice(dot + 1);
    const map = this.#mapOf(kind);
    const known = map.get(name);
    if ((known?.revision ?? this.#removed.get(key) ?? 0) >= revision) return;
    const value = data === null ? null : entryIn(kind, data);
    if (data !== null && value === null) this.#onProblem(`${key} of ${LEASE_STREAM} holds what is no entry`);
    if (value !== null) {
      this.#removed.delete(key);
      map.set(name, { value, revision, seenAt: performance.now() });
    } else if (data !== null && known !== undefined) {
      map.set(name, { ...known, revision, isSpoilt: true });
    } else {
      map.delete(name);
      this.#removed.set(key, revision);
    }
    if (kind === 'lease') this.#tellRoute(name);
    for (const listener of this.#listeners) listener();
  }

  #mapOf(kind: string): Map<string, Seen<unknown>> {
    if (kind === 'node') return this.nodes;
    return kind === 'lease' ? this.leases : this.wants;
  }

  #tellRoute(name: string): void {
    const dot = name.indexOf('.');
    const group = name.slice(0, dot) as GroupName;
    for (const listener of this.#routeListeners) listener(group, Number(name.slice(dot + 1)));
  }
}

/** Null: it is none. */
function entryIn(kind: string, data: Buffer): NodeEntry | LeaseEntry | WantEntry | null {
  const entry = fieldsIn<NodeEntry & LeaseEntry & WantEntry>(data);
  const { session, groups, state, epoch, node } = entry;
  const isEntry =
    (kind === 'node' && typeof session === 'string' && Array.isArray(groups) && typeof state === 'string') ||
    (kind === 'lease' && Number.isSafeInteger(epoch)) ||
    (kind === 'want' && typeof session === 'string' && typeof node === 'string');
  return isEntry ? (entry as NodeEntry | LeaseEntry | WantEntry) : null;
}
