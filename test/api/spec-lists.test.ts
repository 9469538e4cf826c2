// Part 4 of the specification, the lists: every filter of each, alone and with others, against a plain scan of what was
// created; bounds and defaults; order; pages walked to their end; what a list refuses.

import t, { type Test } from 'tap';
import { bodyOf, type Currency, type Merchant, numberOf, NUMBERS, openMerchant } from './merchants.ts';
import { startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

// One partition: what is of another account is in the same memory and the same tables.
const ENVIRONMENT = { PARTITIONS: '1', CASH_OUT_PER_MINUTE: '1000', WALLET_COOLING_OFF_SECONDS: '1' };
const dataDir = temporaryDirectory(t);
let service = await startService(ENVIRONMENT, dataDir);
t.teardown(() => service.stop());

const LISTS = ['/v1/charges', '/v1/payouts', '/v1/transactions'] as const;
type Row = Readonly<Record<string, any>>;

const merchant = await openMerchant(service);
const stranger = await openMerchant(service);
/** Every transaction of the merchant as the unified list shows it, newest first; made once nothing moves any more. */
let rows: Row[] = [];
/** The same of charges and payouts, as their own objects. */
const objects: Record<string, Row[]> = {};

async function walk(who: Merchant, path: string, query: string, limit = 100): Promise<Row[]> {
  const seen: Row[] = [];
  let cursor = '';
  do {
    const { status, body, text } = await who.get(`${path}?limit=${limit}${query}${cursor}`);
    if (status !== 200) throw new Error(text);
    seen.push(...body.data);
    if (body.has_more !== (body.next_cursor !== null)) throw new Error('has_more and next_cursor part ways');
    cursor = body.has_more ? `&starting_after=${body.next_cursor}` : '';
  } while (cursor !== '');
  return seen;
}

const ids = (list: readonly Row[]): string[] => list.map(({ id }) => id);

t.before(async () => {
  await merchant.fund('50000000');
  await merchant.fund('9000000', 'KES');
  const destination = await merchant.wallet();
  const made: string[] = [];
  const make = async (kind: string, body: object): Promise<void> => {
    const { status, body: object, text } = await merchant.post(`/v1/${kind}`, body);
    if (status !== 201) throw new Error(text);
    made.push(object.id);
  };
  // Silent, approving, declining and settled at once, over both networks and three currencies; half share a reference.
  for (const [kind, currencies] of [
    ['charges', ['UGX', 'KES', 'GHS']],
    ['payouts', ['UGX', 'KES']],
    ['deposits', ['UGX', 'KES']],
  ] as [string, Currency[]][]) {
    for (const currency of currencies) {
      for (const digits of ['65', '01', '51', '68']) {
        const reference = digits === '01' || digits === '65' ? 'shared' : `${kind}-${digits}`;
        await make(kind, bodyOf({ currency, msisdn: numberOf(currency, digits), reference }));
      }
    }
    const msisdn = `${NUMBERS.UG.AIRTEL}01`;
    for (let i = 0; i < 3; i++) await make(kind, bodyOf({ msisdn, reference: 'airtel' }));
  }
  await merchant.change({ approval_thresholds: { UGX: '5000' } });
  const withdrawal = { amount: '6000', currency: 'UGX', destination, reference: 'shared' };
  for (let i = 0; i < 4; i++) await make('withdrawals', withdrawal);
  await merchant.operator(`/withdrawals/${made.at(-1)}/reject`, { by: merchant.owner });
  await merchant.operator(`/withdrawals/${made.at(-2)}/approve`, { by: merchant.owner });
  await make('withdrawals', { ...withdrawal, amount: '5000' });
  await service.until(
    () => walk(merchant, '/v1/transactions', ''),
    (all) => all.every(isAtRest),
  );
  rows = await walk(merchant, '/v1/transactions', '');
  objects['/v1/charges'] = await walk(merchant, '/v1/charges', '');
  objects['/v1/payouts'] = await walk(merchant, '/v1/payouts', '');
  objects['/v1/transactions'] = rows;
});

/** Silent ones stay in progress, and what waits for approval stays INITIATED. */
function isAtRest({ status, approval_status, msisdn_masked }: Row): boolean {
  if (['SUCCESSFUL', 'FAILED'].includes(status)) return true;
  if (status === 'INITIATED') return approval_status === 'PENDING';
  return msisdn_masked.endsWith('065');
}

t.test('every list is newest first, without gaps or repetitions', async (t) => {
  for (const path of LISTS) {
    const list = objects[path]!;
    t.ok(list.length > 10, `${path}: ${list.length}`);
    for (let i = 1; i < list.length; i++) t.ok(list[i - 1]!['created_at'] >= list[i]!['created_at'], path);
    t.equal(new Set(ids(list)).size, list.length, path);
  }
  const bodies = ids(rows).map((id) => id.slice(4));
  t.ok(
    bodies.every((body, i) => i === 0 || body < bodies[i - 1]!),
    'ids are in the order of time too',
  );
  t.strictSame(ids(objects['/v1/charges']!), ids(rows.filter(({ type }) => type === 'CHARGE')));
  t.strictSame(ids(objects['/v1/payouts']!), ids(rows.filter(({ type }) => type === 'PAYOUT')));
  t.equal(new Set(rows.map(({ status }) => status)).size, 5, 'all statuses but REVERSED');
});

t.test('an object in a list is the object itself', async (t) => {
  for (const path of ['/v1/charges', '/v1/payouts']) {
    for (const row of objects[path]!) t.strictSame((await merchant.get(`${path}/${row['id']}`)).body, row);
  }
});

// --- Filters ---------------------------------------------------------------------------------------------------------

const STATUSES = ['INITIATED', 'PENDING_PROVIDER', 'AWAITING_CUSTOMER', 'SUCCESSFUL', 'FAILED', 'REVERSED'];
const REFERENCES = ['shared', 'airtel', 'charges-51', 'Shared', 'share', 'no-such'];
const OBJECT_FILTERS: Readonly<Record<string, readonly string[]>> = {
  status: STATUSES,
  reference: REFERENCES,
  country: ['UG', 'KE', 'GH'],
  network: ['MTN', 'AIRTEL'],
};
const FILTERS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  '/v1/charges': OBJECT_FILTERS,
  '/v1/payouts': OBJECT_FILTERS,
  '/v1/transactions': {
    type: ['CHARGE', 'PAYOUT', 'DEPOSIT', 'WITHDRAWAL', 'REFUND'],
    status: STATUSES,
    approval_status: ['NOT_REQUIRED', 'PENDING', 'APPROVED', 'REJECTED'],
    reference: REFERENCES,
    currency: ['UGX', 'KES', 'GHS'],
  },
};

