// A call as the simulator's protocols see it, and the answers they give. The server (server.ts) reads the one and
// writes the other; nothing else in the simulator knows node:http.

import type { IncomingHttpHeaders } from 'node:http';

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Answer {
  readonly status: number;
  readonly contentType: string | null;
  readonly body: string;
  readonly location?: string;
  readonly retryAfter?: string;
}

/** 'drop': the connection is closed without an answer. 'hang': it is kept open without one. */
export type Outcome = Answer | 'drop' | 'hang';
export type Respond = (outcome: Outcome) => void;

export function json(status: number, value: unknown): Answer {
  return { status, contentType: 'application/json', body: JSON.stringify(value) };
}

export function empty(status: number): Answer {
  return { status, contentType: null, body: '' };
}

export function html(status: number, body: string): Answer {
  return { status, contentType: 'text/html; charset=utf-8', body };
}

/** What a firewall in front of a provider says. */
export const FIREWALL_PAGE = html(
  200,
  '<html><head><title>Request Rejected</title></head><body>The requested URL was rejected.</body></html>',
);

export function header({ headers }: Call, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** Undefined: not a JSON object. */
export function jsonBody({ body }: Call): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Empty when it is absent or no text. */
export function textAt(value: Record<string, unknown>, name: string): string {
  const text = value[name];
  return typeof text === 'string' ? text : '';
}

export function objectAt(value: Record<string, unknown>, name: string): Record<string, unknown> {
  const inner = value[name];
  return isObject(inner) ? inner : {};
}
