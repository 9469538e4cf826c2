// The format of log records: nothing is lost, nothing is guessed, and the common ones are short.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import type { AccountSettings } from '../../../src/domain/account.ts';
import { ROLES } from '../../../src/domain/account.ts';
import {
  type AccountEvent,
  type AccountRecord,
  RECONCILIATION_KINDS,
} from '../../../src/domain/account-event.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from '../../../src/domain/country.ts';
import { decodeRecord, encodeRecord, RecordUnreadable } from '../../../src/domain/event-codec.ts';
import { ALPHABET, type IdKind, makeId } from '../../../src/domain/id.ts';
import type { Money } from '../../../src/domain/money.ts';
import { FAILURE_CODES, type Metadata, SOURCES } from '../../../src/domain/transaction.ts';
import { charge, due, merchant, outcome, START, submission } from './scenario.ts';
import { seedOf } from '../../seed.ts';

const seed = seedOf(t);

// --- Any record ------------------------------------------------------------------------------------------------------

const text = fc.string({ unit: 'binary', maxLength: 40 });
const textOrNull = fc.option(text);
const letters = fc
  .array(fc.constantFrom(...ALPHABET.split('')), { minLength: 24, maxLength: 24 })
  .map((all) => all.join(''));
/** Also such as are written whole: derived ones, of another kind than is expected, of another length. */
const id = (kind: IdKind) =>
  fc
    .tuple(fc.constantFrom(kind, kind, 'request'), letters, fc.constantFrom('00', '01', '10', 'ZZ', '0000'))
    .map(([prefix, body, suffix]) => makeId(prefix as IdKind, body + suffix));
const transactionId = fc
  .constantFrom('charge', 'payout', 'withdrawal', 'deposit')
  .chain((kind) => id(kind as IdKind));
const amount = fc.maxSafeNat() as unknown as fc.Arbitrary<Money>;
const time = fc.integer({ min: 0, max: 4e12 });
const source = fc.constantFrom(...SOURCES);
const country = fc.constantFrom(...COUNTRIES);
const network = fc.constantFrom(...NETWORKS);
const msisdn = fc.integer({ min: 2e11, max: 2.6e11 }).map(String);
const metadata = fc.dictionary(
  fc.string({ maxLength: 8 }).filter((key) => key !== '__proto__'),
  fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null)),
  { maxKeys: 4, noNullPrototype: true },
) as fc.Arbitrary<Metadata>;
const settings: fc.Arbitrary<AccountSettings> = fc.record(
  {
    live: fc.boolean(),
    payoutsEnabled: fc.boolean(),
    withdrawalsEnabled: fc.boolean(),
    approvalThresholds: fc.record({ UGX: amount, GHS: amount }, { requiredKeys: [], noNullPrototype: true }),
    cashOutPerMinute: fc.option(fc.nat()),
    fees: fc.record(
      {
        'CHARGE:KES': fc.record(
          { fixed: amount, basisPoints: fc.nat(10_000), floor: fc.option(amount), cap: fc.option(amount) },
          { noNullPrototype: true },
        ),
      },
      { requiredKeys: [], noNullPrototype: true },
    ),
    limits: fc.constant({}),
  },
  { noNullPrototype: true },
) as fc.Arbitrary<AccountSettings>;

const created = {
  appId: fc.option(id('app')),
  requestedBy: fc.option(id('user')),
  amount,
  currency: fc.constantFrom(...CURRENCIES),
  country,
  network,
  msisdn,
  reference: text,
  metadata: fc.option(metadata),
  provider: text,
  fee: amount,
  idempotencyKey: textOrNull,
  requestHash: textOrNull,
};
const user = id('user');

