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

/** A public key as PEM, or as base64 of its DER, which is how Airtel gives it. Throws when it is neither. */
export function parsePublicKey(text: string): KeyObject {
  const trimmed = text.trim();
  if (trimmed.startsWith('-----BEGIN')) return createPublicKey(trimmed);
  return createPublicKey({ key: Buffer.from(trimmed, 'base64'), format: 'der', type: 'spki' });
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

/** What the hash of a callback is made over: sources disagree. The body's own `transaction` text, or the whole body
 *  without its hash. */
export type HashOver = 'transaction' | 'body';

/** True: the callback carries the hash that only Airtel and we can make. */
export function callbackHashIsValid(body: string, key: string, over: HashOver): boolean {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return false;
  }
  const { hash, transaction } = (parsed ?? {}) as { hash?: unknown; transaction?: unknown };
  if (typeof hash !== 'string' || transaction === undefined) return false;
  const text = JSON.stringify(over === 'transaction' ? transaction : { transaction });
  const expected = createHmac('sha256', key).update(text).digest();
  const given = Buffer.from(hash, 'base64');
  return given.length === expected.length && timingSafeEqual(given, expected);
}
