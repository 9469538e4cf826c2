// A transaction as a view row: one flat JSON array, as few fields as there are, because each costs a reader 25 ns. What comes
// from closed lists is packed into one number, times are milliseconds since it was created, what is mostly null stands
// at the end and is left out there. The views' size, the checkpoint's speed and every read depend on it.
//
//   id, codes, account, app, amount, msisdn, reference, provider, fee, created at, expires after, answered at, sequence
//   number of events, then each:    codes, after, provider status (if any), message (if any)
//   number of journals, then each:  codes, after, number of entries, then each: codes, amount
//   released after, provider's id, description, metadata, narration, destination, requested by, failure message
//
// Views are rebuilt from the log, so this may change at any time: VIEWS_FORMAT (group.ts) then goes up by one.

import { assert } from '../../src/domain/assert.ts';
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

// --- Codes: indices of closed lists and flags, each in bits of its own --------------------------------------------------

const BITS = 4;
const MASK = (1 << BITS) - 1;
const TYPE = 0;
const STATUS = TYPE + BITS;
const APPROVAL = STATUS + BITS;
const CURRENCY = APPROVAL + BITS;
const COUNTRY = CURRENCY + BITS;
const NETWORK = COUNTRY + BITS;
/** 0: none. */
const FAILURE = NETWORK + BITS;
const SUBMITTED = 1 << (FAILURE + BITS);
const RELEASED = SUBMITTED << 1;

const EVENT_STATUS = 0;
const EVENT_SOURCE = EVENT_STATUS + BITS;
const HAS_PROVIDER_STATUS = 1 << (EVENT_SOURCE + BITS);
const HAS_MESSAGE = HAS_PROVIDER_STATUS << 1;

const REASON = 0;
const JOURNAL_CURRENCY = REASON + BITS;

const LEDGER_ACCOUNT = 0;
const SIDE = LEDGER_ACCOUNT + BITS;

for (const list of [
  TRANSACTION_TYPES,
  STATUSES,
  APPROVAL_STATUSES,
  CURRENCIES,
  COUNTRIES,
  NETWORKS,
  ['none', ...FAILURE_CODES],
  SOURCES,
  REASONS,
  LEDGER_ACCOUNTS,
  SIDES,
]) {
  assert(list.length <= MASK + 1, 'a closed list fits its bits');
}

function codesOf(transaction: Transaction): number {
  const { type, status, approvalStatus, currency, country, network, failureCode } = transaction;
  return (
    (TRANSACTION_TYPES.indexOf(type) << TYPE) |
    (STATUSES.indexOf(status) << STATUS) |
    (APPROVAL_STATUSES.indexOf(approvalStatus) << APPROVAL) |
    (CURRENCIES.indexOf(currency) << CURRENCY) |
    (COUNTRIES.indexOf(country) << COUNTRY) |
    (NETWORKS.indexOf(network) << NETWORK) |
    (failureCode === null ? 0 : (FAILURE_CODES.indexOf(failureCode) + 1) << FAILURE) |
    (transaction.submitted ? SUBMITTED : 0) |
    (transaction.released ? RELEASED : 0)
  );
}

// --- Writing -------------------------------------------------------------------------------------------------------------

export function encodeTransaction(transaction: Transaction): string {
  const { expiresAt, releaseAt, events, journals } = transaction;
  const at = createdAt(transaction);
  const fields: unknown[] = [
    transaction.id,
    codesOf(transaction),
    transaction.accountId,
    transaction.appId,
    transaction.amount,
    transaction.msisdn,
    transaction.reference,
    transaction.provider,
    transaction.fee,
    at,
    expiresAt === null ? null : expiresAt - at,
    transaction.answeredAt,
    transaction.sequence,
    events.length,
  ];
  for (const event of events) pushEvent(fields, event, at);
  fields.push(journals.length);
  for (const journal of journals) pushJournal(fields, journal, at);
  const always = fields.length;
  fields.push(
    releaseAt === null ? null : releaseAt - at,
    transaction.providerTransactionId,
    transaction.description,
    transaction.metadata,
    transaction.narration,
    transaction.destination,
    transaction.requestedBy,
    transaction.failureMessage,
  );
  while (fields.length > always && fields.at(-1) === null) fields.pop();
  return JSON.stringify(fields);
}

function pushEvent(fields: unknown[], event: StatusEvent, at: number): void {
  const { status, source, providerStatus, message } = event;
  const codes =
    (STATUSES.indexOf(status) << EVENT_STATUS) |
    (SOURCES.indexOf(source) << EVENT_SOURCE) |
    (providerStatus === null ? 0 : HAS_PROVIDER_STATUS) |
    (message === null ? 0 : HAS_MESSAGE);
  fields.push(codes, event.at - at);
  if (providerStatus !== null) fields.push(providerStatus);
  if (message !== null) fields.push(message);
}

