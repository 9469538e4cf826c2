// Countries, currencies and networks: the closed lists everything else is keyed by. The log and the index of lists hold the
// place of a name in its list: a new one goes to the end.
// Only facts that never change while the service runs; what an operator may change is policy (policy.ts).

export const COUNTRIES = ['UG', 'KE', 'GH'] as const;
export type Country = (typeof COUNTRIES)[number];

export const CURRENCIES = ['UGX', 'KES', 'GHS'] as const;
export type Currency = (typeof CURRENCIES)[number];

export const NETWORKS = ['MTN', 'AIRTEL'] as const;
export type Network = (typeof NETWORKS)[number];

interface CountryFacts {
  readonly currency: Currency;
  /** ITU country calling code, without "+". */
  readonly dialingCode: string;
}

export const COUNTRY_FACTS = {
  UG: { currency: 'UGX', dialingCode: '256' },
  KE: { currency: 'KES', dialingCode: '254' },
  GH: { currency: 'GHS', dialingCode: '233' },
} as const satisfies Record<Country, CountryFacts>;

/** Alternatives of a regular expression that finds numbers. */
export const DIALING_CODES = Object.values(COUNTRY_FACTS)
  .map(({ dialingCode }) => dialingCode)
  .join('|');

/** The nine digits after a dialing code, or after 0, as people write them: with blanks, hyphens, dots or brackets between, and those
 *  blanks and hyphens that a line does not break at. */
export const SPACED_DIGITS = String.raw`(?:[ \u00a0\u2009\u202f\u2011.()/-]{0,2}\d){9}(?!\d)`;

/** Decimal places of the minor unit (ISO 4217). */
export const CURRENCY_DECIMALS = { UGX: 0, KES: 2, GHS: 2 } as const satisfies Record<Currency, number>;