async function sameAsScan(t: Test, path: string, filter: Row): Promise<number> {
  const query = Object.entries(filter).map(([name, value]) => `&${name}=${value}`);
  const wanted = objects[path]!.filter((row) =>
    Object.entries(filter).every(([name, value]) => row[name] === value),
  );
  t.strictSame(await walk(merchant, path, query.join('')), wanted, `${path} ${JSON.stringify(filter)}`);
  return wanted.length;
}

for (const [path, filters] of Object.entries(FILTERS)) {
  t.test(`${path}: every filter alone, and every two together`, async (t) => {
    let found = 0;
    const names = Object.keys(filters);
    for (const [i, name] of names.entries()) {
      for (const value of filters[name]!) {
        found += await sameAsScan(t, path, { [name]: value });
        const pairs = names
          .slice(i + 1)
          .flatMap((other) => filters[other]!.map((otherValue) => ({ [name]: value, [other]: otherValue })));
        await Promise.all(pairs.map((filter) => sameAsScan(t, path, filter)));
      }
    }
    t.ok(found >= objects[path]!.length * 2, 'the filters found something');
  });

  t.test(`${path}: all filters at once, as each transaction is`, async (t) => {
    for (const row of objects[path]!) {
      const filter = Object.fromEntries(Object.keys(filters).map((name) => [name, row[name]]));
      t.ok((await sameAsScan(t, path, filter)) > 0);
    }
  });
}

