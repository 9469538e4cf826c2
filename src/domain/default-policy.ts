// The service's policy when nothing is configured. An operator replaces any of it with a policy file (policy-file.ts)
// or per account; durations, the cash-out rate and routes come from the environment (src/config.ts).
//
//                    UGX             KES (cents)          GHS (pesewas)
//   minimum          500             1000   (10.00)       100   (1.00)         UGX: specification; the others are ours
//   charge fee       2.5 %           2.5 %                2.5 %                never more than the amount
//   payout fee       1 %, 500 at     1 %, 1000 at least,  1 %, 50 at least,    also the withdrawal fee
//                    least, 10,000   30000 at most        1500 at most
//                    at most
//   deposit fee      none            none                 none                 specification
//   maximum of one   10,000,000      25000000             2500000              charge, payout: about what a fully
//                                    (250,000.00)         (25,000.00)          registered wallet may move at once
//                    100,000,000     300000000            50000000             deposit, withdrawal: the merchant's own
//                                    (3,000,000.00)       (500,000.00)         (business) wallets
//   daily, monthly   off             off                  off                  set them in the policy file
//   approval above   5,000,000       17000000             2000000              specification

import { NO_LIMIT } from './amount-limits.ts';
import { money, type Money } from './money.ts';
import type { FeePolicy, LimitPolicy, Policy } from './policy.ts';

function fee(fixed: number, basisPoints: number, floor: number | null, cap: number | null): FeePolicy {
  return {
    fixed: money(fixed),
    basisPoints,
    floor: floor === null ? null : money(floor),
    cap: cap === null ? null : money(cap),
  };
}

function limit(maximum: number): LimitPolicy {
  return { maximum: money(maximum), daily: NO_LIMIT, monthly: NO_LIMIT };
}

function amounts(UGX: number, KES: number, GHS: number): { UGX: Money; KES: Money; GHS: Money } {
  return { UGX: money(UGX), KES: money(KES), GHS: money(GHS) };
}

const CHARGE_FEE = fee(0, 250, null, null);

const CUSTOMER_LIMITS = { UGX: limit(10_000_000), KES: limit(25_000_000), GHS: limit(2_500_000) };
const MERCHANT_LIMITS = { UGX: limit(100_000_000), KES: limit(300_000_000), GHS: limit(50_000_000) };

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Routes are empty: which rail serves which pair is always the environment's to say (RAILS). */
export const DEFAULT_POLICY: Policy = {
  minimums: amounts(500, 1_000, 100),
  fees: {
    CHARGE: { UGX: CHARGE_FEE, KES: CHARGE_FEE, GHS: CHARGE_FEE },
    PAYOUT: {
      UGX: fee(0, 100, 500, 10_000),
      KES: fee(0, 100, 1_000, 30_000),
      GHS: fee(0, 100, 50, 1_500),
    },
    WITHDRAWAL: {},
  },
  limits: {
    CHARGE: CUSTOMER_LIMITS,
    PAYOUT: CUSTOMER_LIMITS,
    DEPOSIT: MERCHANT_LIMITS,
    WITHDRAWAL: MERCHANT_LIMITS,
  },
  approvalThresholds: amounts(5_000_000, 17_000_000, 2_000_000),
  cashOutPerMinute: 60,
  chargeExpiryMs: 30 * MINUTE_MS,
  chargeReleaseMs: DAY_MS,
  walletCoolingOffMs: DAY_MS,
  providerAnswerWaitMs: 5_000,
  routes: {},
  oneWay: {},
  amountDecimals: {},
};
