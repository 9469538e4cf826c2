// Public JSON text of transactions: charge, payout, withdrawal, deposit, the unified transaction, timelines and pages.
// Field for field and in the order of the specification, part 2.
//
// Invariants: rendering is pure: the same transaction as of the same status event gives the same bytes for ever (the create
// answer and webhooks rely on it). Full phone numbers and our own bookkeeping never appear.
//
// Text is built by hand: it is three times as fast as JSON.stringify of a built object, and this is every reply there is.

import { assert } from '../assert.ts';
import { deriveId } from '../id.ts';
import { nullable, quote } from './json-text.ts';
import { maskMsisdn } from '../msisdn.ts';
import { formatTime } from '../time.ts';
import { createdAt, isCashOut, statusEvent, type Transaction } from '../transaction.ts';

/** The typed object (charge, payout, withdrawal or deposit) as it was after its status event `eventIndex`. */
export function renderObject(transaction: Transaction, eventIndex: number): string {
  switch (transaction.type) {
    case 'CHARGE':
      return renderCharge(transaction, eventIndex);
    case 'PAYOUT':
      return renderCashOut(transaction, eventIndex, 'payout', succeededBy(transaction, eventIndex));
    case 'WITHDRAWAL':
      return renderCashOut(transaction, eventIndex, 'withdrawal', true);
    case 'DEPOSIT':
      return renderDeposit(transaction, eventIndex);
    case 'REFUND':
      assert(false, 'a refund is never created');
  }
}

/** The typed object as it is now. */
export function renderCurrent(transaction: Transaction): string {
  return renderObject(transaction, transaction.events.length - 1);
}

/** The body of the create call's 201; the answer must be fixed. */
export function renderAnswer(transaction: Transaction): string {
  const { answeredAt } = transaction;
  assert(answeredAt !== null, 'an answer is sent once it is fixed');
  return renderObject(transaction, answeredAt);
}

function renderCharge(transaction: Transaction, eventIndex: number): string {
  const fee = succeededBy(transaction, eventIndex) ? transaction.fee : 0;
  return (
    `${head(transaction, eventIndex, 'charge')},"description":${nullable(transaction.description)},"fee":"${fee}","net":"` +
    `${transaction.amount - fee}"${tail(transaction, eventIndex, '')}`
  );
}

function renderDeposit(transaction: Transaction, eventIndex: number): string {
  return (
    `${head(transaction, eventIndex, 'deposit')},"description":${nullable(transaction.description)}` +
    tail(transaction, eventIndex, '')
  );
}

function renderCashOut(
  transaction: Transaction,
  eventIndex: number,
  object: 'payout' | 'withdrawal',
  showsFee: boolean,
): string {
  const fee = showsFee ? transaction.fee : 0;
  const approval = `,"approval_status":"${approvalStatusAt(transaction, eventIndex)}"`;
  return (
    `${head(transaction, eventIndex, object)},"fee":"${fee}","total_debited":"${transaction.amount + fee}"` +
    tail(transaction, eventIndex, approval)
  );
}

/** From `id` to `reference`. */
function head(transaction: Transaction, eventIndex: number, object: string): string {
  const { id, amount, currency, country, network, destination, msisdn, reference } = transaction;
  const { status } = statusEvent(transaction, eventIndex);
  const toWallet = destination === null ? '' : `"destination":${quote(destination)},`;
  return (
    `{"id":"${id}","object":"${object}","status":"${status}","amount":"${amount}","currency":"${currency}",` +
    `"country":"${country}","network":"${network}",${toWallet}"msisdn_masked":"${maskMsisdn(msisdn)}",` +
    `"reference":${quote(reference)}`
  );
}

/** From `provider` to the end. */
function tail(transaction: Transaction, eventIndex: number, approval: string): string {
  const { status, at } = statusEvent(transaction, eventIndex);
  const failed = status === 'FAILED';
  const code = failed ? nullable(transaction.failureCode) : 'null';
  const message = failed ? nullable(transaction.failureMessage) : 'null';
  return (
    `,"provider":${quote(transaction.provider)}${approval},"failure_code":${code},"failure_message":${message},` +
    `"metadata":${metadataOf(transaction)},"created_at":"${formatTime(createdAt(transaction))}",` +
    `"updated_at":"${formatTime(at)}"}`
  );
}

