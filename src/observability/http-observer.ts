// What happens to each request, counted and, where a person should see it, logged with its request id. On the hot path: a
// line for every request is written only at level `debug`.

import type { HttpObserver, RouteName } from '../http/observer.ts';
import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import { onceIn, REFUSALS_EVERY_MS } from './once-in.ts';

const SERVER_ERROR = 500;

export function createHttpObserver(metrics: Metrics, log: Log): HttpObserver {
  const refused = onceIn(REFUSALS_EVERY_MS);
  const full = onceIn(REFUSALS_EVERY_MS);
  const crowded = onceIn(REFUSALS_EVERY_MS);
  const slow = onceIn(REFUSALS_EVERY_MS);
  return {
    onReply(route, status, durationMs, requestId, errorCode) {
      metrics.onReply(route, status, durationMs, errorCode);
      const unseen = status >= SERVER_ERROR ? refused() : null;
      if (unseen === null && !log.debugEnabled) return;
      const fields = { ...fieldsOf(route, durationMs, requestId), status, code: errorCode };
      if (unseen === null) log.debug(fields, 'request');
      else log.warn({ ...fields, refused_since_last_line: unseen }, 'request refused');
    },
    onNoReply(route, reason, durationMs, requestId) {
      metrics.onNoReply(route, reason);
      const fields = { ...fieldsOf(route, durationMs, requestId), reason };
      // The caller does not know what became of its request: somebody may have to look.
      if (reason === 'unknown') log.error(fields, 'request without a reply');
      else log.debug(fields, 'request without a reply');
    },
    onMadeWay({ surface, method, path }, requestId, errorCode) {
      metrics.onMadeWay(surface, errorCode);
      const unseen = slow();
      if (unseen === null && !log.debugEnabled) return;
      const fields = { request_id: requestId, method, route: path, code: errorCode };
      if (unseen === null) log.debug(fields, 'request that made way');
      else {
        log.warn(
          { ...fields, made_way_since_last_line: unseen },
          'a request whose body came slowly made way for others. If there are many, bound them by address before the service',
        );
      }
    },
    onKeyFull(accountId) {
      metrics.crowdedOut('key');
      const unseen = full();
      if (unseen === null) return;
      const fields = { account_id: accountId, refused_since_last_line: unseen };
      log.warn(fields, 'a key has too much under way: its requests are refused, others are not');
    },
    onConnectionRefused(): void {
      metrics.crowdedOut('connection');
      const unseen = crowded();
      if (unseen === null) return;
      log.warn(
        { refused_since_last_line: unseen },
        'merchants have as many connections open as they may: one more is closed. Bound them by address before the service, or raise the limit of open files',
      );
    },
  };
}

function fieldsOf({ method, path }: RouteName, durationMs: number, requestId: string) {
  const duration = Math.round(durationMs * 1_000) / 1_000;
  return { request_id: requestId, method, route: path, duration_ms: duration };
}