/** One arbitrary for each event: a new event does not compile until it is here. */
const EVENTS: {
  readonly [T in AccountEvent['type']]: {
    readonly [F in keyof Omit<Extract<AccountEvent, { type: T }>, 'type'>]: fc.Arbitrary<unknown>;
  };
} = {
  ChargeCreated: { ...created, id: id('charge'), description: textOrNull, expiresAt: time },
  DepositCreated: { ...created, id: id('deposit'), description: textOrNull, expiresAt: time },
  PayoutCreated: { ...created, id: id('payout'), narration: textOrNull },
  WithdrawalCreated: {
    ...created,
    id: id('withdrawal'),
    narration: textOrNull,
    destination: id('wallet'),
    approvalRequired: fc.boolean(),
    unsent: fc.boolean(),
  },
  WithdrawalApproved: { id: transactionId, by: user },
  WithdrawalRejected: { id: transactionId, by: user },
  SubmissionBegun: { id: transactionId },
  SubmissionAccepted: { id: transactionId, providerStatus: textOrNull },
  AnswerFixed: { id: transactionId },
  TransactionSucceeded: {
    id: transactionId,
    source,
    providerStatus: textOrNull,
    providerTransactionId: textOrNull,
    releaseAt: fc.option(time),
  },
  TransactionFailed: {
    id: transactionId,
    source,
    failureCode: fc.constantFrom(...FAILURE_CODES),
    failureMessage: textOrNull,
    providerStatus: textOrNull,
  },
  ChargeReleased: { id: transactionId },
  ChargeReversed: { id: transactionId, source, providerStatus: textOrNull },
  ReconciliationRaised: {
    id: id('reconciliation'),
    kind: fc.constantFrom(...RECONCILIATION_KINDS),
    transactionId: textOrNull,
    detail: text,
  },
  ReconciliationResolved: { id: id('reconciliation'), by: text, resolution: text },
  AccountOpened: { name: text, country, settings },
  AccountSettingsChanged: { settings, by: text },
  UserAdded: { id: user, email: text, role: fc.constantFrom(...ROLES), by: text },
  UserRoleChanged: { id: user, role: fc.constantFrom(...ROLES), by: text },
  UserRemoved: { id: user, by: text },
  AppConnected: {
    id: id('app'),
    name: text,
    domain: text,
    webhookUrl: textOrNull,
    publishableKey: text,
    secretKeyHash: text,
    signingSecretSealed: text,
    by: text,
  },
  AppWebhookChanged: { id: id('app'), webhookUrl: textOrNull, by: text },
  AppRemoved: { id: id('app'), by: text },
  WalletAdded: { id: id('wallet'), label: text, country, network, msisdn, by: user },
  WalletApproved: { id: id('wallet'), activeAt: time, by: user },
  WalletActivated: { id: id('wallet') },
  WalletRevoked: { id: id('wallet'), by: user },
};

const event = (type: string, fields: object) =>
  fc.record(
    { type: fc.constant(type), ...fields },
    { noNullPrototype: true },
  ) as unknown as fc.Arbitrary<AccountEvent>;
const recordOf = (events: fc.Arbitrary<AccountEvent>): fc.Arbitrary<AccountRecord> =>
  fc.record(
    { accountId: id('account'), at: time, events: fc.array(events, { minLength: 1, maxLength: 3 }) },
    { noNullPrototype: true },
  );

for (const [type, fields] of Object.entries(EVENTS)) {
  t.test(`${type} comes back as it went`, async (t) => {
    fc.assert(
      fc.property(recordOf(event(type, fields)), (record) => {
        const line = encodeRecord(record);
        t.notOk(line.includes('\n'));
        t.strictSame(decodeRecord(line), record);
        t.equal(encodeRecord(decodeRecord(line)), line);
      }),
      { seed, numRuns: 50 },
    );
  });
}

t.test('several events in one record', async (t) => {
  const any = fc.oneof(...Object.entries(EVENTS).map(([type, fields]) => event(type, fields)));
  fc.assert(
    fc.property(recordOf(any), (record) => {
      t.strictSame(decodeRecord(encodeRecord(record)), record);
    }),
    { seed, numRuns: 200 },
  );
});

// --- Known bytes -----------------------------------------------------------------------------------------------------

t.test('a charge and its submission take few bytes', async (t) => {
  const scenario = merchant();
  const key = '123e4567-e89b-12d3-a456-426614174000';
  const { id } = scenario.create(charge({ reference: 'order-2026-000123' }, { idempotencyKey: key }));
  scenario.when(submission(id));
  const [creation = '', accepted = ''] = scenario.lines.slice(-2);
  t.equal(
    creation,
    '["01KJHSAPE000000000000001",1772357400000,[1,"01KJMBQDE000000000000001",50000,1250,0,0,0,256772123456,' +
      '"order-2026-000123","mtn_ug",1800000,"01KJHSAPE000000000000001","123e4567-e89b-12d3-a456-426614174000",' +
      '"rrrrrrrrrrrrrrrrrrrrrr"]]',
  );
  t.ok(creation.length + accepted.length < 320, `${creation.length} + ${accepted.length} bytes`);
});

