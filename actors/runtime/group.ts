// What a group of actors with a log is to the runtime: logic over one partition. The runtime (partition.ts) owns the
// mailbox, the log, durability, replies, timers and the feed; the logic owns state and meaning.
//
// `decide` never changes state and `evolve` never refuses. Replaying the log calls `evolve` alone.

import type { GroupName, Reply } from '../../src/bus/bus.ts';
import type { Row, Views } from '../../wal/types.ts';
import type { Retention } from './retention.ts';

/** What comes with every command from outside the pure core. */
export interface Tick {
  /** Milliseconds since 1970, never backwards within the partition, also across restarts. */
  readonly now: number;
  /** A fresh id body (26 characters, suffix "00"). */
  readonly freshBody: string;
  /** For spans: milliseconds since the partition was opened. */
  readonly elapsedMs: number;
  /** Newest format of records that may be made (src/domain/record-format.ts): every node of the cluster reads it. */
  readonly writeFormat: number;
}

export type Outcome =
  /** Sent once everything appended so far is durable. */
  | { readonly type: 'reply'; readonly reply: Reply }
  /** Sent once `answer(key)` has one: asked when this record is durable, and again when a record whose decision
   *  names the key in `answers` is. */
  | { readonly type: 'wait'; readonly key: string; readonly replayed: boolean };

export interface Decision<Record> {
  /** To be logged; null: nothing happened. */
  readonly record: Record | null;
  readonly outcome: Outcome;
  /** The waiting key that this record answers; null: none. */
  readonly answers: string | null;
}

/** Replied to at once. */
export function decided<Record>(record: Record | null, reply: Reply): Decision<Record> {
  return { record, outcome: { type: 'reply', reply }, answers: null };
}

export interface Answered {
  readonly reply: Reply;
  /** The reply is held back until this sequence is durable (0: already). */
  readonly sequence: number;
}

export interface PartitionLogic<Command, Query, Record> {
  decide(command: Command, tick: Tick): Decision<Record>;
  evolve(record: Record, sequence: number): void;
  query(query: Query, now: number): Answered;
  /** The reply of a waiting key, or null while there is none. */
  answer(key: string, replayed: boolean): Answered | null;
  /** A caller has waited for `key` as long as it should: the command that settles its answer. */
  settleAnswer(key: string): Command;
  /** Due time of the earliest timer, ms since 1970; Infinity when there is none. */
  nextDue(): number;
  /** Removes and returns commands for timers due at `now`, at most `limit`. Each is an ordinary command. */
  takeDue(now: number, limit: number): Command[];
  /** Rows changed since the last call, for the checkpoint; called only between records. */
  takeRows(): Row[];
  /** The checkpoint has reached `sequence`: what was not touched since may leave memory. */
  evict(sequence: number): void;
}

/** State of a partition as of its checkpoint, read through the views. */
export interface OpenOptions {
  /** Sequence that the views reach. */
  readonly sequence: number;
  /** True: it only follows the log, and `takeRows` is called (the checkpointer). False: it decides and answers, and keeps due times;
   *  those of checkpointed state are loaded when it is opened. */
  readonly writesRows: boolean;
}

/** Every type of message that a group knows, and what it is: one that is added does not compile until it is here. */
export type MessageKinds<Command extends Typed, Query extends Typed> = {
  readonly [Type in Command['type']]: 'command';
} & { readonly [Type in Query['type']]: 'query' };

interface Typed {
  readonly type: string;
}

export interface Group<Command extends Typed, Query extends Typed, Record> {
  readonly name: GroupName;
  /** A message of another type, from a node of a newer version, is `unavailable` here. */
  readonly messages: MessageKinds<Command, Query>;
  /** How long a caller may wait for `answer` before `settleAnswer` is sent. */
  readonly answerWaitMs: number;
  open(partition: number, views: Views, options: OpenOptions): PartitionLogic<Command, Query, Record>;
  /** Goes up when rows change their form: views of another format are dropped and rebuilt from the log. */
  readonly viewsFormat: number;
  /** Looked after once a day. */
  readonly retention?: readonly Retention[];
  /** False: it says a word of a newer version that would be taken for another one. Absent: `encode` finds all of these. */
  knows?(command: Command): boolean;
  /** Null: it has a name that this version does not know, from a command of a newer one. */
  encode(record: Record): string | null;
  decode(line: string): Record;
}
