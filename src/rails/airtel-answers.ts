// What Airtel's answers mean: status words and codes in, results of rail.ts out. Pure.

import type { PendingTransaction } from '../domain/account-command.ts';
import {
  airtelFailure,
  isAirtelAccepted,
  isAirtelAmbiguous,
  isAirtelDuplicate,
  isAirtelNotFound,
} from './failure-codes.ts';
import { type HttpAnswer, type HttpResult, objectAt, parseObject, textAt } from './http-client.ts';
import type { CheckResult } from './provider-rail.ts';
import { directionOf, type EnquiryResult, type SubmitResult, type Terminal } from './rail.ts';
import { providerWord } from './provider-word.ts';
import { isOfAnother } from './reference.ts';
import {
  describe,
  enquiryWithoutAnswer,
  failed,
  moved,
  movedOf,
  OF_ANOTHER,
  submitWithoutAnswer,
  unusable,
} from './terminal.ts';
import type { CallResult } from './token-cache.ts';

/** The parts of an answer, wherever this version of the API puts them. */
interface Parts {
  /** TS, TF, TIP, TA, TE, or SUCCESS; null: none. */
  readonly word: string | null;
  /** The code that says most: response_code, else result_code, else the gateway's. */
  readonly code: string | null;
  readonly message: string | null;
  /** False: it was refused; the HTTP status says so, or the body, whatever the status. */
  readonly success: boolean;
  readonly transaction: Readonly<Record<string, unknown>>;
}

function partsOf(httpStatus: number, body: Readonly<Record<string, unknown>>): Parts {
  const status = objectAt(body, 'status');
  const transaction = objectAt(objectAt(body, 'data'), 'transaction');
  return {
    word: textAt(transaction, 'status')?.toUpperCase() ?? null,
    code: textAt(status, 'response_code') ?? textAt(status, 'result_code') ?? textAt(body, 'status_code'),
    message: textAt(transaction, 'message') ?? textAt(status, 'message') ?? textAt(body, 'status_message'),
    success: isOk(httpStatus) && saysSuccess(status['success']) && textAt(body, 'status_code') === null,
    transaction,
  };
}

/** `success` left out says nothing. In any other form than that of a yes it is no yes. */
function saysSuccess(success: unknown): boolean {
  if (typeof success === 'string') return /^(?:true|1)$/i.test(success.trim());
  return success === undefined || success === null || success === true || success === 1;
}

function isOk(httpStatus: number): boolean {
  return httpStatus >= 200 && httpStatus < 300;
}

export function readSubmit(
  transaction: PendingTransaction,
  currency: string,
  result: CallResult,
): SubmitResult {
  const direction = directionOf(transaction);
  if (result.type !== 'answer') {
    return submitWithoutAnswer(
      result,
      (answer) => readSubmit(transaction, currency, answer),
      (code) => airtelFailure(code, direction) !== null,
    );
  }
  const body = parseObject(result.text);
  const parts = partsOf(result.status, body ?? {});
  const { word, code, message, success } = parts;
  if (isOfAnother(textAt(parts.transaction, 'id'), transaction)) return OF_ANOTHER;
  if (code !== null && isAirtelDuplicate(code)) return { type: 'accepted', providerStatus: code };
  const refused = refusedByStatus(result, body, parts);
  if (refused !== null) return refused;

  const final = finalWord(parts, transaction, currency, 'submit');
  if (final !== null) return final;
  if (success && word !== null && word !== 'TF') {
    return { type: 'accepted', providerStatus: providerWord(code ?? word) };
  }
  // It speaks of the transaction, and not of its end.
  if (word !== null && word !== 'TF') return unusable(result);
  const failure = code === null || isAirtelAmbiguous(code, 'submit') ? null : airtelFailure(code, direction);
  // A refusal in a code nobody has listed: the enquiry decides.
  return failure === null ? unusable(result) : failed(failure, code, message);
}

