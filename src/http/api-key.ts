// API keys: `sk_live_` (secret) or `pk_live_` (publishable), the 26 characters of the account's id, then 32 random
// characters. So a front finds the account, and with it the partition, without a look-up. Only the SHA-256 of a secret
// key is ever stored or sent on; the key itself does not leave the front.

import { hash, randomBytes } from 'node:crypto';
import { ALPHABET, BODY_LENGTH, ID_PREFIXES } from '../domain/id.ts';

export type ApiKeyKind = 'secret' | 'publishable';

const PREFIXES: Readonly<Record<ApiKeyKind, string>> = { secret: 'sk_live_', publishable: 'pk_live_' };
const PREFIX_LENGTH = 8;
/** 5 bits each: 160 bits. */
const RANDOM_LENGTH = 32;

const ACCOUNT_PART = /^[ps]k_live_[0-9A-HJKMNP-TV-Z]{26}/;
const WHOLE = /^[ps]k_live_[0-9A-HJKMNP-TV-Z]{58}$/;
const SECRET_INITIAL = 's';

export interface ParsedApiKey {
  readonly kind: ApiKeyKind;
  readonly accountId: string;
  /** False: the account can be read off it, but the rest is not what a key looks like. */
  readonly wellFormed: boolean;
}

/** `bytes`: 32, of which each character takes five bits. */
export function makeApiKey(
  kind: ApiKeyKind,
  accountId: string,
  bytes: Buffer = randomBytes(RANDOM_LENGTH),
): string {
  let random = '';
  for (const byte of bytes) random += ALPHABET.charAt(byte & 31);
  return PREFIXES[kind] + accountId.slice(ID_PREFIXES.account.length) + random;
}

/** Null when no account can be read off it. */
export function parseApiKey(key: string): ParsedApiKey | null {
  const wellFormed = WHOLE.test(key);
  if (!wellFormed && !ACCOUNT_PART.test(key)) return null;
  return {
    kind: key.startsWith(SECRET_INITIAL) ? 'secret' : 'publishable',
    accountId: ID_PREFIXES.account + key.slice(PREFIX_LENGTH, PREFIX_LENGTH + BODY_LENGTH),
    wellFormed,
  };
}

/** SHA-256, base64url: what is stored and compared. */
export function hashApiKey(key: string): string {
  return hash('sha256', key, 'base64url');
}
