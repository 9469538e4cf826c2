// What must never be written down: keys, tokens, secrets, and phone numbers in full. Pure; used for log lines and for
// the bodies in the operators' audit log.
//
// Redaction is by the name of a field and by the look of a text, so that a number inside a message is found, too. A number in local form
// ("0772 123 456") is missed if it stands in a text whose field does not say what it holds.

import { DIALING_CODES, SPACED_DIGITS } from '../domain/country.ts';

const REDACTED = '[redacted]';

/** In lower case, without "_" and "-". */
const SECRET_FIELDS: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'password',
  'token',
  'operatortoken',
  'accesstoken',
  'masterkey',
  'secret',
  'secretkey',
  'secretkeyhash',
  'keyhash',
  'signingsecret',
  'signingsecretsealed',
  'clientsecret',
  'subscriptionkey',
  'apikey',
  'pin',
]);
const PHONE_FIELDS: ReadonlySet<string> = new Set(['msisdn', 'phone', 'phonenumber', 'partyid']);

/** One test that is cheap and finds nothing in almost every text. */
const SUSPICIOUS = new RegExp(
  String.raw`(?:${DIALING_CODES})\d{9}|(?:\+|00)\(?(?:${DIALING_CODES})|_live_|whsec_|bearer |basic `,
  'i',
);
/** A number may stand behind letters ("tel256…"), or 00, but not be part of a longer one: that is an amount or a time. */
const PHONE = new RegExp(String.raw`(?<!\d)((?:00)?(?:${DIALING_CODES}))(\d{2})\d{4}(\d{3})(?!\d)`, 'g');
/** As people write it; only behind "+" or 00, since amounts and times follow one another too. */
const SPACED_PHONE = new RegExp(String.raw`(?:\+|(?<!\d)00)\(?(?:${DIALING_CODES})${SPACED_DIGITS}`, 'g');
/** Both also behind letters: in JSON within a text a new line ends in one. */
const KEYS = /(sk_live_|pk_live_|whsec_)[\w-]+/g;
const CREDENTIALS = /(bearer|basic) +[^\s"',]+/gi;

/** Deeper is cut off: log lines and operators' bodies are flat. */
const DEPTH = 6;

export function redactText(text: string): string {
  if (!SUSPICIOUS.test(text)) return text;
  return text
    .replaceAll(SPACED_PHONE, maskPhone)
    .replaceAll(PHONE, '$1$2****$3')
    .replaceAll(KEYS, `$1${REDACTED}`)
    .replaceAll(CREDENTIALS, `$1 ${REDACTED}`);
}

/** A copy of plain data without secrets; errors become plain data with their causes. */
export function redact(value: unknown): unknown {
  return redactValue(value, DEPTH);
}

function redactValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return redactText(value);
  if (typeof value === 'bigint') return redactText(String(value));
  if (typeof value === 'number') return redactNumber(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === 0) return '[deeper]';
  if (value instanceof Error) return redactError(value, depth);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (Array.isArray(value)) return value.map((item) => redactValue(item, depth - 1));
  if (value instanceof Map) return redactValue(Object.fromEntries(value), depth);
  if (value instanceof Set) return redactValue([...value], depth);

  // A name may be a caller's own: those of metadata are. Not by assignment, which "__proto__" would be lost in.
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [redactText(name), redactField(name, field, depth)]),
  );
}

/** In metadata a phone number may stand without quotes. */
function redactNumber(value: number): number | string {
  const text = String(value);
  const written = redactText(text);
  return written === text ? value : written;
}

function redactField(name: string, value: unknown, depth: number): unknown {
  const plainName = name.toLowerCase().replace(/[_-]/g, '');
  if (SECRET_FIELDS.has(plainName)) return value === null || value === undefined ? value : REDACTED;
  if (PHONE_FIELDS.has(plainName) && (typeof value === 'string' || typeof value === 'number')) {
    return maskPhone(String(value));
  }
  return redactValue(value, depth - 1);
}

/** Keeps the form of `msisdn_masked` where the number is long enough to hide anything. What people write between digits goes:
 *  it would stand for one of the four that are hidden. */
function maskPhone(text: string): string {
  const number = text.replace(/[^\d+]/g, '');
  return number.length >= 10 ? `${number.slice(0, -7)}****${number.slice(-3)}` : '****';
}

function redactError(error: Error, depth: number): unknown {
  const fields: Record<string, unknown> = { type: error.name, message: redactText(error.message) };
  for (const [name, field] of Object.entries(error)) fields[name] = redactField(name, field, depth);
  if (error.stack !== undefined) fields['stack'] = redactText(error.stack);
  if (error.cause !== undefined) fields['cause'] = redactValue(error.cause, depth - 1);
  return fields;
}
