// The master key as text: 32 bytes in hex or base64. The key itself is used in src/secrets.ts only.

export const MASTER_KEY_BYTES = 32;

/** Hex, base64 or base64url, padded or not; undefined when it is none of them or not 32 bytes. */
export function parseMasterKey(text: string): Buffer | undefined {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
  // As many characters are always 32 bytes.
  return /^[\w+/-]{43}=?$/.test(text) ? Buffer.from(text, 'base64') : undefined;
}
