// The operator surface: every route of it, and who may call. Listens on a port of its own (OPERATOR_PORT), never on the
// merchants'.

import { createHash, timingSafeEqual } from 'node:crypto';
import { rejection } from '../domain/error-code.ts';
import type { Rejection } from '../domain/error-code.ts';
import { renderError } from '../http/error-reply.ts';
import type { Surface } from '../http/route.ts';
import { accountRoutes } from './account-routes.ts';
import type { OperatorContext } from './context.ts';
import { deliveryRoutes } from './delivery-routes.ts';
import { moneyRoutes } from './money-routes.ts';
import { serviceRoutes } from './service-routes.ts';

const TOKEN_REQUIRED = rejection('authentication_required', 'Send `Authorization: Bearer <OPERATOR_TOKEN>`.');
const TOKEN_WRONG = rejection('invalid_api_key', 'This is not the operator token.');

export function operatorSurface(context: OperatorContext): Surface {
  return {
    name: 'operator',
    routes: [
      ...accountRoutes(context),
      ...moneyRoutes(context),
      ...deliveryRoutes(context),
      ...serviceRoutes(context),
    ],
    renderError,
    authorize: authorizer(context.token),
  };
}

/** Hashes both, so that the comparison takes the same time whatever is sent. */
function authorizer(token: string): (bearer: string | null) => Rejection | null {
  const expected = sha256(token);
  return (bearer) => {
    if (bearer === null) return TOKEN_REQUIRED;
    return timingSafeEqual(sha256(bearer), expected) ? null : TOKEN_WRONG;
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
