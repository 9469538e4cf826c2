// What Airtel wants encrypted: the PIN of a disbursement, and the signature of a v2 collection. Pure but for randomness.

import {
  constants,
  createCipheriv,
  createHmac,
  createPublicKey,
  type KeyObject,
  publicEncrypt,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';

/** PKCS#1 v1.5 with 1,024 bits, or OAEP with SHA-256 and 2,048: sources disagree, so it is configured. */
export type PinPadding = 'pkcs1' | 'oaep-sha256';

/** Airtel's shortest. Under 640 the key and IV of a signature no longer fit. */
const RSA_BITS_MIN = 1_024;

/** An RSA public key as PEM, or as base64 of its DER, which is how Airtel gives it. Throws when it is neither, or another
 *  kind of key: nothing could be encrypted with it. */
export function parsePublicKey(text: string): KeyObject {
  const trimmed = text.trim();
  const key = createPublicKey(
    trimmed.startsWith('-----BEGIN')
      ? trimmed
      : { key: Buffer.from(trimmed, 'base64'), format: 'der', type: 'spki' },
  );
  const { asymmetricKeyType, asymmetricKeyDetails } = key;
  if (asymmetricKeyType !== 'rsa' || (asymmetricKeyDetails?.modulusLength ?? 0) < RSA_BITS_MIN) {
    throw new Error(`not an RSA key of at least ${RSA_BITS_MIN} bits`);
  }
  // Of some OpenSSL says only then that their modulus, or their exponent, is too large.
  encryptRsa(key, 'pkcs1', '');
  return key;
}

export function encryptRsa(key: KeyObject, padding: PinPadding, text: string): string {
  const how =
    padding === 'pkcs1'
      ? { key, padding: constants.RSA_PKCS1_PADDING }
      : { key, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha256' };
  return publicEncrypt(how, Buffer.from(text, 'utf8')).toString('base64');
}

export interface SignatureHeaders {
  readonly 'x-signature': string;
  readonly 'x-key': string;
}

/** Over exactly `body`: AES-256-CBC under a fresh key and IV, which go along encrypted for Airtel. */
export function sign(key: KeyObject, body: string): SignatureHeaders {
  const aesKey = randomBytes(32);
  const iv = randomBytes(16);
  const cipher = createCipheriv('aes-256-cbc', aesKey, iv);
  const signature = Buffer.concat([cipher.update(body, 'utf8'), cipher.final()]).toString('base64');
  const secret = `${aesKey.toString('base64')}:${iv.toString('base64')}`;
  return { 'x-signature': signature, 'x-key': encryptRsa(key, 'pkcs1', secret) };
}

/** What the hash of a callback is made over: sources disagree. The body's own `transaction` (also inside `data`), or the
 *  whole body without its hash. */
export type HashOver = 'transaction' | 'body';

/** True: the callback carries the hash that only Airtel and we can make. */
export function callbackHashIsValid(body: string, key: string, over: HashOver): boolean {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return false;
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return false;
  const { hash, ...rest } = parsed as { hash?: unknown };
  if (typeof hash !== 'string') return false;
  const given = Buffer.from(hash, 'base64');
  const isHashOf = (text: string): boolean => {
    const expected = createHmac('sha256', key).update(text).digest();
    return given.length === expected.length && timingSafeEqual(given, expected);
  };
  // As it stood in the body, or written anew: 500.0 and spaces do not survive that, and Airtel may do either.
  const raw = over === 'transaction' ? transactionIn(body) : withoutMember(body, 'hash');
  if (raw === null) return false;
  if (isHashOf(raw)) return true;
  try {
    return isHashOf(JSON.stringify(over === 'transaction' ? JSON.parse(raw) : rest));
  } catch (error) {
    // Deeper than the stack: no callback is.
    if (error instanceof RangeError) return false;
    throw error;
  }
}

function transactionIn(body: string): string | null {
  const data = memberIn(body, 'data')?.value ?? '';
  return (memberIn(body, 'transaction') ?? memberIn(data, 'transaction'))?.value ?? null;
}

/** `text` less one member and the comma before or after it. */
function withoutMember(text: string, name: string): string | null {
  const member = memberIn(text, name);
  if (member === null) return null;
  const before = text.slice(0, member.from);
  const after = text.slice(member.to);
  // No `\s*` before the end: it would be tried from each of as many blanks as a text in the body has.
  const trimmed = before.trimEnd();
  return trimmed.endsWith(',')
    ? trimmed.slice(0, -1).trimEnd() + after
    : before + after.replace(/^\s*,\s*/, '');
}

interface Member {
  /** From the first character of its name to after the last of its value. */
  readonly from: number;
  readonly to: number;
  readonly value: string;
}

const JSON_TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

/** A member of the object that `text`, valid JSON, is: as it stands there, the last of that name, as JSON.parse takes it. */
function memberIn(text: string, wanted: string): Member | null {
  if (!text.trimStart().startsWith('{')) return null;
  let found: Member | null = null;
  let depth = 0;
  let name: string | null = null;
  let from = 0;
  let valueFrom = -1;
  let to = 0;
  for (const { 0: token, index } of text.matchAll(JSON_TOKENS)) {
    if (token === '}' || token === ']') depth--;
    const ends = depth === 0 || (depth === 1 && token === ',');
    if (ends) {
      if (name === wanted) found = { from, to, value: text.slice(valueFrom, to) };
      name = null;
      valueFrom = -1;
    } else if (name === null) {
      name = JSON.parse(token) as string;
      from = index;
    } else if (valueFrom === -1 && token !== ':') valueFrom = index;
    to = index + token.length;
    if (token === '{' || token === '[') depth++;
  }
  return found;
}
