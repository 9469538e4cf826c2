// The KV bucket of node sessions and partition leases, as every node sees it. Changes are conditional on the revision that
// was seen: of two nodes that try the same, one succeeds.
//
//   node.<name>               a node's session: what it serves, and that it lives (renewed every leaseRenewMs)
//   lease.<group>.<partition> who may write the partition, in which session, under which epoch
//   want.<group>.<partition>  the node that should have the partition has a warm copy and waits for its release

import type { JetStreamManager, StreamInfo } from 'nats';
import type { GroupName } from '../../bus/bus.ts';
import type { Route, Routes } from '../../bus/ownership.ts';
import { LIMITS } from '../../limits.ts';
import { pause } from '../../pause.ts';
import type { NatsLink } from '../connection.ts';
import { fieldsIn } from '../fields-in.ts';
import { persist } from '../persist.ts';
import type { StreamPublisher } from '../stream-publisher.ts';
import { StreamReader } from '../stream-reader.ts';
import type { StreamMessage } from '../stream-reader.ts';
import { hasStream, storedMessage } from '../streams.ts';
import { LEASE_STREAM, LEASE_SUBJECT_PREFIX, partitionKey } from '../subjects.ts';
import { Numbering, type SplitNumbering } from './numbering.ts';
import { messageOf } from '../../../wal/thrown.ts';

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
  /** Of these, those that it cannot prove only because another node says that of itself. Absent: none. */
  readonly doubtedElsewhere?: readonly string[];
  /** Those that it has failed to take over for long: it has them only where no other takes them. Absent: none. */
  readonly failing?: readonly string[];
  /** By group, a hash of what it decides by (src/cluster/node-terms.ts). Absent: not known. */
  readonly terms?: Readonly<Partial<Record<GroupName, string>>>;
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
  /** The entry was lost or overwritten: at this revision stands something that is no entry or, at revision 0, nothing, although nobody
   *  removed it by its key. `value` is the last that was seen; its node may have written once more since, of which nothing is left. */
  readonly isSpoilt?: boolean;
  /** Of what was dropped: the revision up to which nothing of it is left, whatever comes late. Absent: none is known. */
  readonly droppedUpTo?: number;
}

export interface WriteCondition {
  readonly ifAllHeard?: boolean;
}

export class LeaseTable implements Routes {
  readonly nodes = new Map<string, Seen<NodeEntry>>();
  readonly leases = new Map<string, Seen<LeaseEntry>>();
  readonly wants = new Map<string, Seen<WantEntry>>();
  /** Revisions at which an operator has removed entries, by key: a removal has a revision of its own, which the next write must name. */
  readonly #removed = new Map<string, number>();
  readonly #link: NatsLink;
  readonly #publisher: StreamPublisher;
  readonly #onError: (error: Error) => void;
  readonly #onProblem: (problem: string) => void;
  readonly #remake: (() => Promise<void>) | null;
  #reader: StreamReader;
  /** When the bucket was made: another time is another bucket, whose revisions begin anew. */
  #created = '';
  readonly #numbering = new Numbering();
  /** That it is split could not be mended. */
  #isSplitTold = false;
  /** What was dropped is being noted. */
  #noting: Promise<void> | null = null;
  /** Keys that stand under another revision than is known here, since it was looked last. */
  readonly #doubted = new Set<string>();
  readonly #routeListeners: ((group: GroupName, partition: number) => void)[] = [];
  readonly #listeners: (() => void)[] = [];
  /** Of the last message read. */
  #sequence = 0;
  /** When that was not the one after the one before it, last, monotonic milliseconds. */
  #missedAt = 0;
  #onRead: (() => void)[] = [];
  #unanswered: string | null = null;
  /** When it was last read anew because an owner did not answer, monotonic milliseconds. */
  #doubtedAt = -Infinity;
  #closed = false;

  /** `remake` makes the bucket once more when it was removed, or rejects; null: this process waits until another has. */
  constructor(
    link: NatsLink,
    publisher: StreamPublisher,
    onError: (error: Error) => void,
    onProblem: (problem: string) => void = () => {},
    remake: (() => Promise<void>) | null = null,
  ) {
    this.#link = link;
    this.#publisher = publisher;
    this.#onError = onError;
    this.#onProblem = onProblem;
    this.#remake = remake;
    this.#reader = this.#read();
  }

