// No sum of an account leaves the safe integers, whatever becomes of what was accepted: what could take one there is refused
// when it is to be created. Limits are off here, as an operator may have them.

import fc from 'fast-check';
import t from 'tap';
import { LEDGER_ACCOUNTS } from '../../../src/domain/ledger.ts';
import { NO_LIMIT } from '../../../src/domain/amount-limits.ts';
import { ZERO } from '../../../src/domain/money.ts';
import { lengthOf, seedOf } from '../../seed.ts';
import {
  charge,
  DAY,
  deposit,
  due,
  fundedMerchant,
  outcome,
  payout,
  type Scenario,
  START,
  thenRecorded,
  thenRefused,
} from './scenario.ts';

const seed = seedOf(t);
const numRuns = lengthOf(t, 'RUNS', 20);

const OFF = { maximum: NO_LIMIT, daily: NO_LIMIT, monthly: NO_LIMIT };
const FREE = { fixed: ZERO, basisPoints: 0, floor: null, cap: null };
const HALF = { ...FREE, basisPoints: 5_000 };
const LARGEST = '1000000000000';
const MONTH = 31 * DAY;
const YEAR = 366 * DAY;

/** Its charges cost half of their amount, its payouts nothing. */
function unlimited(): Scenario {
  const scenario = fundedMerchant({
    limits: { 'CHARGE:UGX': OFF, 'DEPOSIT:UGX': OFF, 'PAYOUT:UGX': OFF },
    fees: { 'CHARGE:UGX': HALF, 'PAYOUT:UGX': FREE },
    cashOutPerMinute: 1_000_000,
  });
  scenario.policy = { ...scenario.policy, chargeExpiryMs: YEAR };
  return scenario;
}

let keys = 0;

/** The ids of as many as are taken, at most `most`, and how the next was refused. */
function createAll(
  scenario: Scenario,
  create: typeof charge | typeof deposit | typeof payout,
  most = 10_000,
): { ids: string[]; refusal: string | null } {
  const ids: string[] = [];
  while (ids.length < most) {
    const decision = scenario.when(create({ amount: LARGEST }, { idempotencyKey: `key-${++keys}-of-many` }));
    if (decision.outcome.type !== 'answer') {
      return {
        ids,
        refusal: decision.outcome.type === 'rejected' ? decision.outcome.rejection.code : 'done',
      };
    }
    ids.push(decision.outcome.transactionId);
  }
  return { ids, refusal: null };
}

function largestOf(scenario: Scenario): number {
  const balances = scenario.balances();
  return Math.max(...LEDGER_ACCOUNTS.map((name) => Math.abs(balances[name])));
}

t.test('what is in flight counts: all of it may succeed', async (t) => {
  const scenario = unlimited();
  const charges = createAll(scenario, charge);
  const deposits = createAll(scenario, deposit);
  t.equal(charges.refusal, 'amount_above_maximum');
  t.equal(deposits.refusal, 'amount_above_maximum');
  t.equal(charges.ids.length, 100, 'the last one makes exactly the most of a month');
  thenRefused(
    scenario.decide(deposit({ amount: LARGEST }, { idempotencyKey: 'key-of-one-more' })),
    'amount_above_maximum',
    'amount',
  );
  for (const id of [...charges.ids, ...deposits.ids]) scenario.when(outcome(id, 'SUCCESSFUL'));
  t.ok(largestOf(scenario) > 0);
});

t.test('what failed is given back', async () => {
  const scenario = unlimited();
  const [id] = createAll(scenario, deposit).ids;
  scenario.when(outcome(id!, 'FAILED'));
  thenRecorded(
    scenario.decide(deposit({ amount: LARGEST }, { idempotencyKey: 'key-of-another' })),
    'DepositCreated',
  );
});

t.test('what is in flight for a year, and all that is taken beside it, may succeed at the end', async (t) => {
  const scenario = unlimited();
  // A full balance first: month by month until no more is taken.
  for (let ids = createAll(scenario, deposit).ids; ids.length > 0; ids = createAll(scenario, deposit).ids) {
    for (const id of ids) scenario.when(outcome(id, 'SUCCESSFUL'));
    scenario.later(MONTH);
  }
  t.ok(largestOf(scenario) > 5e15, 'which is more than anybody has');
  thenRefused(
    scenario.decide(charge({ amount: LARGEST }, { idempotencyKey: 'key-of-a-charge' })),
    'amount_above_maximum',
  );
  // As full as it may be to take any, then a year of what is not answered.
  const open = createAll(scenario, charge, 1).ids;
  while (open.length === 0) {
    for (const id of createAll(scenario, payout, 1).ids) scenario.when(outcome(id, 'SUCCESSFUL'));
    open.push(...createAll(scenario, charge, 1).ids);
  }
  for (const end = scenario.now + YEAR; scenario.now < end; scenario.later(MONTH)) {
    open.push(...createAll(scenario, charge).ids, ...createAll(scenario, deposit).ids);
  }
  t.ok(open.length > 1_000);
  for (const id of open) thenRecorded(scenario.when(outcome(id, 'SUCCESSFUL')), 'TransactionSucceeded');
  t.ok(largestOf(scenario) <= Number.MAX_SAFE_INTEGER);
  // Whatever it has, it may pay out.
  thenRecorded(
    scenario.decide(payout({ amount: LARGEST }, { idempotencyKey: 'key-of-a-payout' })),
    'PayoutCreated',
  );
});

