// Final words of a provider in our own, as the adapters return them.

import type { PendingTransaction } from '../domain/account-command.ts';
import { CURRENCIES, type Currency } from '../domain/country.ts';
import { fromMajorUnits } from '../domain/money.ts';
import type { FailureCode } from '../domain/transaction.ts';
import { LIMITS } from '../limits.ts';
import { type HttpAnswer, textAt } from './http-client.ts';
import { providerWord, withoutNumbers } from './provider-word.ts';
import type { EnquiryResult, SubmitResult, Terminal } from './rail.ts';
import type { Asked } from './retry-after.ts';
import type { NoAnswer } from './token-cache.ts';

export function failed(
  failureCode: FailureCode,
  providerStatus: string | null,
  message: string | null,
): Terminal {
  return {
    type: 'failed',
    failureCode,
    failureMessage: message === null ? null : withoutNumbers(message).slice(0, MESSAGE_LENGTH).toWellFormed(),
    providerStatus: providerStatus === null ? null : providerWord(providerStatus),
    providerTransactionId: null,
    amount: null,
    currency: null,
    ourFault: failureCode === 'provider_rejected',
  };
}

/** What a submit without an answer means, the same for every provider. `read`: what the adapter makes of an answer;
 *  `isListed`: its code is in the table of those that are final. */
export function submitWithoutAnswer(
  result: NoAnswer,
  read: (answer: HttpAnswer) => SubmitResult,
  isListed: (code: string) => boolean,
): SubmitResult {
  switch (result.type) {
    case 'refused':
      return failed('provider_rejected', '401', result.reason);
    case 'unavailable':
    case 'not_sent':
      return { type: 'not_accepted', reason: result.reason, retryAfterMs: askedBy(result) };
    case 'lost':
      return { type: 'unknown', reason: result.reason };
    case 'token_refused': {
      // The refusal was the token's, unless the answer speaks of the transaction or says why in a word that we know.
      const said = read(result.answer);
      if (said.type !== 'failed') return said;
      const { providerStatus: code, failureMessage: message } = said;
      if (result.wasFresh && code !== null && isListed(code)) return said;
      if (result.failure.type === 'refused') return submitWithoutAnswer(result.failure, read, isListed);
      return {
        type: 'not_accepted',
        reason: [result.reason, code, message].filter((part) => part).join(': '),
        retryAfterMs: askedBy(result),
      };
    }
  }
}

/** An answer of no use: enquire, or ask again. */
export function unusable(answer: HttpAnswer): { readonly type: 'unknown'; readonly reason: string } & Asked {
  return { type: 'unknown', reason: describe(answer), retryAfterMs: answer.retryAfterMs };
}

/** An enquiry without an answer. */
export function enquiryWithoutAnswer(result: NoAnswer): EnquiryResult {
  return { type: 'unknown', reason: result.reason, retryAfterMs: askedBy(result) };
}

function askedBy(result: NoAnswer): number | undefined {
  if (result.type === 'token_refused') return askedBy(result.failure);
  return result.type === 'unavailable' ? result.retryAfterMs : undefined;
}

/** Whatever it says: it proves nothing of the transaction that was asked about. */
export const OF_ANOTHER = { type: 'unknown', reason: 'an answer about another transaction' } as const;

export function moved(
  type: 'succeeded' | 'reversed',
  providerStatus: string,
  providerTransactionId: string | null,
  what: Moved,
): Terminal {
  return {
    type,
    failureCode: null,
    failureMessage: null,
    providerStatus: providerWord(providerStatus),
    // A number in itself, so none is taken out of it.
    providerTransactionId: providerTransactionId?.slice(0, LIMITS.railWordLength).toWellFormed() ?? null,
    amount: what.amount,
    currency: what.currency,
    ourFault: false,
  };
}

export interface Moved {
  readonly amount: number | null;
  readonly currency: Currency | null;
}

/** An amount the provider named that is no amount of this currency. No transaction has it, so it never agrees. */
const NOT_THE_AMOUNT = 0;

/** What the provider says was moved, in `amount` and `currency` of its answer. What it leaves out is null; what cannot be ours
 *  never equals ours. `providerCurrency` is what the provider calls the transaction's currency (a sandbox has EUR for all). */
export function movedOf(
  said: Readonly<Record<string, unknown>>,
  transaction: PendingTransaction,
  providerCurrency: string,
): Moved {
  const { currency: ours } = transaction;
  const amount = saidAt(said, 'amount');
  const currency = saidAt(said, 'currency')?.toUpperCase() ?? null;
  const named = currency === providerCurrency ? ours : CURRENCIES.find((known) => known === currency);
  if (currency !== null && named === undefined) return { amount: NOT_THE_AMOUNT, currency: null };
  if (amount === null) return { amount: null, currency: named ?? null };
  return { amount: fromMajorUnits(amount, named ?? ours) ?? NOT_THE_AMOUNT, currency: named ?? null };
}

/** Null only where nothing is said: `{"amount": {"value": 1}}` says something, if nothing that can be read. */
function saidAt(said: Readonly<Record<string, unknown>>, name: string): string | null {
  const isLeftOut = said[name] === undefined || said[name] === null;
  return isLeftOut ? null : (textAt(said, name) ?? '');
}

/** As long as the providers' own. */
const MESSAGE_LENGTH = 255;

/** As much of an answer as helps whoever reads the log, on one line and without numbers. */
export function describe({ status, text }: HttpAnswer): string {
  if (text === '') return `HTTP ${status}`;
  const line = text.replace(/\s+/g, ' ').trim();
  return `HTTP ${status}: ${withoutNumbers(line).slice(0, EXCERPT_LENGTH)}`;
}

const EXCERPT_LENGTH = 120;
