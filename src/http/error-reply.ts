// How a refusal looks on the wire: status line and body. The one place that gives `error` its shape.

import { STATUS_CODES } from 'node:http';
import { ERROR_CODES, type Rejection } from '../domain/error-code.ts';

export type RenderError = (rejection: Rejection, requestId: string) => string;

export function renderError(rejection: Rejection, requestId: string): string {
  return JSON.stringify({
    error: {
      code: rejection.code,
      message: rejection.message ?? ERROR_CODES[rejection.code].meaning,
      param: rejection.param,
      request_id: requestId,
    },
  });
}

const statusLines = new Map<number, string>();

/** "404 Not Found". */
export function statusLine(status: number): string {
  let line = statusLines.get(status);
  if (line === undefined) {
    line = `${status} ${STATUS_CODES[status] ?? 'Unknown'}`;
    statusLines.set(status, line);
  }
  return line;
}
