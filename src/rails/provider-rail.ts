// What both adapters are given and what both offer beyond a rail: checks that an operator runs before going live.

import type { PendingTransaction } from '../domain/account-command.ts';
import type { Country, Currency } from '../domain/country.ts';
import type { Clock, Rail } from './rail.ts';

export interface ProviderRailOptions {
  /** Rail id, e.g. "mtn_ug". */
  readonly id: string;
  readonly country: Country;
  /** What the provider calls the currency: the country's, but for a sandbox that knows EUR only. */
  readonly currency: Currency | 'EUR';
  readonly baseUrl: string;
  readonly maxConcurrency: number;
  /** How long a provider may take to answer. */
  readonly answerMs: number;
  readonly notFoundGraceMs: number;
  /** It may have lost what it accepted (the built-in simulator, which starts anew with the service): Rail.forgetful. */
  readonly forgetful: boolean;
  readonly clock: Clock;
}

export interface CheckResult {
  /** E.g. "collection token". */
  readonly what: string;
  readonly ok: boolean;
  /** What was found, or what is wrong. */
  readonly detail: string;
}

export interface ProviderRail extends Rail {
  /** Tries token, balance and, with a number (international digits), the look-up of a wallet holder. One after the
   *  other; each result as it is known. */
  check(msisdn: string | null): AsyncGenerator<CheckResult>;
}

/** Where a provider should call back about a transaction; null: nowhere, enquiries find the outcome. */
export type CallbackUrlOf = (transaction: PendingTransaction) => string | null;
