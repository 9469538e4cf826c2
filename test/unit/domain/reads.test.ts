// Reads: who may, which transactions a filter names, and that the buckets of the index agree with the filter.

import fc from 'fast-check';
import t from 'tap';
import type { TransactionFilter } from '../../../src/domain/account-command.ts';
import { authorise, authoriseQuery } from '../../../src/domain/decide/authorisation.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from '../../../src/domain/country.ts';
import { rejection } from '../../../src/domain/error-code.ts';
import { bodyOf, deriveId, encodeTime, isId, makeId, timeOf } from '../../../src/domain/id.ts';
import {
  APPROVAL_STATUSES,
  STATUSES,
  type Transaction,
  TRANSACTION_TYPES,
} from '../../../src/domain/transaction.ts';
import { bucketMatches, bucketOf, matches } from '../../../src/domain/transaction-filter.ts';
import { ACCOUNT, APP, body, charge, KEY_HASH, merchant, START } from './scenario.ts';
import { seedOf } from '../../seed.ts';

const seed = seedOf(t);

t.test('a query is let in by the same checks, in the same order, as a command', async (t) => {
  const good = { accountId: ACCOUNT, deadline: START, keyHash: KEY_HASH, problem: null };
  const cursor = rejection('invalid_cursor', null, 'starting_after');
  const none = rejection('authentication_required');
  const malformed = { keyHash: null, problem: rejection('invalid_api_key') };
  const publishable = { keyHash: null, problem: rejection('secret_key_required') };
  const rows: [name: string, call: object, live: boolean, code: string | null][] = [
    ['late', { deadline: START - 1, keyHash: null, problem: none }, false, 'service_unavailable'],
    ['no key', { keyHash: null, problem: none }, false, 'authentication_required'],
    ['no key, nothing said', { keyHash: null }, false, 'authentication_required'],
    ['no key of ours', malformed, false, 'invalid_api_key'],
    ['publishable key', publishable, true, 'secret_key_required'],
    ['publishable key, not live', publishable, false, 'live_mode_not_enabled'],
    ['key that begins otherwise', { keyHash: `d${KEY_HASH.slice(1)}` }, false, 'invalid_api_key'],
    ['wrong key', { keyHash: `${KEY_HASH.slice(0, -1)}d` }, false, 'invalid_api_key'],
    ['longer key', { keyHash: `${KEY_HASH}d` }, false, 'invalid_api_key'],
    ['empty key', { keyHash: '' }, false, 'invalid_api_key'],
    ['unknown account', { accountId: 'acc_none' }, false, 'invalid_api_key'],
    ['not live', { problem: cursor }, false, 'live_mode_not_enabled'],
    ['wrong cursor', { problem: cursor }, true, 'invalid_cursor'],
    ['good', {}, true, null],
  ];
  for (const [name, over, live, code] of rows) {
    const { state } = merchant({ live });
    const access = authoriseQuery(state, { ...good, ...over }, START);
    if (code === null) t.hasStrict(access, { type: 'granted', app: { id: APP } }, name);
    else t.hasStrict(access, { type: 'refused', rejection: { code } }, name);
  }
  t.hasStrict(authorise(merchant().state, { ...good, problem: cursor }), { type: 'granted' });
  const late = authoriseQuery(merchant().state, { ...good, deadline: START - 1 }, START);
  t.hasStrict(late, { rejection: { retryAfterSeconds: 1 } });
});

/** Set half the time, so that a good part of the filters match. */
const optional = <T>(all: readonly T[]): fc.Arbitrary<T | undefined> =>
  fc.option(fc.constantFrom(...all), { nil: undefined, freq: 2 });
const filter: fc.Arbitrary<TransactionFilter> = fc.record({
  type: optional(TRANSACTION_TYPES),
  status: optional(STATUSES),
  approvalStatus: optional(APPROVAL_STATUSES),
  reference: optional(['order-1', 'order-2']),
  currency: optional(CURRENCIES),
  country: optional(COUNTRIES),
  network: optional(NETWORKS),
  createdAfter: optional([START - 1, START, START + 1]),
  createdBefore: optional([START - 1, START, START + 1]),
});
const fields = fc.record({
  type: fc.constantFrom(...TRANSACTION_TYPES),
  status: fc.constantFrom(...STATUSES),
  approvalStatus: fc.constantFrom(...APPROVAL_STATUSES),
  country: fc.constantFrom(...COUNTRIES),
  network: fc.constantFrom(...NETWORKS),
  currency: fc.constantFrom(...CURRENCIES),
});

t.test(
  'a filter is the conjunction of its fields; a bucket answers for all but reference and times',
  async (t) => {
    const base = merchant().create(charge());
    let matched = 0;
    fc.assert(
      fc.property(fields, filter, (over, filter) => {
        const transaction: Transaction = { ...base, ...over };
        const { reference, createdAfter, createdBefore, ...closed } = filter;
        const byFields = Object.entries(closed).every(
          ([name, value]) => value === undefined || transaction[name as keyof typeof closed] === value,
        );
        const byRest =
          (reference === undefined || reference === 'order-1') &&
          (createdAfter === undefined || createdAfter <= START) &&
          (createdBefore === undefined || createdBefore >= START);
        t.equal(matches(transaction, filter), byFields && byRest);
        t.equal(bucketMatches(bucketOf(transaction), filter), byFields);
        if (byFields && byRest) matched++;
      }),
      { seed, numRuns: 2_000 },
    );
    t.ok(matched > 10, `${matched} matched`);
    t.equal(bucketOf(base), '010000', 'stored: never to change');
  },
);

t.test('ids carry their time, sort by it, and derive others', async (t) => {
  fc.assert(
    fc.property(fc.nat(4e12), fc.nat(4e12), fc.nat(1_022), (first, second, index) => {
      const id = makeId('charge', body(7, first));
      t.ok(isId('charge', id) && !isId('payout', id));
      t.equal(timeOf(id), first);
      t.equal(bodyOf(id) < body(7, second), first < second);
      t.ok(bodyOf(id) >= encodeTime(first));
      const derived = deriveId('event', id, index);
      t.ok(isId('event', derived));
      t.equal(timeOf(derived), first);
      t.not(deriveId('event', id, (index + 1) % 1_023), derived);
      t.ok(bodyOf(derived) > bodyOf(id));
    }),
    { seed },
  );
  const id = makeId('charge', body(7, START));
  t.equal(new Set(Array.from({ length: 1_023 }, (_, n) => deriveId('entry', id, n))).size, 1_023);
  t.notOk(isId('charge', `${id.slice(0, -1)}U`), 'a letter that none has');
});
