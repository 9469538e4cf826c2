// Part 2 of the specification: every resource has the fields it promises, no other, in their order, with their types.

import t, { type Test } from 'tap';
import { bodyOf, type Merchant, numberOf, openMerchant } from './merchants.ts';
import { startService } from './start.ts';

const service = await startService({ WALLET_COOLING_OFF_SECONDS: '1', CHARGE_RELEASE_SECONDS: '1' });
t.teardown(() => service.stop());

const CHARGE =
  'id object status amount currency country network msisdn_masked reference description fee net provider failure_code ' +
  'failure_message metadata created_at updated_at';
const PAYOUT =
  'id object status amount currency country network msisdn_masked reference fee total_debited provider approval_status ' +
  'failure_code failure_message metadata created_at updated_at';
const WITHDRAWAL =
  'id object status amount currency country network destination msisdn_masked reference fee total_debited provider ' +
  'approval_status failure_code failure_message metadata created_at updated_at';
const DEPOSIT =
  'id object status amount currency country network msisdn_masked reference description provider failure_code ' +
  'failure_message metadata created_at updated_at';
const TRANSACTION =
  'id object type approval_status status amount currency country network msisdn_masked reference fee net provider ' +
  'metadata created_at updated_at';
const STATUS_EVENT = 'id status source provider_status message created_at';
const LEDGER_ENTRY = 'id journal_id account side amount currency reason created_at';
const WALLET = 'id object label status country network currency msisdn_masked created_at active_at';

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;
const MINOR_UNITS = /^(?:0|[1-9]\d*)$/;

function fieldsOf(object: object): string {
  return Object.keys(object).join(' ');
}

/** What holds for every field of that name, wherever it stands. */
function hasTypes(t: Test, object: Record<string, unknown>): void {
  for (const name of ['amount', 'fee', 'net', 'total_debited'].filter((field) => field in object)) {
    t.type(object[name], 'string', name);
    t.match(object[name], MINOR_UNITS, name);
  }
  for (const name of ['created_at', 'updated_at'].filter((field) => field in object)) {
    t.match(object[name], TIME, name);
  }
}

const INPUT = {
  reference: 'A.z_0:9-',
  metadata: { text: 'word', number: 1.5, yes: true, no: false, nothing: null },
};

let merchant: Merchant;
t.before(async () => {
  merchant = await openMerchant(service);
  await merchant.fund('1000000');
});

t.test('a charge, in progress and successful', async (t) => {
  const input = { ...INPUT, description: 'Tea for two' };
  const { body: created } = await merchant.post('/v1/charges', bodyOf(input));
  t.equal(fieldsOf(created), CHARGE);
  hasTypes(t, created);
  t.match(created.id, /^chg_[0-9A-Z]{26}$/);
  const same = {
    id: created.id,
    object: 'charge',
    amount: '10000',
    currency: 'UGX',
    country: 'UG',
    network: 'MTN',
    msisdn_masked: '25677****001',
    ...input,
    failure_code: null,
    failure_message: null,
    created_at: created.created_at,
  };
  t.hasStrict(created, { ...same, status: 'AWAITING_CUSTOMER', fee: '0', net: '10000' });

  const charge = await merchant.finished(`/v1/charges/${created.id}`);
  t.equal(fieldsOf(charge), CHARGE);
  t.hasStrict(charge, { ...same, status: 'SUCCESSFUL', fee: '250', net: '9750' });
  t.ok(charge.updated_at > created.updated_at, 'updated_at changes with the status');
  t.strictSame(charge.metadata, INPUT.metadata);
});

t.test('a charge that failed says why; what was not sent is null', async (t) => {
  const { body } = await merchant.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', '51') }));
  const charge = await merchant.finished(`/v1/charges/${body.id}`);
  t.equal(fieldsOf(charge), CHARGE);
  t.hasStrict(charge, {
    status: 'FAILED',
    failure_code: 'customer_declined',
    fee: '0',
    net: '10000',
    description: null,
    metadata: null,
  });
  t.match(charge['failure_message'], /./);
});

t.test('a payout', async (t) => {
  const { body: created } = await merchant.post('/v1/payouts', bodyOf({ ...INPUT, narration: 'Pay' }));
  t.equal(fieldsOf(created), PAYOUT, 'narration is not a field of it');
  hasTypes(t, created);
  t.match(created.id, /^pyt_/);
  const same = { ...INPUT, object: 'payout', amount: '10000', approval_status: 'NOT_REQUIRED' };
  t.hasStrict(created, {
    ...same,
    fee: '0',
    total_debited: '10000',
    failure_code: null,
    failure_message: null,
  });
  const payout = await merchant.finished(`/v1/payouts/${created.id}`);
  t.equal(fieldsOf(payout), PAYOUT);
  t.hasStrict(payout, { ...same, status: 'SUCCESSFUL', fee: '500', total_debited: '10500' });
});

