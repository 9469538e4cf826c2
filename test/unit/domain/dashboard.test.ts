// What members do in the dashboard: who may do what, and in which state.

import t from 'tap';
import type {
  AccountCommand,
  AddWallet,
  ApproveWithdrawal,
  CreateDashboardDeposit,
  RejectWithdrawal,
} from '../../../src/domain/account-command.ts';
import { renderAccount, renderPayoutDestinations } from '../../../src/domain/render/account.ts';
import { renderObject } from '../../../src/domain/render/render.ts';
import type { Source } from '../../../src/domain/transaction.ts';
import {
  ADMIN,
  byOperator,
  charge,
  DAY,
  deposit,
  FINANCE,
  fundedMerchant,
  MEMBER,
  merchant,
  outcome,
  OWNER,
  recorded,
  Scenario,
  SECOND_OWNER,
  SETTINGS,
  secondOwner,
  START,
  submission,
  thenBody,
  thenRecorded,
  thenRefused,
  thenTold,
  WALLET,
  walletAdded,
  withdrawal,
} from './scenario.ts';

const EVERYONE = { OWNER, ADMIN, FINANCE, MEMBER };

function addWallet(by: string, over: Partial<AddWallet> = {}): AddWallet {
  const wallet = { label: 'Till', msisdn: '0772000111', network: null, country: null };
  return { ...byOperator, type: 'AddWallet', ...wallet, by, ...over };
}

function approveWallet(by: string, walletId = WALLET) {
  return { ...byOperator, type: 'ApproveWallet', walletId, by } as const;
}

function revokeWallet(by: string, walletId = WALLET) {
  return { ...byOperator, type: 'RevokeWallet', walletId, by } as const;
}

function verdict(
  type: 'ApproveWithdrawal' | 'RejectWithdrawal',
  transactionId: string,
  by: string,
): ApproveWithdrawal | RejectWithdrawal {
  return { ...byOperator, type, transactionId, by };
}

function dashboardDeposit(by: string, over: Partial<CreateDashboardDeposit> = {}): CreateDashboardDeposit {
  const input = { amount: '7000', currency: 'UGX', msisdn: '0772000111', reference: 'top-up' } as const;
  return { ...byOperator, type: 'CreateDashboardDeposit', input, by, ...over };
}

/** A user of the same person: such were added while addresses in other capitals were other ones. */
function sameInCapitals(scenario: Scenario, user: string): { id: string; email: string } {
  const email = scenario.account().users.get(user)?.email.toUpperCase() ?? '';
  return { id: `${user.slice(0, -2)}CC`, email };
}

const OTHER_SHOP = {
  type: 'OpenAccount',
  name: 'Other',
  country: 'UG',
  live: true,
  payoutsEnabled: true,
  withdrawalsEnabled: true,
} as const;

t.test('a refusal says why', async () => {
  const scenario = fundedMerchant().given(secondOwner());
  const pending = { ...walletAdded, id: `${WALLET.slice(0, -3)}700`, label: 'Other', by: OWNER };
  scenario.given(pending);
  const sent = scenario.create(withdrawal()).id;
  const waiting = scenario.create(withdrawal({ amount: '6000000' }, { idempotencyKey: 'key-00000002' })).id;
  const asked = scenario.create(withdrawal({ amount: '6000000' }, { idempotencyKey: 'key-00000003' })).id;
  Object.assign(scenario.transaction(asked), { requestedBy: FINANCE });
  scenario.policy = { ...scenario.policy, routes: {} };
  const rows: [AccountCommand, string][] = [
    [addWallet(MEMBER), 'The user is MEMBER; this takes OWNER or ADMIN.'],
    [approveWallet(ADMIN), 'The user is ADMIN; this takes OWNER.'],
    [approveWallet(`${OWNER}x`), '`by` names no user of the account.'],
    [approveWallet(OWNER), 'The payout wallet is ACTIVE.'],
    [approveWallet(OWNER, pending.id), 'Another owner than the one who added the wallet approves it.'],
    [
      verdict('RejectWithdrawal', sent, MEMBER),
      'The withdrawal is PENDING_PROVIDER, its approval NOT_REQUIRED.',
    ],
    [verdict('ApproveWithdrawal', waiting, MEMBER), 'There is no rail mtn_ug any more.'],
    [verdict('RejectWithdrawal', asked, FINANCE), 'Another member than the requester decides.'],
  ];
  for (const [command, message] of rows) thenTold(scenario.decide(command), message);
});

