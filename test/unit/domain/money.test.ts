// Money and what is taken of it: amounts in and out, fees, limits; never a fraction, never beyond the safe integers.

import fc from 'fast-check';
import t from 'tap';
import type { AccountSettings } from '../../../src/domain/account.ts';
import { NO_LIMIT } from '../../../src/domain/amount-limits.ts';
import { CURRENCIES, CURRENCY_DECIMALS } from '../../../src/domain/country.ts';
import { DEFAULT_POLICY } from '../../../src/domain/default-policy.ts';
import { feeOn, quoteFee } from '../../../src/domain/fees.ts';
import {
  balanced,
  chargeReleased,
  chargeReversed,
  emptyBalances,
  held,
  post,
  settled,
} from '../../../src/domain/ledger.ts';
import {
  add,
  fromMajorUnits,
  money,
  type Money,
  parseAmount,
  subtract,
  toMajorUnits,
  ZERO,
} from '../../../src/domain/money.ts';
import type { Policy } from '../../../src/domain/policy.ts';
import { parsePolicyFile } from '../../../src/domain/policy-file.ts';
import {
  charge,
  deposit,
  fundedMerchant,
  merchant,
  outcome,
  payout,
  recorded,
  SETTINGS,
  thenRecorded,
  thenRefused,
  withdrawal,
} from './scenario.ts';
import { seedOf } from '../../seed.ts';

const seed = seedOf(t);

const amount = fc.maxSafeNat() as unknown as fc.Arbitrary<Money>;

t.test('amounts on the wire', async (t) => {
  const rows: [text: string, expected: number | null][] = [
    ['0', 0],
    ['500', 500],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
    ['9007199254740992', null],
    ['99999999999999999', null],
    ['', null],
    ['-1', null],
    ['+1', null],
    ['01', null],
    ['1.0', null],
    ['1e3', null],
    [' 1', null],
    ['1,000', null],
    ['٥', null],
  ];
  for (const [text, expected] of rows) t.equal(parseAmount(text), expected, JSON.stringify(text));
  fc.assert(
    fc.property(amount, (value) => t.equal(parseAmount(String(value)), value)),
    { seed },
  );
});

t.test('major units go out and come back', async (t) => {
  fc.assert(
    fc.property(amount, fc.constantFrom(...CURRENCIES), (value, currency) => {
      const text = toMajorUnits(value, currency);
      t.match(text, CURRENCY_DECIMALS[currency] === 0 ? /^[0-9]+$/ : /^[0-9]+\.[0-9]{2}$/);
      if (value < 1e15) t.equal(fromMajorUnits(text, currency), value);
    }),
    { seed },
  );
  t.equal(toMajorUnits(money(5), 'KES'), '0.05');
  t.equal(fromMajorUnits(10.5, 'KES'), 1_050);
  t.equal(fromMajorUnits('500.00', 'UGX'), 500);
  t.equal(fromMajorUnits('500.50', 'UGX'), null);
  t.equal(fromMajorUnits('0.005', 'GHS'), null);
  t.equal(fromMajorUnits(' 7.00\n', 'KES'), 700);
  for (const text of ['', 'abc', '-5', '1,000', '1e3', 'NaN', '.5', '999999999999999.99']) {
    t.equal(fromMajorUnits(text, 'KES'), null, text);
  }
});

t.test('arithmetic stays within the safe integers, or asserts', async (t) => {
  t.equal(add(money(2), money(3)), 5);
  t.equal(subtract(money(2), money(3)), -1);
  t.throws(() => add(money(Number.MAX_SAFE_INTEGER), money(1)), /safe integer/);
  t.throws(() => money(0.5), /safe integer/);
});

