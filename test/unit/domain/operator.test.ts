// What operators do: accounts, settings, users, apps, reconciliation items; and that doing it twice does it once.

import t from 'tap';
import type { AccountSettingsChanges, OpenAccount } from '../../../src/domain/account-command.ts';
import { money } from '../../../src/domain/money.ts';
import { renderAccount } from '../../../src/domain/render/account.ts';
import {
  APP,
  byOperator,
  charge,
  deposit,
  fundedMerchant,
  merchant,
  outcome,
  OWNER,
  payout,
  recorded,
  Scenario,
  settle,
  thenBody,
  thenRecorded,
  thenRefused,
  thenTold,
  withdrawal,
} from './scenario.ts';

const open: OpenAccount = {
  ...byOperator,
  type: 'OpenAccount',
  name: 'Kampala "Books"',
  country: 'UG',
  live: false,
  payoutsEnabled: true,
  withdrawalsEnabled: false,
};
const connect = {
  ...byOperator,
  type: 'ConnectApp',
  name: 'Shop',
  domain: 'shop.example',
  webhookUrl: null,
  publishableKey: 'pk_live_2',
  secretKeyHash: 'h'.repeat(43),
  signingSecretSealed: 'sealed',
} as const;
const change = { ...byOperator, type: 'ChangeAccountSettings' } as const;
const addUser = { ...byOperator, type: 'AddUser', email: 'a@b.example', role: 'ADMIN' } as const;
const webhook = {
  ...byOperator,
  type: 'ChangeAppWebhook',
  appId: APP,
  webhookUrl: 'https://b.example/',
} as const;
const removeApp = { ...byOperator, type: 'RemoveApp', appId: APP } as const;

t.test('an account is opened once', async (t) => {
  const scenario = new Scenario();
  const decision = scenario.when(open);
  thenRecorded(decision, 'AccountOpened');
  const body = thenBody(decision) as Record<string, unknown>;
  t.hasStrict(body, {
    object: 'account',
    name: 'Kampala "Books"',
    country: 'UG',
    live: false,
    payouts_enabled: true,
    withdrawals_enabled: false,
    cash_out_per_minute: null,
    created_at: '2026-03-01T09:30:00.000Z',
  });
  for (const name of ['approval_thresholds', 'fees', 'limits']) t.strictSame(body[name], {});
  for (const name of ['users', 'apps', 'wallets', 'balances']) t.strictSame(body[name], []);
  const again = scenario.when({ ...open, name: 'Another' });
  thenRecorded(again);
  t.strictSame(thenBody(again), thenBody(decision));
});

t.test('every operator command needs an account', async () => {
  const empty = new Scenario();
  for (const command of [connect, { ...change, changes: {} }, addUser, webhook, removeApp] as const) {
    thenRefused(empty.decide(command), 'not_found');
  }
});