t.test('who may do what', async (t) => {
  const waiting = (): [Scenario, string] => {
    const scenario = fundedMerchant().given({
      ...walletAdded,
      id: `${WALLET.slice(0, -3)}700`,
      label: 'Other',
    });
    return [scenario, scenario.create(withdrawal({ amount: '6000000' })).id];
  };
  const other = `${WALLET.slice(0, -3)}700`;
  const rows: [
    what: string,
    may: readonly string[],
    command: (by: string, withdrawalId: string) => Parameters<Scenario['when']>[0],
  ][] = [
    ['add a wallet', ['OWNER', 'ADMIN'], (by) => addWallet(by, { label: 'New' })],
    ['approve a wallet', ['OWNER'], (by) => approveWallet(by, other)],
    ['revoke a wallet', ['OWNER', 'ADMIN'], (by) => revokeWallet(by)],
    [
      'approve a withdrawal',
      ['OWNER', 'ADMIN', 'FINANCE', 'MEMBER'],
      (by, id) => verdict('ApproveWithdrawal', id, by),
    ],
    [
      'reject a withdrawal',
      ['OWNER', 'ADMIN', 'FINANCE', 'MEMBER'],
      (by, id) => verdict('RejectWithdrawal', id, by),
    ],
    ['deposit', ['OWNER', 'ADMIN', 'FINANCE'], (by) => dashboardDeposit(by)],
  ];
  for (const [what, may, command] of rows) {
    for (const [role, by] of Object.entries(EVERYONE)) {
      const [scenario, withdrawalId] = waiting();
      const decision = scenario.decide(command(by, withdrawalId));
      if (may.includes(role)) t.ok(recorded(decision), `${role} may ${what}`);
      else thenRefused(decision, 'not_permitted', 'by');
    }
    const [scenario, withdrawalId] = waiting();
    thenRefused(scenario.decide(command('usr_unknown', withdrawalId)), 'not_permitted', 'by');
    thenRefused(new Scenario().decide(command(OWNER, withdrawalId)), 'not_found');
  }
});

