// How a refusal looks on the wire. The one place that gives `error` its shape.

import { ERROR_CODES, type Rejection } from '../domain/error-code.ts';

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