t.test('settings: what is absent stays, null drops a term of the account', async (t) => {
  const scenario = merchant();
  const fee = { fixed: money(100), basisPoints: 50, floor: null, cap: money(900) };
  const limit = { maximum: money(9_000), daily: money(10_000), monthly: money(11_000) };
  const decision = scenario.when({
    ...change,
    changes: {
      payoutsEnabled: false,
      cashOutPerMinute: 5,
      approvalThresholds: { UGX: money(1_000) },
      fees: { 'PAYOUT:UGX': fee },
      limits: { 'CHARGE:UGX': limit },
    },
  });
  thenRecorded(decision, 'AccountSettingsChanged');
  t.hasStrict(recorded(decision), { by: 'amina' });
  t.hasStrict(thenBody(decision), {
    live: true,
    payouts_enabled: false,
    withdrawals_enabled: true,
    cash_out_per_minute: 5,
    approval_thresholds: { UGX: '1000' },
    fees: { PAYOUT: { UGX: { fixed: '100', basis_points: 50, floor: null, cap: '900' } } },
    limits: { CHARGE: { UGX: { maximum: '9000', daily: '10000', monthly: '11000' } } },
  });
  t.equal(decision.outcome.type === 'done' && decision.outcome.body, renderAccount(scenario.account()));
  thenRefused(scenario.decide(charge({ amount: '9001' })), 'amount_above_maximum');
  scenario.when({
    ...change,
    changes: {
      cashOutPerMinute: null,
      approvalThresholds: { UGX: null },
      fees: { 'PAYOUT:UGX': null },
      limits: {},
    },
  });
  const after = {
    live: true,
    payoutsEnabled: false,
    withdrawalsEnabled: true,
    approvalThresholds: {},
    cashOutPerMinute: null,
    fees: {},
    limits: { 'CHARGE:UGX': limit },
  };
  t.strictSame(scenario.account().settings, after);

  const steps: AccountSettingsChanges[] = [
    { withdrawalsEnabled: false },
    { cashOutPerMinute: 7 },
    { approvalThresholds: { KES: money(1) } },
    { approvalThresholds: { UGX: money(2) } },
    { fees: { 'CHARGE:UGX': fee } },
    { limits: { 'PAYOUT:KES': limit } },
  ];
  for (const changes of steps) scenario.when({ ...change, changes });
  t.strictSame(scenario.account().settings, {
    ...after,
    withdrawalsEnabled: false,
    approvalThresholds: { KES: 1, UGX: 2 },
    cashOutPerMinute: 7,
    fees: { 'CHARGE:UGX': fee },
    limits: { 'CHARGE:UGX': limit, 'PAYOUT:KES': limit },
  });
});

t.test('switching live off stops every key at once', async () => {
  const scenario = fundedMerchant();
  scenario.when({ ...change, changes: { live: false } });
  thenRefused(scenario.decide(charge()), 'live_mode_not_enabled');
  thenRefused(scenario.decide(payout()), 'live_mode_not_enabled');
});

t.test('a user is added once, in whatever capitals the address is written', async (t) => {
  const scenario = merchant();
  const decision = scenario.when(addUser);
  thenRecorded(decision, 'UserAdded');
  t.match(thenBody(decision)['id'], /^usr_/);
  t.hasStrict(thenBody(decision), { object: 'user', email: 'a@b.example', role: 'ADMIN' });
  const again = scenario.when(addUser);
  thenRecorded(again);
  t.strictSame(thenBody(again), thenBody(decision));
  thenRefused(scenario.decide({ ...addUser, role: 'OWNER' }), 'conflict', 'email');
  const room = Buffer.byteLength(JSON.stringify(JSON.parse(rendered(scenario)).users));
  scenario.accountListBytesMax = room + 100;
  thenRefused(scenario.decide({ ...addUser, email: 'one.too.many@b.example' }), 'conflict');
  thenRecorded(scenario.when(addUser));
  const inCapitals = { ...addUser, email: 'A@B.Example' };
  const same = scenario.when(inCapitals);
  thenRecorded(same);
  t.strictSame(thenBody(same), thenBody(decision));
  thenRefused(scenario.decide({ ...inCapitals, role: 'OWNER' }), 'conflict', 'email');
});

