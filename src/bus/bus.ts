// The bus: how a command or query reaches the one writer of its partition, and how the reply comes back. Two real
// implementations stand behind it: in-process (local-bus.ts) and NATS (nats-bus.ts).
//
// Invariants: a reply to a command comes only after what it decided is durable. `unavailable` means that nothing was
// decided. `unknown` means that nobody can say, or will: the log failed, the partition stops while a caller waits for a rail, or
// NATS brought no reply though the message was sent again until the deadline.

import type { AccountCommand, AccountQuery } from '../domain/account-command.ts';
import type { Rejection } from '../domain/error-code.ts';

export const GROUPS = ['accounts', 'webhooks', 'pollers', 'platform'] as const;
export type GroupName = (typeof GROUPS)[number];

/** A partition, by its name: wal's PartitionName, of a group that is one of these. */
export interface PartitionPlace {
  readonly group: GroupName;
  readonly partition: number;
}

/** Messages of groups other than accounts are typed by their groups and opaque here. */
export interface GroupMessage {
  readonly type: string;
  /** Milliseconds since 1970. */
  readonly deadline: number;
}
export type Message = AccountCommand | AccountQuery | GroupMessage;

export type Reply =
  /** body: JSON text. replayed: it is the stored answer of an earlier identical request. */
  | { readonly type: 'done'; readonly body: string; readonly replayed: boolean }
  | { readonly type: 'rejected'; readonly rejection: Rejection }
  | { readonly type: 'unavailable' }
  | { readonly type: 'unknown' };

/** `body`: JSON text of something decided or read just now. */
export function doneReply(body: string): Reply {
  return { type: 'done', body, replayed: false };
}

export function rejectedReply(rejection: Rejection): Reply {
  return { type: 'rejected', rejection };
}

/** Nothing was decided. */
export const UNAVAILABLE = { type: 'unavailable' } as const satisfies Reply;
/** Nobody can say what was. */
export const UNKNOWN = { type: 'unknown' } as const satisfies Reply;

export type OnReply = (reply: Reply) => void;

export interface Bus {
  /** Number of partitions of a group; fixed for the life of the data directory or cluster. */
  partitions(group: GroupName): number;
  /** Sends to a partition. `onReply` is called exactly once; in one process it may be called before `send` returns. */
  send(group: GroupName, partition: number, message: Message, onReply: OnReply): void;
}

/** `send` as a promise, for callers off the hot path. */
export function request(bus: Bus, group: GroupName, partition: number, message: Message): Promise<Reply> {
  return new Promise((resolve) => {
    bus.send(group, partition, message, resolve);
  });
}

/** Partition of an account: FNV-1a over its id, modulo the count. The same on every node and in every version. */
export function partitionOf(accountId: string, partitions: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < accountId.length; i++) {
    hash = Math.imul(hash ^ accountId.charCodeAt(i), 0x01000193);
  }
  return (hash >>> 0) % partitions;
}
