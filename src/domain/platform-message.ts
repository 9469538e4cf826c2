// Commands and queries of the platform group: the registry of accounts and the operators' audit log. Plain JSON, as they
// travel over the bus to group 'platform', partition 0.
//
// Ids are made by the sender, so that a command sent again (an answer was lost) changes nothing the second time.

import type { NewAccount, Repeatable } from './account-command.ts';

interface ForPlatform {
  /** Milliseconds since 1970; past it the message is dropped undecided. */
  readonly deadline: number;
}

/** Everything that opening the account needs is kept, so that a registered account can be opened after a crash. */
export interface RegisterAccount extends ForPlatform, NewAccount {
  readonly type: 'RegisterAccount';
  readonly accountId: string;
}
/** With a key that came before the answer names the account of that time. A type of its own: a node of an older version would pass over
 *  the key, and make an account of each. */
export interface RegisterKeyedAccount extends ForPlatform, NewAccount {
  readonly type: 'RegisterKeyedAccount';
  readonly accountId: string;
  readonly repeatable: Repeatable;
}
/** The accounts group has the account. */
export interface MarkAccountOpened extends ForPlatform {
  readonly type: 'MarkAccountOpened';
  readonly accountId: string;
}
/** Written before an operator's change is made: what is about to be done, by whom. */
export interface BeginAudit extends ForPlatform {
  readonly type: 'BeginAudit';
  readonly auditId: string;
  readonly operator: string;
  /** Method and path template, e.g. "POST /operator/v1/accounts/:id/apps". */
  readonly action: string;
  /** Path of the request. */
  readonly target: string;
  /** JSON text, secrets and phone numbers redacted; null: no body. */
  readonly body: string | null;
}
/** Written after it: what came of it. An entry without an outcome is a change that nobody saw the end of. */
export interface EndAudit extends ForPlatform {
  readonly type: 'EndAudit';
  readonly auditId: string;
  readonly outcome: AuditOutcome;
  /** HTTP status that the operator got (null: none), and the error code if it was refused. */
  readonly status: number | null;
  readonly code: string | null;
  /** Of what was made. Absent, from a version before 2026-11-27, or null: nothing was. */
  readonly objectId?: string | null;
}

/** 'unknown': sent, and no answer came; it may have been done. */
export const AUDIT_OUTCOMES = ['done', 'refused', 'unknown'] as const;
export type AuditOutcome = (typeof AUDIT_OUTCOMES)[number];

/** Newest first. Body: {object: 'list', data: [{id, object: 'account', name, country, opened, created_at}], has_more,
 *  next_cursor}. */
export interface ListAccounts extends ForPlatform {
  readonly type: 'ListAccounts';
  readonly limit: number;
  /** An account's id. */
  readonly startingAfter: string | null;
}
/** Accounts registered and not known to be opened. Body: {data: RegisteredAccount[]}, at most `limit`, oldest first. */
export interface ListUnopenedAccounts extends ForPlatform {
  readonly type: 'ListUnopenedAccounts';
  readonly limit: number;
}
/** Newest first. Body: {object: 'list', data: [{id, object: 'audit_entry', operator, action, target, body, outcome,
 *  status, code, object_id, created_at, ended_at}], has_more, next_cursor}. */
export interface GetAudit extends ForPlatform {
  readonly type: 'GetAudit';
  readonly limit: number;
  /** An entry's id. */
  readonly startingAfter: string | null;
}

export interface RegisteredAccount extends NewAccount {
  readonly id: string;
}

export type PlatformCommand =
  RegisterAccount | RegisterKeyedAccount | MarkAccountOpened | BeginAudit | EndAudit;
export type PlatformQuery = ListAccounts | ListUnopenedAccounts | GetAudit;
