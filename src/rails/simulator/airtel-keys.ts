// Airtel's keys in the simulator: one pair for signed requests, which rotates, and one for the PIN in each padding.
// Node refuses privateDecrypt with PKCS#1 v1.5 padding, so it is decrypted raw and the padding stripped by hand.

import {
  constants,
  createDecipheriv,
  createHmac,
  generateKeyPairSync,
  type KeyObject,
  privateDecrypt,
} from 'node:crypto';

export type Padding = 'pkcs1' | 'oaep-sha256';

export interface KeyPair {
  readonly id: string;
  readonly privateKey: KeyObject;
  /** Base64 of the DER SubjectPublicKeyInfo, as Airtel gives it. */
  readonly publicKey: string;
}

let made = 0;

export function makeKeyPair(bits: number): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: bits });
  const der = publicKey.export({ type: 'spki', format: 'der' });
  return { id: String(++made), privateKey, publicKey: der.toString('base64') };
}

/** Undefined: it was not encrypted with this key and padding. */
export function decrypt({ privateKey }: KeyPair, padding: Padding, base64: string): string | undefined {
  const encrypted = Buffer.from(base64, 'base64');
  try {
    if (padding === 'pkcs1') {
      const block = privateDecrypt({ key: privateKey, padding: constants.RSA_NO_PADDING }, encrypted);
      return stripPkcs1(block);
    }
    const key = { key: privateKey, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha256' };
    return privateDecrypt(key, encrypted).toString('utf8');
  } catch {
    return undefined;
  }
}

/** 00 02, at least eight bytes that are not zero, 00, the message. */
function stripPkcs1(block: Buffer): string | undefined {
  const end = block.indexOf(0, 2);
  if (block[0] !== 0 || block[1] !== 2 || end < 10) return undefined;
  return block.subarray(end + 1).toString('utf8');
}

/** True: `xKey` and `xSignature` are those of exactly these bytes. */
export function signatureIsOf(pair: KeyPair, body: Buffer, xKey: string, xSignature: string): boolean {
  const secret = decrypt(pair, 'pkcs1', xKey);
  if (secret === undefined) return false;
  const [key, iv] = secret.split(':').map((part) => Buffer.from(part, 'base64'));
  if (key?.length !== 32 || iv?.length !== 16) return false;
  try {
    const decipher = createDecipheriv('aes-256-cbc', key, iv);
    const signed = Buffer.concat([decipher.update(Buffer.from(xSignature, 'base64')), decipher.final()]);
    return signed.equals(body);
  } catch {
    return false;
  }
}

export function hashOf(key: string, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64');
}
