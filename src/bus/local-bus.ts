// The bus of one process: a call. Replies come when the partition gives them.

import { type Bus, type GroupName, type Message, type OnReply, UNAVAILABLE } from './bus.ts';

/** One partition's inbox. */
export type Inbox = (message: Message, onReply: OnReply) => void;

export class LocalBus implements Bus {
  readonly #partitions: Record<GroupName, number>;
  readonly #inboxes: Record<GroupName, (Inbox | undefined)[]>;

  constructor(partitions: Record<GroupName, number>) {
    this.#partitions = partitions;
    this.#inboxes = { accounts: [], webhooks: [], pollers: [], platform: [] };
  }

  partitions(group: GroupName): number {
    return this.#partitions[group];
  }

  /** From now on messages to this partition go to `inbox`; undefined: nobody serves it. */
  attach(group: GroupName, partition: number, inbox: Inbox | undefined): void {
    this.#inboxes[group][partition] = inbox;
  }

  send(group: GroupName, partition: number, message: Message, onReply: OnReply): void {
    const inbox = this.#inboxes[group][partition];
    if (inbox === undefined) onReply(UNAVAILABLE);
    else inbox(message, onReply);
  }
}