t.test('a payout wallet', async (t) => {
  t.test('is added with the network its number hints at, or the one given', async (t) => {
    const scenario = merchant();
    const decision = scenario.when(addWallet(ADMIN));
    t.hasStrict(recorded(decision), { msisdn: '256772000111', country: 'UG', network: 'MTN', by: ADMIN });
    t.match(thenBody(decision)['id'], /^wal_/);
    t.hasStrict(thenBody(decision), {
      object: 'payout_destination',
      status: 'PENDING_APPROVAL',
      msisdn_masked: '25677****111',
      currency: 'UGX',
      active_at: null,
    });
    const kenyan = addWallet(ADMIN, { msisdn: '0712000111', country: 'KE' });
    thenRefused(scenario.decide(kenyan), 'network_required', 'network');
    t.hasStrict(recorded(scenario.decide({ ...kenyan, network: 'AIRTEL' })), {
      msisdn: '254712000111',
      network: 'AIRTEL',
    });
    thenRefused(scenario.decide(addWallet(ADMIN, { msisdn: '12' })), 'invalid_msisdn', 'msisdn');
  });

  t.test('added again under the same label is the same wallet', async (t) => {
    const scenario = merchant();
    const first = thenBody(scenario.when(addWallet(ADMIN)));
    const again = scenario.when(addWallet(OWNER));
    thenRecorded(again);
    t.equal(thenBody(again)['id'], first['id']);
    thenRecorded(scenario.when(addWallet(OWNER, { label: 'Safe' })), 'WalletAdded');
    const others: Partial<AddWallet>[] = [{ msisdn: '0772000112' }, { network: 'AIRTEL' }];
    for (const other of others) {
      const { msisdn = '0772000111', network = 'MTN' } = other;
      t.hasStrict(recorded(scenario.when(addWallet(OWNER, other))), {
        msisdn: `256${msisdn.slice(1)}`,
        network,
      });
    }
    scenario.when(revokeWallet(OWNER, String(first['id'])));
    thenRecorded(scenario.when(addWallet(OWNER)), 'WalletAdded');
  });

  t.test('fits the answer that tells them all; those that were revoked do not count', async (t) => {
    const scenario = merchant();
    const numbered = (index: number) => addWallet(OWNER, { msisdn: `0772000${100 + index}` });
    const told = (): { id: string; status: string }[] => {
      const text = renderPayoutDestinations(scenario.account(), scenario.accountListBytesMax);
      t.ok(Buffer.byteLength(text) < scenario.accountListBytesMax + 50, 'besides what is around the list');
      const { data } = JSON.parse(text) as { data: { id: string; status: string }[] };
      t.strictSame(
        JSON.parse(renderAccount(scenario.account(), scenario.accountListBytesMax)).wallets,
        data,
        'operators are told the same',
      );
      return data;
    };
    // Each takes as much, and a comma.
    const one = JSON.stringify(thenBody(scenario.decide(numbered(0))));
    scenario.accountListBytesMax = 4 * (Buffer.byteLength(one) + 1);
    let last = '';
    let added = 0;
    for (;;) {
      const decision = scenario.when(numbered(added));
      if (decision.record === null) {
        thenRefused(decision, 'conflict');
        thenTold(decision, 'The account has 4 payout wallets: no more can be told, revoke one.');
        break;
      }
      last = String(thenBody(decision)['id']);
      added++;
    }
    t.equal(added, 4);
    t.equal(told().length, added);
    for (let index = added; index < 20; index++) {
      thenRecorded(scenario.when(revokeWallet(OWNER, last)), 'WalletRevoked');
      last = String(thenBody(scenario.when(numbered(index)))['id']);
    }
    t.strictSame(
      told().map(({ status }) => status),
      Array.from({ length: added }, () => 'PENDING_APPROVAL'),
    );
    scenario.when(revokeWallet(OWNER, last));
    t.equal(told().at(-1)?.id, last, 'of those revoked the newest');
    t.equal(told().length, added);
  });

  t.test(
    'is refused where the account has had as many as it may: each is kept, also when revoked',
    async () => {
      const scenario = merchant();
      scenario.walletsMax = 3;
      const numbered = (index: number) => addWallet(OWNER, { msisdn: `0772000${100 + index}` });
      for (let index = 0; index < 3; index++) {
        const added = thenBody(scenario.when(numbered(index)));
        if (index > 0) scenario.when(revokeWallet(OWNER, String(added['id'])));
      }
      const refused = scenario.decide(numbered(3));
      thenRefused(refused, 'conflict');
      thenTold(
        refused,
        'The account has had 3 payout wallets, as many as it may: use one of the 1 that are not revoked, a payout, or another account.',
      );
      thenRecorded(scenario.when(numbered(0)));
    },
  );

  t.test('that was revoked is made text only where there is room for it', async (t) => {
    const account = merchant()
      .given({ ...walletAdded, by: OWNER })
      .account();
    const wallet = account.wallets.get(WALLET)!;
    let made = 0;
    const revoked = {
      ...wallet,
      status: 'REVOKED' as const,
      get label() {
        made++;
        return wallet.label;
      },
    };
    for (let n = 0; n < 1_000; n++) account.wallets.set(`wal_${n}`, revoked);
    const bytes = Buffer.byteLength(JSON.stringify(JSON.parse(renderPayoutDestinations(account)).data[0]));
    made = 0;
    const told = JSON.parse(renderPayoutDestinations(account, 10 * bytes)).data.length;
    t.ok(told > 8 && told < 12, `${told} are told`);
    t.ok(made <= told, `${made} were made`);
  });

  t.test('is approved by an owner, who may be its adder only when there is no other', async (t) => {
    const scenario = merchant().given({ ...walletAdded, by: OWNER });
    thenRecorded(scenario.decide(approveWallet(OWNER)), 'WalletApproved');
    scenario.given(secondOwner());
    thenRefused(scenario.decide(approveWallet(OWNER)), 'not_permitted', 'by');
    const decision = scenario.when(approveWallet(SECOND_OWNER));
    t.hasStrict(thenBody(decision), { status: 'COOLING_OFF', active_at: '2026-03-02T09:30:00.000Z' });
    t.equal(scenario.account().wallets.get(WALLET)?.activeAt, START + DAY);
    thenRefused(scenario.decide(approveWallet(SECOND_OWNER)), 'conflict');
    thenRefused(scenario.decide(approveWallet(OWNER, 'wal_none')), 'destination_not_found');
  });

  t.test('is not approved by its adder under the same address in capitals', async () => {
    const scenario = merchant().given({ ...walletAdded, by: OWNER });
    const other = sameInCapitals(scenario, OWNER);
    scenario.given({ ...secondOwner(), ...other });
    thenRecorded(scenario.decide(approveWallet(other.id)), 'WalletApproved');
    scenario.given(secondOwner());
    thenRefused(scenario.decide(approveWallet(other.id)), 'not_permitted', 'by');
    thenRecorded(scenario.decide(approveWallet(SECOND_OWNER)), 'WalletApproved');
  });

  t.test('is revoked from any state, once, and receives nothing from then on', async (t) => {
    const scenario = fundedMerchant();
    t.hasStrict(thenBody(scenario.when(revokeWallet(ADMIN))), { status: 'REVOKED' });
    thenRefused(scenario.decide(withdrawal()), 'destination_not_active', 'destination');
    thenRefused(scenario.decide(revokeWallet(ADMIN)), 'conflict');
    thenRefused(scenario.decide(approveWallet(OWNER)), 'conflict');
    thenRefused(scenario.decide(revokeWallet(ADMIN, 'wal_none')), 'destination_not_found');
    const waiting = merchant().given(walletAdded);
    thenRecorded(waiting.decide(revokeWallet(ADMIN)), 'WalletRevoked');
    waiting.when(approveWallet(OWNER));
    thenRefused(waiting.decide(withdrawal()), 'destination_not_active', 'destination');
    thenRecorded(waiting.decide(revokeWallet(ADMIN)), 'WalletRevoked');
  });
});