t.test('an app', async (t) => {
  t.test('is connected once, to a live account', async (t) => {
    thenRefused(merchant({ live: false }).decide(connect), 'live_mode_not_enabled');
    const scenario = merchant();
    const decision = scenario.when(connect);
    thenRecorded(decision, 'AppConnected');
    t.match(thenBody(decision)['id'], /^app_/);
    t.hasStrict(thenBody(decision), {
      object: 'app',
      domain: 'shop.example',
      webhook_url: null,
      removed_at: null,
    });
    const again = scenario.when(connect);
    thenRecorded(again);
    t.strictSame(thenBody(again), thenBody(decision));
    thenRecorded(scenario.decide(charge({}, { keyHash: 'h'.repeat(43) })), 'ChargeCreated');
  });

  t.test('is one of a bounded number: those that were removed do not count', async () => {
    const scenario = merchant();
    scenario.appsMax = 2;
    thenRecorded(scenario.when(connect), 'AppConnected');
    const third = { ...connect, publishableKey: 'pk_live_3' };
    thenRefused(scenario.decide(third), 'conflict');
    thenTold(scenario.decide(third), 'The account has 2 apps, the most it may have: remove one.');
    thenRecorded(scenario.when(connect));
    thenRecorded(scenario.when(removeApp), 'AppRemoved');
    thenRecorded(scenario.when(third), 'AppConnected');
  });

  t.test('fits the answer that tells the account, with the others', async (t) => {
    const scenario = merchant();
    const told = (): number => Buffer.byteLength(JSON.stringify(JSON.parse(rendered(scenario)).apps));
    scenario.accountListBytesMax = told() + 300;
    const long = `https://b.example/${'é'.repeat(250)}`;
    thenRefused(scenario.decide({ ...connect, webhookUrl: long }), 'conflict');
    thenRefused(scenario.decide({ ...webhook, webhookUrl: long }), 'conflict');
    thenRecorded(scenario.when(connect), 'AppConnected');
    thenRefused(scenario.decide({ ...connect, publishableKey: 'pk_live_3' }), 'conflict');

    // A leaked key must always be replaceable.
    for (let key = 3; key < 20; key++) {
      const last = [...scenario.account().apps.keys()].at(-1)!;
      thenRecorded(scenario.when({ ...removeApp, appId: last }), 'AppRemoved');
      thenRecorded(scenario.when({ ...connect, publishableKey: `pk_live_${key}` }), 'AppConnected');
    }
    t.ok(told() <= scenario.accountListBytesMax + 2, 'the brackets apart');
    const { apps } = JSON.parse(rendered(scenario)) as { apps: { id: string; removed_at: string | null }[] };
    const all = [...scenario.account().apps.keys()];
    t.strictSame(
      apps.map(({ id }) => id),
      [APP, ...all.slice(1 - apps.length)],
      'of those removed the newest, in order',
    );
    // Exactly as much as there is room for, and no more; itself as it was takes none.
    const inUse = apps.filter(({ removed_at }) => removed_at === null);
    scenario.accountListBytesMax = Buffer.byteLength(JSON.stringify(inUse)) - 1 + 10;
    const { webhookUrl } = scenario.account().apps.get(APP)!;
    thenRefused(scenario.decide({ ...webhook, webhookUrl: `${webhookUrl}/+123456789` }), 'conflict');
    thenRecorded(scenario.when({ ...webhook, webhookUrl: `${webhookUrl}/123456789` }), 'AppWebhookChanged');
    // With a lower bound than it was connected under.
    scenario.accountListBytesMax = 0;
    thenRecorded(scenario.when({ ...webhook, webhookUrl: `${webhookUrl}/987654321` }), 'AppWebhookChanged');
    thenRecorded(scenario.when({ ...webhook, webhookUrl: null }), 'AppWebhookChanged');
    t.match(JSON.parse(rendered(scenario)).apps, [{ id: APP }, { id: all.at(-1) }], 'what is in use is told');
  });

  t.test('changes its webhook', async (t) => {
    const scenario = merchant();
    const decision = scenario.when(webhook);
    thenRecorded(decision, 'AppWebhookChanged');
    t.hasStrict(thenBody(decision), { id: APP, webhook_url: 'https://b.example/' });
    thenRecorded(scenario.when(webhook));
    t.equal(scenario.account().apps.get(APP)?.webhookUrl, 'https://b.example/');
    thenRefused(scenario.decide({ ...webhook, appId: 'app_none' }), 'not_found');
  });

  t.test('is removed once, and is no more', async (t) => {
    const scenario = merchant();
    const decision = scenario.when(removeApp);
    thenRecorded(decision, 'AppRemoved');
    t.hasStrict(thenBody(decision), { removed_at: '2026-03-01T09:30:00.000Z' });
    const again = scenario.later(5).when(removeApp);
    thenRecorded(again);
    t.strictSame(thenBody(again), thenBody(decision));
    thenRefused(scenario.decide(webhook), 'conflict');
    thenRefused(scenario.decide(charge()), 'invalid_api_key');
    thenRefused(scenario.decide({ ...removeApp, appId: 'app_none' }), 'not_found');
  });

  t.test('secrets and hashes are never rendered', async (t) => {
    const text = renderAccount(merchant().account());
    t.notMatch(text, /sealed|kY3x/);
  });
});

