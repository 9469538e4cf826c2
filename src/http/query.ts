// Query strings, strictly: every parameter once, percent-encoding decoded, nothing guessed. What the parameters mean is
// the schema's (validator.ts).

import type { Rejection } from '../domain/error-code.ts';
import { invalidField } from './echoed.ts';

export type QueryPairs = ReadonlyMap<string, string>;

/** `raw`: what stands behind "?", still encoded. */
export function parseQuery(raw: string): QueryPairs | Rejection {
  const pairs = new Map<string, string>();
  for (const part of raw.split('&')) {
    if (part === '') continue;
    const at = part.indexOf('=');
    const rawName = at === -1 ? part : part.slice(0, at);
    const name = decode(rawName);
    if (name === null) return invalidField(rawName, 'is not valid percent-encoding');
    const value = decode(at === -1 ? '' : part.slice(at + 1));
    if (value === null) return invalidField(name, 'has a value that is not valid percent-encoding');
    if (pairs.has(name)) return invalidField(name, 'is given more than once');
    pairs.set(name, value);
  }
  return pairs;
}

function decode(text: string): string | null {
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) return null;
    throw error;
  }
}
