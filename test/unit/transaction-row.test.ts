// A transaction is read from its row as it was written, whatever has happened to it.
import { equal } from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { decodeTransaction, encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from '../../src/domain/country.ts';
import { chargeReleased, chargeReversed, chargeSettled, held, settled } from '../../src/domain/ledger.ts';
import { money } from '../../src/domain/money.ts';
import {
  APPROVAL_STATUSES,
  FAILURE_CODES,
  SOURCES,
  STATUSES,
  type Transaction,
  TRANSACTION_TYPES,
} from '../../src/domain/transaction.ts';
import { seedOf } from '../seed.ts';

const seed = seedOf(t);

const CREATED_AT = 1_772_357_500_000;
const MONTH_MS = 30 * 86_400_000;
const text = fc.string({ unit: 'binary', maxLength: 20 });
const textOrNull = fc.option(text);
const of = <T>(list: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...list);
/** Times may be set back between events: a row must bear that. */
const time = fc.integer({ min: -1_000, max: MONTH_MS }).map((after) => CREATED_AT + after);
const amount = fc.integer({ min: 1_000, max: 2 ** 50 }).map(money);
const statusEvent = fc.record({
  status: of(STATUSES),
  source: of(SOURCES),
  providerStatus: textOrNull,
  message: textOrNull,
  at: time,
});
const journal = fc
  .record({ amount, fee: fc.integer({ min: 0, max: 999 }).map(money), at: time, currency: of(CURRENCIES) })
  .chain(({ amount: of_, fee, currency, at }) =>
    of([
      chargeSettled(of_, fee, currency, at),
      chargeReleased(of_, fee, currency, at),
      chargeReversed(of_, fee, true, currency, at),
      held('PAYOUT', of_, fee, currency, at),
      settled('WITHDRAWAL', of_, fee, currency, at),
    ]),
  );
const transaction: fc.Arbitrary<Transaction> = fc
  .record({
    id: text,
    type: of(TRANSACTION_TYPES),
    accountId: text,
    appId: textOrNull,
    requestedBy: textOrNull,
    amount,
    currency: of(CURRENCIES),
    country: of(COUNTRIES),
    network: of(NETWORKS),
    msisdn: fc.stringMatching(/^[1-9]\d{8,14}$/),
    reference: text,
    description: textOrNull,
    narration: textOrNull,
    metadata: fc.option(
      fc.dictionary(fc.stringMatching(/^\w{1,9}$/), fc.oneof(text, fc.integer(), fc.boolean())),
    ),
    destination: textOrNull,
    provider: text,
    fee: amount,
    expiresAt: fc.option(time),
    approvalStatus: of(APPROVAL_STATUSES),
    status: of(STATUSES),
    failureCode: fc.option(of(FAILURE_CODES)),
    failureMessage: textOrNull,
    providerTransactionId: textOrNull,
    submitted: fc.boolean(),
    unsent: fc.boolean(),
    events: fc.array(statusEvent, { minLength: 1, maxLength: 6 }),
    journals: fc.array(journal, { maxLength: 4 }),
    answeredAt: fc.option(fc.nat(5)),
    releaseAt: fc.option(time),
    released: fc.boolean(),
    sequence: fc.nat(),
  })
  // What a provider has taken was sent.
  .map((row) => ({ ...row, unsent: row.unsent && !row.submitted }));

t.test('what was written is read', async () => {
  fc.assert(
    fc.property(transaction, (written) => {
      const read = decodeTransaction(encodeTransaction(written));
      // JSON.parse makes plain objects of what fast-check makes without a prototype.
      equal(JSON.stringify(read), JSON.stringify(written));
    }),
    { seed, numRuns: 500 },
  );
});

t.test('a journal that does not balance is not read', async (t) => {
  const [written] = fc.sample(transaction, { seed, numRuns: 1 });
  const row = encodeTransaction({
    ...written!,
    journals: [chargeSettled(money(5_000), money(7), 'UGX', CREATED_AT)],
  });
  t.doesNotThrow(() => decodeTransaction(row));
  // The last: a field before the journals may be the same number by chance.
  const fields: unknown[] = JSON.parse(row);
  fields[fields.lastIndexOf(4_993)] = 4_994;
  t.throws(() => decodeTransaction(JSON.stringify(fields)));
});
