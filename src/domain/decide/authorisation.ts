// Who is calling: the checks that every call of a merchant starts with, command or query, in the order of decide.ts.

import type { Account, App } from '../account.ts';
import type { ByMerchant } from '../account-command.ts';
import { type ErrorCode, type Rejection, rejection } from '../error-code.ts';
import type { LedgerState } from '../state.ts';

export type Access =
  | { readonly type: 'granted'; readonly account: Account; readonly app: App }
  | { readonly type: 'refused'; readonly rejection: Rejection };

/** Problems that a front reports about the key; all others come later in the order of checks. */
const KEY_PROBLEMS: ReadonlySet<ErrorCode> = new Set(['secret_key_required', 'invalid_api_key']);

/** Past its deadline: nobody waits for it any more, and nothing was decided. */
export const TOO_LATE: Rejection = rejection(
  'service_unavailable',
  'The deadline of the request has passed.',
  null,
  1,
);

function refused(code: ErrorCode): Access {
  return { type: 'refused', rejection: rejection(code) };
}

/** Authentication and live mode, once the deadline is looked at. */
export function authorise(state: LedgerState, call: ByMerchant): Access {
  const { keyHash, problem } = call;
  const account = state.account(call.accountId);
  if (problem !== null && KEY_PROBLEMS.has(problem.code)) {
    // Any key of an account that is not live says so, the publishable one too (specification parts 5 and 7).
    const isOfNoUse = problem.code === 'secret_key_required' && account?.settings.live === false;
    return isOfNoUse ? refused('live_mode_not_enabled') : { type: 'refused', rejection: problem };
  }
  if (keyHash === null) return refused('authentication_required');
  if (account === undefined) return refused('invalid_api_key');
  const app = appOfKey(account, keyHash);
  if (app === null) return refused('invalid_api_key');
  if (!account.settings.live) return refused('live_mode_not_enabled');
  return { type: 'granted', account, app };
}

/** All checks of a query: deadline, `authorise`, then whatever else the front found wrong with it. */
export function authoriseQuery(state: LedgerState, call: ByMerchant, now: number): Access {
  if (now > call.deadline) return { type: 'refused', rejection: TOO_LATE };
  const access = authorise(state, call);
  if (access.type === 'granted' && call.problem !== null) return { type: 'refused', rejection: call.problem };
  return access;
}

/** SHA-256 hashes of long random keys are compared, never keys. */
function appOfKey(account: Account, keyHash: string): App | null {
  for (const app of account.apps.values()) {
    if (app.removedAt === null && areSame(app.secretKeyHash, keyHash)) return app;
  }
  return null;
}

/** In a time that does not tell where they differ. */
function areSame(known: string, given: string): boolean {
  let difference = known.length ^ given.length;
  for (let at = 0; at < known.length; at++) difference |= known.charCodeAt(at) ^ given.charCodeAt(at);
  return difference === 0;
}