t.test('a reversal that would take the balance below what can be counted is for a person', async (t) => {
  const scenario = unlimited();
  scenario.given({
    type: 'AccountSettingsChanged',
    by: 'amina',
    settings: { ...scenario.account().settings, fees: { 'CHARGE:UGX': FREE, 'PAYOUT:UGX': FREE } },
  });
  const released: string[] = [];
  // Collected, released and paid out, year after year: then the networks take all of it back.
  while (released.length < 9_100) {
    const { ids } = createAll(scenario, charge);
    for (const id of ids) scenario.when(outcome(id, 'SUCCESSFUL'));
    scenario.later(MONTH);
    for (const id of ids) scenario.when(due('ReleaseCharge', id));
    for (const id of createAll(scenario, payout).ids) scenario.when(outcome(id, 'SUCCESSFUL'));
    released.push(...ids);
  }
  const last = new Set(released.map((id) => scenario.when(outcome(id, 'REVERSED')).record?.events[0]?.type));
  t.strictSame([...last], ['ChargeReversed', 'ReconciliationRaised']);
  t.ok(largestOf(scenario) <= Number.MAX_SAFE_INTEGER);
});

// --- The bounds, exactly ---------------------------------------------------------------------------------------------

/** Of a currency of an account, as amount-limits.ts says it. */
const MOST = 6_000 * Number(LARGEST);

/** As an account would have after years: what was collected, and what of it is available. */
function having(scenario: Scenario, float: number, available: number): Scenario {
  Object.assign(scenario.balances(), { PROVIDER_FLOAT: float, MERCHANT_AVAILABLE: available });
  return scenario;
}

t.test('an account takes more with exactly the most in its balances, and nothing with one more', async () => {
  /** [float, available, taken]: below zero of what is available is no part of what it has. */
  const rows = [
    [MOST, MOST, true],
    [MOST + 1, MOST, false],
    [MOST, 0, true],
    [MOST, -1, false],
    [MOST - 7, -7, true],
    [MOST - 7, -8, false],
    [0, -MOST, true],
    [1, -MOST, false],
    [-MOST, -MOST, true],
  ] as const;
  for (const [float, available, isTaken] of rows) {
    const scenario = having(unlimited(), float, available);
    for (const [create, created] of [
      [charge, 'ChargeCreated'],
      [deposit, 'DepositCreated'],
    ] as const) {
      const decision = scenario.decide(create({ amount: '500' }));
      if (isTaken) thenRecorded(decision, created);
      else thenRefused(decision, 'amount_above_maximum', 'amount');
    }
  }
});

t.test('the net of a released charge is taken back down to exactly the least that is counted', async () => {
  const scenario = unlimited();
  const pending = scenario.create(charge({ amount: '1000' }, { idempotencyKey: 'key-of-pending' }));
  scenario.when(outcome(pending.id, 'SUCCESSFUL'));
  const { id } = scenario.create(charge({ amount: '1000' }));
  scenario.when(outcome(id, 'SUCCESSFUL'));
  scenario.later(MONTH).when(due('ReleaseCharge', id));
  const net = 500;
  for (const [available, then] of [
    [net, 'ChargeReversed'],
    [net - MOST, 'ChargeReversed'],
    [net - MOST - 1, 'ReconciliationRaised'],
    [-MOST, 'ReconciliationRaised'],
  ] as const) {
    having(scenario, 0, available);
    thenRecorded(scenario.decide(outcome(id, 'REVERSED')), then);
    thenRecorded(scenario.decide(outcome(pending.id, 'REVERSED')), 'ChargeReversed');
  }
});

// --- Any order -------------------------------------------------------------------------------------------------------

const ENDS = ['SUCCESSFUL', 'SUCCESSFUL', 'SUCCESSFUL', 'FAILED', 'REVERSED'] as const;

type Step =
  | { readonly type: 'create'; readonly what: 'charge' | 'deposit' | 'payout'; readonly count: number }
  | { readonly type: 'end'; readonly how: (typeof ENDS)[number]; readonly share: number }
  | { readonly type: 'wait'; readonly days: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    type: fc.constant('create' as const),
    what: fc.constantFrom('charge' as const, 'deposit' as const, 'payout' as const),
    count: fc.integer({ min: 1, max: 4_000 }),
  }),
  fc.record({
    type: fc.constant('end' as const),
    how: fc.constantFrom(
      'SUCCESSFUL' as const,
      'SUCCESSFUL' as const,
      'FAILED' as const,
      'REVERSED' as const,
    ),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
  }),
  fc.record({ type: fc.constant('wait' as const), days: fc.integer({ min: 1, max: 40 }) }),
);

t.test('whatever is created, and however it ends, no sum leaves the safe integers', async () => {
  const property = fc.property(fc.array(step, { minLength: 10, maxLength: 40 }), (steps) => {
    const scenario = unlimited();
    const creates = { charge, deposit, payout };
    const all: string[] = [];
    const endAll = (how: (typeof ENDS)[number], ids: readonly string[]): void => {
      for (const id of ids) {
        const { status, expiresAt } = scenario.transaction(id);
        if (expiresAt !== null && scenario.now >= expiresAt) scenario.when(due('ExpireTransaction', id));
        else if (how !== 'REVERSED' || status === 'SUCCESSFUL') scenario.when(outcome(id, how));
      }
    };
    for (const one of steps) {
      if (one.type === 'create') all.push(...createAll(scenario, creates[one.what], one.count).ids);
      else if (one.type === 'end') endAll(one.how, all.slice(Math.floor(all.length * one.share)));
      else {
        scenario.later(one.days * DAY);
        for (const id of all) scenario.when(due('ReleaseCharge', id));
      }
    }
    endAll('SUCCESSFUL', all);
    endAll('REVERSED', all);
    return largestOf(scenario) <= Number.MAX_SAFE_INTEGER && scenario.now >= START;
  });
  fc.assert(property, { seed, numRuns, endOnFailure: true });
});
