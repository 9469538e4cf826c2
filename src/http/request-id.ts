// Request ids: `req_` + 26 characters of the same alphabet as every other id. Unique, not secret and not sorted: they
// are made for every request, so they are a counter behind a prefix that is random per process.

import { randomBytes } from 'node:crypto';
import { ALPHABET, ID_PREFIXES, PAIRS } from '../domain/id.ts';

/** 5 bits each: 70 bits tell processes apart. */
const RANDOM_LENGTH = 14;
const COUNTER_LENGTH = 10;
const RADIX = ALPHABET.length;

export function requestIdMaker(): () => string {
  const random = Array.from(randomBytes(RANDOM_LENGTH), (byte) => ALPHABET.charAt(byte % RADIX)).join('');
  let high = 0;
  let low = 0;
  let prefix = prefixOf(random, high);
  // The last two characters apart: a request costs one concatenation, and 1,024 requests share the rest.
  return () => {
    if (low === PAIRS.length) {
      low = 0;
      high++;
      prefix = prefixOf(random, high);
    }
    return prefix + PAIRS[low++];
  };
}

function prefixOf(random: string, counter: number): string {
  let text = '';
  let rest = counter;
  for (let i = 0; i < COUNTER_LENGTH; i++) {
    text = ALPHABET.charAt(rest % RADIX) + text;
    rest = Math.floor(rest / RADIX);
  }
  return ID_PREFIXES.request + random + text;
}
