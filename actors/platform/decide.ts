// What the platform decides: a record to log, or a refusal. Pure; never changes state. A command that comes twice is
// answered twice and logged once.

import { rejection } from '../../src/domain/error-code.ts';
import type { Rejection } from '../../src/domain/error-code.ts';
import type {
  BeginAudit,
  EndAudit,
  MarkAccountOpened,
  PlatformCommand,
  RegisterAccount,
} from '../../src/domain/platform-message.ts';
import type { Decision } from '../runtime/group.ts';
import type { PlatformRecord } from './record.ts';
import type { PlatformState } from './state.ts';

type PlatformDecision = Decision<PlatformRecord>;

export function decide(state: PlatformState, command: PlatformCommand, now: number): PlatformDecision {
  if (command.deadline < now) {
    return { record: null, outcome: { type: 'reply', reply: { type: 'unavailable' } }, answers: null };
  }
  switch (command.type) {
    case 'RegisterAccount':
      return registerAccount(state, command, now);
    case 'MarkAccountOpened':
      return markAccountOpened(state, command, now);
    case 'BeginAudit':
      return beginAudit(state, command, now);
    case 'EndAudit':
      return endAudit(state, command, now);
  }
}

function registerAccount(state: PlatformState, command: RegisterAccount, at: number): PlatformDecision {
  const { accountId: id, name, country, live, payoutsEnabled, withdrawalsEnabled, operator } = command;
  if (state.get('accounts', id) !== null) return done(id);
  const { repeatable = null } = command;
  const known = repeatable === null ? null : state.get('keys', repeatable.idempotencyKey);
  if (known !== null) {
    return known.requestHash === repeatable?.requestHash
      ? done(known.accountId)
      : refuse(rejection('idempotency_key_reused'));
  }
  return done(id, {
    type: 'AccountRegistered',
    at,
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

function endAudit(state: PlatformState, command: EndAudit, at: number): PlatformDecision {
  const { auditId: id, outcome, status, code, objectId = null } = command;
  const entry = state.get('audit', id);
  if (entry === null) return notFound(`There is no audit entry ${id}.`);
  if (entry.outcome !== null) return done(id);
  return done(id, { type: 'AuditEnded', at, id, outcome, status, code, objectId });
}

function done(id: string, record: PlatformRecord | null = null): PlatformDecision {
  const reply = { type: 'done', body: JSON.stringify({ id }), replayed: false } as const;
  return { record, outcome: { type: 'reply', reply }, answers: null };
}

function notFound(message: string): PlatformDecision {
  return refuse(rejection('not_found', message));
}

function refuse(refusal: Rejection): PlatformDecision {
  const reply = { type: 'rejected', rejection: refusal } as const;
  return { record: null, outcome: { type: 'reply', reply }, answers: null };
}
