// What the model knows of routes: which ways they go, and with how many decimals.

import type { Country, Network } from '../../src/domain/country.ts';
import type { Policy } from '../../src/domain/policy.ts';
import type { CreatableType } from '../../src/domain/transaction.ts';

type Pair = `${Country}:${Network}`;

export function goes({ routes, oneWay }: Policy, type: CreatableType, pair: Pair): boolean {
  const way = type === 'CHARGE' || type === 'DEPOSIT' ? 'collect' : 'send';
  return routes[pair] !== undefined && (oneWay[pair] ?? way) === way;
}

/** `amount`: in minor units. Only a route to a currency with two decimals is ever said to take fewer. Null: the route takes it. */
export function refusedByRoute(
  policy: Policy,
  type: CreatableType,
  amount: string,
  pair: Pair,
): 'network_not_supported' | 'validation_failed' | null {
  if (!goes(policy, type, pair)) return 'network_not_supported';
  return amount.endsWith('0'.repeat(2 - (policy.amountDecimals[pair] ?? 2))) ? null : 'validation_failed';
}