t.test('records read for ever as they did: one of each event', async (t) => {
  const text = readFileSync(join(import.meta.dirname, 'golden-records.json'), 'utf8');
  const golden = JSON.parse(text) as { line: string; record: AccountRecord }[];
  for (const { line, record } of golden) {
    t.strictSame(decodeRecord(line), record, line);
    t.equal(encodeRecord(record), line);
  }
  const types = golden.flatMap(({ record }) => record.events.map(({ type }) => type));
  t.strictSame(types, Object.keys(EVENTS), 'every event has its golden record');
});

// --- What cannot be read ---------------------------------------------------------------------------------------------

t.test('what this version does not know in full is refused, not guessed', async (t) => {
  const account = '"01KJJWSV6000000000000001"';
  const withdrawn = `[4,${account},500,0,0,0,0,256772123456,"r","mtn_ug",${account}`;
  const lines: [line: string, says: RegExp][] = [
    ['', /not JSON/],
    ['[1', /not JSON/],
    ['{}', /a record/],
    [`[${account},5]`, /a record/],
    [`[${account},"5",[8,"c01KJJWSV6000000000000001"]]`, /an integer/],
    [`[5,5,[8,"c01KJJWSV6000000000000001"]]`, /an id/],
    [`[${account},5,8]`, /an event/],
    [`[${account},5,[99,"c01KJJWSV6000000000000001"]]`, /unknown event code 99: a newer version/],
    [`[${account},5,["8","c01KJJWSV6000000000000001"]]`, /unknown event code/],
    [`[${account},5,["length"]]`, /unknown event code/],
    [
      `[${account},5,[8,"c01KJJWSV6000000000000001",null]]`,
      /AnswerFixed has 2 fields, not 1: a newer version/,
    ],
    [`[${account},5,[8]]`, /an id, found undefined/],
    [`[${account},5,[8,"x01KJJWSV6000000000000001"]]`, /the id of a transaction/],
    [`[${account},5,[10,"c01KJJWSV6000000000000001",1,99]]`, /closed list/],
    [`[${account},5,[10,"c01KJJWSV6000000000000001",1]]`, /an integer, found undefined/],
    [`[${account},5,[14,5,"o","r"]]`, /a text, found 5/],
    [`[${account},5,[16,[],"o"]]`, /settings/],
    [`[${account},5,[16,null,"o"]]`, /settings/],
    [`[${account},5,[16,5,"o"]]`, /settings/],
    [`[${account},5,${withdrawn},2]]`, /0 or 1, found 2/],
    [`[${account},5,${withdrawn},1,null,null,null,null,[]]]`, /metadata/],
    [`[${account},5,${withdrawn},1,null,null,null,null,null,null,2]]`, /0 or 1, found 2/],
    [`[${account},5,[22,"01KJJWSV6000000000000001",1.5,"01KJJWSV6000000000000001"]]`, /an integer/],
  ];
  for (const [line, says] of lines) {
    t.throws(() => decodeRecord(line), { name: 'RecordUnreadable', message: says }, line);
  }
  t.throws(() => decodeRecord('null'), RecordUnreadable);
});

t.test('what cannot be written is a bug of ours', async (t) => {
  const record = (event: object) => ({ accountId: 'acc_1', at: START, events: [event as AccountEvent] });
  t.throws(() => encodeRecord(record({ type: 'AnswerFixed' })), /all its fields/);
  t.throws(() => encodeRecord(record({ type: 'Unheard' })), /has a row/);
  t.throws(() => encodeRecord(record({ type: 'AnswerFixed', id: 'x'.repeat(25) })), /short one/);
  t.throws(() => encodeRecord(record({ type: 'WalletActivated', id: 'x'.repeat(24) })), /short one/);
  const wallet = { type: 'WalletAdded', id: 'w', label: '', country: 'UG', network: 'MTN', by: 'u' };
  t.throws(() => encodeRecord(record({ ...wallet, msisdn: '0772123456' })), /leading zero/);
  t.throws(
    () => encodeRecord(record({ type: 'UserAdded', id: 'u', email: '', role: 'KING', by: '' })),
    /closed list/,
  );
});

t.test('every event that the core decides survives the log (the scenarios run through it)', async (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  scenario.when(outcome(id, 'SUCCESSFUL'));
  scenario.later(86_400_000).when(due('ReleaseCharge', id));
  for (const line of scenario.lines) t.equal(encodeRecord(decodeRecord(line)), line);
});
