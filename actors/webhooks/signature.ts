// The signature of a delivery, specification part 6: HMAC-SHA256 over "<t>.<body>" with the whole signing secret.

import { createHmac } from 'node:crypto';

/** Value of `Service-Signature`. `secret` with its `whsec_` prefix; `unixSeconds`: when this attempt is sent. */
export function signatureOf(secret: string, unixSeconds: number, body: Buffer): string {
  const hex = createHmac('sha256', secret).update(`${unixSeconds}.`).update(body).digest('hex');
  return `t=${unixSeconds},v1=${hex}`;
}
