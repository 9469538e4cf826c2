// The format of a log record: one line of JSON, as short as is cheap.
//
//   [account, at, [code, field, …], …]         one inner array per event
//
//   account, ids     24 characters: without the suffix "00" and, where the event says the kind, without the prefix. An id that may
//                    be of any type of transaction keeps its prefix's first letter: 25. Others are written whole.
//   closed lists     index in the list (country, currency, network, source, failure code, …)
//   due times        milliseconds after `at`
//   msisdn           a number
//   nulls            at the end of an event are left out
//
// How it may change. Codes are never reused, and closed lists only grow at their ends. A field is only ever added after
// the last one of its event, and must take null (absent in older records) with the meaning that older records had.
// Anything else is a new event with a new code. A record that this version does not know in full is refused, not guessed:
// it was written by a newer version. Golden records of every released version stay in test/golden.

import { ROLES } from './account.ts';
import type { AccountSettings } from './account.ts';
import { type AccountEvent, type AccountRecord, RECONCILIATION_KINDS } from './account-event.ts';
import { assert } from './assert.ts';
import { compileFields, type CompiledFields, type Field } from './compiled-fields.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from './country.ts';
import { BODY_LENGTH, ID_PREFIXES, type IdKind, PREFIX_LENGTH } from './id.ts';
import type { Money } from './money.ts';
import { FAILURE_CODES, type Metadata, SOURCES } from './transaction.ts';

/** A record that this version cannot read: written by a newer one, or damaged. */
export class RecordUnreadable extends Error {
  override readonly name = 'RecordUnreadable';
}

/** An event has a name that this version's closed lists have not: a command of a newer version asked for it. */
export class UnknownName extends Error {
  override readonly name = 'UnknownName';
}

// --- Kinds of field --------------------------------------------------------------------------------------------------

function unreadable(expected: string, json: unknown): never {
  throw new RecordUnreadable(`expected ${expected}, found ${JSON.stringify(json)}`);
}

const FULL_LENGTH = PREFIX_LENGTH + BODY_LENGTH;
const SHORT_LENGTH = BODY_LENGTH - 2;
/** Character code of "0". */
const ZERO = 48;

/** Suffix "00": an object itself, not something derived from one. */
function endsInZeros(id: string): boolean {
  return id.charCodeAt(FULL_LENGTH - 1) === ZERO && id.charCodeAt(FULL_LENGTH - 2) === ZERO;
}

function idOf(kind: IdKind): Field<string> {
  const prefix = ID_PREFIXES[kind];
  return {
    encode(id) {
      if (id.length === FULL_LENGTH && id.startsWith(prefix) && endsInZeros(id)) {
        return id.slice(PREFIX_LENGTH, PREFIX_LENGTH + SHORT_LENGTH);
      }
      assert(id.length !== SHORT_LENGTH, 'an id written whole is not taken for a short one');
      return id;
    },
    decode(json) {
      const text = typeof json === 'string' ? json : unreadable('an id', json);
      return text.length === SHORT_LENGTH ? `${prefix}${text}00` : text;
    },
  };
}

const LETTERS: Readonly<Record<string, string>> = { c: 'chg_', p: 'pyt_', w: 'wdl_', d: 'dep_', r: 'ref_' };
const LETTER_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(LETTERS).map(([letter, prefix]) => [prefix, letter]),
);

const transactionId: Field<string> = {
  encode(id) {
    const letter = LETTER_OF.get(id.slice(0, PREFIX_LENGTH));
    if (letter !== undefined && id.length === FULL_LENGTH && endsInZeros(id)) {
      return letter + id.slice(PREFIX_LENGTH, PREFIX_LENGTH + SHORT_LENGTH);
    }
    assert(id.length !== SHORT_LENGTH + 1, 'an id written whole is not taken for a short one');
    return id;
  },
  decode(json) {
    const text = typeof json === 'string' ? json : unreadable('an id', json);
    if (text.length !== SHORT_LENGTH + 1) return text;
    return `${LETTERS[text.charAt(0)] ?? unreadable('the id of a transaction', json)}${text.slice(1)}00`;
  },
};

const text: Field<string> = {
  encode: (value) => value,
  decode: (json) => (typeof json === 'string' ? json : unreadable('a text', json)),
};

const integer: Field<number> = {
  encode: (value) => value,
  decode: (json) =>
    typeof json === 'number' && Number.isSafeInteger(json) ? json : unreadable('an integer', json),
};

const amount: Field<Money> = {
  encode: (value) => value,
  decode: (json) => integer.decode(json, 0) as Money,
};

const flag: Field<boolean> = {
  encode: (value) => (value ? 1 : 0),
  decode: (json) => (json === 1 || json === 0 ? json === 1 : unreadable('0 or 1', json)),
};

