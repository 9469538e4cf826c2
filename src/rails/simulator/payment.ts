// A payment as a network keeps it, and the till it belongs to. Amounts are integers in hundredths of the major unit
// here, whatever the currency: a network's own book, apart from the ledger's.

import type { NumberBehaviour } from './number-table.ts';

export type Provider = 'mtn' | 'airtel';
export type Kind = 'collect' | 'send' | 'refund';
export type State = 'pending' | 'succeeded' | 'failed' | 'expired' | 'reversed';

/** A merchant's account at a network: an MTN subscription or an Airtel application. */
export interface Till {
  readonly id: string;
  readonly provider: Provider;
  readonly country: string;
  readonly currency: string;
  /** What amounts may have: the currency's, or fewer where a market's provider takes fewer. */
  readonly amountDecimals: number;
  balance: number;
}

/** What a caller asks of a network. */
export interface Submission {
  readonly provider: Provider;
  readonly kind: Kind;
  readonly till: Till;
  /** The caller's: MTN's X-Reference-Id, Airtel's transaction id. */
  readonly reference: string;
  /** MTN's externalId, Airtel's reference. */
  readonly externalId: string;
  readonly msisdn: string;
  /** As the caller wrote it. */
  readonly amountText: string;
  readonly amount: number;
  readonly currency: string;
  readonly payerMessage: string;
  readonly payeeNote: string;
  readonly callbackUrl: string | null;
}

export interface Payment extends Submission {
  /** Counts up; names it on the page. */
  readonly number: number;
  readonly createdAt: number;
  readonly behaviour: NumberBehaviour;
  /** False: the call was answered as if nothing had come (503, HTML); it is kept to answer enquiries the same way. */
  readonly accepted: boolean;
  state: State;
  reason: { code: string; message: string } | null;
  /** The network's own id of the movement, from success on. */
  moneyId: string | null;
  finishedAt: number | null;
  reversedAt: number | null;
  /** What the network says was moved instead, for tests. */
  amountMoved: number | null;
  currencyMoved: string | null;
}

/** "1234.50" as hundredths; null when it is no amount. */
export function parseHundredths(text: string): number | null {
  const match = /^([0-9]{1,13})(?:\.([0-9]{1,2}))?$/.exec(text);
  return match === null ? null : Number(match[1]) * 100 + Number((match[2] ?? '').padEnd(2, '0'));
}

/** Shortest form: "500", "10.5" only where the hundredths are not zero. */
export function majorText(hundredths: number): string {
  const sign = hundredths < 0 ? '-' : '';
  const whole = Math.floor(Math.abs(hundredths) / 100);
  const part = Math.abs(hundredths) % 100;
  return part === 0 ? `${sign}${whole}` : `${sign}${whole}.${String(part).padStart(2, '0')}`;
}

/** Currencies of the sandboxes and of the three countries: those without a minor unit. */
export function decimalsOf(currency: string): number {
  return currency === 'UGX' ? 0 : 2;
}
