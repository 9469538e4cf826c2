// Messages of the pollers group, as they travel over the bus.

/** Something was heard about a transaction (a callback): enquire now. Never proof of anything. `done`: nobody needs to send it
 *  again, since its provider was asked and its account told, or since it is asked about until its end anyway. Older pollers
 *  say so as soon as they have it. */
export interface Hint {
  readonly type: 'Hint';
  readonly accountId: string;
  readonly transactionId: string;
  /** Milliseconds since 1970; until then it is sent. What arrives later, or by another clock, is looked into all the same. */
  readonly deadline: number;
  /** By a poller that let go of the partition: `done` as soon as the next one has it. */
  readonly handedOn?: true;
}

export type PollerMessage = Hint;

const TYPES: Record<PollerMessage['type'], true> = { Hint: true };

/** False: from a node of a newer version. */
export function isPollerMessage(message: { readonly type: string }): message is PollerMessage {
  return Object.hasOwn(TYPES, message.type);
}
