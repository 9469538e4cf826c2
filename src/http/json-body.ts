// Bytes of a body to a value. What is not JSON in UTF-8 is said to be so; what JSON allows but would not come back as it was
// sent is refused too: half a surrogate pair, a number inside an object of the body whose value no double gives back, and a
// name that stands twice in its object.

import { rejection, type Rejection } from '../domain/error-code.ts';
import { joined, repeatedName } from '../domain/repeated-name.ts';
import { invalidField } from './echoed.ts';

/** Of the path to a repeated name: few bodies go deeper than metadata, and depth is the caller's to choose. */
const PATH_PARTS_MAX = 2;

/** A class, because no JSON text parses to one. */
export class MalformedBody {
  readonly rejection: Rejection;

  constructor(refusal: Rejection) {
    this.rejection = refusal;
  }
}

// A byte order mark is left in, and is not JSON.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** MalformedBody, or the value. */
export function parseJson(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    return new MalformedBody(rejection('invalid_json', explainBytes(bytes)));
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return new MalformedBody(rejection('invalid_json', explain(text, error)));
  }
  const repeated = repeatedName(text, value, PATH_PARTS_MAX);
  if (repeated !== null) return invalid(repeated.toWellFormed(), 'is given more than once');
  if (text.includes('\\u')) {
    const path = brokenText(value);
    if (path !== null) {
      return invalid(path, 'has half a surrogate pair, which is not text');
    }
  }
  if (LONG_NUMBER.test(text)) {
    const path = inexactNumber(text);
    if (path !== null) {
      return invalid(path, 'is a number that a double does not keep exactly: send it as a string');
    }
  }
  return value;
}

function invalid(path: string, problem: string): MalformedBody {
  return new MalformedBody(invalidField(path, problem));
}

/** Other numbers are exact: of at most 15 digits, and of exponents in which a double keeps as many. */
const LONG_NUMBER = /[[:,\s]-?(?:[\d.]{16}|[\d.]{1,15}[eE][+-]?\d{3})/;

/** Strings, with the colon that makes one a name; what opens and closes; and numbers that may be inexact. JSON.parse would give each number's
 *  text, too, but costs twenty times as much: a body may have thousands of short ones. */
const TOKENS =
  /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[{}[\]]|-?(?:[\d.]{16,}(?:[eE][+-]?\d+)?|[\d.]{1,15}[eE][+-]?\d{3,})/g;

/** Path of the first number inside an object of the body that would come back as another value; null: none. What a list has no schema lets
 *  through. `text` is JSON. */
function inexactNumber(text: string): string | null {
  /** The body's last name, and the last one of that: as they are written; null: a list has none. */
  const names: (string | null)[] = [];
  let depth = 0;
  for (const [token, colon] of text.matchAll(TOKENS)) {
    if (token === '{' || token === '[') names[++depth] = null;
    else if (token === '}' || token === ']') depth--;
    else if (colon !== undefined) names[depth] = token.slice(0, -colon.length);
    else if (depth === 2 && !token.startsWith('"') && !isExact(Number(token), token)) {
      const path = [names[1], names[2]].map((name) => JSON.parse(name ?? 'null') as string | null);
      const [outer = null, inner = null] = path;
      if (outer !== null && inner !== null) return joined(outer, inner);
    }
  }
  return null;
}

/** One beyond all doubles was read as infinite. */
function isExact(value: number, source: string): boolean {
  return Number.isFinite(value) && decimalOf(source) === decimalOf(String(value));
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i;
const ZERO = 0x30;

/** The value of a number's text, the same for every text of it: significant digits and the power of ten of the last. Takes time in
 *  proportion to the text's length: nothing is written out. */
function decimalOf(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text)!;
  const digits = whole + fraction;
  let start = 0;
  while (digits.charCodeAt(start) === ZERO) start += 1;
  if (start === digits.length) return '0';
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === ZERO) end -= 1;
  // An exponent that is not exact as a double is that of no finite double but 0.
  const lastPower = Number(exponent) - fraction.length + (digits.length - end);
  return `${sign}${digits.slice(start, end)}e${lastPower}`;
}

/** Some libraries and proxies compress what they send, unseen by who writes the body. */
function explainBytes([first, second]: Uint8Array): string {
  const isGzip = first === 0x1f && second === 0x8b;
  return isGzip ? 'The body is compressed (gzip); send it as it is.' : 'The body is not valid UTF-8.';
}

function explain(text: string, error: unknown): string {
  if (text === '') return 'The body is empty; it must be a JSON object.';
  if (text.startsWith('\uFEFF')) return 'The body starts with a byte order mark; send it without one.';
  const at = / at position \d+/.exec(String(error))?.[0] ?? '';
  return `The body is not valid JSON${at}.`;
}

/** Path of the first string that is not well-formed; null: none. Not recursive: depth is the caller's to choose. */
function brokenText(root: unknown): string | null {
  const rest: { readonly value: unknown; readonly path: string }[] = [{ value: root, path: '' }];
  for (let entry = rest.pop(); entry !== undefined; entry = rest.pop()) {
    const { value, path } = entry;
    if (typeof value === 'string' && !value.isWellFormed()) return path;
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, inner] of Object.entries(value)) {
      if (!name.isWellFormed()) return path === '' ? name.toWellFormed() : path;
      // Deeper than metadata nothing passes the schema: the path need not grow.
      rest.push({ value: inner, path: path.includes('.') ? path : joined(path, name) });
    }
  }
  return null;
}