t.test('created_after and created_before are inclusive, to the millisecond', async (t) => {
  for (const path of ['/v1/charges', '/v1/payouts']) {
    const list = objects[path]!;
    const at = (row: Row): string => row['created_at'];
    for (const pivot of [list[0]!, list[7]!, list.at(-1)!]) {
      const after = await walk(merchant, path, `&created_after=${at(pivot)}`);
      t.strictSame(ids(after), ids(list.filter((row) => at(row) >= at(pivot))), 'after');
      const before = await walk(merchant, path, `&created_before=${at(pivot)}`);
      t.strictSame(ids(before), ids(list.filter((row) => at(row) <= at(pivot))), 'before');
      const exactly = await walk(merchant, path, `&created_after=${at(pivot)}&created_before=${at(pivot)}`);
      t.strictSame(ids(exactly), ids(list.filter((row) => at(row) === at(pivot))), 'both');
      const east = encodeURIComponent(
        `${new Date(Date.parse(at(pivot)) + 10_800_000).toISOString().slice(0, -1)}+03:00`,
      );
      t.strictSame(await walk(merchant, path, `&created_after=${east}`), after, 'in East African time');
      const later = at(pivot).replace('Z', '0001Z');
      t.strictSame(
        ids(await walk(merchant, path, `&created_after=${later}`)),
        ids(list.filter((row) => at(row) > at(pivot))),
        'after it by less than a millisecond',
      );
      t.strictSame(await walk(merchant, path, `&created_before=${later}`), before);
    }
    const [newest, oldest] = [at(list[0]!), at(list.at(-1)!)];
    t.strictSame(
      await walk(merchant, path, `&created_after=${newest}&created_before=${oldest}`),
      [],
      'none between',
    );
    for (const early of ['0001-01-01T00:00:00Z', '1900-01-01', '1970-01-01T00:00:00%2B03:00']) {
      t.strictSame(
        ids(await walk(merchant, path, `&created_after=${early}`)),
        ids(list),
        `all after ${early}`,
      );
      t.strictSame(await walk(merchant, path, `&created_before=${early}`), [], `none before ${early}`);
    }
    const filtered = await walk(
      merchant,
      path,
      `&created_after=${oldest}&status=FAILED&country=UG&reference=none`,
    );
    t.strictSame(filtered, []);
  }
});

t.test('what was created this very moment is in every list that names its moment', async (t) => {
  const fresh = await openMerchant(service);
  for (const digits of ['65', '68', '57']) {
    const { body } = await fresh.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', digits) }));
    const { id, status, created_at: at } = body;
    for (const query of [
      `created_after=${at}`,
      `created_before=${at}`,
      `status=${status}&created_before=${at}`,
    ]) {
      t.equal((await fresh.get(`/v1/charges?limit=1&${query}`)).body.data[0]?.id, id, query);
    }
    const earlier = new Date(Date.parse(at) - 1).toISOString();
    const { data } = (await fresh.get(`/v1/charges?created_before=${earlier}`)).body;
    t.notOk(ids(data).includes(id), 'and in none that ends before it');
    const day = at.slice(0, 10);
    for (const query of [
      `created_before=${day}`,
      `created_after=${day}`,
      `created_after=${day}&created_before=${day}`,
    ]) {
      t.equal((await fresh.get(`/v1/charges?limit=1&${query}`)).body.data[0]?.id, id, `of its day: ${query}`);
    }
    const yesterday = new Date(Date.parse(day) - 1).toISOString().slice(0, 10);
    const ended = (await fresh.get(`/v1/charges?created_before=${yesterday}`)).body;
    t.notOk(ids(ended.data).includes(id), 'and in none of the day before');
  }
});

// --- Pages -----------------------------------------------------------------------------------------------------------

t.test('pages of any size, filtered or not, are the whole list', async (t) => {
  for (const path of LISTS) {
    for (const limit of [1, 2, 3, 7, 100]) {
      t.strictSame(await walk(merchant, path, '', limit), objects[path], `${path} by ${limit}`);
    }
    for (const query of ['status=SUCCESSFUL', 'reference=shared', 'status=FAILED&reference=airtel']) {
      t.strictSame(
        await walk(merchant, path, `&${query}`, 2),
        await walk(merchant, path, `&${query}`),
        query,
      );
    }
  }
});