t.test('a withdrawal, and the wallet it goes to', async (t) => {
  const destination = await merchant.wallet();
  const wallets = await merchant.get('/v1/payout_destinations');
  t.equal(fieldsOf(wallets.body), 'object data');
  t.equal(wallets.body.object, 'list');
  t.equal(fieldsOf(wallets.body.data[0]), WALLET);
  t.match(wallets.body.data[0], {
    id: /^wal_/,
    object: 'payout_destination',
    label: 'UG',
    status: 'ACTIVE',
    country: 'UG',
    network: 'MTN',
    currency: 'UGX',
    msisdn_masked: '25677****001',
    created_at: TIME,
    active_at: TIME,
  });

  const body = { amount: '10000', currency: 'UGX', destination, narration: 'Sweep', ...INPUT };
  const { body: created } = await merchant.post('/v1/withdrawals', body);
  t.equal(fieldsOf(created), WITHDRAWAL);
  hasTypes(t, created);
  t.match(created.id, /^wdl_/);
  const same = {
    ...INPUT,
    object: 'withdrawal',
    destination,
    country: 'UG',
    network: 'MTN',
    msisdn_masked: '25677****001',
    fee: '500',
    total_debited: '10500',
    approval_status: 'NOT_REQUIRED',
  };
  t.hasStrict(created, same, 'its fee is shown from the start');
  const withdrawal = await merchant.finished(`/v1/withdrawals/${created.id}`);
  t.equal(fieldsOf(withdrawal), WITHDRAWAL);
  t.hasStrict(withdrawal, { ...same, status: 'SUCCESSFUL' });
});

t.test('a deposit: no fee, no net', async (t) => {
  const { body: created } = await merchant.post('/v1/deposits', bodyOf({ ...INPUT, description: 'Float' }));
  t.equal(fieldsOf(created), DEPOSIT);
  hasTypes(t, created);
  t.match(created.id, /^dep_/);
  t.hasStrict(created, { ...INPUT, object: 'deposit', description: 'Float' });
  const deposit = await merchant.finished(`/v1/deposits/${created.id}`);
  t.equal(fieldsOf(deposit), DEPOSIT);
  t.hasStrict(deposit, { ...INPUT, status: 'SUCCESSFUL', amount: '10000' });
});

t.test('every transaction: the unified view, its events and its ledger', async (t) => {
  const { body: page } = await merchant.get('/v1/transactions');
  t.equal(fieldsOf(page), 'data has_more next_cursor');
  const types = new Set(page.data.map(({ type }: any) => type));
  t.strictSame(types, new Set(['WITHDRAWAL', 'PAYOUT', 'CHARGE', 'DEPOSIT']));
  for (const row of page.data) {
    t.equal(fieldsOf(row), TRANSACTION);
    hasTypes(t, row);
    t.equal(row.object, 'transaction');
    const { status, body: detail } = await merchant.get(`/v1/transactions/${row.id}`);
    t.equal(status, 200, 'any transaction id works');
    t.equal(fieldsOf(detail), 'transaction events ledger');
    t.equal(JSON.stringify(detail.transaction), JSON.stringify(row));
    hasHistory(t, detail);
  }
});

function hasHistory(t: Test, { events, ledger }: any): void {
  t.equal(events[0].status, 'INITIATED');
  for (const event of events) {
    t.equal(fieldsOf(event), STATUS_EVENT);
    t.match(event.id, /^evt_/);
    hasTypes(t, event);
  }
  const times = events.map(({ created_at }: any) => created_at);
  t.ok(
    times.every((time: string, i: number) => i === 0 || times[i - 1] <= time),
    'in order',
  );
  const journals = new Map<string, number>();
  for (const entry of ledger) {
    t.equal(fieldsOf(entry), LEDGER_ENTRY);
    hasTypes(t, entry);
    t.match(entry.currency, /^(?:UGX|KES|GHS)$/);
    const sign = entry.side === 'DEBIT' ? 1 : -1;
    journals.set(entry.journal_id, (journals.get(entry.journal_id) ?? 0) + sign * Number(entry.amount));
  }
  for (const [id, difference] of journals) t.equal(difference, 0, `debits equal credits in ${id}`);
  const ids = [...events, ...ledger].map(({ id }: any) => id);
  t.equal(new Set(ids).size, ids.length, 'every id once');
}

