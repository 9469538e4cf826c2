// What the platform decides: a record to log, or a refusal. Pure; never changes state. A command that comes twice is
// answered twice and logged once. One past its deadline does not get here (actors/runtime/partition.ts).

import { doneReply, rejectedReply } from '../../src/bus/bus.ts';
import type { Repeatable } from '../../src/domain/account-command.ts';
import { rejection } from '../../src/domain/error-code.ts';
import type { Rejection } from '../../src/domain/error-code.ts';
import type {
  BeginAudit,
  EndAudit,
  MarkAccountOpened,
  PlatformCommand,
  RegisterAccount,
  RegisterKeyedAccount,
} from '../../src/domain/platform-message.ts';
import { MADE_KNOWN_FORMAT } from '../../src/domain/record-format.ts';
import { decided, type Decision, type Tick } from '../runtime/group.ts';
import type { PlatformRecord } from './record.ts';
import type { PlatformState } from './state.ts';

type PlatformDecision = Decision<PlatformRecord>;

export function decide(state: PlatformState, command: PlatformCommand, tick: Tick): PlatformDecision {
  switch (command.type) {
    case 'RegisterAccount':
    case 'RegisterKeyedAccount':
      return registerAccount(state, command, tick);
    case 'MarkAccountOpened':
      return markAccountOpened(state, command, tick.now);
    case 'BeginAudit':
      return beginAudit(state, command, tick.now);
    case 'EndAudit':
      return endAudit(state, command, tick);
  }
}

function registerAccount(
  state: PlatformState,
  command: RegisterAccount | RegisterKeyedAccount,
  tick: Tick,
): PlatformDecision {
  const { accountId: id, name, country, live, payoutsEnabled, withdrawalsEnabled, operator } = command;
  if (state.get('accounts', id) !== null) return done(id);
  const repeatable = command.type === 'RegisterKeyedAccount' ? command.repeatable : null;
  const repeated = repeatable === null ? null : checkKey(state, repeatable, tick);
  if (repeated !== null) return repeated;
  return done(id, {
    type: 'AccountRegistered',
    at: tick.now,
    id,
    name,
    country,
    live,
    payoutsEnabled,
    withdrawalsEnabled,
    operator,
    repeatable,
  });
}

/** Null: an account is to be made under this key. */
function checkKey(
  state: PlatformState,
  { idempotencyKey, requestHash }: Repeatable,
  tick: Tick,
): PlatformDecision | null {
  const known = state.get('keys', idempotencyKey);
  if (known === null) return tick.writeFormat < MADE_KNOWN_FORMAT ? refuse(keysUnknown(tick)) : null;
  if (known.requestHash === requestHash) return done(known.accountId);
  return refuse(rejection('idempotency_key_reused'));
}

/** Nodes of older versions would pass over the key: whoever counted on it would have a second account. */
function keysUnknown({ writeFormat }: Tick): Rejection {
  const message = `Records are written in format ${writeFormat}, which has no idempotency keys of accounts`;
  return rejection('conflict', `${message}: raise it first, or send none.`);
}

function markAccountOpened(state: PlatformState, command: MarkAccountOpened, at: number): PlatformDecision {
  const id = command.accountId;
  const account = state.get('accounts', id);
  if (account === null) return notFound(`There is no registered account ${id}.`);
  if (account.openedAt !== null) return done(id);
  return done(id, { type: 'RegisteredAccountOpened', at, id });
}

function beginAudit(state: PlatformState, command: BeginAudit, at: number): PlatformDecision {
  const { auditId: id, operator, action, target, body } = command;
  if (state.get('audit', id) !== null) return done(id);
  return done(id, { type: 'AuditBegun', at, id, operator, action, target, body });
}

function endAudit(state: PlatformState, command: EndAudit, tick: Tick): PlatformDecision {
  const { auditId: id, outcome, status, code } = command;
  const entry = state.get('audit', id);
  if (entry === null) return notFound(`There is no audit entry ${id}.`);
  if (entry.outcome !== null) return done(id);
  const objectId = tick.writeFormat < MADE_KNOWN_FORMAT ? null : (command.objectId ?? null);
  return done(id, { type: 'AuditEnded', at: tick.now, id, outcome, status, code, objectId });
}

function done(id: string, record: PlatformRecord | null = null): PlatformDecision {
  return decided(record, doneReply(JSON.stringify({ id })));
}

function notFound(message: string): PlatformDecision {
  return refuse(rejection('not_found', message));
}

function refuse(refusal: Rejection): PlatformDecision {
  return decided<PlatformRecord>(null, rejectedReply(refusal));
}