t.test('a reconciliation item is resolved once', async (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  scenario.when(outcome(id, 'FAILED'));
  scenario.when(outcome(id, 'SUCCESSFUL', { amount: 50_000, currency: 'UGX' }));
  const [item] = scenario.state.reconciliations.values();
  const resolve = {
    ...byOperator,
    type: 'ResolveReconciliation',
    reconciliationId: item?.id ?? '',
    resolution: 'Refunded by hand.',
  } as const;
  const decision = scenario.later(60_000).when(resolve);
  thenRecorded(decision, 'ReconciliationResolved');
  t.strictSame(thenBody(decision), {
    id: item?.id,
    object: 'reconciliation',
    account_id: byOperator.accountId,
    kind: 'SUCCESS_AFTER_FINAL',
    transaction_id: id,
    detail:
      'The provider says SUCCESSFUL (P_SUCCESSFUL), 50000 UGX, its id 998877. ' +
      'Ours: FAILED (customer_declined), 50000 UGX.',
    raised_at: '2026-03-01T09:30:00.000Z',
    resolved_at: '2026-03-01T09:31:00.000Z',
    resolved_by: 'amina',
    resolution: 'Refunded by hand.',
  });
  const again = scenario.when(resolve);
  thenRecorded(again);
  t.strictSame(thenBody(again), thenBody(decision));
  thenRefused(scenario.decide({ ...resolve, resolution: 'Otherwise.' }), 'conflict');
  thenRefused(scenario.decide({ ...resolve, operator: 'brian' }), 'conflict');
  thenRefused(scenario.decide({ ...resolve, reconciliationId: 'rec_none' }), 'not_found');
  thenRefused(scenario.decide({ ...resolve, accountId: 'acc_other' }), 'not_found');
  thenRecorded(scenario.when(outcome(id, 'SUCCESSFUL')));
});

t.test('a command past its deadline is dropped undecided, whatever it is', async () => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  const late = { deadline: scenario.now - 1 };
  for (const command of [open, connect, addUser, outcome(id, 'SUCCESSFUL'), { ...change, changes: {} }]) {
    thenRefused(scenario.decide({ ...command, ...late }), 'service_unavailable');
    scenario.decide({ ...command, deadline: scenario.now });
  }
  thenRefused(scenario.decide({ ...addUser, ...late, email: OWNER }), 'service_unavailable');
});

function rendered(scenario: Scenario): string {
  return renderAccount(scenario.account(), scenario.accountListBytesMax);
}