t.test('fees', async (t) => {
  const terms = { fixed: money(100), basisPoints: 250, floor: money(300), cap: money(2_000) };
  const rows: [amount: number, fee: number][] = [
    [0, 300],
    [7_999, 300],
    [8_000, 300],
    [8_019, 300],
    [8_020, 301],
    [8_059, 301],
    [8_060, 302],
    [75_979, 1_999],
    [75_980, 2_000],
    [90_000_000, 2_000],
  ];
  for (const [value, fee] of rows) t.equal(feeOn(money(value), terms), fee, `fee on ${value}`);
  const share = { ...terms, fixed: money(0), floor: null, basisPoints: 1 };
  t.equal(feeOn(money(4_999), share), 0, 'just below half');
  t.equal(feeOn(money(5_000), share), 1, 'half goes up');

  t.test('round half up, exactly, at any size', async (t) => {
    fc.assert(
      fc.property(amount, fc.nat(10_000), (value, basisPoints) => {
        const exact = (BigInt(value) * BigInt(basisPoints) * 2n + 10_000n) / 20_000n;
        const fee = feeOn(value, { fixed: money(0), basisPoints, floor: null, cap: null });
        t.equal(BigInt(fee), exact);
      }),
      { seed, numRuns: 500 },
    );
  });

  t.test("the account's own terms come before the policy's", async (t) => {
    const own = { fixed: money(7), basisPoints: 0, floor: null, cap: null };
    const settings = { ...SETTINGS, fees: { 'PAYOUT:UGX': own } };
    t.equal(quoteFee('PAYOUT', money(10_000), 'UGX', settings, DEFAULT_POLICY), 7);
    t.equal(quoteFee('PAYOUT', money(10_000), 'KES', settings, DEFAULT_POLICY), 1_000);
    t.equal(quoteFee('DEPOSIT', money(10_000), 'UGX', settings, DEFAULT_POLICY), 0);
  });

  // Part 2 of the specification: the fee of a withdrawal is the payout fee.
  t.test('a withdrawal costs what a payout does, unless withdrawals have terms of their own', async (t) => {
    const fixed = (fee: number) => ({ fixed: money(fee), basisPoints: 0, floor: null, cap: null });
    const quote = (settings: AccountSettings, policy = DEFAULT_POLICY): number =>
      quoteFee('WITHDRAWAL', money(10_000), 'UGX', settings, policy);
    const agreed = { ...SETTINGS, fees: { 'PAYOUT:UGX': fixed(7) } };
    t.equal(quote(agreed), 7);
    t.equal(quoteFee('WITHDRAWAL', money(10_000), 'KES', agreed, DEFAULT_POLICY), 1_000);
    t.equal(quote({ ...SETTINGS, fees: { ...agreed.fees, 'WITHDRAWAL:UGX': fixed(8) } }), 8);

    const file = (fees: object): Policy => parsePolicyFile(JSON.stringify({ fees }), DEFAULT_POLICY);
    const row = (fee: number) => ({ UGX: { fixed: String(fee) } });
    t.equal(quote(SETTINGS, file({ PAYOUT: row(9) })), 9);
    t.equal(quote(agreed, file({ PAYOUT: row(9) })), 7);
    for (const free of [file({ WITHDRAWAL: row(0) }), file({ PAYOUT: row(9), WITHDRAWAL: row(0) })]) {
      t.equal(quote(SETTINGS, free), 0);
      t.equal(quote(agreed, free), 0);
    }
    t.equal(quote(agreed, file({ PAYOUT: row(9), WITHDRAWAL: row(9) })), 9, 'said, if alike');
  });

  t.test(
    'a deposit costs nothing whatever the terms; a small payout may cost more than it moves',
    async (t) => {
      const dear = { fixed: money(700), basisPoints: 0, floor: null, cap: null };
      const fees = { 'CHARGE:UGX': dear, 'DEPOSIT:UGX': dear, 'PAYOUT:UGX': dear, 'WITHDRAWAL:UGX': dear };
      const settings = { ...SETTINGS, fees };
      const rows = [
        ['CHARGE', 500],
        ['DEPOSIT', 0],
        ['PAYOUT', 700],
        ['WITHDRAWAL', 700],
      ] as const;
      for (const [type, fee] of rows) {
        t.equal(quoteFee(type, money(500), 'UGX', settings, DEFAULT_POLICY), fee, type);
      }
    },
  );
});

t.test('limits run by UTC day and month', async () => {
  const row = { maximum: money(60_000), daily: money(100_000), monthly: money(120_000) };
  const scenario = merchant({ limits: { 'CHARGE:UGX': row } });
  let n = 0;
  const next = (value: number) => charge({ amount: String(value) }, { idempotencyKey: `key-0000000${++n}` });
  const midnight = Date.UTC(2026, 2, 2);
  scenario.at(midnight - 1);
  const first = scenario.create(next(60_000));
  thenRefused(scenario.decide(next(40_001)), 'daily_limit_exceeded', 'amount');
  thenRecorded(scenario.when(next(40_000)), 'ChargeCreated');
  thenRefused(scenario.decide(next(500)), 'daily_limit_exceeded', 'amount');
  scenario.at(midnight);
  thenRefused(scenario.decide(next(20_001)), 'monthly_limit_exceeded', 'amount');
  thenRecorded(scenario.when(next(20_000)), 'ChargeCreated');
  scenario.when(outcome(first.id, 'FAILED'));
  thenRecorded(scenario.decide(next(60_000)), 'ChargeCreated');
  scenario.at(Date.UTC(2026, 3, 1) - 1);
  thenRefused(scenario.decide(next(60_001)), 'amount_above_maximum', 'amount');
  thenRecorded(scenario.when(next(60_000)), 'ChargeCreated');
  thenRefused(scenario.decide(next(500)), 'monthly_limit_exceeded', 'amount');
  scenario.later(1);
  thenRecorded(scenario.decide(next(60_000)), 'ChargeCreated');
});

