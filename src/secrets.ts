// Secrets: what the service keeps in the data directory for itself, and the sealing of what it keeps for merchants.
//
// Sealed text is `v1.` and base64url of: 12 bytes nonce, 16 bytes tag, ciphertext; AES-256-GCM under a key derived from
// the master key by HKDF-SHA256 for one purpose, so that text sealed for one cannot be opened for another.
//
// Invariants: neither keys nor opened text are logged or put into an error. A file made here is on the disk, complete,
// before its content is used: what is sealed with it may be durable a moment later.

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { MASTER_KEY_BYTES, parseMasterKey } from './config/master-key.ts';
import { makeWithParents } from '../wal/make-with-parents.ts';
import { syncDirectoryNow } from '../wal/sync-directory.ts';
import { namingNow } from '../wal/thrown.ts';

export type Purpose = 'signing-secret' | 'callback-token' | 'rail-credential' | 'fingerprint';

/** The text was sealed with another master key or for another purpose, or is damaged. */
export class CannotOpen extends Error {
  override readonly name = 'CannotOpen';
}

/** A file that this made holds something else by now. */
export class SecretFileError extends Error {
  override readonly name = 'SecretFileError';
}

export interface Secrets {
  seal(purpose: Purpose, text: string): string;
  /** Throws CannotOpen. */
  open(purpose: Purpose, sealed: string): string;
  /** 32 bytes for this purpose alone, the same for the life of the master key. */
  subkey(purpose: Purpose): Buffer;
  /** Tells one master key from another, and nothing of either. */
  readonly fingerprint: string;
}

const VERSION = 'v1.';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const FINGERPRINT_BYTES = 8;

export function createSecrets(masterKey: Buffer): Secrets {
  const subkeys = new Map<Purpose, Buffer>();
  const subkey = (purpose: Purpose): Buffer => {
    const known = subkeys.get(purpose);
    if (known !== undefined) return known;
    const made = Buffer.from(hkdfSync('sha256', masterKey, '', `daftari ${purpose}`, MASTER_KEY_BYTES));
    subkeys.set(purpose, made);
    return made;
  };
  return {
    seal: (purpose, text) => seal(subkey(purpose), text),
    open: (purpose, sealed) => open(subkey(purpose), sealed),
    subkey,
    fingerprint: subkey('fingerprint').toString('hex', 0, FINGERPRINT_BYTES),
  };
}

function seal(key: Buffer, text: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  const ciphertext = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return VERSION + Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]).toString('base64url');
}

function open(key: Buffer, sealed: string): string {
  const bytes = Buffer.from(sealed.slice(VERSION.length), 'base64url');
  if (!sealed.startsWith(VERSION) || bytes.length < NONCE_BYTES + TAG_BYTES) {
    throw new CannotOpen('not a sealed text of a version that is known here');
  }
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  try {
    const text = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES));
    return Buffer.concat([text, decipher.final()]).toString('utf8');
  } catch (cause) {
    throw new CannotOpen('sealed with another MASTER_KEY or for another purpose, or damaged', { cause });
  }
}

/** `whsec_` and 43 characters (256 bits). */
export function makeSigningSecret(): string {
  return `whsec_${randomBytes(32).toString('base64url')}`;
}

export const MASTER_KEY_FILE = 'master.key';

/** The configured key, or the one in `dataDir`, made when there is none. Throws when the file holds something else. */
export function loadMasterKey(dataDir: string, configured: Buffer | null): Buffer {
  if (configured !== null) return configured;
  const path = join(dataDir, MASTER_KEY_FILE);
  const key = parseMasterKey(readOrMake(path, () => randomBytes(MASTER_KEY_BYTES).toString('hex')));
  if (key === undefined) {
    throw new SecretFileError(`${path} does not hold 32 bytes in hex; restore it, or set MASTER_KEY`);
  }
  return key;
}

/** The configured token, or the one in `dataDir`, made when there is none. */
export function loadOperatorToken(dataDir: string, configured: string | null): string {
  if (configured !== null) return configured;
  const path = join(dataDir, 'operator.token');
  const token = readOrMake(path, () => `op_${randomBytes(32).toString('base64url')}`);
  if (token.length < 16) {
    throw new SecretFileError(`${path} holds no token; remove it to have a new one made`);
  }
  return token;
}

/** Content of a file of one line, mode 0600. Of two processes that make it at once, both get the content of one. */
function readOrMake(path: string, make: () => string): string {
  makeWithParents(dirname(path));
  const present = readLine(path);
  if (present !== undefined) return present;

  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    const options = { flag: 'wx', mode: 0o600, flush: true };
    namingNow(draft, () => writeFileSync(draft, `${make()}\n`, options));
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  syncDirectoryNow(dirname(path));
  return readFileSync(path, 'utf8').trim();
}

function readLine(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