t.test('a withdrawal that waits', async (t) => {
  t.test('is sent when approved', async (t) => {
    const scenario = fundedMerchant();
    const { id } = scenario.create(withdrawal({ amount: '6000000' }));
    const decision = scenario.later(1_000).when(verdict('ApproveWithdrawal', id, MEMBER));
    thenRecorded(decision, 'WithdrawalApproved');
    t.hasStrict(thenBody(decision), { id, status: 'PENDING_PROVIDER', approval_status: 'APPROVED' });
    const transaction = scenario.transaction(id);
    t.hasStrict(transaction, { status: 'PENDING_PROVIDER', approvalStatus: 'APPROVED' });
    t.hasStrict(transaction.events.at(-1), { source: 'DASHBOARD', at: START + 1_000 });
    t.hasStrict(JSON.parse(renderObject(transaction, 0)), {
      status: 'INITIATED',
      approval_status: 'PENDING',
    });
    scenario.when(submission(id));
    scenario.when(outcome(id, 'SUCCESSFUL'));
    t.equal(scenario.balances().SETTLEMENT_CLEARING, 0);
    t.hasStrict(JSON.parse(renderObject(transaction, 2)), {
      status: 'SUCCESSFUL',
      approval_status: 'APPROVED',
    });
  });

  t.test('is not approved when nothing sends it any more, and is still there to be rejected', async () => {
    const scenario = fundedMerchant();
    const { id } = scenario.create(withdrawal({ amount: '6000000' }));
    const { provider } = scenario.transaction(id);
    const { policy } = scenario;
    for (const routes of [{}, { ...policy.routes, 'UG:MTN': `${provider}_2` }, { 'KE:MTN': provider }]) {
      scenario.policy = { ...policy, routes };
      thenRefused(scenario.decide(verdict('ApproveWithdrawal', id, MEMBER)), 'network_not_supported');
    }
    scenario.policy = { ...policy, oneWay: { 'UG:MTN': 'collect' } };
    const unsent = scenario.decide(verdict('ApproveWithdrawal', id, MEMBER));
    thenRefused(unsent, 'network_not_supported');
    thenTold(unsent, `The rail ${provider} has no credentials to send.`);
    thenRecorded(scenario.decide(verdict('RejectWithdrawal', id, MEMBER)), 'WithdrawalRejected');
    scenario.policy = policy;
    thenRecorded(scenario.decide(verdict('ApproveWithdrawal', id, MEMBER)), 'WithdrawalApproved');
  });

  t.test('fails with its whole hold returned when rejected', async (t) => {
    const scenario = fundedMerchant();
    const { id } = scenario.create(withdrawal({ amount: '6000000' }));
    const decision = scenario.when(verdict('RejectWithdrawal', id, MEMBER));
    thenRecorded(decision, 'WithdrawalRejected');
    t.hasStrict(thenBody(decision), { status: 'FAILED', approval_status: 'REJECTED' });
    t.hasStrict(JSON.parse(renderObject(scenario.transaction(id), 1)), {
      status: 'FAILED',
      approval_status: 'REJECTED',
      failure_code: 'approval_rejected',
    });
    t.equal(scenario.transaction(id).events.at(-1)?.source, 'DASHBOARD');
    t.hasStrict(scenario.balances(), { MERCHANT_AVAILABLE: 20_000_000, SETTLEMENT_CLEARING: 0 });
    t.hasStrict(scenario.account().usage.get('WITHDRAWAL:UGX'), { daily: 0, monthly: 0 });
  });

  t.test('is decided once, by a member other than the requester, and only a withdrawal is', async () => {
    for (const first of ['ApproveWithdrawal', 'RejectWithdrawal'] as const) {
      const scenario = fundedMerchant();
      const { id } = scenario.create(withdrawal({ amount: '6000000' }));
      scenario.when(verdict(first, id, MEMBER));
      thenRefused(scenario.decide(verdict('ApproveWithdrawal', id, ADMIN)), 'conflict');
      thenRefused(scenario.decide(verdict('RejectWithdrawal', id, ADMIN)), 'conflict');
    }
    const scenario = fundedMerchant();
    const sent = scenario.create(withdrawal());
    thenRefused(scenario.decide(verdict('ApproveWithdrawal', sent.id, ADMIN)), 'conflict');
    const { id } = scenario.create(charge({}, { idempotencyKey: 'key-00000002' }));
    thenRefused(scenario.decide(verdict('ApproveWithdrawal', id, ADMIN)), 'withdrawal_not_found');
    thenRefused(scenario.decide(verdict('RejectWithdrawal', 'wdl_none', ADMIN)), 'withdrawal_not_found');
  });

  t.test("is not there for another account's members", async () => {
    const scenario = fundedMerchant();
    const { id } = scenario.create(withdrawal({ amount: '6000000' }));
    const accountId = `acc_${'0'.repeat(26)}`;
    scenario.when({ ...byOperator, ...OTHER_SHOP, accountId });
    const added = scenario.when({
      ...byOperator,
      type: 'AddUser',
      accountId,
      email: 'o@other.example',
      role: 'OWNER',
    });
    const by = String(thenBody(added)['id']);
    for (const type of ['ApproveWithdrawal', 'RejectWithdrawal'] as const) {
      thenRefused(scenario.decide({ ...verdict(type, id, by), accountId }), 'withdrawal_not_found');
    }
  });

  t.test('to a wallet revoked since can only be rejected', async () => {
    const scenario = fundedMerchant();
    const { id } = scenario.create(withdrawal({ amount: '6000000' }));
    scenario.when(revokeWallet(OWNER));
    thenRefused(scenario.decide(verdict('ApproveWithdrawal', id, MEMBER)), 'destination_not_active');
    thenRecorded(scenario.decide(verdict('RejectWithdrawal', id, MEMBER)), 'WithdrawalRejected');
  });

  t.test('while money may not leave can only be rejected', async () => {
    for (const [settings, code] of [
      [{ live: false }, 'live_mode_not_enabled'],
      [{ withdrawalsEnabled: false }, 'withdrawals_not_enabled_live'],
    ] as const) {
      const scenario = fundedMerchant();
      const { id } = scenario.create(withdrawal({ amount: '6000000' }));
      scenario.given({ type: 'AccountSettingsChanged', settings: { ...SETTINGS, ...settings }, by: OWNER });
      thenRefused(scenario.decide(verdict('ApproveWithdrawal', id, MEMBER)), code);
      thenRecorded(scenario.decide(verdict('RejectWithdrawal', id, MEMBER)), 'WithdrawalRejected');
    }
  });

  t.test('is not decided by the member who asked for it', async () => {
    const scenario = fundedMerchant();
    const { record } = scenario.decide(withdrawal({ amount: '6000000' }));
    const event = record?.events[0];
    if (event?.type !== 'WithdrawalCreated') throw new Error('a withdrawal was created');
    scenario.given({ ...event, appId: null, requestedBy: FINANCE });
    thenRefused(scenario.decide(verdict('ApproveWithdrawal', event.id, FINANCE)), 'not_permitted', 'by');
    thenRefused(scenario.decide(verdict('RejectWithdrawal', event.id, FINANCE)), 'not_permitted', 'by');
    const other = sameInCapitals(scenario, FINANCE);
    scenario.given({ ...secondOwner(), ...other });
    thenRefused(scenario.decide(verdict('ApproveWithdrawal', event.id, other.id)), 'not_permitted', 'by');
    thenRecorded(scenario.decide(verdict('ApproveWithdrawal', event.id, MEMBER)), 'WithdrawalApproved');
  });
});