/** True when SUCCESSFUL is among the events up to `eventIndex`: from then on the fee is booked. */
function succeededBy(transaction: Transaction, eventIndex: number): boolean {
  for (let i = eventIndex; i > 0; i--) {
    if (statusEvent(transaction, i).status === 'SUCCESSFUL') return true;
  }
  return false;
}

/** A withdrawal that needs approval waits in its first event; the second one is the approval or the rejection. */
function approvalStatusAt(transaction: Transaction, eventIndex: number): string {
  const { approvalStatus } = transaction;
  return approvalStatus === 'NOT_REQUIRED' || eventIndex > 0 ? approvalStatus : 'PENDING';
}

/** The unified view, as it is now. */
export function renderTransaction(transaction: Transaction): string {
  const { id, type, approvalStatus, status, amount, currency, country, network } = transaction;
  const last = transaction.events.length - 1;
  const fee = succeededBy(transaction, last) ? transaction.fee : 0;
  const net = isCashOut(type) ? amount + fee : amount - fee;
  return (
    `{"id":"${id}","object":"transaction","type":"${type}","approval_status":"${approvalStatus}",` +
    `"status":"${status}","amount":"${amount}","currency":"${currency}","country":"${country}",` +
    `"network":"${network}","msisdn_masked":"${maskMsisdn(transaction.msisdn)}",` +
    `"reference":${quote(transaction.reference)},"fee":"${fee}","net":"${net}",` +
    `"provider":${quote(transaction.provider)},"metadata":${metadataOf(transaction)},` +
    `"created_at":"${formatTime(createdAt(transaction))}","updated_at":"${formatTime(statusEvent(transaction, last).at)}"}`
  );
}

/** GET /v1/charges/:id/timeline. */
export function renderTimeline(transaction: Transaction): string {
  const object = transaction.type.toLowerCase();
  return `{"${object}":${renderCurrent(transaction)},${history(transaction)}}`;
}

/** GET /v1/transactions/:id. */
export function renderDetail(transaction: Transaction): string {
  return `{"transaction":${renderTransaction(transaction)},${history(transaction)}}`;
}

function history(transaction: Transaction): string {
  return `"events":${renderStatusEvents(transaction)},"ledger":${renderLedgerEntries(transaction)}`;
}

/** A JSON array, oldest first. */
function renderStatusEvents({ id, events }: Transaction): string {
  const rows = events.map(
    ({ status, source, providerStatus, message, at }, index) =>
      `{"id":"${deriveId('event', id, index)}","status":"${status}","source":"${source}",` +
      `"provider_status":${nullable(providerStatus)},"message":${nullable(message)},` +
      `"created_at":"${formatTime(at)}"}`,
  );
  return `[${rows.join(',')}]`;
}

/** A JSON array, oldest first. */
function renderLedgerEntries({ id, journals }: Transaction): string {
  const rows: string[] = [];
  journals.forEach(({ reason, currency, at, entries }, index) => {
    const journalId = deriveId('journal', id, index);
    for (const { account, side, amount } of entries) {
      rows.push(
        `{"id":"${deriveId('entry', id, rows.length)}","journal_id":"${journalId}","account":"${account}",` +
          `"side":"${side}","amount":"${amount}","currency":"${currency}","reason":"${reason}",` +
          `"created_at":"${formatTime(at)}"}`,
      );
    }
  });
  return `[${rows.join(',')}]`;
}

/** A page of a list; `rows` are JSON texts. `nextCursor`: null on the last page. */
export function renderPage(rows: readonly string[], nextCursor: string | null): string {
  return `{"data":[${rows.join(',')}],"has_more":${nextCursor !== null},"next_cursor":${nullable(nextCursor)}}`;
}

function metadataOf({ metadata }: Transaction): string {
  return metadata === null ? 'null' : JSON.stringify(metadata);
}
