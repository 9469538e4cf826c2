// One attempt to an endpoint of the test's own, for the tests of the sender.

import type { Test } from 'tap';
import { Sender } from '../../actors/webhooks/sender.ts';
import type { SenderOptions, SendResult } from '../../actors/webhooks/sender.ts';
import { makeCertificate, Receiver } from './webhooks-receiver.ts';
import type { Answer } from './webhooks-receiver.ts';

export const certificate = await makeCertificate();

export const SECRET = 'whsec_4Jd8sK2mQ9';
export const BODY = JSON.stringify({
  id: 'evt_1',
  object: 'event',
  data: { object: { description: 'Ebirango – ßüñ 🥑' } },
});

/** Of attempts that are to time out; the request has to reach its endpoint before. */
export const SHORT_MS = 1_500;
/** Of all others: on a machine that stands still for a moment they are answered all the same. */
export const LONG_MS = 20_000;

export function senderFor(t: Test, options: Partial<SenderOptions> = {}): Sender {
  const sender = new Sender({
    guard: { allowPrivate: true, ports: [] },
    clock: () => Date.now(),
    ca: certificate.cert,
    attemptMs: LONG_MS,
    staleMs: LONG_MS,
    ...options,
  });
  t.teardown(() => sender.close());
  return sender;
}

export async function receiverFor(t: Test, answer?: Answer): Promise<Receiver> {
  const receiver = new Receiver(certificate);
  if (answer !== undefined) receiver.answer = answer;
  await receiver.listen();
  t.teardown(() => receiver.close());
  return receiver;
}

export function send(sender: Sender, url: string): Promise<SendResult> {
  return sender.send({
    url,
    eventId: 'evt_1',
    eventType: 'charge.successful',
    body: BODY,
    signingSecret: SECRET,
  });
}
