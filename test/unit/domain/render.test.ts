// What merchants see: every field, in the order of the specification, as of every status event.

import { strict as assert } from 'node:assert';
import t from 'tap';
import { NO_LIMIT } from '../../../src/domain/amount-limits.ts';
import { nullable, quote } from '../../../src/domain/render/json-text.ts';
import { money } from '../../../src/domain/money.ts';
import {
  renderAccount,
  renderBalances,
  renderPayoutDestinations,
  renderTrialBalance,
} from '../../../src/domain/render/account.ts';
import {
  renderCurrent,
  renderDetail,
  renderObject,
  renderPage,
  renderTimeline,
  renderTransaction,
} from '../../../src/domain/render/render.ts';
import { deriveId } from '../../../src/domain/id.ts';
import {
  charge,
  DAY,
  deposit,
  due,
  fundedMerchant,
  merchant,
  outcome,
  payout,
  submission,
  WALLET,
  withdrawal,
} from './scenario.ts';

function same(text: string, expected: unknown): void {
  assert.equal(text, JSON.stringify(expected));
}

const CREATED = '2026-03-01T09:30:00.000Z';
const ACCEPTED = '2026-03-01T09:30:00.250Z';
const FINISHED = '2026-03-01T09:30:07.000Z';

t.test('a charge, after each of its status events', async () => {
  const scenario = merchant();
  const metadata = { order: 'A "1"', paid: false, n: 1.5, none: null };
  const { id } = scenario.create(charge({ description: 'Bücher, 2 ×', metadata }));
  scenario.later(250).when(submission(id));
  scenario.later(6_750).when(outcome(id, 'SUCCESSFUL'));
  scenario.later(1_000).when(outcome(id, 'REVERSED'));
  const transaction = scenario.transaction(id);
  const rows: [status: string, fee: string, net: string, updated: string][] = [
    ['INITIATED', '0', '50000', CREATED],
    ['PENDING_PROVIDER', '0', '50000', CREATED],
    ['AWAITING_CUSTOMER', '0', '50000', ACCEPTED],
    ['SUCCESSFUL', '1250', '48750', FINISHED],
    ['REVERSED', '1250', '48750', '2026-03-01T09:30:08.000Z'],
  ];
  rows.forEach(([status, fee, net, updated], index) => {
    same(renderObject(transaction, index), {
      id,
      object: 'charge',
      status,
      amount: '50000',
      currency: 'UGX',
      country: 'UG',
      network: 'MTN',
      msisdn_masked: '25677****456',
      reference: 'order-1',
      description: 'Bücher, 2 ×',
      fee,
      net,
      provider: 'mtn_ug',
      failure_code: null,
      failure_message: null,
      metadata,
      created_at: CREATED,
      updated_at: updated,
    });
  });
});

t.test('a failed deposit shows why, and only once it has failed', async () => {
  const scenario = merchant();
  const { id } = scenario.create(deposit());
  scenario.later(7_000).when(outcome(id, 'FAILED', { failureMessage: 'He said "no"\n' }));
  const object = (status: string, code: string | null, message: string | null, updated: string) => ({
    id,
    object: 'deposit',
    status,
    amount: '50000',
    currency: 'UGX',
    country: 'UG',
    network: 'MTN',
    msisdn_masked: '25677****456',
    reference: 'order-1',
    description: null,
    provider: 'mtn_ug',
    failure_code: code,
    failure_message: message,
    metadata: null,
    created_at: CREATED,
    updated_at: updated,
  });
  same(renderObject(scenario.transaction(id), 1), object('PENDING_PROVIDER', null, null, CREATED));
  const failed = object('FAILED', 'customer_declined', 'He said "no"\n', FINISHED);
  same(renderCurrent(scenario.transaction(id)), failed);
});

t.test('a payout shows its fee once it succeeded, a withdrawal from the start', async () => {
  const scenario = fundedMerchant();
  const sent = scenario.create(payout({ narration: 'Never shown' }));
  const drawn = scenario.create(withdrawal({}, { idempotencyKey: 'key-00000002' }));
  scenario.later(7_000).when(outcome(sent.id, 'SUCCESSFUL'));
  scenario.when(outcome(drawn.id, 'SUCCESSFUL'));
  const object = (status: string, fee: string, total: string, updated: string) => ({
    id: sent.id,
    object: 'payout',
    status,
    amount: '50000',
    currency: 'UGX',
    country: 'UG',
    network: 'MTN',
    msisdn_masked: '25677****456',
    reference: 'order-1',
    fee,
    total_debited: total,
    provider: 'mtn_ug',
    approval_status: 'NOT_REQUIRED',
    failure_code: null,
    failure_message: null,
    metadata: null,
    created_at: CREATED,
    updated_at: updated,
  });
  same(renderObject(sent, 1), object('PENDING_PROVIDER', '0', '50000', CREATED));
  same(renderObject(sent, 2), object('SUCCESSFUL', '500', '50500', FINISHED));

  const { id: _, object: __, status: ___, ...rest } = object('', '500', '50500', CREATED);
  const { amount, currency, country, network, msisdn_masked: ____, ...tail } = rest;
  same(renderObject(drawn, 1), {
    id: drawn.id,
    object: 'withdrawal',
    status: 'PENDING_PROVIDER',
    amount,
    currency,
    country,
    network,
    destination: WALLET,
    msisdn_masked: '25677****111',
    ...tail,
  });
});