/** Added to what was written without it: where it is false, nothing is written. */
const flagOrAbsent: Field<boolean> = {
  encode: (value) => (value ? 1 : null),
  decode: (json, at) => json !== null && json !== undefined && flag.decode(json, at),
};

/** After the record's own time. */
const dueTime: Field<number> = {
  encode: (value, at) => value - at,
  decode: (json, at) => integer.decode(json, at) + at,
};

const phoneNumber: Field<string> = {
  encode(value) {
    const digits = Number(value);
    assert(
      Number.isSafeInteger(digits) && !value.startsWith('0'),
      'an msisdn is digits without a leading zero',
    );
    return digits;
  },
  decode: (json) => String(integer.decode(json, 0)),
};

function oneOf<T extends string>(list: readonly T[]): Field<T> {
  return {
    encode(value) {
      const index = list.indexOf(value);
      if (index < 0) throw new UnknownName(`${value} is not in its closed list`);
      return index;
    },
    decode: (json) => list[integer.decode(json, 0)] ?? unreadable('an index of a closed list', json),
  };
}

const metadata: Field<Metadata> = {
  encode: (value) => value,
  decode: (json) => (isObject(json) ? (json as Metadata) : unreadable('metadata', json)),
};

const settings: Field<AccountSettings> = {
  encode: (value) => value,
  decode: (json) => (isObject(json) ? (json as unknown as AccountSettings) : unreadable('settings', json)),
};

