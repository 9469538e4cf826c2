// Records of the platform group's log, and how they are written: one JSON array a line, a letter first, then the time,
// then the fields in the order below. This is a format: a field is only ever added at the end, with a default for lines
// that lack it, and a letter is never used again for something else. A line that this version does not know in full is refused, not
// guessed: it was written by a newer one.
//
//   R time id name country live payoutsEnabled withdrawalsEnabled operator    an account was registered
//     [idempotencyKey requestHash]                                            … by a command that may be sent again
//   O time id                                                                 … and opened
//   B time id operator action target body                                     an operator's change was begun
//   E time id outcome status code                                             … and ended
//     [objectId]                                                              … having made this

import { assert } from '../../src/domain/assert.ts';
import type { NewAccount, Repeatable } from '../../src/domain/account-command.ts';
import type { Country } from '../../src/domain/country.ts';
import type { AuditOutcome } from '../../src/domain/platform-message.ts';

export interface AccountRegistered extends NewAccount {
  readonly type: 'AccountRegistered';
  /** Milliseconds since 1970, as in every record. */
  readonly at: number;
  readonly id: string;
  readonly repeatable: Repeatable | null;
}
export interface RegisteredAccountOpened {
  readonly type: 'RegisteredAccountOpened';
  readonly at: number;
  readonly id: string;
}
export interface AuditBegun {
  readonly type: 'AuditBegun';
  readonly at: number;
  readonly id: string;
  readonly operator: string;
  readonly action: string;
  readonly target: string;
  readonly body: string | null;
}
export interface AuditEnded {
  readonly type: 'AuditEnded';
  readonly at: number;
  readonly id: string;
  readonly outcome: AuditOutcome;
  readonly status: number | null;
  readonly code: string | null;
  readonly objectId: string | null;
}

export type PlatformRecord = AccountRegistered | RegisteredAccountOpened | AuditBegun | AuditEnded;

export function encodePlatformRecord(record: PlatformRecord): string {
  return JSON.stringify(fieldsOf(record));
}

function fieldsOf(record: PlatformRecord): readonly unknown[] {
  const { at, id } = record;
  switch (record.type) {
    case 'AccountRegistered':
      return [
        'R',
        at,
        id,
        record.name,
        record.country,
        record.live,
        record.payoutsEnabled,
        record.withdrawalsEnabled,
        record.operator,
        ...(record.repeatable === null
          ? []
          : [record.repeatable.idempotencyKey, record.repeatable.requestHash]),
      ];
    case 'RegisteredAccountOpened':
      return ['O', at, id];
    case 'AuditBegun':
      return ['B', at, id, record.operator, record.action, record.target, record.body];
    case 'AuditEnded':
      return [
        'E',
        at,
        id,
        record.outcome,
        record.status,
        record.code,
        ...(record.objectId === null ? [] : [record.objectId]),
      ];
  }
}

/** Of each letter, its own place counted: a record with more is of a later version. A test holds the newest golden log to have them all, so
 *  that none is added without a record format of its own (src/domain/record-format.ts). */
export const FIELDS_MAX: Readonly<Record<string, number>> = { R: 11, O: 3, B: 7, E: 7 };

/** Throws AssertionFailure on a line that this version of this file does not write. */
export function decodePlatformRecord(line: string): PlatformRecord {
  const fields: unknown = JSON.parse(line);
  assert(Array.isArray(fields), 'a platform record is a JSON array');
  const letter: unknown = fields[0];
  assert(
    fields.length <= (FIELDS_MAX[String(letter)] ?? 0),
    'a platform record has fields and a letter of the format',
  );
  if (letter === 'R') return registered(fields as RegisteredFields);
  if (letter === 'O') return opened(fields as OpenedFields);
  if (letter === 'B') return begun(fields as BegunFields);
  assert(letter === 'E', 'a platform record starts with a letter of the format');
  return ended(fields as EndedFields);
}

type RegisteredFields = [
  ...[string, number, string, string, Country, boolean, boolean, boolean, string],
  idempotencyKey?: string,
  requestHash?: string,
];
type OpenedFields = [string, number, string];
type BegunFields = [string, number, string, string, string, string, string | null];
type EndedFields = [
  ...[string, number, string, AuditOutcome, number | null, string | null],
  objectId?: string | null,
];

function registered(fields: RegisteredFields): AccountRegistered {
  const [, at, id, name, country, live, payoutsEnabled, withdrawalsEnabled, operator, ...rest] = fields;
  const [idempotencyKey, requestHash = ''] = rest;
  return {
    type: 'AccountRegistered',
    at,
    id,
    name,
    country,
    live,
    payoutsEnabled,
    withdrawalsEnabled,
    operator,
    repeatable: idempotencyKey === undefined ? null : { idempotencyKey, requestHash },
  };
}

function opened([, at, id]: OpenedFields): RegisteredAccountOpened {
  return { type: 'RegisteredAccountOpened', at, id };
}

function begun([, at, id, operator, action, target, body]: BegunFields): AuditBegun {
  return { type: 'AuditBegun', at, id, operator, action, target, body };
}

function ended([, at, id, outcome, status, code, objectId = null]: EndedFields): AuditEnded {
  return { type: 'AuditEnded', at, id, outcome, status, code, objectId };
}
