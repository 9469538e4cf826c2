// The format in which the cluster writes records, in KV, raised by an operator once every node reads the newest. So a node
// of a new version, started beside old ones, writes what they read; and one that could not read the log does not start.
//
//   version 2 starts beside version 1     writes format 1, says in its session that it reads 2
//   the last node of version 1 has gone   `npm run cluster -- upgrade`, or the operator API: format 2, at once everywhere
//   version 1 is started again            refused: there may be records that it cannot read
//
// Invariants: the format is never lowered. A node has read it before it reads a record, and is told of each change; one that came while
// it was raised, and cannot read it, stops. If anything else is put in the place of the format, or of the cluster's identity, or they are
// lost, that changes nothing: nodes that know what was there write it again.

import type { StoredMsg } from 'nats';
import type { RecordFormats } from '../domain/record-format.ts';
import {
  checkMasterKey,
  firstFormatIn,
  firstFormatOf,
  type Identity,
  identityIn,
  isConflict,
} from './cluster-identity.ts';
import type { NatsLink } from './connection.ts';
import { WriteFormatUnknown } from './errors.ts';
import { fieldsIn } from './fields-in.ts';
import type { LeaseTable } from './leases/lease-table.ts';
import { persist } from './persist.ts';
import type { StreamPublisher } from './stream-publisher.ts';
import { StreamReader } from './stream-reader.ts';
import type { StreamMessage } from './stream-reader.ts';
import { hasStream, storedMessage } from './streams.ts';
import {
  CLUSTER_STREAM,
  CLUSTER_SUBJECT_PREFIX,
  IDENTITY_SUBJECT,
  WRITE_FORMAT_SUBJECT,
} from './subjects.ts';

export interface WriteFormatOptions {
  readonly link: NatsLink;
  /** Of the cluster, as it was when this node joined it. */
  readonly identity: Identity;
  /** Of this version. */
  readonly formats: RecordFormats;
  /** Fingerprint of the master key. */
  readonly masterKey: string;
  readonly onRaised: (format: number) => void;
  /** It was raised to what this version cannot read, or cannot be followed, or another master key was proven to be the cluster's:
   *  the process must stop. */
  readonly onError: (error: Error) => void;
}

export class WriteFormat {
  readonly #options: WriteFormatOptions;
  readonly #reader: StreamReader;
  #identity: Identity;
  #current: number;

  private constructor(options: WriteFormatOptions, current: number) {
    this.#options = options;
    this.#identity = options.identity;
    this.#current = current;
    this.#reader = new StreamReader({
      link: options.link,
      stream: CLUSTER_STREAM,
      from: 1,
      newestPerSubject: `${CLUSTER_SUBJECT_PREFIX}>`,
      onMessage: (message) => this.#onMessage(message),
      onError: options.onError,
    });
  }

  /** Throws WriteFormatUnknown when this version cannot work in this cluster. */
  static async follow(options: WriteFormatOptions): Promise<WriteFormat> {
    const { link, identity, formats } = options;
    const format = (await raisedFormat(link))?.format ?? firstFormatIn(identity);
    checkFormat(format, formats);
    return new WriteFormat(options, format);
  }

  /** Records are written in this format. */
  get current(): number {
    return this.#current;
  }

  /** The cluster says which master key is its own: this one. */
  get isMasterKeyNoted(): boolean {
    return this.#identity.masterKey !== undefined;
  }

  /** What stands there no more is written again: the stream was purged, or its servers' disks have forgotten it, of which no message
   *  tells. A node that begins would say of the cluster what it says of itself. Rejects when nobody can say. */
  async sayIfLost(): Promise<void> {
    const { manager } = this.#options.link;
    // Where all streams are lost, a person puts the logs back first.
    if (!(await hasStream(manager, CLUSTER_STREAM))) return;
    const isLost = async (subject: string): Promise<boolean> =>
      (await storedMessage(manager, CLUSTER_STREAM, { last_by_subj: subject })) === null;
    if (await isLost(IDENTITY_SUBJECT)) await this.#putBack(IDENTITY_SUBJECT, this.#identity, 0);
    if (this.#current === firstFormatIn(this.#identity)) return;
    if (await isLost(WRITE_FORMAT_SUBJECT)) {
      await this.#putBack(WRITE_FORMAT_SUBJECT, { format: this.#current }, 0);
    }
  }

  async close(): Promise<void> {
    await this.#reader.close();
  }

  #onMessage({ subject, data, sequence }: StreamMessage): void {
    if (subject === WRITE_FORMAT_SUBJECT) {
      const format = formatIn(data);
      // Who had not read yet that it was raised may have put back what was there before.
      if (format !== null && format >= this.#current) this.#raise(format);
      else void this.#putBack(subject, { format: this.#current }, sequence);
    } else if (subject === IDENTITY_SUBJECT) {
      const identity = identityIn(data);
      if (identity === null) void this.#putBack(subject, this.#identity, sequence);
      else this.#noted(identity);
    }
  }

  #noted(identity: Identity): void {
    const { masterKey } = identity;
    if (masterKey === undefined) return;
    checkMasterKey(identity, this.#options.masterKey);
    this.#identity = { ...this.#identity, masterKey };
  }

  /** In the place of what stands at that sequence and is none; 0: nothing stands there. All nodes try; one is first. */
  async #putBack(
    subject: string,
    value: Identity | { readonly format: number },
    sequence: number,
  ): Promise<void> {
    const { connection } = this.#options.link;
    const data = JSON.stringify(value);
    const publish = () =>
      connection.jetstream().publish(subject, data, { expect: { lastSubjectSequence: sequence } });
    const isFinal = (error: unknown): boolean => isConflict(error) || connection.isClosed();
    // Where it cannot be done, whoever starts next says what is the matter.
    await persist(publish, { isFinal }).catch(() => {});
  }

  #raise(format: number): void {
    if (format <= this.#current) return;
    checkFormat(format, this.#options.formats);
    this.#current = format;
    this.#options.onRaised(format);
  }
}