t.test('where there is no minimum, one minor unit may move, and nothing may not', async () => {
  const scenario = fundedMerchant();
  scenario.policy = { ...scenario.policy, minimums: { ...scenario.policy.minimums, UGX: money(0) } };
  const rows = [
    [charge, 'ChargeCreated'],
    [deposit, 'DepositCreated'],
    [payout, 'PayoutCreated'],
    [withdrawal, 'WithdrawalCreated'],
  ] as const;
  for (const [create, event] of rows) {
    thenRefused(scenario.decide(create({ amount: '0' })), 'amount_below_minimum', 'amount');
    const decision = scenario.when(create({ amount: '1' }, { idempotencyKey: `one-${event}` }));
    thenRecorded(decision, event);
    const { id } = recorded(decision) as { readonly id: string };
    thenRecorded(scenario.when(outcome(id, 'SUCCESSFUL')), 'TransactionSucceeded');
  }
});

const LARGEST = String(Number.MAX_SAFE_INTEGER);
const OFF = { maximum: NO_LIMIT, daily: NO_LIMIT, monthly: NO_LIMIT };
const DEAR = { fixed: money(1_000), basisPoints: 10_000, floor: null, cap: null };

t.test('where limits are off, an amount beyond the safe integers is refused, not asserted', async () => {
  const free = { fixed: ZERO, basisPoints: 0, floor: null, cap: null };
  for (const fee of [DEAR, { ...DEAR, basisPoints: 0 }, free]) {
    const scenario = fundedMerchant({
      limits: { 'CHARGE:UGX': OFF, 'DEPOSIT:UGX': OFF, 'PAYOUT:UGX': OFF, 'WITHDRAWAL:UGX': OFF },
      fees: { 'CHARGE:UGX': fee, 'PAYOUT:UGX': fee, 'WITHDRAWAL:UGX': fee },
    });
    for (const create of [charge, deposit, payout, withdrawal]) {
      const command = create({ amount: LARGEST }, { idempotencyKey: `largest-${create.name}` });
      thenRefused(scenario.decide(command), 'amount_above_maximum', 'amount');
    }
  }
});

t.test('the largest amount taken has room for its fee', async () => {
  const scenario = fundedMerchant({ limits: { 'PAYOUT:UGX': OFF }, fees: { 'PAYOUT:UGX': DEAR } });
  const command = payout({ amount: '1000000000000' }, { idempotencyKey: 'large-0001' });
  thenRefused(scenario.decide(command), 'insufficient_balance');
});

t.test('a journal that does not balance, or a balance that may not be, is a bug of ours', async (t) => {
  const entry = (side: 'DEBIT' | 'CREDIT', value: number) =>
    ({ account: 'MERCHANT_AVAILABLE', side, amount: money(value) }) as const;
  const journal = { reason: 'PAYOUT_HELD', currency: 'UGX', at: 0 } as const;
  t.throws(
    () => balanced({ ...journal, entries: [entry('DEBIT', 5), entry('CREDIT', 4)] }),
    /debits equal credits/,
  );
  t.throws(
    () => balanced({ ...journal, entries: [entry('DEBIT', 0), entry('CREDIT', 0)] }),
    /positive amount/,
  );
  const five = money(5);
  const rows = [
    [{ ...journal, entries: [entry('CREDIT', 5)] }, /debits equal credits/],
    [held('PAYOUT', five, money(1), 'UGX', 0), /by a reversal only/],
    [chargeReleased(five, ZERO, 'UGX', 0), /pending balance is not below zero/],
    [chargeReversed(five, five, false, 'UGX', 0), /fees booked are not below zero/],
    [settled('PAYOUT', five, ZERO, 'UGX', 0), /open holds are not below zero/],
  ] as const;
  for (const [wrong, message] of rows) t.throws(() => post(emptyBalances(), wrong), message);
  const lost = { ...emptyBalances(), MERCHANT_AVAILABLE: money(6) };
  t.throws(() => post(lost, held('PAYOUT', five, money(1), 'UGX', 0)), /sum to zero/);
});
