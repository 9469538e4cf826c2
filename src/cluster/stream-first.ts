// With REPLICATION=async the owner of an account is ahead of its stream. Pollers pay by what the owner tells them, and read on in the
// stream from where it says that its log stands. If that were lost with its machine, there would be payments that no log has, and
// pollers would miss what is written in its place. So they are answered only when the stream has what they are told.

import { UNKNOWN } from '../bus/bus.ts';
import type { Inbox } from '../bus/local-bus.ts';
import type { LogReplica } from '../nats/log/stream-replica.ts';

const BEFORE_PAYING: ReadonlySet<string> = new Set(['ListPending', 'GetPending', 'BeginSubmission']);

/** `replica`: of the log that `inbox` writes. */
export function streamFirst(inbox: Inbox, replica: Pick<LogReplica, 'settled'>): Inbox {
  return (message, onReply) => {
    if (!BEFORE_PAYING.has(message.type)) return inbox(message, onReply);
    inbox(message, (reply) => {
      replica.settled().then(
        () => onReply(reply),
        () => onReply(UNKNOWN),
      );
    });
  };
}