t.test('a cursor of another list is a moment: what is older than it comes, and nothing else', async (t) => {
  for (const path of LISTS) {
    for (const query of ['', '&status=SUCCESSFUL', '&reference=shared']) {
      const whole = ids(await walk(merchant, path, query));
      for (const cursor of ids(rows)) {
        const { body } = await merchant.get(`${path}?limit=100&starting_after=${cursor}${query}`);
        const older = whole.filter((id) => id.slice(4) < cursor.slice(4));
        t.strictSame(ids(body.data), older, `${path} ${query} ${cursor}`);
      }
    }
  }
});

t.test('a full last page says that there is no more', async (t) => {
  const { body } = await merchant.get(`/v1/charges?limit=${objects['/v1/charges']!.length}`);
  t.hasStrict(body, { has_more: false, next_cursor: null });
});

t.test('what is created while pages are walked does not shift them', async (t) => {
  const first = (await merchant.get('/v1/charges?limit=5')).body;
  const { body: made } = await merchant.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', '65') }));
  const second = (await merchant.get(`/v1/charges?limit=5&starting_after=${first.next_cursor}`)).body;
  t.strictSame([...first.data, ...second.data], objects['/v1/charges']!.slice(0, 10));
  t.equal((await merchant.get('/v1/charges?limit=1')).body.data[0].id, made.id);
});

t.test('25 a page unless you say otherwise; 1 to 100', async (t) => {
  const many = await openMerchant(service);
  const silent = numberOf('UGX', '65');
  const create = async (): Promise<number> =>
    (await many.post('/v1/charges', bodyOf({ msisdn: silent }))).status;
  const statuses = await Promise.all(Array.from({ length: 101 }, create));
  t.ok(statuses.every((status) => status === 201));
  for (const path of ['/v1/charges', '/v1/transactions']) {
    const pages: [string, number, boolean][] = [
      ['', 25, true],
      ['?limit=1', 1, true],
      ['?limit=100', 100, true],
    ];
    for (const [query, length, more] of pages) {
      const { body } = await many.get(path + query);
      t.equal(body.data.length, length, path + query);
      t.equal(body.has_more, more);
    }
    t.equal((await walk(many, path, '', 25)).length, 101);
  }
  for (const path of LISTS) {
    for (const limit of ['0', '101', '-1', '1.5', 'x', '', '1e1', '%2B5', '١']) {
      const { status, body } = await many.get(`${path}?limit=${limit}`);
      t.equal(status, 400, `${path}?limit=${limit}`);
      t.hasStrict(body.error, { code: 'validation_failed', param: 'limit' }, limit);
    }
  }
});

// --- What a list refuses ---------------------------------------------------------------------------------------------

t.test('unknown query parameters, on every list', async (t) => {
  const unknown: [string, string][] = [
    ['/v1/charges', 'colour'],
    ['/v1/charges', 'type'],
    ['/v1/charges', 'currency'],
    ['/v1/charges', 'approval_status'],
    ['/v1/charges', 'Status'],
    ['/v1/charges', 'page'],
    ['/v1/payouts', 'type'],
    ['/v1/payouts', 'ending_before'],
    ['/v1/transactions', 'country'],
    ['/v1/transactions', 'network'],
    ['/v1/transactions', 'created_after'],
    ['/v1/balances', 'currency'],
    ['/v1/payout_destinations', 'limit'],
  ];
  for (const [path, name] of unknown) {
    const { status, body } = await merchant.get(`${path}?${name}=UG`);
    t.equal(status, 400, `${path}?${name}`);
    t.hasStrict(body.error, { code: 'unknown_parameter', param: name });
  }
});

