// One request by itself: of a work, to see an answer or to send one again; or what a merchant reads.

import type { Server } from '../servers/server.ts';
import type { RequestMaker } from './work.ts';

export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly replayed: boolean;
  readonly text: string;
}

export async function sendOnce(server: Server, maker: RequestMaker, counter: number): Promise<Sent> {
  const [head = '', body = ''] = maker.request(counter).split('\r\n\r\n');
  const [requestLine = '', ...lines] = head.split('\r\n');
  const [method = '', path = ''] = requestLine.split(' ');
  const headers = lines
    .map((line) => line.split(': ', 2) as [string, string])
    .filter(([name]) => name !== 'Host' && name !== 'Content-Length');
  const url = `http://${server.host}:${server.port}${path}`;
  const response = await fetch(url, { method, headers, ...(method === 'POST' ? { body } : {}) });
  const text = await response.text();
  const replayed = response.headers.get('idempotent-replayed') === 'true';
  return { method, path, status: response.status, replayed, text };
}

/** As the merchant of that key. */
export function getAs({ host, port }: Server, key: string, path: string): Promise<Response> {
  return fetch(`http://${host}:${port}${path}`, { headers: { authorization: `Bearer ${key}` } });
}