function isObject(json: unknown): json is object {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

function orNull<T>(field: Field<T>): Field<T | null> {
  return {
    encode: (value, at) => (value === null ? null : field.encode(value, at)),
    decode: (json, at) => (json === null || json === undefined ? null : field.decode(json, at)),
  };
}

// --- The table -------------------------------------------------------------------------------------------------------

type EventOf<T extends AccountEvent['type']> = Extract<AccountEvent, { type: T }>;

/** The order of `fields` is the order in the log. Every event and every field of it must have its place here. */
type Table = {
  readonly [T in AccountEvent['type']]: {
    readonly code: number;
    readonly fields: { readonly [F in Exclude<keyof EventOf<T>, 'type'>]: Field<EventOf<T>[F]> };
  };
};

const source = oneOf(SOURCES);
const optionalText = orNull(text);

/** Fields that every created transaction starts with; optional ones that are mostly null come after, in the rows below. */
const created = {
  amount,
  fee: amount,
  currency: oneOf(CURRENCIES),
  country: oneOf(COUNTRIES),
  network: oneOf(NETWORKS),
  msisdn: phoneNumber,
  reference: text,
  provider: text,
} as const;

const origin = {
  appId: orNull(idOf('app')),
  idempotencyKey: optionalText,
  requestHash: optionalText,
  requestedBy: orNull(idOf('user')),
  metadata: orNull(metadata),
} as const;

const TABLE: Table = {
  ChargeCreated: {
    code: 1,
    fields: { id: idOf('charge'), ...created, expiresAt: dueTime, ...origin, description: optionalText },
  },
  DepositCreated: {
    code: 2,
    fields: { id: idOf('deposit'), ...created, expiresAt: dueTime, ...origin, description: optionalText },
  },
  PayoutCreated: {
    code: 3,
    fields: { id: idOf('payout'), ...created, ...origin, narration: optionalText },
  },
  WithdrawalCreated: {
    code: 4,
    fields: {
      id: idOf('withdrawal'),
      ...created,
      destination: idOf('wallet'),
      approvalRequired: flag,
      ...origin,
      narration: optionalText,
      unsent: flagOrAbsent,
    },
  },
  WithdrawalApproved: { code: 5, fields: { id: transactionId, by: idOf('user') } },
  WithdrawalRejected: { code: 6, fields: { id: transactionId, by: idOf('user') } },
  SubmissionAccepted: { code: 7, fields: { id: transactionId, providerStatus: optionalText } },
  AnswerFixed: { code: 8, fields: { id: transactionId } },
  TransactionSucceeded: {
    code: 9,
    fields: {
      id: transactionId,
      source,
      releaseAt: orNull(dueTime),
      providerStatus: optionalText,
      providerTransactionId: optionalText,
    },
  },
  TransactionFailed: {
    code: 10,
    fields: {
      id: transactionId,
      source,
      failureCode: oneOf(FAILURE_CODES),
      providerStatus: optionalText,
      failureMessage: optionalText,
    },
  },
  ChargeReleased: { code: 11, fields: { id: transactionId } },
  ChargeReversed: { code: 12, fields: { id: transactionId, source, providerStatus: optionalText } },
  ReconciliationRaised: {
    code: 13,
    fields: { id: text, kind: oneOf(RECONCILIATION_KINDS), transactionId: optionalText, detail: text },
  },
  ReconciliationResolved: { code: 14, fields: { id: text, by: text, resolution: text } },
  AccountOpened: { code: 15, fields: { name: text, country: oneOf(COUNTRIES), settings } },
  AccountSettingsChanged: { code: 16, fields: { settings, by: text } },
  UserAdded: { code: 17, fields: { id: idOf('user'), email: text, role: oneOf(ROLES), by: text } },
  AppConnected: {
    code: 18,
    fields: {
      id: idOf('app'),
      name: text,
      domain: text,
      webhookUrl: optionalText,
      publishableKey: text,
      secretKeyHash: text,
      signingSecretSealed: text,
      by: text,
    },
  },
  AppWebhookChanged: { code: 19, fields: { id: idOf('app'), webhookUrl: optionalText, by: text } },
  AppRemoved: { code: 20, fields: { id: idOf('app'), by: text } },
  WalletAdded: {
    code: 21,
    fields: {
      id: idOf('wallet'),
      label: text,
      country: oneOf(COUNTRIES),
      network: oneOf(NETWORKS),
      msisdn: phoneNumber,
      by: idOf('user'),
    },
  },
  WalletApproved: { code: 22, fields: { id: idOf('wallet'), activeAt: dueTime, by: idOf('user') } },
  WalletActivated: { code: 23, fields: { id: idOf('wallet') } },
  WalletRevoked: { code: 24, fields: { id: idOf('wallet'), by: idOf('user') } },
  SubmissionBegun: { code: 25, fields: { id: transactionId } },
  UserRoleChanged: { code: 26, fields: { id: idOf('user'), role: oneOf(ROLES), by: text } },
  UserRemoved: { code: 27, fields: { id: idOf('user'), by: text } },
};

// --- Encoding and decoding -------------------------------------------------------------------------------------------

interface Row extends CompiledFields<AccountEvent> {
  readonly type: AccountEvent['type'];
  readonly code: number;
  /** How many fields it has. */
  readonly width: number;
}

const ROWS: readonly Row[] = Object.entries(TABLE).map(([name, { code, fields }]) => {
  const type = name as AccountEvent['type'];
  return {
    type,
    code,
    width: Object.keys(fields).length,
    ...compileFields<AccountEvent>(type, code, fields),
  };
});
const ROW_OF_TYPE: ReadonlyMap<AccountEvent['type'], Row> = new Map(ROWS.map((row) => [row.type, row]));
const ROW_OF_CODE: readonly (Row | undefined)[] = byCode();

function byCode(): (Row | undefined)[] {
  const rows: (Row | undefined)[] = [];
  for (const row of ROWS) {
    assert(rows[row.code] === undefined, 'a code belongs to one event');
    rows[row.code] = row;
  }
  return rows;
}

const accountId = idOf('account');

/** Throws UnknownName. */
export function encodeRecord(record: AccountRecord): string {
  const { at, events } = record;
  // Most records have one event: no room is made for more.
  const line = [accountId.encode(record.accountId, at), at, encodeEvent(events[0], at)];
  for (let i = 1; i < events.length; i++) line.push(encodeEvent(events[i], at));
  return JSON.stringify(line);
}

function encodeEvent(event: AccountEvent | undefined, at: number): unknown[] {
  assert(event !== undefined, 'a record has an event');
  const row = ROW_OF_TYPE.get(event.type);
  assert(row !== undefined, 'every event has a row');
  return row.encode(event, at);
}

/** Throws RecordUnreadable for what this version did not write. */
export function decodeRecord(line: string): AccountRecord {
  const json = parse(line);
  if (!Array.isArray(json) || json.length < 3) unreadable('a record', json);
  const at = integer.decode(json[1], 0);
  const events = [decodeEvent(json[2], at)];
  for (let i = 3; i < json.length; i++) events.push(decodeEvent(json[i], at));
  return { accountId: accountId.decode(json[0], at), at, events };
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new RecordUnreadable(`not JSON: ${line.slice(0, 80)}`);
  }
}

function decodeEvent(json: unknown, at: number): AccountEvent {
  if (!Array.isArray(json)) unreadable('an event', json);
  const code: unknown = json[0];
  const row = typeof code === 'number' ? ROW_OF_CODE[code] : undefined;
  if (row === undefined) {
    throw new RecordUnreadable(`unknown event code ${String(code)}: a newer version wrote it`);
  }
  if (json.length > row.width + 1) {
    throw new RecordUnreadable(
      `${row.type} has ${json.length - 1} fields, not ${row.width}: a newer version wrote it`,
    );
  }
  return row.decode(json, at);
}
