// A transaction as a view row: a JSON array of its fields in one order, closed lists as numbers. Half the size of an object and
// twice as fast both ways; the views' size and the checkpoint's speed depend on it.
//
// Views are rebuilt from the log, so this may change at any time: VIEWS_FORMAT (group.ts) then goes up by one.

import { COUNTRIES, CURRENCIES, NETWORKS } from '../../src/domain/country.ts';
import { balanced, LEDGER_ACCOUNTS, type Journal, REASONS, SIDES } from '../../src/domain/ledger.ts';
import { money } from '../../src/domain/money.ts';
import {
  APPROVAL_STATUSES,
  FAILURE_CODES,
  SOURCES,
  STATUSES,
  type StatusEvent,
  type Transaction,
  TRANSACTION_TYPES,
} from '../../src/domain/transaction.ts';

export function encodeTransaction(transaction: Transaction): string {
  const { failureCode } = transaction;
  return JSON.stringify([
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
    transaction.expiresAt,
    APPROVAL_STATUSES.indexOf(transaction.approvalStatus),
    STATUSES.indexOf(transaction.status),
    failureCode === null ? -1 : FAILURE_CODES.indexOf(failureCode),
    transaction.failureMessage,
    transaction.providerTransactionId,
    transaction.submitted ? 1 : 0,
    transaction.events.flatMap(eventFields),
    transaction.journals.map(journalFields),
    transaction.answeredAt,
    transaction.releaseAt,
    transaction.released ? 1 : 0,
    transaction.sequence,
  ]);
}

function eventFields({ status, source, providerStatus, message, at }: StatusEvent): unknown[] {
  return [STATUSES.indexOf(status), SOURCES.indexOf(source), providerStatus, message, at];
}
const EVENT_FIELDS = 5;

function journalFields({ reason, currency, at, entries }: Journal): number[] {
  const fields = [REASONS.indexOf(reason), CURRENCIES.indexOf(currency), at];
  for (const { account, side, amount } of entries) {
    fields.push(LEDGER_ACCOUNTS.indexOf(account), SIDES.indexOf(side), amount);
  }
  return fields;
}
const JOURNAL_FIELDS = 3;
const ENTRY_FIELDS = 3;

/** Asserts that every journal still balances. */
export function decodeTransaction(row: string): Transaction {
  const fields = JSON.parse(row);
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
    expiresAt: fields[17],
    approvalStatus: APPROVAL_STATUSES[fields[18]]!,
    status: STATUSES[fields[19]]!,
    failureCode: fields[20] === -1 ? null : FAILURE_CODES[fields[20]]!,
    failureMessage: fields[21],
    providerTransactionId: fields[22],
    submitted: fields[23] === 1,
    events: eventsOf(fields[24]),
    journals: (fields[25] as number[][]).map(journalOf),
    answeredAt: fields[26],
    releaseAt: fields[27],
    released: fields[28] === 1,
    sequence: fields[29],
  };
}

/** A number, text or null, as `eventFields` lays them out. */
type EventField = number & string & null;

function eventsOf(fields: readonly EventField[]): StatusEvent[] {
  const events: StatusEvent[] = [];
  for (let i = 0; i < fields.length; i += EVENT_FIELDS) {
    events.push({
      status: STATUSES[fields[i]!]!,
      source: SOURCES[fields[i + 1]!]!,
      providerStatus: fields[i + 2]!,
      message: fields[i + 3]!,
      at: fields[i + 4]!,
    });
  }
  return events;
}

function journalOf(fields: readonly number[]): Journal {
  const entries: Journal['entries'][number][] = [];
  for (let i = JOURNAL_FIELDS; i < fields.length; i += ENTRY_FIELDS) {
    entries.push({
      account: LEDGER_ACCOUNTS[fields[i]!]!,
      side: SIDES[fields[i + 1]!]!,
      amount: money(fields[i + 2]!),
    });
  }
  return balanced({
    reason: REASONS[fields[0]!]!,
    currency: CURRENCIES[fields[1]!]!,
    at: fields[2]!,
    entries,
  });
}
