// A transaction as a view row: one flat JSON array of its fields in one order, closed lists as numbers, times as milliseconds
// since it was created, status events and journals at the end, each list after its length. Less than half the size of
// an object and three times as fast both ways; the views' size, the checkpoint's speed and every read depend on it.
//
// Views are rebuilt from the log, so this may change at any time: VIEWS_FORMAT (group.ts) then goes up by one.

import { COUNTRIES, CURRENCIES, NETWORKS } from '../../src/domain/country.ts';
import { balanced, LEDGER_ACCOUNTS, type Journal, REASONS, SIDES } from '../../src/domain/ledger.ts';
import { money } from '../../src/domain/money.ts';
import {
  APPROVAL_STATUSES,
  createdAt,
  FAILURE_CODES,
  SOURCES,
  STATUSES,
  type StatusEvent,
  type Transaction,
  TRANSACTION_TYPES,
} from '../../src/domain/transaction.ts';

export function encodeTransaction(transaction: Transaction): string {
  const { failureCode, expiresAt, releaseAt, events, journals } = transaction;
  const at = createdAt(transaction);
  const fields: unknown[] = [
    transaction.id,
    TRANSACTION_TYPES.indexOf(transaction.type),
    transaction.accountId,
    transaction.appId,
    transaction.requestedBy,
    transaction.amount,
    CURRENCIES.indexOf(transaction.currency),
    COUNTRIES.indexOf(transaction.country),
    NETWORKS.indexOf(transaction.network),
    transaction.msisdn,
    transaction.reference,
    transaction.description,
    transaction.narration,
    transaction.metadata,
    transaction.destination,
    transaction.provider,
    transaction.fee,
    at,
    expiresAt === null ? null : expiresAt - at,
    APPROVAL_STATUSES.indexOf(transaction.approvalStatus),
    STATUSES.indexOf(transaction.status),
    failureCode === null ? -1 : FAILURE_CODES.indexOf(failureCode),
    transaction.failureMessage,
    transaction.providerTransactionId,
    submitOf(transaction),
    transaction.answeredAt,
    releaseAt === null ? null : releaseAt - at,
    transaction.released ? 1 : 0,
    transaction.sequence,
    events.length,
  ];
  for (const event of events) pushEvent(fields, event, at);
  fields.push(journals.length);
  for (const journal of journals) pushJournal(fields, journal, at);
  return JSON.stringify(fields);
}
// The submit, as far as it is known; 0 otherwise.
const SUBMITTED = 1;
const UNSENT = 2;

function submitOf({ submitted, unsent }: Transaction): number {
  if (submitted) return SUBMITTED;
  return unsent ? UNSENT : 0;
}

/** Where the status events begin. */
const EVENTS_AT = 30;

function pushEvent(fields: unknown[], event: StatusEvent, at: number): void {
  const { status, source, providerStatus, message } = event;
  fields.push(STATUSES.indexOf(status), SOURCES.indexOf(source), providerStatus, message, event.at - at);
}
const EVENT_FIELDS = 5;

function pushJournal(fields: unknown[], journal: Journal, at: number): void {
  const { reason, currency, entries } = journal;
  fields.push(REASONS.indexOf(reason), CURRENCIES.indexOf(currency), journal.at - at, entries.length);
  for (const { account, side, amount } of entries) {
    fields.push(LEDGER_ACCOUNTS.indexOf(account), SIDES.indexOf(side), amount);
  }
}
const JOURNAL_FIELDS = 4;
const ENTRY_FIELDS = 3;

/** Asserts that every journal still balances. */
export function decodeTransaction(row: string): Transaction {
  const fields = JSON.parse(row);
  const at: number = fields[17];
  const journalsAt = EVENTS_AT + fields[EVENTS_AT - 1] * EVENT_FIELDS;
  return {
    id: fields[0],
    type: TRANSACTION_TYPES[fields[1]]!,
    accountId: fields[2],
    appId: fields[3],
    requestedBy: fields[4],
    amount: fields[5],
    currency: CURRENCIES[fields[6]]!,
    country: COUNTRIES[fields[7]]!,
    network: NETWORKS[fields[8]]!,
    msisdn: fields[9],
    reference: fields[10],
    description: fields[11],
    narration: fields[12],
    metadata: fields[13],
    destination: fields[14],
    provider: fields[15],
    fee: fields[16],
    expiresAt: fields[18] === null ? null : at + fields[18],
    approvalStatus: APPROVAL_STATUSES[fields[19]]!,
    status: STATUSES[fields[20]]!,
    failureCode: fields[21] === -1 ? null : FAILURE_CODES[fields[21]]!,
    failureMessage: fields[22],
    providerTransactionId: fields[23],
    submitted: fields[24] === SUBMITTED,
    unsent: fields[24] === UNSENT,
    events: eventsOf(fields, journalsAt, at),
    journals: journalsOf(fields, journalsAt, at),
    answeredAt: fields[25],
    releaseAt: fields[26] === null ? null : at + fields[26],
    released: fields[27] === 1,
    sequence: fields[28],
  };
}

/** A number, text or null, as they are laid out above. */
type Field = number & string & null;

function eventsOf(fields: readonly Field[], end: number, at: number): StatusEvent[] {
  const events: StatusEvent[] = [];
  for (let i = EVENTS_AT; i < end; i += EVENT_FIELDS) {
    events.push({
      status: STATUSES[fields[i]!]!,
      source: SOURCES[fields[i + 1]!]!,
      providerStatus: fields[i + 2]!,
      message: fields[i + 3]!,
      at: at + fields[i + 4]!,
    });
  }
  return events;
}

/** `start`: of their number. */
function journalsOf(fields: readonly Field[], start: number, at: number): Journal[] {
  const journals: Journal[] = [];
  let i = start + 1;
  for (let left: number = fields[start]!; left > 0; left--) {
    const entriesAt = i + JOURNAL_FIELDS;
    const end = entriesAt + fields[i + 3]! * ENTRY_FIELDS;
    journals.push(
      balanced({
        reason: REASONS[fields[i]!]!,
        currency: CURRENCIES[fields[i + 1]!]!,
        at: at + fields[i + 2]!,
        entries: entriesOf(fields, entriesAt, end),
      }),
    );
    i = end;
  }
  return journals;
}

function entriesOf(fields: readonly Field[], start: number, end: number): Journal['entries'] {
  const entries: Journal['entries'][number][] = [];
  for (let i = start; i < end; i += ENTRY_FIELDS) {
    entries.push({
      account: LEDGER_ACCOUNTS[fields[i]!]!,
      side: SIDES[fields[i + 1]!]!,
      amount: money(fields[i + 2]!),
    });
  }
  return entries;
}
