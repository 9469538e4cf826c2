// The operator surface: every route of it, and who may call. Listens on a port of its own (OPERATOR_PORT), never on the
// merchants'.

import { createHash, timingSafeEqual } from 'node:crypto';
import { rejection } from '../domain/error-code.ts';
import type { Rejection } from '../domain/error-code.ts';
import { withOpenApi } from '../http/openapi-route.ts';
import type { Surface } from '../http/route.ts';
import { accountRoutes } from './account-routes.ts';
import type { OperatorContext } from './context.ts';
import { deliveryRoutes } from './delivery-routes.ts';
import { moneyRoutes } from './money-routes.ts';
import { serviceRoutes } from './service-routes.ts';

const TOKEN_REQUIRED = rejection('authentication_required', 'Send `Authorization: Bearer <OPERATOR_TOKEN>`.');
const TOKEN_WRONG = rejection('invalid_api_key', 'This is not the operator token.');

export function operatorSurface(context: OperatorContext): Surface {
  const routes = [
    ...accountRoutes(context),
    ...moneyRoutes(context),
    ...deliveryRoutes(context),
    ...serviceRoutes(context),
  ];
  const surface = { name: 'operator', routes, authorise: authoriser(context.token) };
  return withOpenApi(surface, {
    title: 'Daftari: operator API',
    description:
      'For those who run the service, and for dashboards. Every change is in the audit log; the optional header ' +
      '`Operator` says who makes it. `by` in a body is the member of the account who acts. A 4xx or 5xx answer means that nothing ' +
      'was changed. Where the connection is closed without one nobody knows: read the object, or send the same again with its ' +
      '`idempotency_key`. Amounts are integer minor units, as strings.',
    token: 'The value of OPERATOR_TOKEN, which every node has.',
    tags: {
      Accounts: 'Accounts, what they may do, their members and apps.',
      'Payout wallets': 'Where withdrawals may go: added by one person, approved by another.',
      Withdrawals: 'Approval of what is above the threshold.',
      Deposits: 'Money moved from the dashboard.',
      Ledger: 'The books of an account.',
      Reconciliation: 'Where a provider contradicts the ledger.',
      Deliveries: 'Webhooks: what was attempted, and sending it again.',
      Service: 'Audit, rails, partitions, health.',
      Document: 'This document.',
    },
    hasWebhooks: false,
  });
}

/** Hashes both, so that the comparison takes the same time whatever is sent. */
function authoriser(token: string): (bearer: string | null) => Rejection | null {
  const expected = sha256(token);
  return (bearer) => {
    if (bearer === null) return TOKEN_REQUIRED;
    return timingSafeEqual(sha256(bearer), expected) ? null : TOKEN_WRONG;
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
