// What the front tells whoever counts and logs. Called once for every request, on the hot path: an implementation
// must be cheap and must not throw. No header, body or key is ever passed here.

import type { ErrorCode } from '../domain/error-code.ts';

/** One object per route for the life of the server: counters may be kept by identity. */
export interface RouteName {
  readonly surface: string;
  /** "HEAD" also where the route is one of GET. */
  readonly method: string;
  /** The template, e.g. "/v1/charges/:id"; "*" for what matched no route. */
  readonly path: string;
}

/** Why a request got no answer: the client went away, was too slow, or nobody can say what became of it in time. */
export type NoReplyReason = 'aborted' | 'slow_client' | 'unknown';

export interface HttpObserver {
  onReply(
    route: RouteName,
    status: number,
    durationMs: number,
    requestId: string,
    errorCode: ErrorCode | null,
  ): void;
  onNoReply(route: RouteName, reason: NoReplyReason, durationMs: number, requestId: string): void;
  /** In place of `onReply`, of a request that was answered before all of it had come, because others needed its room: neither what that
   *  answer says nor how long it took is about this service. */
  onMadeWay(route: RouteName, requestId: string, errorCode: ErrorCode): void;
  /** A request was refused because its key, which names this account, has too much under way. */
  onKeyFull(accountId: string): void;
  /** A connection was closed as it came: there are as many as may be. */
  onConnectionRefused(): void;
}