/** What the HTTP status alone says; null: what the body says counts. */
function refusedByStatus(
  answer: HttpAnswer,
  body: Readonly<Record<string, unknown>> | undefined,
  parts: Parts,
): SubmitResult | null {
  const { status, text, mayBeCut } = answer;
  const { word, code } = parts;
  const unknown: SubmitResult = unusable(answer);
  // What was cut off may speak of the transaction.
  if (mayBeCut && body === undefined) return unknown;
  // What speaks of the transaction, or in a code that is not final, may have it whatever the status.
  const mayHaveIt = word !== null || (code !== null && isAirtelAmbiguous(code, 'submit'));
  if (status === 429 || status === 503) {
    if (mayHaveIt) return unknown;
    const refused = { ...unusable(answer), type: 'not_accepted' } as const;
    // A gateway says so, too, when it has handed it on and heard nothing.
    return status === 503 ? { ...refused, mayHaveIt: true } : refused;
  }
  if (status === 401 || status === 403) {
    const isHtml = body === undefined && text !== '';
    return mayHaveIt || isHtml ? unknown : refusedByGateway(parts, body ?? {}, status);
  }
  const isRedirect = status >= 300 && status < 400;
  return body === undefined || isRedirect || status === 408 || status >= 500 ? unknown : null;
}

export function readEnquiry(
  transaction: PendingTransaction,
  currency: string,
  result: CallResult,
): EnquiryResult {
  if (result.type !== 'answer') return enquiryWithoutAnswer(result);
  const body = parseObject(result.text);
  if (body === undefined) return unusable(result);
  const parts = partsOf(result.status, body);
  const { word, code } = parts;
  const usable = result.status === 200 || result.status === 400 || result.status === 404;
  if (!usable) return unusable(result);
  if (isOfAnother(textAt(parts.transaction, 'id'), transaction)) return OF_ANOTHER;
  if (word === null) {
    const notFound = code !== null && isAirtelNotFound(code);
    return notFound ? { type: 'not_found' } : unusable(result);
  }
  const final = finalWord(parts, transaction, currency, 'enquiry');
  return final ?? { type: 'pending', providerStatus: providerWord(code === null ? word : `${word} ${code}`) };
}

/** Null: the word is not final, or a code beside it says that it is not. */
function finalWord(
  parts: Parts,
  transaction: PendingTransaction,
  currency: string,
  asked: 'submit' | 'enquiry',
): Terminal | null {
  const { word, code, message, success, transaction: said } = parts;
  if (word === null) return null;
  const isOpen = code !== null && isAirtelAmbiguous(code, asked);
  if (isOpen && !(asked === 'enquiry' && isNamedAsPaid(parts, transaction))) return null;
  const failure = code === null ? null : airtelFailure(code, directionOf(transaction));
  const status = code === null ? word : `${word} ${code}`;
  switch (word) {
    case 'TS':
    case 'TR': {
      // A body that contradicts itself moves no money.
      if (!success || failure !== null) return null;
      const what = movedOf(said, transaction, currency);
      const type = word === 'TR' ? 'reversed' : 'succeeded';
      return moved(type, status, textAt(said, 'airtel_money_id'), what);
    }
    case 'TE':
      // No document has it in the answer to a submit: the enquiry has to say it.
      return asked === 'submit' ? null : failed('expired', status, message);
    case 'TF':
      // Without a listed code the enquiry has to say it again.
      if (failure === null && asked === 'submit') return null;
      return failed(failure ?? 'unknown', status, message);
  }
  // TIP, TA, TI, SUCCESS (accepted), and words that nobody has documented.
  return null;
}

/** The code with which Airtel accepts a collection stands beside TS as well, in its live answers as in its documents' example: that is paid
 *  where Airtel's own id of the payment is there, too. */
function isNamedAsPaid({ word, code, transaction: said }: Parts, transaction: PendingTransaction): boolean {
  if (code === null || !isAirtelAccepted(code) || directionOf(transaction) === 'send') return false;
  return word === 'TS' && textAt(said, 'airtel_money_id') !== null;
}

function refusedByGateway(
  { code, message }: Parts,
  body: Readonly<Record<string, unknown>>,
  status: number,
): Terminal {
  return failed('provider_rejected', code ?? String(status), message ?? textAt(body, 'error_description'));
}

export function airtelCheck(
  what: string,
  result: HttpResult,
  read: (data: Readonly<Record<string, unknown>>) => string | null,
): CheckResult {
  if (result.type !== 'answer') return { what, ok: false, detail: result.reason };
  const body = parseObject(result.text);
  if (body === undefined || result.status !== 200) return { what, ok: false, detail: describe(result) };
  const { success, message, code } = partsOf(result.status, body);
  if (!success) return { what, ok: false, detail: `${code ?? ''} ${message ?? ''}`.trim() };
  const detail = read(objectAt(body, 'data'));
  return { what, ok: detail !== null, detail: detail ?? describe(result) };
}
