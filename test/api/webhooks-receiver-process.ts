// Merchants' endpoints in a process of their own, so that what they cost is not the sender's. Child of
// webhooks-load.test.ts: gets a certificate, answers /ok at once, /hang never, and tells how late events came.

import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Certificate } from './webhooks-receiver.ts';

export interface LoadReport {
  readonly received: number;
  readonly hanging: number;
  /** From the event to its arrival at a healthy endpoint, ms, sorted. */
  readonly lagsMs: readonly number[];
}

let hanging = 0;
let lagsMs: number[] = [];

process.on('message', (message: Certificate | 'report') => {
  if (message === 'report') {
    process.send?.({
      received: lagsMs.length,
      hanging,
      lagsMs: lagsMs.sort((a, b) => a - b),
    } satisfies LoadReport);
    lagsMs = [];
  } else {
    listen(message);
  }
});

function listen(certificate: Certificate): void {
  const server = https.createServer(certificate, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.url?.startsWith('/hang') === true) {
        hanging++;
        return;
      }
      const { created_at } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { created_at: string };
      lagsMs.push(Date.now() - Date.parse(created_at));
      response.writeHead(200).end();
    });
  });
  server.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
}
