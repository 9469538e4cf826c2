// Policy: every number an operator may set (fees, limits, thresholds, durations, routes). It is input to `decide` only;
// what it decided is written into the event, so that replaying a log never depends on today's configuration.

import { COUNTRY_FACTS, type Country, CURRENCY_DECIMALS, type Currency, type Network } from './country.ts';
import type { Money } from './money.ts';
import { type CreatableType, isCashOut } from './transaction.ts';

/** Fee = fixed + basisPoints / 10,000 of the amount, rounded half up to the minor unit, then floor and cap. */
export interface FeePolicy {
  readonly fixed: Money;
  readonly basisPoints: number;
  readonly floor: Money | null;
  readonly cap: Money | null;
}

export interface LimitPolicy {
  readonly maximum: Money;
  readonly daily: Money;
  readonly monthly: Money;
}

type ByCurrency<T> = Readonly<Record<Currency, T>>;

export interface Policy {
  readonly minimums: ByCurrency<Money>;
  /** Deposits have no fee. Withdrawals cost what payouts do, where nothing else is said of them. */
  readonly fees: {
    readonly CHARGE: ByCurrency<FeePolicy>;
    readonly PAYOUT: ByCurrency<FeePolicy>;
    readonly WITHDRAWAL: Partial<ByCurrency<FeePolicy>>;
  };
  readonly limits: Readonly<Record<CreatableType, ByCurrency<LimitPolicy>>>;
  readonly approvalThresholds: ByCurrency<Money>;
  readonly cashOutPerMinute: number;
  readonly chargeExpiryMs: number;
  readonly chargeReleaseMs: number;
  readonly walletCoolingOffMs: number;
  /** How long a charge's 201 waits for the rail. */
  readonly providerAnswerWaitMs: number;
  /** (country, network) → rail id; an absent pair answers network_not_supported. */
  readonly routes: ByRoute<string>;
  /** (country, network) → all that its rail can do: collect charges and deposits, or send payouts and withdrawals; the other answers
   *  network_not_supported. An absent pair's does both. */
  readonly oneWay: ByRoute<'collect' | 'send'>;
  /** (country, network) → the decimals that its rail takes amounts with. An absent pair's takes the currency's. */
  readonly amountDecimals: ByRoute<number>;
}

type ByRoute<T> = Readonly<Partial<Record<`${Country}:${Network}`, T>>>;

/** Joined once, so that the hot path builds no strings. */
const ROUTES = {
  UG: { MTN: 'UG:MTN', AIRTEL: 'UG:AIRTEL' },
  KE: { MTN: 'KE:MTN', AIRTEL: 'KE:AIRTEL' },
  GH: { MTN: 'GH:MTN', AIRTEL: 'GH:AIRTEL' },
} as const satisfies { [C in Country]: { [N in Network]: `${C}:${N}` } };

/** Its rail's id; undefined: nobody has a contract for that pair. */
export function routeOf(routes: Policy['routes'], country: Country, network: Network): string | undefined {
  return routes[ROUTES[country][network]];
}

/** Whether the rail of that pair moves money in the direction of `type`. */
export function carries(
  { oneWay }: Policy,
  type: CreatableType,
  country: Country,
  network: Network,
): boolean {
  const only = oneWay[ROUTES[country][network]];
  return only === undefined || only === (isCashOut(type) ? 'send' : 'collect');
}

/** With how many decimals the rail of that pair takes amounts. */
export function decimalsOf({ amountDecimals }: Policy, country: Country, network: Network): number {
  return amountDecimals[ROUTES[country][network]] ?? CURRENCY_DECIMALS[COUNTRY_FACTS[country].currency];
}