t.test('the unified transaction books the fee on success, whatever the type', async (t) => {
  const rows: [
    create: Parameters<ReturnType<typeof merchant>['create']>[0],
    before: string[],
    after: string[],
  ][] = [
    [charge(), ['0', '50000'], ['1250', '48750']],
    [deposit(), ['0', '50000'], ['0', '50000']],
    [payout(), ['0', '50000'], ['500', '50500']],
    [withdrawal(), ['0', '50000'], ['500', '50500']],
  ];
  for (const [create, before, after] of rows) {
    const scenario = fundedMerchant();
    const transaction = scenario.create(create);
    const read = () => JSON.parse(renderTransaction(transaction)) as Record<string, unknown>;
    t.strictSame([read()['fee'], read()['net']], before);
    scenario.later(7_000).when(outcome(transaction.id, 'SUCCESSFUL'));
    t.strictSame([read()['fee'], read()['net']], after);
    same(renderTransaction(transaction), {
      id: transaction.id,
      object: 'transaction',
      type: transaction.type,
      approval_status: 'NOT_REQUIRED',
      status: 'SUCCESSFUL',
      amount: '50000',
      currency: 'UGX',
      country: 'UG',
      network: 'MTN',
      msisdn_masked: transaction.type === 'WITHDRAWAL' ? '25677****111' : '25677****456',
      reference: 'order-1',
      fee: after[0],
      net: after[1],
      provider: 'mtn_ug',
      metadata: null,
      created_at: CREATED,
      updated_at: FINISHED,
    });
  }
});

t.test('timeline and detail carry status events and ledger entries in order', async () => {
  const scenario = merchant();
  const transaction = scenario.create(charge());
  const { id } = transaction;
  scenario.later(250).when(submission(id));
  scenario.later(6_750).when(outcome(id, 'SUCCESSFUL'));
  scenario.later(DAY).when(due('ReleaseCharge', id));
  const released = '2026-03-02T09:30:07.000Z';
  const event = (index: number, status: string, source: string, word: string | null, at: string) => ({
    id: deriveId('event', id, index),
    status,
    source,
    provider_status: word,
    message: null,
    created_at: at,
  });
  const entry = (index: number, journal: number, account: string, side: string, amount: string) => ({
    id: deriveId('entry', id, index),
    journal_id: deriveId('journal', id, journal),
    account,
    side,
    amount,
    currency: 'UGX',
    reason: journal === 0 ? 'CHARGE_SETTLED' : 'CHARGE_RELEASED',
    created_at: journal === 0 ? FINISHED : released,
  });
  const history = {
    events: [
      event(0, 'INITIATED', 'API', null, CREATED),
      event(1, 'PENDING_PROVIDER', 'API', null, CREATED),
      event(2, 'AWAITING_CUSTOMER', 'API', null, ACCEPTED),
      event(3, 'SUCCESSFUL', 'PROVIDER_CALLBACK', 'P_SUCCESSFUL', FINISHED),
    ],
    ledger: [
      entry(0, 0, 'PROVIDER_FLOAT', 'DEBIT', '50000'),
      entry(1, 0, 'MERCHANT_PENDING', 'CREDIT', '48750'),
      entry(2, 0, 'FEES_REVENUE', 'CREDIT', '1250'),
      entry(3, 1, 'MERCHANT_PENDING', 'DEBIT', '48750'),
      entry(4, 1, 'MERCHANT_AVAILABLE', 'CREDIT', '48750'),
    ],
  };
  same(renderTimeline(transaction), { charge: JSON.parse(renderCurrent(transaction)) as object, ...history });
  same(renderDetail(transaction), {
    transaction: JSON.parse(renderTransaction(transaction)) as object,
    ...history,
  });
});

t.test('any text is shown as JSON writes it', async () => {
  for (let code = 0; code < 0x180; code++) {
    for (const text of [String.fromCharCode(code), `a${String.fromCharCode(code)}b`]) same(quote(text), text);
  }
  for (const text of ['', '"}', 'é', '\u2028', '\ud800', '😀', 'x'.repeat(64), `${'x'.repeat(80)}"`]) {
    same(quote(text), text);
    same(nullable(text), text);
  }
  assert.equal(nullable(null), 'null');
});