t.test('a timeline is the charge with its history; other kinds have none', async (t) => {
  const { body: page } = await merchant.get('/v1/charges?limit=1&status=SUCCESSFUL');
  const { id } = page.data[0];
  const { body: timeline } = await service.until(
    () => merchant.get(`/v1/charges/${id}/timeline`),
    ({ body }) => body.ledger.length === 5,
  );
  t.equal(fieldsOf(timeline), 'charge events ledger');
  t.strictSame(timeline.charge, page.data[0]);
  hasHistory(t, timeline);
  t.strictSame(
    timeline.ledger.map(({ account, side, amount, reason }: any) => [reason, account, side, amount]),
    [
      ['CHARGE_SETTLED', 'PROVIDER_FLOAT', 'DEBIT', '10000'],
      ['CHARGE_SETTLED', 'MERCHANT_PENDING', 'CREDIT', '9750'],
      ['CHARGE_SETTLED', 'FEES_REVENUE', 'CREDIT', '250'],
      ['CHARGE_RELEASED', 'MERCHANT_PENDING', 'DEBIT', '9750'],
      ['CHARGE_RELEASED', 'MERCHANT_AVAILABLE', 'CREDIT', '9750'],
    ],
  );
  const payout = (await merchant.get('/v1/payouts?limit=1')).body.data[0];
  t.equal((await merchant.get(`/v1/payouts/${payout.id}/timeline`)).status, 404);
  t.equal((await merchant.get(`/v1/charges/${payout.id}/timeline`)).body.error.code, 'charge_not_found');
});

t.test('net by direction: in is amount minus fee, out is amount plus fee', async (t) => {
  const rows = (await merchant.get('/v1/transactions?status=SUCCESSFUL')).body.data;
  for (const { type, amount, fee, net } of rows) {
    const sign = type === 'PAYOUT' || type === 'WITHDRAWAL' ? 1 : -1;
    t.equal(Number(net), Number(amount) + sign * Number(fee), type);
    t.equal(fee === '0', type === 'DEPOSIT', `the fee of a ${type}`);
  }
});

t.test('a fee is booked on success: until then a transaction shows 0, a withdrawal its own', async (t) => {
  const destination = await merchant.wallet();
  const silent = numberOf('UGX', '65');
  const { body: payout } = await merchant.post('/v1/payouts', bodyOf({ msisdn: silent }));
  const { body: charge } = await merchant.post('/v1/charges', bodyOf({ msisdn: silent }));
  await merchant.change({ approval_thresholds: { UGX: '5000' } });
  const { body: withdrawal } = await merchant.post('/v1/withdrawals', {
    amount: '10000',
    currency: 'UGX',
    destination,
    reference: 'w',
  });
  t.hasStrict(withdrawal, { status: 'INITIATED', approval_status: 'PENDING', fee: '500' });
  for (const { id } of [payout, charge, withdrawal]) {
    const { transaction } = (await merchant.get(`/v1/transactions/${id}`)).body;
    t.hasStrict(transaction, { fee: '0', net: '10000' }, id);
  }
  const waiting = (await merchant.get(`/v1/transactions/${withdrawal.id}`)).body.transaction;
  t.equal(waiting.approval_status, 'PENDING');
});

t.test('balances: a row for each currency transacted in', async (t) => {
  const fresh = await openMerchant(service, { country: 'KE' });
  t.strictSame((await fresh.get('/v1/balances')).body, { object: 'list', data: [] });
  for (const currency of ['GHS', 'KES', 'UGX'] as const) await fresh.fund('500000', currency);
  const { body } = await fresh.get('/v1/balances');
  t.equal(fieldsOf(body), 'object data');
  t.equal(body.data.length, 3);
  for (const row of body.data) {
    t.equal(fieldsOf(row), 'currency available pending');
    t.match(row, { currency: /^(?:UGX|KES|GHS)$/, available: '500000', pending: '0' });
  }
});

t.test('a full number is in no reply', async (t) => {
  const rows = (await merchant.get('/v1/transactions?limit=100')).body.data;
  const paths = [
    '/v1/transactions?limit=100',
    '/v1/charges',
    '/v1/payouts',
    '/v1/payout_destinations',
    ...rows.map(({ id }: any) => `/v1/transactions/${id}`),
  ];
  // The longest beginning and end that a masked number shows are five and three digits.
  for (const path of paths) t.notMatch((await merchant.get(path)).text, /77200000/, path);
});
