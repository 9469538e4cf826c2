// Messages of the pollers group, as they travel over the bus.

/** Something was heard about a transaction (a callback): enquire now. Never proof of anything. Answered `done` when nobody needs to
 *  send it again: its provider was asked and its account told, or it is asked about until its end anyway. Pollers of older versions
 *  answer so as soon as they have it. */
export interface Hint {
  readonly type: 'Hint';
  readonly accountId: string;
  readonly transactionId: string;
  /** Milliseconds since 1970. It is sent again until then; what arrives later is looked into all the same. */
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
