// From a provider's callback to the poller that looks after the transaction: a hint over the bus, from any front.

import { type Bus, partitionOf } from '../bus/bus.ts';
import type { OnCallback } from '../http/callbacks.ts';
import { LIMITS } from '../limits.ts';
import type { Callbacks } from '../rails/callbacks.ts';
import type { OutcomeHint } from '../rails/rail.ts';
import type { Log } from '../observability/log.ts';

/** A hint that was lost costs nothing but time: polling finds the outcome without it. */
export function sendHint(bus: Bus, { accountId, transactionId }: OutcomeHint): void {
  const deadline = Date.now() + LIMITS.commandDeadlineMs;
  const hint = { type: 'Hint', accountId, transactionId, deadline } as const;
  bus.send('pollers', partitionOf(accountId, bus.partitions('pollers')), hint, () => {});
}

export function callbackHandler(bus: Bus, callbacks: Callbacks, log: Log): OnCallback {
  return ({ method, path, body, requestId }) => {
    const callback = callbacks.read(method, path, body.toString('utf8'));
    switch (callback.type) {
      case 'not_found':
        return 'unknown';
      case 'unknown':
        log.warn(
          { request_id: requestId, rail: callback.railId, detail: callback.detail },
          'a provider called back about no transaction of ours',
        );
        return 'accepted';
      case 'hint':
        sendHint(bus, callback.hint);
        return 'accepted';
    }
  };
}
