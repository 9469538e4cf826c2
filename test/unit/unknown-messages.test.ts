// Nodes are upgraded one after the other: a message that only a newer version knows is `unavailable` at an older one, which
// goes on as before.

import t from 'tap';
import { accountsGroup } from '../../actors/accounts/group.ts';
import { listPage } from '../../actors/accounts/listing.ts';
import { Memory } from '../../actors/accounts/memory.ts';
import { encodeOpen, openKey, openOf, SEPARATOR } from '../../actors/accounts/rows.ts';
import { encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import { platformGroup } from '../../actors/platform/group.ts';
import type { Group } from '../../actors/runtime/group.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import { createWebhooksGroup } from '../../actors/webhooks/group.ts';
import type { Message, Reply } from '../../src/bus/bus.ts';
import type { Country } from '../../src/domain/country.ts';
import type { AccountCommand } from '../../src/domain/account-command.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { decodeRecord } from '../../src/domain/event-codec.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import { bucketOf } from '../../src/domain/transaction-filter.ts';
import { isQuery } from '../../src/nats/bus/repeatable.ts';
import type { Views } from '../../wal/types.ts';
import {
  ACCOUNT,
  byOperator,
  charge,
  FOR_EVER,
  fundedMerchant,
  MEMBER,
  outcome,
  OWNER,
  payout,
  settle,
  thenRefused,
} from './domain/scenario.ts';
import { Driven } from './pollers-driven.ts';

const NO_VIEWS: Views = { get: () => undefined, range: () => [] };
const GROUPS = [
  accountsGroup(DEFAULT_POLICY),
  createWebhooksGroup({ retryMs: [], retentionMs: 0 }),
  platformGroup,
] as unknown as Group<Message, Message, unknown>[];

/** What every object has by its nature is not known either. */
const UNKNOWN = [
  'CreateRefund',
  'GetRefund',
  'ListRefunds',
  '',
  'constructor',
  'hasOwnProperty',
  '__proto__',
];

/** A partition of the real group, and what it was seen to do. */
function watched(group: Group<Message, Message, unknown>) {
  const log = { appended: 0, durable: 0, append: () => ++log.appended };
  const decided: string[] = [];
  const partition = new Partition({
    group,
    logic: group.open(0, NO_VIEWS, { sequence: 0, writesRows: false }),
    log,
    clock: () => 1_000,
    deadlineClock: () => 1_000,
    lastRecordAt: 0,
    observer: { decided: (name, type, outcome) => decided.push(`${name} ${type} ${outcome}`) },
    writeFormat: () => RECORD_FORMATS.newest,
    isPaused: () => false,
    publish: () => {},
  });
  return { partition, log, decided };
}

for (const group of GROUPS) {
  void t.test(`${group.name}: what it does not know changes nothing and is unavailable`, (t) => {
    const { partition, log, decided } = watched(group);
    const replies: Reply[] = [];
    for (const type of UNKNOWN) {
      const message = { type, accountId: ACCOUNT, deadline: Infinity };
      partition.send(message, (reply) => replies.push(reply));
    }
    t.strictSame(
      replies,
      UNKNOWN.map(() => ({ type: 'unavailable' })),
    );
    t.equal(log.appended, 0);
    t.strictSame(
      decided,
      UNKNOWN.map(() => `${group.name} unknown unavailable`),
      'they are counted, under one name however many there are',
    );
    t.end();
  });

  void t.test(`${group.name}: the bus takes for a read what the group does`, (t) => {
    for (const [type, kind] of Object.entries(group.messages)) {
      t.equal(isQuery({ type, deadline: 0 }), kind === 'query', type);
    }
    t.end();
  });
}

void t.test(
  'accounts: what says a name that only a newer version has changes nothing and is unavailable',
  (t) => {
    const scenario = fundedMerchant();
    const failed = scenario.create(payout({}, { idempotencyKey: 'key-failed' }));
    scenario.when(outcome(failed.id, 'FAILED'));
    const sent = scenario.create(payout());
    const { partition, log, decided } = watched(GROUPS[0]!);
    for (const [i, line] of scenario.lines.entries()) partition.logic.evolve(decodeRecord(line), i + 1);
    const newer = 'NEWER' as never;
    const toAccount = { accountId: ACCOUNT, deadline: FOR_EVER };
    const account = { name: 'Dodoma', live: true, payoutsEnabled: true, withdrawalsEnabled: true };
    const wallet = { label: 'Till', msisdn: '256772000222', country: null, by: OWNER };
    const commands: AccountCommand[] = [
      {
        ...byOperator,
        ...account,
        type: 'OpenAccount',
        accountId: `${ACCOUNT.slice(0, -1)}1`,
        country: newer,
      },
      { ...byOperator, type: 'AddUser', email: 'auditor@shop.example', role: newer },
      { ...byOperator, type: 'ChangeUserRole', userId: MEMBER, role: newer, by: null },
      { ...byOperator, ...wallet, type: 'AddWallet', network: newer },
      settle(sent.id, { failureCode: newer }),
      settle(sent.id, { outcome: newer }),
      outcome(sent.id, newer),
      outcome(failed.id, newer),
      outcome(sent.id, 'FAILED', { failureCode: newer }),
      outcome(sent.id, 'FAILED', { source: newer }),
      { ...toAccount, type: 'RaiseReconciliation', kind: newer, transactionId: sent.id, detail: '' },
    ];
    const replies: Reply[] = [];
    for (const command of commands) partition.send(command, (reply) => replies.push(reply));
    t.strictSame(
      replies,
      commands.map(() => ({ type: 'unavailable' })),
    );
    t.equal(log.appended, 0);
    t.strictSame(
      decided,
      commands.map(() => 'accounts unknown unavailable'),
    );
    partition.send(outcome(sent.id, 'FAILED'), (reply) => replies.push(reply));
    t.equal(log.appended, 1, 'the same with a name that it has is decided');
    t.end();
  },
);

void t.test('accounts: a list of what only a newer version has a name for is empty', (t) => {
  const transaction = fundedMerchant().create(payout());
  const bucket = bucketOf(transaction);
  const views: Views = {
    get: () => encodeTransaction(transaction),
    *range(table) {
      if (table === 'open') {
        yield { key: openKey(ACCOUNT, transaction.id), value: encodeOpen(openOf(transaction)!) };
      }
      // Of another that is at rest.
      if (table === 'bucket') yield { key: ACCOUNT + SEPARATOR + bucket, value: '' };
    },
  };
  const listed = (filter: object): number => {
    const memory = new Memory(views, { sequence: 1, writesRows: false });
    const bounds = { limit: 10, charactersMax: Infinity, skippedMax: Infinity };
    return listPage(memory, views, ACCOUNT, filter, null, bounds).transactions.length;
  };
  for (const name of ['type', 'status', 'approvalStatus', 'country', 'network', 'currency'] as const) {
    t.equal(listed({ [name]: transaction[name] }), 1, name);
    t.equal(listed({ [name]: 'NEWER' }), 0, `${name}: what it does not know it has none of`);
  }
  t.end();
});

void t.test('accounts: a local number of a country that only a newer version knows is refused', (t) => {
  const create = charge({ msisdn: '0772123456', country: 'TZ' as Country });
  thenRefused(fundedMerchant().decide(create), 'invalid_msisdn', 'msisdn');
  t.end();
});

void t.test('pollers: what they do not know is no callback', async (t) => {
  const driven = await new Driven().start();
  const { id } = driven.accounts.create(charge());
  await driven.clock.advance(5_000);
  const replies: Reply[] = [];
  for (const type of UNKNOWN) {
    const message = { type, accountId: ACCOUNT, transactionId: id, deadline: Infinity };
    driven.pollers.send(0, message, (reply) => replies.push(reply));
  }
  t.strictSame(
    replies,
    UNKNOWN.map(() => ({ type: 'unavailable' })),
  );
  t.equal(driven.unknownMessages, UNKNOWN.length, 'they are counted');
  t.strictSame(driven.mtn.enquiries, []);
  t.match(driven.hint({ id }), { type: 'done' }, 'what they know is looked into');
  t.equal(driven.mtn.enquiries.length, 1);
  t.equal(driven.unknownMessages, UNKNOWN.length);
});
