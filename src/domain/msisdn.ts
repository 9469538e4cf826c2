// Phone numbers: from what a caller wrote to international digits, their country, their network, and the masked form
// that may leave the service. Numbers are ported between networks, so a prefix is only a hint: an explicit network
// always wins over the table here.

import { COUNTRIES, COUNTRY_FACTS, type Country, type Network } from './country.ts';

export interface Msisdn {
  /** International digits without "+", always 12. */
  readonly msisdn: string;
  readonly country: Country;
}

/** Digits of a national number without its trunk "0", the same in all three countries. */
const NATIONAL_LENGTH = 9;
const NATIONAL_SIZE = 10 ** NATIONAL_LENGTH;
const INTERNATIONAL_LENGTH = 12;

const PLUS = 43;
const HYPHEN = 45;
const SPACE = 32;
const ZERO = 48;
const NINE = 57;

/**
 * Mobile ranges and networks by the first digits of the national number. As of 2026-03, from public lists.
 * `mobile`: first digits that wallets may have. The longest matching prefix wins; null is a range that sources disagree
 * on or that belongs to a network we do not serve, which answers network_required.
 */
const PREFIXES = {
  UG: {
    mobile: '7',
    networks: {
      MTN: ['76', '77', '78', '790', '791', '792', '793'],
      AIRTEL: ['70', '74', '75', '730', '795'],
    },
    unknown: [],
  },
  KE: {
    mobile: '17',
    networks: { MTN: [], AIRTEL: ['10', '73', '75', '78', '761', '762'] },
    unknown: ['757', '758', '759'],
  },
  GH: {
    mobile: '25',
    networks: { MTN: ['24', '25', '53', '54', '55', '59'], AIRTEL: ['26', '27', '56', '57'] },
    unknown: ['23'],
  },
} as const satisfies Record<
  Country,
  {
    readonly mobile: string;
    readonly networks: Readonly<Record<Network, readonly string[]>>;
    readonly unknown: readonly string[];
  }
>;

/** The first three national digits → network. */
const NETWORKS_BY_PREFIX: Readonly<Record<Country, readonly (Network | null)[]>> = {
  UG: expand('UG'),
  KE: expand('KE'),
  GH: expand('GH'),
};

function expand(country: Country): (Network | null)[] {
  const { networks, unknown } = PREFIXES[country];
  const rows: [string, Network | null][] = [
    ...networks.MTN.map((prefix): [string, Network] => [prefix, 'MTN']),
    ...networks.AIRTEL.map((prefix): [string, Network] => [prefix, 'AIRTEL']),
    ...unknown.map((prefix): [string, null] => [prefix, null]),
  ];
  rows.sort((a, b) => a[0].length - b[0].length);
  const table: (Network | null)[] = Array.from({ length: 1_000 }, () => null);
  for (const [prefix, network] of rows) {
    const size = 10 ** (3 - prefix.length);
    for (let i = 0; i < size; i++) table[Number(prefix) * size + i] = network;
  }
  return table;
}

/**
 * Reads "+256772123456", "256 772-123456", "00256772123456"; and, against `country`, "0772123456" and "772123456".
 * Spaces and hyphens are ignored. Null when it is not a mobile number of one of our countries.
 */
export function parseMsisdn(text: string, country: Country): Msisdn | null {
  let value = 0;
  let digits = 0;
  let leadingZeros = 0;
  let plus = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= ZERO && code <= NINE) {
      if (code === ZERO && leadingZeros === digits) leadingZeros++;
      if (++digits > INTERNATIONAL_LENGTH + 2) return null;
      value = value * 10 + (code - ZERO);
    } else if (code === PLUS && digits === 0 && !plus) {
      plus = true;
    } else if (code !== SPACE && code !== HYPHEN) {
      return null;
    }
  }
  const significant = digits - leadingZeros;
  if (significant === INTERNATIONAL_LENGTH && (leadingZeros === 0 || (leadingZeros === 2 && !plus))) {
    const from = COUNTRY_OF_DIALING_CODE.get(Math.floor(value / NATIONAL_SIZE));
    return from === undefined ? null : mobile(from, value % NATIONAL_SIZE, value);
  }
  // One that is not in the list only a newer version knows.
  if (significant === NATIONAL_LENGTH && leadingZeros <= 1 && !plus && COUNTRIES.includes(country)) {
    return mobile(country, value, Number(COUNTRY_FACTS[country].dialingCode) * NATIONAL_SIZE + value);
  }
  return null;
}

/** Every one has three digits. */
const COUNTRY_OF_DIALING_CODE: ReadonlyMap<number, Country> = new Map(
  COUNTRIES.map((country) => [Number(COUNTRY_FACTS[country].dialingCode), country]),
);

function mobile(country: Country, national: number, international: number): Msisdn | null {
  const first = String.fromCharCode(ZERO + Math.floor(national / (NATIONAL_SIZE / 10)));
  return PREFIXES[country].mobile.includes(first) ? { msisdn: String(international), country } : null;
}

/** The network its prefix hints at; null when the table does not know. `msisdn` comes from parseMsisdn. */
export function networkOf(msisdn: string): Network | null {
  const country = COUNTRY_OF_DIALING_CODE.get(Number(msisdn.slice(0, 3)));
  if (country === undefined) return null;
  return NETWORKS_BY_PREFIX[country][Number(msisdn.slice(3, 6))] ?? null;
}

/** "25677****456": country code, two digits, the last three. */
export function maskMsisdn(msisdn: string): string {
  return `${msisdn.slice(0, 5)}****${msisdn.slice(-3)}`;
}
