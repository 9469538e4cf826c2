// From a provider's callback to the poller that looks after the transaction: a hint over the bus, from any front.

import { type Bus, partitionOf } from '../bus/bus.ts';
import type { CallbackResult, OnCallback } from '../http/callbacks.ts';
import { LIMITS } from '../limits.ts';
import type { OutcomeHint } from '../rails/rail.ts';
import type { LoadedRails } from '../rails/loaded-rails.ts';
import type { Log } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';

/** Drops a byte order mark, which is no part of JSON. */
const UTF8 = new TextDecoder();

/** If the hint is lost, polling still finds the outcome of what is in flight. But nobody asks about what has ended: only a callback tells
 *  that the provider took the money back. `requestId`: of the callback's request; undefined: there was none, as with the loopback rail.
 *  `onEnd`: called with whether it was looked into, or need not be. */
export function sendHint(
  bus: Bus,
  { accountId, transactionId }: OutcomeHint,
  log: Log,
  requestId?: string,
  onEnd: (isLookedInto: boolean) => void = () => {},
): void {
  const deadline = Date.now() + LIMITS.commandDeadlineMs;
  const hint = { type: 'Hint', accountId, transactionId, deadline } as const;
  bus.send('pollers', partitionOf(accountId, bus.partitions('pollers')), hint, (reply) => {
    if (reply.type !== 'done') {
      const what = reply.type === 'unknown' ? 'no poller has looked into' : 'no poller took';
      log.warn(
        { request_id: requestId, transactionId },
        `${what} a callback: if its transaction had ended, ask its provider`,
      );
    }
    onEnd(reply.type === 'done');
  });
}

export function callbackHandler(bus: Bus, rails: LoadedRails, log: Log, metrics: Metrics): OnCallback {
  const unknown = metrics.counter(
    'daftari_callbacks_unknown_total',
    'Callbacks of a provider about no transaction of ours.',
    ['rail'],
    [...rails.rails.keys()].map((railId) => [railId]),
  );
  let waiting = 0;
  const lookInto = (hint: OutcomeHint, requestId: string): Promise<CallbackResult> =>
    new Promise((resolve) => {
      waiting++;
      sendHint(bus, hint, log, requestId, (isLookedInto) => {
        waiting--;
        resolve(isLookedInto ? 'accepted' : 'busy');
      });
    });
  return ({ method, path, body, requestId }) => {
    const text = UTF8.decode(body);
    const callback = rails.callbacks.read(method, path, text);
    switch (callback.type) {
      case 'not_found':
        return 'unknown';
      case 'unknown':
        unknown.add(1, callback.railId);
        log.warn(
          { request_id: requestId, rail: callback.railId, detail: callback.detail },
          'a provider called back about no transaction of ours',
        );
        return 'accepted';
      case 'hint':
        if (!rails.isCallbackPlausible(callback.railId, text)) {
          log.warn(
            { request_id: requestId, rail: callback.railId },
            'a callback carries a wrong hash: not looked into',
          );
          return 'accepted';
        }
        if (waiting < LIMITS.frontCallbacksWaitingMax) return lookInto(callback.hint, requestId);
        log.warn(
          { request_id: requestId, transactionId: callback.hint.transactionId },
          'a callback was turned away, since too many wait: if its transaction had ended, ask its provider',
        );
        return 'busy';
    }
  };
}
