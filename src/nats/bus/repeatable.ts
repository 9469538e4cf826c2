// Which messages may be sent again when nobody knows what became of them: those that change nothing the second time.

import type { Message } from '../../bus/bus.ts';
import type { ErrorCode, Rejection } from '../../domain/error-code.ts';

/** Creates carry an idempotency key (without one they are refused). Outcomes and timers are facts, and a fact told twice is the same fact.
 *  A hint causes one look, and two cause no more. The platform's ids are made by the sender. The rest are acts of people: sent twice
 *  they could act twice, or be refused because they were done already. */
const REPEATABLE_COMMANDS: ReadonlySet<string> = new Set([
  'CreateCharge',
  'CreateDeposit',
  'CreatePayout',
  'CreateWithdrawal',
  'RecordSubmission',
  'RecordOutcome',
  'ExpireTransaction',
  'FixAnswer',
  'ReleaseCharge',
  'ActivateWallet',
  'RegisterAccount',
  'RegisterKeyedAccount',
  'MarkAccountOpened',
  'BeginAudit',
  'EndAudit',
  'Hint',
]);

export function isQuery(message: Message): boolean {
  return message.type.startsWith('Get') || message.type.startsWith('List');
}

export function isRepeatable(message: Message): boolean {
  return REPEATABLE_COMMANDS.has(message.type) || isQuery(message);
}

/** What a create is refused for before its idempotency key is looked up (src/domain/decide/decide.ts). */
const SAID_BEFORE_KEYS: ReadonlySet<ErrorCode> = new Set(['invalid_api_key', 'live_mode_not_enabled']);

/** False: an earlier attempt may have been let in, while the API key was still good. */
export function provesNothingDone(message: Message, { code }: Rejection): boolean {
  return isQuery(message) || !SAID_BEFORE_KEYS.has(code);
}