function checkFormat(format: number, { oldestWritten, newest }: RecordFormats): void {
  if (format > newest) {
    throw new WriteFormatUnknown(
      `the cluster writes records in format ${format}, and this version reads only up to format ${newest}: it cannot read ` +
        'what is in the log. Start the version that the other nodes run, or a newer one; the format is never lowered.',
    );
  }
  if (format < oldestWritten) {
    throw new WriteFormatUnknown(
      `the cluster writes records in format ${format}, and this version writes none before format ${oldestWritten}. Start ` +
        'the version before this one on every node, run "npm run cluster -- upgrade", and then start this one.',
    );
  }
}

export type RaisedFormat =
  | { readonly type: 'raised'; readonly format: number; readonly from: number }
  /** No node reads a newer one. */
  | { readonly type: 'newest'; readonly format: number }
  /** Nodes that live and read no further than `newestFormat`. */
  | {
      readonly type: 'held_back';
      readonly format: number;
      readonly wanted: number;
      readonly by: readonly { readonly node: string; readonly newestFormat: number }[];
    }
  /** Nobody lives whom one could ask. */
  | { readonly type: 'no_nodes' };

/** The newest format that the cluster's records may have by now; null: nothing says it, where its streams but those of the logs are lost. */
export async function formatReached(link: NatsLink): Promise<number | null> {
  if (!(await hasStream(link.manager, CLUSTER_STREAM))) return null;
  return (await raisedFormat(link))?.format ?? firstFormatOf(link);
}

/** Raises the cluster's format to the newest that a live node reads, if all others read it too. */
export async function raiseWriteFormat(
  link: NatsLink,
  publisher: StreamPublisher,
  table: LeaseTable,
): Promise<RaisedFormat> {
  const nodes = [...table.nodes]
    .filter(([, { value }]) => value.state !== 'dead')
    .map(([node, { value }]) => ({ node, newestFormat: value.newestFormat ?? 1 }));
  if (nodes.length === 0) return { type: 'no_nodes' };
  const raised = await raisedFormat(link);
  const { format, revision } = raised ?? { format: await firstFormatOf(link), revision: 0 };
  const wanted = Math.max(...nodes.map(({ newestFormat }) => newestFormat));
  if (wanted <= format) return { type: 'newest', format };
  const by = nodes.filter(({ newestFormat }) => newestFormat < wanted);
  if (by.length > 0) return { type: 'held_back', format, wanted, by };
  const data = Buffer.from(JSON.stringify({ format: wanted }));
  const result = await publisher.publish(WRITE_FORMAT_SUBJECT, data, { lastSubjectSequence: revision });
  if (result.type !== 'stored') {
    throw new Error(`the format may not have been raised; ask again (${result.description})`);
  }
  return { type: 'raised', format: wanted, from: format };
}

/** For the operator who asked. */
export function tellRaised(raised: RaisedFormat): string {
  switch (raised.type) {
    case 'raised':
      return `The cluster writes records in format ${raised.format} now; it was ${raised.from}. Older versions cannot join any more.`;
    case 'newest':
      return `The cluster writes records in format ${raised.format} already, the newest that its nodes read.`;
    case 'held_back': {
      const { format, wanted, by } = raised;
      const nodes = by.map(({ node, newestFormat }) => `${node} (reads up to ${newestFormat})`).join(', ');
      return `The cluster stays at format ${format}. Not every node reads format ${wanted}: ${nodes}. Restart them with the new version, then ask again.`;
    }
    case 'no_nodes':
      return 'No node of the cluster lives: start the nodes first.';
  }
}

/** Null: nobody has raised it yet. */
async function raisedFormat(link: NatsLink): Promise<{ format: number; revision: number } | null> {
  return persist(async () => {
    const stored = await newestOf(link);
    if (stored === null) return null;
    const format = formatIn(stored.data);
    if (format !== null) return { format, revision: stored.seq };
    throw new Error(
      `${WRITE_FORMAT_SUBJECT} holds what is no format, and no node lives that knows it: put {"format":<the newest that all ` +
        'nodes read>} there',
    );
  });
}

/** Whoever asks has joined, and a front may not ask first whether the bucket has anything (deploy/nats/permissions.conf). */
async function newestOf({ manager }: NatsLink): Promise<StoredMsg | null> {
  try {
    return await manager.streams.getMessage(CLUSTER_STREAM, { last_by_subj: WRITE_FORMAT_SUBJECT });
  } catch (error) {
    if (/no message found/i.test(String(error))) return null;
    throw error;
  }
}

/** Null: it is none. */
function formatIn(data: Uint8Array): number | null {
  const { format = null } = fieldsIn<{ readonly format: number }>(data);
  return Number.isSafeInteger(format) ? format : null;
}