t.test('values that are none of the filter’s', async (t) => {
  const wrong: [string, string][] = [
    ['/v1/charges', 'status=PENDING'],
    ['/v1/charges', 'status=successful'],
    ['/v1/charges', 'status='],
    ['/v1/charges', 'country=TZ'],
    ['/v1/charges', 'network=VODAFONE'],
    ['/v1/charges', 'reference='],
    ['/v1/payouts', 'created_after=yesterday'],
    ['/v1/payouts', 'created_before=2026-02-30'],
    ['/v1/payouts', 'created_before=1700000000'],
    ['/v1/transactions', 'type=charge'],
    ['/v1/transactions', 'approval_status=WAITING'],
    ['/v1/transactions', 'currency=USD'],
    ['/v1/transactions', 'status=FAILED&status=SUCCESSFUL'],
  ];
  for (const [path, query] of wrong) {
    const { status, body } = await merchant.get(`${path}?${query}`);
    t.equal(status, 400, `${path}?${query}`);
    t.hasStrict(body.error, { code: 'validation_failed', param: query.split('=')[0] }, query);
  }
});

t.test('a cursor that is not of this account', async (t) => {
  const { body: foreign } = await stranger.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', '65') }));
  const cursors = [foreign.id, 'chg_01KAJ3W8Q07M4R2N9X5T6V1B00', 'chg_x', 'x', '', merchant.accountId];
  for (const path of LISTS) {
    for (const cursor of cursors) {
      const { status, body } = await merchant.get(`${path}?starting_after=${cursor}`);
      t.equal(status, 400, `${path}?starting_after=${cursor}`);
      t.hasStrict(body.error, { code: 'invalid_cursor', param: 'starting_after' }, cursor);
    }
  }
});

t.test('another account sees none of it', async (t) => {
  const other = await openMerchant(service);
  for (const path of LISTS) t.strictSame((await other.get(path)).body.data, [], path);
  const kinds = { CHARGE: 'charge', PAYOUT: 'payout', DEPOSIT: 'deposit', WITHDRAWAL: 'withdrawal' };
  for (const { id, type } of rows) {
    const kind = kinds[type as keyof typeof kinds];
    const { status, body } = await other.get(`/v1/${kind}s/${id}`);
    t.equal(status, 404);
    t.equal(body.error.code, `${kind}_not_found`);
    t.equal((await other.get(`/v1/transactions/${id}`)).body.error.code, 'transaction_not_found');
  }
});

t.test('an id of another kind is not found', async (t) => {
  const of = (type: string): string => rows.find((row) => row['type'] === type)!['id'];
  const wrong: [string, string, string][] = [
    ['/v1/charges', of('PAYOUT'), 'charge_not_found'],
    ['/v1/payouts', of('CHARGE'), 'payout_not_found'],
    ['/v1/deposits', of('WITHDRAWAL'), 'deposit_not_found'],
    ['/v1/withdrawals', of('DEPOSIT'), 'withdrawal_not_found'],
  ];
  for (const [path, id, code] of wrong) {
    const { status, body } = await merchant.get(`${path}/${id}`);
    t.strictSame([status, body.error.code], [404, code]);
  }
});

t.test('withdrawals and deposits have no list of their own', async (t) => {
  for (const path of ['/v1/withdrawals', '/v1/deposits']) {
    const { status, headers } = await merchant.get(path);
    t.equal(status, 405);
    t.equal(headers.get('allow'), 'POST');
  }
  const waiting = await walk(merchant, '/v1/transactions', '&type=WITHDRAWAL&approval_status=PENDING');
  t.equal(waiting.length, 2, 'what waits for a second approver');
  t.ok(waiting.every(({ type, status }) => type === 'WITHDRAWAL' && status === 'INITIATED'));
});

t.test('after a restart every list is what it was', async (t) => {
  const before: Row[][] = [];
  for (const path of LISTS) before.push(await walk(merchant, path, ''));
  await service.stop();
  service = await startService(ENVIRONMENT, dataDir);
  const { key } = merchant;
  const again: Merchant = { ...merchant, get: (path) => service.merchant('GET', path, { key }) };
  const isInFlight = ({ status, approval_status }: Row): boolean =>
    !['SUCCESSFUL', 'FAILED'].includes(status) && approval_status !== 'PENDING';
  for (const [i, path] of LISTS.entries()) {
    const after = await walk(again, path, '', 7);
    t.strictSame(ids(after), ids(before[i]!));
    // What is in flight goes on: its rail may have forgotten it meanwhile.
    t.strictSame(
      after.filter((row) => !isInFlight(row)),
      before[i]!.filter((row) => !isInFlight(row)),
      path,
    );
  }
});