function pushJournal(fields: unknown[], { reason, currency, at, entries }: Journal, since: number): void {
  const codes = (REASONS.indexOf(reason) << REASON) | (CURRENCIES.indexOf(currency) << JOURNAL_CURRENCY);
  fields.push(codes, at - since, entries.length);
  for (const { account, side, amount } of entries) {
    fields.push((LEDGER_ACCOUNTS.indexOf(account) << LEDGER_ACCOUNT) | (SIDES.indexOf(side) << SIDE), amount);
  }
}

// --- Reading -------------------------------------------------------------------------------------------------------------

/** A number, text or null, as they are laid out above. */
type Field = number & string & null;

/** Reads the fields of one row, one after the other. */
class Cursor {
  readonly #fields: readonly Field[];
  #next: number;

  constructor(fields: readonly Field[], first: number) {
    this.#fields = fields;
    this.#next = first;
  }

  take(): Field {
    return this.#fields[this.#next++]!;
  }

  /** Of those that are left out at the end. */
  takeOrNull(): Field | null {
    return this.#fields[this.#next++] ?? null;
  }
}

/** Asserts that every journal still balances. */
export function decodeTransaction(row: string): Transaction {
  const fields = JSON.parse(row);
  const codes: number = fields[1];
  const at: number = fields[9];
  const failure = (codes >> FAILURE) & MASK;
  const rest = new Cursor(fields, 13);
  const events = takeEvents(rest, at);
  const journals = takeJournals(rest, at);
  const releaseAfter = rest.takeOrNull();
  const providerTransactionId = rest.takeOrNull();
  const description = rest.takeOrNull();
  const metadata = rest.takeOrNull() as Transaction['metadata'];
  const narration = rest.takeOrNull();
  const destination = rest.takeOrNull();
  const requestedBy = rest.takeOrNull();
  return {
    id: fields[0],
    type: TRANSACTION_TYPES[(codes >> TYPE) & MASK]!,
    accountId: fields[2],
    appId: fields[3],
    requestedBy,
    amount: fields[4],
    currency: CURRENCIES[(codes >> CURRENCY) & MASK]!,
    country: COUNTRIES[(codes >> COUNTRY) & MASK]!,
    network: NETWORKS[(codes >> NETWORK) & MASK]!,
    msisdn: fields[5],
    reference: fields[6],
    description,
    narration,
    metadata,
    destination,
    provider: fields[7],
    fee: fields[8],
    expiresAt: fields[10] === null ? null : at + fields[10],
    approvalStatus: APPROVAL_STATUSES[(codes >> APPROVAL) & MASK]!,
    status: STATUSES[(codes >> STATUS) & MASK]!,
    failureCode: failure === 0 ? null : FAILURE_CODES[failure - 1]!,
    failureMessage: rest.takeOrNull(),
    providerTransactionId,
    submitted: (codes & SUBMITTED) !== 0,
    events,
    journals,
    answeredAt: fields[11],
    releaseAt: releaseAfter === null ? null : at + releaseAfter,
    released: (codes & RELEASED) !== 0,
    sequence: fields[12],
  };
}

function takeEvents(rest: Cursor, at: number): StatusEvent[] {
  const events: StatusEvent[] = [];
  for (let left: number = rest.take(); left > 0; left--) {
    const codes = rest.take();
    const after = rest.take();
    const providerStatus = (codes & HAS_PROVIDER_STATUS) === 0 ? null : rest.take();
    events.push({
      status: STATUSES[(codes >> EVENT_STATUS) & MASK]!,
      source: SOURCES[(codes >> EVENT_SOURCE) & MASK]!,
      providerStatus,
      message: (codes & HAS_MESSAGE) === 0 ? null : rest.take(),
      at: at + after,
    });
  }
  return events;
}

function takeJournals(rest: Cursor, since: number): Journal[] {
  const journals: Journal[] = [];
  for (let left: number = rest.take(); left > 0; left--) {
    const codes = rest.take();
    const at = since + rest.take();
    journals.push(
      balanced({
        reason: REASONS[(codes >> REASON) & MASK]!,
        currency: CURRENCIES[(codes >> JOURNAL_CURRENCY) & MASK]!,
        at,
        entries: takeEntries(rest),
      }),
    );
  }
  return journals;
}

function takeEntries(rest: Cursor): Journal['entries'] {
  const entries: Journal['entries'][number][] = [];
  for (let left: number = rest.take(); left > 0; left--) {
    const codes = rest.take();
    entries.push({
      account: LEDGER_ACCOUNTS[(codes >> LEDGER_ACCOUNT) & MASK]!,
      side: SIDES[(codes >> SIDE) & MASK]!,
      amount: money(rest.take()),
    });
  }
  return entries;
}