t.test('what became of a cash-out is said by a person where its provider says nothing final', async (t) => {
  t.test('one that failed gives back its hold, once', async (t) => {
    const scenario = fundedMerchant();
    const before = { ...scenario.balances() };
    const { id } = scenario.create(payout());
    t.not(scenario.balances().SETTLEMENT_CLEARING, 0, 'it is on hold');
    const decision = scenario.when(settle(id));
    thenRecorded(decision, 'TransactionFailed');
    t.strictSame(thenBody(decision), { id, object: 'payout', status: 'FAILED' });
    t.strictSame(scenario.balances(), before);
    const transaction = scenario.transaction(id);
    t.hasStrict(transaction, { status: 'FAILED', failureCode: 'provider_rejected', failureMessage: null });
    t.equal(transaction.events.at(-1)?.source, 'DASHBOARD');
    const again = scenario.when(settle(id));
    thenRecorded(again);
    t.strictSame(thenBody(again), thenBody(decision));
    thenRefused(scenario.decide(settle(id, { outcome: 'SUCCESSFUL' })), 'conflict');
    // Who says no code says none other.
    thenRecorded(scenario.when(settle(id, { failureCode: 'unknown' })));
    const other = scenario.decide(settle(id, { failureCode: 'wallet_inactive' }));
    thenTold(other, 'The payout is FAILED, with the failure code provider_rejected.');
  });

  t.test('one that succeeded is as if its provider had said so', async (t) => {
    const [said, told] = [fundedMerchant(), fundedMerchant()];
    for (const scenario of [said, told]) {
      const { id } = scenario.create(payout());
      if (scenario === told) scenario.when(outcome(id, 'SUCCESSFUL', { providerTransactionId: '77' }));
      else scenario.when(settle(id, { outcome: 'SUCCESSFUL', providerTransactionId: '77' }));
      t.hasStrict(scenario.transaction(id), { status: 'SUCCESSFUL', providerTransactionId: '77' });
      thenRefused(scenario.decide(settle(id)), 'conflict');
      for (const providerTransactionId of [null, '77']) {
        thenRecorded(scenario.when(settle(id, { outcome: 'SUCCESSFUL', providerTransactionId })));
      }
      const other = scenario.decide(settle(id, { outcome: 'SUCCESSFUL', providerTransactionId: '78' }));
      thenRefused(other, 'conflict', null);
      thenTold(other, "The payout is SUCCESSFUL, with the provider's transaction id 77.");
    }
    t.strictSame(said.account().balances, told.account().balances);
    const { id } = said.create(payout({}, { idempotencyKey: 'has-no-id-of-theirs' }));
    said.when(settle(id, { outcome: 'SUCCESSFUL' }));
    const other = said.decide(settle(id, { outcome: 'SUCCESSFUL', providerTransactionId: '78' }));
    thenTold(other, 'The payout is SUCCESSFUL, with no transaction id of the provider.');
  });

  t.test('its provider contradicts it afterwards: that is raised', async (t) => {
    const scenario = fundedMerchant();
    const { id } = scenario.create(payout());
    scenario.when(settle(id));
    thenRecorded(scenario.when(outcome(id, 'SUCCESSFUL')), 'ReconciliationRaised');
    t.equal(scenario.transaction(id).status, 'FAILED');
  });

  t.test('a refusal says why', async () => {
    const scenario = fundedMerchant();
    const collected = scenario.create(charge()).id;
    const { id } = scenario.create(payout({}, { idempotencyKey: 'payout-1' }));
    scenario.when(outcome(id, 'SUCCESSFUL'));
    thenTold(scenario.decide(settle(collected)), 'A charge is ended by its provider, or expires.');
    thenTold(scenario.decide(settle(id)), 'The payout is SUCCESSFUL.');
  });

  t.test('nothing else is settled', async () => {
    const scenario = fundedMerchant();
    thenRefused(scenario.decide(settle(scenario.create(charge()).id)), 'conflict');
    const key = (idempotencyKey: string) => ({ idempotencyKey });
    thenRefused(scenario.decide(settle(scenario.create(deposit({}, key('deposit-1'))).id)), 'conflict');
    const waiting = scenario.create(withdrawal({ amount: '6000000' }, key('waits-for-approval')));
    thenRefused(scenario.decide(settle(waiting.id)), 'conflict');
    thenRefused(scenario.decide(settle('pyt_none')), 'transaction_not_found');
    const { id } = scenario.create(withdrawal({}, key('withdrawal-1')));
    thenRefused(scenario.decide({ ...settle(id), accountId: 'acc_other' }), 'transaction_not_found');
    thenRecorded(scenario.when(settle(id)), 'TransactionFailed');
  });
});