t.test('a page', async () => {
  same(renderPage([], null), { data: [], has_more: false, next_cursor: null });
  same(renderPage(['{"a":1}', '2'], 'c'), { data: [{ a: 1 }, 2], has_more: true, next_cursor: 'c' });
});

t.test('balances: one row per currency transacted in', async () => {
  same(renderBalances(merchant().account()), { object: 'list', data: [] });
  const scenario = fundedMerchant();
  scenario.create(payout({ amount: '1000000' }));
  scenario.when(outcome(scenario.create(charge({}, { idempotencyKey: 'key-00000002' })).id, 'SUCCESSFUL'));
  const data = [
    { currency: 'UGX', available: '18990000', pending: '48750' },
    { currency: 'KES', available: '20000000', pending: '0' },
  ];
  same(renderBalances(scenario.account()), { object: 'list', data });
  assert.deepEqual(JSON.parse(renderAccount(scenario.account())).balances, data);
  const accounts = {
    MERCHANT_PENDING: '0',
    MERCHANT_AVAILABLE: '20000000',
    FEES_REVENUE: '0',
    PROVIDER_FLOAT: '20000000',
    SETTLEMENT_CLEARING: '0',
  };
  same(renderTrialBalance(scenario.account()), {
    object: 'trial_balance',
    account_id: scenario.account().id,
    balanced: true,
    data: [
      {
        currency: 'UGX',
        accounts: {
          MERCHANT_PENDING: '48750',
          MERCHANT_AVAILABLE: '18990000',
          FEES_REVENUE: '1250',
          PROVIDER_FLOAT: '20050000',
          SETTLEMENT_CLEARING: '1010000',
        },
        sum: '0',
      },
      { currency: 'KES', accounts, sum: '0' },
    ],
  });
});

t.test('a trial balance tells when money of any currency was made or lost', async (t) => {
  for (const [currency, name, sum] of [
    ['UGX', 'MERCHANT_AVAILABLE', '-1'],
    ['KES', 'PROVIDER_FLOAT', '1'],
  ] as const) {
    const scenario = fundedMerchant();
    scenario.balances(currency)[name] = money(20_000_001);
    const { balanced, data } = JSON.parse(renderTrialBalance(scenario.account()));
    t.equal(balanced, false);
    t.hasStrict(data, [
      { currency: 'UGX', sum: currency === 'UGX' ? sum : '0' },
      { currency: 'KES', sum: currency === 'KES' ? sum : '0' },
    ]);
  }
});

t.test("an account's own terms, all of them, by type and currency", async () => {
  const fee = { fixed: money(1), basisPoints: 2, floor: null, cap: money(3) };
  const limit = { maximum: money(4), daily: money(5), monthly: NO_LIMIT };
  const scenario = merchant({
    approvalThresholds: { UGX: money(6), GHS: money(0) },
    fees: { 'CHARGE:UGX': fee, 'PAYOUT:UGX': fee, 'PAYOUT:KES': { ...fee, floor: money(0) } },
    limits: { 'PAYOUT:GHS': limit, 'PAYOUT:KES': limit },
  });
  const { approval_thresholds, fees, limits } = JSON.parse(renderAccount(scenario.account()));
  const shown = { fixed: '1', basis_points: 2, floor: null, cap: '3' };
  const most = { maximum: '4', daily: '5', monthly: null };
  assert.deepEqual(approval_thresholds, { UGX: '6', GHS: '0' });
  assert.deepEqual(fees, { CHARGE: { UGX: shown }, PAYOUT: { UGX: shown, KES: { ...shown, floor: '0' } } });
  assert.deepEqual(limits, { PAYOUT: { GHS: most, KES: most } });
});

t.test('a currency is transacted in from the first request on, whatever becomes of it', async () => {
  const scenario = merchant();
  scenario.when(outcome(scenario.create(charge()).id, 'FAILED'));
  same(renderBalances(scenario.account()), {
    object: 'list',
    data: [{ currency: 'UGX', available: '0', pending: '0' }],
  });
});

t.test('payout destinations', async () => {
  same(renderPayoutDestinations(fundedMerchant().account()), {
    object: 'list',
    data: [
      {
        id: WALLET,
        object: 'payout_destination',
        label: 'Till',
        status: 'ACTIVE',
        country: 'UG',
        network: 'MTN',
        currency: 'UGX',
        msisdn_masked: '25677****111',
        created_at: CREATED,
        active_at: CREATED,
      },
    ],
  });
});