t.test(
  'what ends in the answer to its submit says who asked for it; what is heard later says how',
  async (t) => {
    const rows: [create: AccountCommand, said: Source, told: Source][] = [
      [charge(), 'API', 'API'],
      [charge(), 'PROVIDER_POLL', 'PROVIDER_POLL'],
      [dashboardDeposit(FINANCE), 'API', 'DASHBOARD'],
      [dashboardDeposit(FINANCE), 'PROVIDER_CALLBACK', 'PROVIDER_CALLBACK'],
    ];
    for (const [create, said, told] of rows) {
      for (const end of ['SUCCESSFUL', 'FAILED'] as const) {
        const scenario = merchant();
        const { id } = scenario.create(create);
        scenario.when(outcome(id, end, { source: said }));
        const { status, source } = scenario.transaction(id).events.at(-1)!;
        t.strictSame(
          { status, source },
          { status: end, source: told },
          `${create.type}: ${end}, said by ${said}`,
        );
      }
    }
  },
);

t.test(
  'a deposit from the dashboard has no app, and no idempotency key unless it is given one',
  async (t) => {
    const scenario = merchant();
    const transaction = scenario.create(dashboardDeposit(FINANCE));
    t.hasStrict(transaction, { type: 'DEPOSIT', appId: null, requestedBy: FINANCE, answeredAt: null });
    scenario.when(submission(transaction.id));
    t.strictSame(
      transaction.events.map(({ source }) => source),
      ['DASHBOARD', 'DASHBOARD', 'DASHBOARD'],
    );
    t.equal(scenario.state.idempotencyEntries.size, 0);
    thenRefused(merchant({ live: false }).decide(dashboardDeposit(FINANCE)), 'live_mode_not_enabled');
  },
);

t.test('a deposit from the dashboard that is sent again under its key is the same deposit', async (t) => {
  const scenario = merchant();
  const repeatable = { idempotencyKey: 'top-up-0001', requestHash: 'hash-1' };
  const { id } = scenario.create(dashboardDeposit(FINANCE, { repeatable }));
  const again = scenario.decide(dashboardDeposit(FINANCE, { repeatable }));
  t.hasStrict(again, { record: null, outcome: { type: 'answer', transactionId: id, replayed: true } });

  const changed = { ...repeatable, requestHash: 'hash-2' };
  thenRefused(scenario.decide(dashboardDeposit(FINANCE, { repeatable: changed })), 'idempotency_key_reused');
  thenRefused(scenario.decide(dashboardDeposit(MEMBER, { repeatable })), 'not_permitted', 'by');
  const other = { ...repeatable, idempotencyKey: 'top-up-0002' };
  t.not(scenario.create(dashboardDeposit(FINANCE, { repeatable: other })).id, id);
  t.not(scenario.create(deposit({}, repeatable)).id, id, 'an app’s key of the same name is another');
});
