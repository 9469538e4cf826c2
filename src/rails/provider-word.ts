// A provider's words as they are kept, logged and shown to merchants: without full phone numbers, however those are written.
// Pure.

import { DIALING_CODES, SPACED_DIGITS } from '../domain/country.ts';
import { LIMITS } from '../limits.ts';

/** A provider's own word or code as it is kept, logged and shown to merchants: without numbers, and bounded. */
export function providerWord(word: string): string {
  return withoutNumbers(word).slice(0, LIMITS.railWordLength).toWellFormed();
}

/** Providers repeat the number in their answers; a full number is never shown. Their codes, which are, look alike. */
export function withoutNumbers(text: string): string {
  const masked = (number: string): string => `****${number.replace(/\D/g, '').slice(-3)}`;
  return text.replace(CODE_OR_NUMBER, (found, code?: string) => code ?? masked(found));
}

/** Not dots: so are addresses written, which operators look for. */
const BETWEEN = String.raw`[ \u00a0\u2009\u202f\u2011-]`;
/** Its national digits alone, as Airtel has them, in groups of which the first has two or three: a date begins with another, and most
 *  amounts are shorter. */
const NATIONAL = String.raw`(?<!\d${BETWEEN}?)(?=[1-9]\d{1,2}${BETWEEN})(?:\d${BETWEEN}?){8}\d(?!\d)`;

/** A number as people write it, "+256 771 234-567", "00256 771 234567", "(0771) 234567" or "0771.234.567", and "771 234 567"; then any other
 *  that is long: tried before, it would take the first half of "00256771 234567" for the whole. */
const CODE_OR_NUMBER = new RegExp(
  String.raw`\b(DP0\d{10}|0000\d{3})\b|(?<!\d)(?:(?:00)?(?:${DIALING_CODES})|0)${SPACED_DIGITS}|${NATIONAL}|\d{7,}`,
  'gi',
);
