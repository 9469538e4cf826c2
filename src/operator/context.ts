// What the operator API works with: the bus, and what only the wiring knows, as functions. Also the few steps every
// handler takes: asking an account's partition, asking the platform, making an id.

import { randomBytes } from 'node:crypto';
import { partitionOf, request as requestOnce } from '../bus/bus.ts';
import type { Bus, GroupMessage, Reply } from '../bus/bus.ts';
import type { AccountCommand, AccountQuery } from '../domain/account-command.ts';
import { ALPHABET, encodeTime, makeId } from '../domain/id.ts';
import type { IdKind } from '../domain/id.ts';
import type { PlatformCommand, PlatformQuery } from '../domain/platform-message.ts';
import type {
  ReplayDelivery,
  ReplayFailedDeliveries,
  WebhookOperatorMessage,
} from '../domain/webhook-message.ts';
import { LIMITS } from '../limits.ts';
import type { Log } from '../observability/log.ts';
import type { Secrets } from '../secrets.ts';

export interface OperatorContext {
  readonly bus: Bus;
  readonly log: Log;
  readonly secrets: Secrets;
  /** OPERATOR_TOKEN. */
  readonly token: string;
  /** What is wrong with a webhook URL, to be read after "webhook_url"; null: nothing. */
  readonly checkWebhookUrl: (url: string) => string | null;
  /** For GET /operator/v1/rails: the health of each rail. Fields in camelCase, times (…At) in ms since 1970. */
  readonly rails: () => readonly object[];
  /** For GET /operator/v1/partitions: each partition, its owner and where its log stands. */
  readonly partitions: () => readonly object[];
  /** For POST /operator/v1/write_format/raise. */
  readonly raiseWriteFormat: () => Promise<WriteFormatRaise>;
  /** Null: ready; otherwise why not, in words. */
  readonly notReady: () => string | null;
  readonly metrics: { text(): Promise<string>; readonly contentType: string };
}

/** Of the format of records, raised to the newest that every node reads. */
export type WriteFormatRaise =
  | { readonly type: 'done'; readonly format: number; readonly message: string }
  /** It stays as it is; why, in words. */
  | { readonly type: 'refused'; readonly reason: string }
  /** Nobody knows whether it was raised. */
  | { readonly type: 'unknown' };

/** A query without its deadline. */
type WithoutDeadline<Message> = Message extends unknown ? Omit<Message, 'deadline'> : never;

/** A command says until when it may be done: of a call, until its caller is cut off, for who has had no answer may look, find nothing, and
 *  send it again. */
type Asked<Command, Query> = Command | WithoutDeadline<Query>;

type WebhookReplay = ReplayDelivery | ReplayFailedDeliveries;

/** To the partition of the account that the message names. */
export function askAccount(
  { bus }: OperatorContext,
  message: Asked<AccountCommand, AccountQuery>,
): Promise<Reply> {
  const partition = partitionOf(message.accountId, bus.partitions('accounts'));
  return requestOnce(bus, 'accounts', partition, withDeadline(message));
}

export function askPlatform(
  { bus }: OperatorContext,
  message: Asked<PlatformCommand, PlatformQuery>,
): Promise<Reply> {
  return requestOnce(bus, 'platform', 0, withDeadline(message));
}

export function askWebhooks(
  { bus }: OperatorContext,
  message: Asked<WebhookReplay, Exclude<WebhookOperatorMessage, WebhookReplay>>,
): Promise<Reply> {
  const partition = partitionOf(message.accountId, bus.partitions('webhooks'));
  return requestOnce(bus, 'webhooks', partition, withDeadline(message));
}

/** To every partition of the accounts group, in order. */
export function askEveryPartition(
  { bus }: OperatorContext,
  message: WithoutDeadline<AccountQuery>,
): Promise<Reply[]> {
  const partitions = Array.from({ length: bus.partitions('accounts') }, (_, partition) => partition);
  return Promise.all(
    partitions.map((partition) => requestOnce(bus, 'accounts', partition, withDeadline(message))),
  );
}

function withDeadline(message: Omit<GroupMessage, 'deadline'> & Partial<GroupMessage>): GroupMessage {
  return { ...message, deadline: message.deadline ?? fromNow() };
}

/** The deadline of a step that no caller waits for. */
export function fromNow(): number {
  return Date.now() + LIMITS.commandDeadlineMs;
}

/** Of the same form as the ids of the actors; made here where a command may be sent again. */
export function freshId(kind: IdKind): string {
  const random = Array.from(randomBytes(14), (byte) => ALPHABET.charAt(byte & 31)).join('');
  return makeId(kind, `${encodeTime(Date.now())}${random}00`);
}
