// Which messages may be sent again when nobody knows what became of them: those that change nothing the second time.

import type { Message } from '../bus/bus.ts';
import type { ErrorCode, Rejection } from '../domain/error-code.ts';

/** Creates carry an idempotency key (without one they are refused); outcomes and timers are facts, and a fact told twice
 *  is the same fact; a hint causes a look, and two cause no more; the platform's ids are made by the sender. The rest are
 *  people's acts: told twice they could act twice, or be refused for having been done. */
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

/** What a create is refused for before anybody looks whether it was done already under its key (src/domain/decide.ts). */
const SAID_BEFORE_KEYS: ReadonlySet<ErrorCode> = new Set(['invalid_api_key', 'live_mode_not_enabled']);

/** False: an attempt before it may have been let in, by a key that was good then. */
export function provesNothingDone(message: Message, { code }: Rejection): boolean {
  return isQuery(message) || !SAID_BEFORE_KEYS.has(code);
}