  /** Resolves when everything that stands in the bucket now has been read, up to its newest message: that one, or a newer one of its key,
   *  is sure to come. The server's count of messages still to come cannot be trusted while keys are written. */
  async ready(): Promise<void> {
    const { created, state } = await persist(() => this.#link.manager.streams.info(LEASE_STREAM));
    this.#created = created;
    if (state.messages > 0) await this.#readUpTo(state.last_seq);
    await this.#readAllKeys();
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

  /** The server that is read at may lack what was written last under a key. Whoever writes nothing, a front, finds that out by nothing else,
   *  and may not look at messages: it reads at another server. */
  doubt(): void {
    const now = performance.now();
    if (this.#closed || now - this.#doubtedAt < LIMITS.routeDoubtMs) return;
    this.#doubtedAt = now;
    this.#reader.again(1);
  }

  /** The same where a lease has no live holder, as far as is known here: a front says then that it is not ready, and has no callers who
   *  could wait. To be called now and then. */
  doubtUnheld(): void {
    if ([...this.leases.values()].some(({ value }) => !this.isHeld(value))) this.doubt();
  }

  /** The session that the lease stands on has not ended. */
  isHeld(lease: LeaseEntry): boolean {
    if (lease.node === null) return false;
    const node = this.nodes.get(lease.node)?.value;
    return node !== undefined && node.session === lease.session && node.state !== 'dead';
  }

  /** For how long nothing has been heard of the holder, ms. Either it is gone, or this process hears of nobody: the table alone does not
   *  tell, since sessions are ended by other nodes. */
  silentMs(lease: LeaseEntry): number {
    const node = lease.node === null ? undefined : this.nodes.get(lease.node);
    return node === undefined ? Infinity : performance.now() - node.seenAt;
  }

  /** Revision of the last entry that came to this node as to all others; the answer to a write of its own says nothing of others'. */
  get heardUpTo(): number {
    return this.#sequence;
  }

  /** Why the last write may not have been taken; null: it was, or somebody else was first. */
  get unanswered(): string | null {
    return this.#unanswered;
  }

  /** Each message since was read, monotonic milliseconds. One that was not may have been an entry that was dropped, or followed by another
   *  of its key. */
  get missedNothingSince(): number {
    return this.#missedAt;
  }

  /** Writes if the key still has `revision` (0: no entry); `ifAllHeard`: and no other key was written that was not read here. False: somebody
   *  else was first. Null: nobody knows yet. */
  async write(
    key: string,
    value: NodeEntry | LeaseEntry | WantEntry,
    revision: number,
    { ifAllHeard = false }: WriteCondition = {},
  ): Promise<boolean | null> {
    const data = Buffer.from(JSON.stringify(value));
    const reader = this.#reader;
    const result = await this.#publisher.publish(LEASE_SUBJECT_PREFIX + key, data, {
      lastSubjectSequence: revision === 0 ? (this.#removed.get(key) ?? 0) : revision,
      ...(ifAllHeard ? { lastSequence: this.#sequence } : {}),
    });
    if (result.type === 'unanswered' || result.type === 'full') {
      if (this.#unanswered === null) this.#onProblem(`${key} could not be written: ${result.description}`);
      this.#unanswered = result.description;
      this.#noteSoon();
      return null;
    }
    this.#unanswered = null;
    if (result.type === 'conflict') {
      this.#doubted.add(key);
      this.#noteSoon();
      return false;
    }
    // Of a bucket that is no more, or has forgotten it: its revision is nobody's, or will be another's.
    if (reader !== this.#reader) return null;
    this.#apply(key, data, result.sequence);
    return true;
  }

  /** Finds out what was dropped from the bucket (its stream was purged, limited, or removed and made anew): no message tells of that. Whose
   *  entries they were write them again. Otherwise these nodes would never again win a write, and a node that begins would not know of
   *  them. One look for all who ask meanwhile. Rejects when nobody can say. */
  noteDropped(): Promise<void> {
    this.#noting ??= this.#note().finally(() => {
      this.#noting = null;
    });
    return this.#noting;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#reader.close();
  }

  #read(): StreamReader {
    return new StreamReader({
      link: this.#link,
      stream: LEASE_STREAM,
      from: 1,
      newestPerSubject: `${LEASE_SUBJECT_PREFIX}>`,
      onResumed: () => this.#noteSoon(),
      onMessage: (message) => this.#onMessage(message),
      onError: this.#onError,
    });
  }

  /** Where nobody can say, the next write, or minute, asks again. */
  #noteSoon(): void {
    if (!this.#closed) void this.noteDropped().catch(() => {});
  }

  async #note(): Promise<void> {
    const read = this.#sequence;
    const { created, state } = await this.#bucket();
    const isAnother = this.#created !== '' && created !== this.#created;
    if (isAnother) this.#numbering.beginAnew();
    // Or a server's disk has forgotten what it wrote last, and gives its revisions again.
    if (isAnother || state.last_seq < read || (await this.#isWrong())) await this.#beginAnew();
    this.#created = created;
    if (await this.#endSplit()) return this.#note();
    // What was written in the place of an entry is known then.
    if (state.messages > 0) await this.#readUpTo(state.last_seq, performance.now() + LIMITS.natsConnectMs);
    const { subjects = {} } = state;
    const isGone = (key: string, revision: number): boolean =>
      revision <= state.last_seq && subjects[LEASE_SUBJECT_PREFIX + key] === undefined;
    let dropped = 0;
    for (const [kind, map] of this.#maps()) {
      for (const [name, seen] of map) {
        if (!isGone(`${kind}.${name}`, seen.revision)) continue;
        if (seen.isSpoilt === true && seen.revision === 0) continue;
        const droppedUpTo = state.last_seq;
        map.set(name, { ...seen, revision: 0, seenAt: performance.now(), isSpoilt: true, droppedUpTo });
        dropped++;
      }
    }
    for (const [key, revision] of this.#removed) if (isGone(key, revision)) this.#removed.delete(key);
    if (dropped === 0) return;
    this.#onProblem(
      `${LEASE_STREAM} was removed, purged, or limited: ${dropped} entries of it are gone, and are written again`,
    );
    for (const listener of this.#listeners) listener();
  }

  /** What stands under a key is not what is known of it here, and will not be: no message tells of it, and each write to the key would be
   *  refused. It is older where the bucket has forgotten what was read, and others have written beyond that since, so that its end does not
   *  tell; it is newer where the server that is read at lacks it. */
  async #isWrong(): Promise<boolean> {
    const keys = [...this.#doubted];
    this.#doubted.clear();
    for (const key of keys) {
      const { known, stored } = await this.#revisions(key);
      if (known === stored) continue;
      // It may be on its way; and a leader that was just elected may not have read its own journal yet.
      await pause(LIMITS.takeOverRetryMs);
      if (this.#revisionOf(key) < stored) return true;
      const again = await this.#revisions(key);
      if (again.stored < again.known) return true;
    }
    return false;
  }

  /** Of a key, here and in the bucket; the same where nothing stands there. */
  async #revisions(key: string): Promise<{ readonly known: number; readonly stored: number }> {
    const known = this.#revisionOf(key);
    const last_by_subj = LEASE_SUBJECT_PREFIX + key;
    const stored = await storedMessage(this.#link.manager, LEASE_STREAM, { last_by_subj });
    return { known, stored: stored?.seq ?? known };
  }

  /** Removes a bucket that its servers number differently, since nothing else brings them together: it is made anew as one that a person
   *  has removed. A front leaves it to others. Resolves with whether it is removed. */
  async #endSplit(): Promise<boolean> {
    const { manager } = this.#link;
    if (this.#remake === null || this.#closed) return false;
    const split = await this.#numbering.split(manager).catch(() => null);
    if (split === null) return false;
    try {
      await manager.streams.delete(LEASE_STREAM);
      this.#isSplitTold = false;
      this.#onProblem(`${splitText(split)}: it was removed, and is made anew`);
      return true;
    } catch (error) {
      // Or another node was first.
      if (!(await hasStream(manager, LEASE_STREAM).catch(() => true))) return true;
      if (!this.#isSplitTold) {
        this.#isSplitTold = true;
        this.#onProblem(
          `${splitText(split)}, and could not be removed (${messageOf(error)}). Remove it: nats stream rm ${LEASE_STREAM}`,
        );
      }
      return false;
    }
  }

  /** With its keys. */
  async #bucket(): Promise<StreamInfo> {
    const { manager } = this.#link;
    try {
      return await keysOf(manager);
    } catch (error) {
      if (this.#remake === null || (await hasStream(manager, LEASE_STREAM))) throw error;
    }
    await this.#remake();
    return keysOf(manager);
  }

  /** Nothing that is known has a revision in the new bucket until it was read there. */
  async #beginAnew(): Promise<void> {
    await this.#reader.close();
    for (const [, map] of this.#maps()) {
      for (const [name, seen] of map) map.set(name, { ...seen, revision: 0, droppedUpTo: 0 });
    }
    this.#removed.clear();
    this.#sequence = 0;
    this.#reader = this.#read();
    if (this.#closed) await this.#reader.close();
  }

  #maps(): (readonly [kind: string, Map<string, Seen<unknown>>])[] {
    return ['node', 'lease', 'want'].map((kind) => [kind, this.#mapOf(kind)]);
  }

  /** Rejects at `until`: the bucket may have been removed since. */
  async #readUpTo(sequence: number, until = Infinity): Promise<void> {
    while (this.#sequence < sequence) {
      if (performance.now() > until) throw new Error(`${LEASE_STREAM} could not be read up to ${sequence}`);
      // What stood at its end may have been removed by its key, or have found no room: nothing comes from there.
      if ((await this.#readOrSilent()) === 'silent' && (await this.#isAllKnown())) return;
    }
  }

  /** nats-server 2.9 can have a copy that lacks keys, for good, and be the one that is read at. */
  async #readAllKeys(): Promise<void> {
    while (!this.#closed && !(await this.#isAllKnown())) {
      // It may be on its way, or nobody can say.
      await pause(LIMITS.leaseRenewMs);
      if (!(await this.#isAllKnown())) this.#reader.again(1);
      await pause(LIMITS.leaseRenewMs);
    }
  }

  /** Resolves when a message was read, or none was for a while. */
  #readOrSilent(): Promise<'read' | 'silent'> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve('silent'), LIMITS.leaseRenewMs);
      this.#onRead.push(() => {
        clearTimeout(timer);
        resolve('read');
      });
    });
  }

  /** Of each key that stands in the bucket something was read. False, too, where nobody can say: it is asked again. */
  async #isAllKnown(): Promise<boolean> {
    const info = await keysOf(this.#link.manager).catch(() => null);
    if (info === null) return false;
    const keys = Object.keys(info.state.subjects ?? {}).map((each) =>
      each.slice(LEASE_SUBJECT_PREFIX.length),
    );
    return keys.every((key) => this.#revisionOf(key) > 0);
  }

  #onMessage(message: StreamMessage): void {
    const key = message.subject.slice(LEASE_SUBJECT_PREFIX.length);
    this.#apply(key, message.operation === null ? message.data : null, message.sequence);
    if (message.sequence !== this.#sequence + 1) this.#missedAt = performance.now();
    this.#sequence = message.sequence;
    this.#numbering.noteRead(message);
    for (const resolve of this.#onRead.splice(0)) resolve();
  }

  /** A revision comes twice: when this node has written it, and when it is read. The answer to a write may come when what it wrote has
   *  been dropped: whoever took it for what stands there would not say it again. */
  #apply(key: string, data: Buffer | null, revision: number): void {
    if (this.#revisionOf(key) >= revision) return;
    const { kind, name } = partsOf(key);
    const map = this.#mapOf(kind);
    const known = map.get(name);
    if (known?.droppedUpTo !== undefined && revision <= known.droppedUpTo) return;
    const value = data === null ? null : entryIn(kind, data);
    if (data !== null && value === null) this.#onProblem(`${key} of ${LEASE_STREAM} holds what is no entry`);
    if (value !== null) {
      this.#removed.delete(key);
      map.set(name, { value, revision, seenAt: performance.now() });
    } else if (data !== null && known !== undefined) {
      map.set(name, { ...known, revision, seenAt: performance.now(), isSpoilt: true });
    } else {
      map.delete(name);
      this.#removed.set(key, revision);
    }
    if (kind === 'lease') this.#tellRoute(name);
    for (const listener of this.#listeners) listener();
  }

  /** The newest that is known; 0: none. */
  #revisionOf(key: string): number {
    const { kind, name } = partsOf(key);
    return this.#mapOf(kind).get(name)?.revision ?? this.#removed.get(key) ?? 0;
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

/** The bucket with its keys, each as a subject. */
function keysOf(manager: JetStreamManager): Promise<StreamInfo> {
  return manager.streams.info(LEASE_STREAM, { subjects_filter: `${LEASE_SUBJECT_PREFIX}>` });
}

function splitText({ subject, read, leading }: SplitNumbering): string {
  return (
    `the servers number the messages of ${LEASE_STREAM} differently (${subject} is ${read} on one, ` +
    `${leading} on the leader), so that no write agrees with what is read`
  );
}

function partsOf(key: string): { readonly kind: string; readonly name: string } {
  const dot = key.indexOf('.');
  return { kind: key.slice(0, dot), name: key.slice(dot + 1) };
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
