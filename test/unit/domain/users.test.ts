// Users of an account: added, given another role, removed, by an operator or an owner; and what a removed one may not do any
// more, and is still known for.

import t from 'tap';
import type { AccountCommand, ChangeUserRole, RemoveUser } from '../../../src/domain/account-command.ts';
import type { Role } from '../../../src/domain/account.ts';
import { renderAccount } from '../../../src/domain/render/account.ts';
import { decodeAccount, encodeAccount } from '../../../actors/accounts/rows.ts';
import {
  ADMIN,
  byOperator,
  FINANCE,
  fundedMerchant,
  MEMBER,
  merchant,
  opened,
  OWNER,
  recorded,
  Scenario,
  SECOND_OWNER,
  secondOwner,
  START,
  thenBody,
  thenRecorded,
  thenRefused,
  thenTold,
  WALLET,
  walletAdded,
  withdrawal,
} from './scenario.ts';

const NOBODY = `usr_${'9'.repeat(26)}`;

function changeRole(userId: string, role: Role, by: string | null = null): ChangeUserRole {
  return { ...byOperator, type: 'ChangeUserRole', userId, role, by };
}

function remove(userId: string, by: string | null = null): RemoveUser {
  return { ...byOperator, type: 'RemoveUser', userId, by };
}

function add(email: string, role: Role): AccountCommand {
  return { ...byOperator, type: 'AddUser', email, role };
}

function emailOf(scenario: Scenario, user: string): string {
  return scenario.account().users.get(user)!.email;
}

t.test('a role', async (t) => {
  t.test('is changed, once', async (t) => {
    const scenario = merchant();
    const decision = scenario.when(changeRole(MEMBER, 'FINANCE'));
    thenRecorded(decision, 'UserRoleChanged');
    t.strictSame(recorded(decision), { type: 'UserRoleChanged', id: MEMBER, role: 'FINANCE', by: 'amina' });
    t.hasStrict(thenBody(decision), { id: MEMBER, object: 'user', role: 'FINANCE', removed_at: null });
    const again = scenario.when(changeRole(MEMBER, 'FINANCE'));
    thenRecorded(again);
    t.strictSame(thenBody(again), thenBody(decision));
  });

  t.test('is what counts from then on', async () => {
    const scenario = fundedMerchant();
    const revoke = { ...byOperator, type: 'RevokeWallet', walletId: WALLET, by: ADMIN } as const;
    scenario.when(changeRole(ADMIN, 'MEMBER'));
    thenRefused(scenario.decide(revoke), 'not_permitted', 'by');
    scenario.when(changeRole(ADMIN, 'OWNER'));
    thenRecorded(scenario.decide(revoke), 'WalletRevoked');
  });

  t.test('of nobody is not there', async () => {
    const scenario = merchant();
    thenRefused(scenario.decide(changeRole(NOBODY, 'ADMIN')), 'not_found');
    thenRefused(scenario.decide(remove(NOBODY)), 'not_found');
    const accountId = `acc_${'0'.repeat(26)}`;
    thenRefused(scenario.decide({ ...changeRole(MEMBER, 'ADMIN'), accountId }), 'not_found');
    thenRefused(scenario.decide({ ...remove(MEMBER), accountId }), 'not_found');
  });

  t.test('of who was removed is not changed', async () => {
    const scenario = merchant();
    scenario.when(remove(MEMBER));
    thenRefused(scenario.decide(changeRole(MEMBER, 'ADMIN')), 'conflict');
    thenRefused(scenario.decide(changeRole(MEMBER, 'MEMBER')), 'conflict');
  });
});

t.test('the last owner stays, as an owner', async () => {
  const scenario = merchant();
  thenRefused(scenario.decide(remove(OWNER)), 'conflict');
  thenRefused(scenario.decide(changeRole(OWNER, 'ADMIN')), 'conflict');
  thenRefused(scenario.decide(remove(OWNER, OWNER)), 'conflict');
  thenRecorded(scenario.decide(changeRole(OWNER, 'OWNER')));
  scenario.given(secondOwner());
  thenRecorded(scenario.decide(changeRole(OWNER, 'ADMIN')), 'UserRoleChanged');
  thenRecorded(scenario.when(remove(OWNER)), 'UserRemoved');
  // Who was removed is an owner no more.
  thenRefused(scenario.decide(remove(SECOND_OWNER)), 'conflict');
  thenRefused(scenario.decide(changeRole(SECOND_OWNER, 'MEMBER')), 'conflict');
});

t.test('where nobody is an owner, operators make one', async () => {
  const scenario = new Scenario().given(opened);
  const id = String(thenBody(scenario.when(add('first@shop.example', 'MEMBER')))['id']);
  thenRecorded(scenario.decide(remove(id)), 'UserRemoved');
  thenRecorded(scenario.when(changeRole(id, 'OWNER')), 'UserRoleChanged');
});

t.test('a refusal says why', async () => {
  const scenario = merchant().given(secondOwner());
  thenTold(scenario.decide(remove(SECOND_OWNER, OWNER)), 'Operators alone change or remove another owner.');
  thenTold(
    scenario.decide(add(emailOf(scenario, ADMIN), 'MEMBER')),
    'A user with this email is already ADMIN.',
  );
  scenario.when(remove(SECOND_OWNER));
  thenTold(scenario.decide(changeRole(SECOND_OWNER, 'ADMIN')), 'The user was removed.');
  thenTold(scenario.decide(remove(OWNER)), 'The last owner of an account stays: add another one first.');
  scenario.writeFormat = 2;
  thenTold(
    scenario.decide(remove(ADMIN)),
    'Records are written in format 2, which has no such change: raise it first.',
  );
});

t.test('an owner changes and removes those who are none, and themselves', async (t) => {
  const scenario = merchant().given(secondOwner());
  for (const by of [ADMIN, FINANCE, MEMBER, NOBODY]) {
    thenRefused(scenario.decide(changeRole(MEMBER, 'ADMIN', by)), 'not_permitted', 'by');
    thenRefused(scenario.decide(remove(MEMBER, by)), 'not_permitted', 'by');
  }
  const changed = scenario.when(changeRole(MEMBER, 'OWNER', OWNER));
  t.hasStrict(recorded(changed), { type: 'UserRoleChanged', by: OWNER });
  // Now an owner, too: with one gone, the other would approve alone what takes two.
  for (const other of [MEMBER, SECOND_OWNER]) {
    thenRefused(scenario.decide(remove(other, OWNER)), 'not_permitted', 'by');
    thenRefused(scenario.decide(changeRole(other, 'ADMIN', OWNER)), 'not_permitted', 'by');
  }
  const removed = scenario.when(remove(ADMIN, OWNER));
  t.strictSame(recorded(removed), { type: 'UserRemoved', id: ADMIN, by: OWNER });
  thenRecorded(scenario.when(changeRole(OWNER, 'ADMIN', OWNER)), 'UserRoleChanged');
  thenRefused(scenario.decide(remove(FINANCE, OWNER)), 'not_permitted', 'by');
  thenRecorded(scenario.when(remove(MEMBER, MEMBER)), 'UserRemoved');
});

t.test('who was removed', async (t) => {
  t.test('is told with the time of it, once', async (t) => {
    const scenario = merchant();
    const decision = scenario.later(1_000).when(remove(MEMBER));
    t.strictSame(recorded(decision), { type: 'UserRemoved', id: MEMBER, by: 'amina' });
    t.hasStrict(thenBody(decision), { id: MEMBER, removed_at: '2026-03-01T09:30:01.000Z' });
    const again = scenario.later(1_000).when(remove(MEMBER));
    thenRecorded(again);
    t.strictSame(thenBody(again), thenBody(decision));
    const { users } = JSON.parse(renderAccount(scenario.account()));
    t.strictSame(
      users.map(({ id, removed_at }: any) => [id, removed_at === null]),
      [OWNER, ADMIN, FINANCE, MEMBER].map((id) => [id, id !== MEMBER]),
    );
  });

  t.test('may do nothing', async () => {
    const scenario = fundedMerchant().given(secondOwner());
    const { id: transactionId } = scenario.create(withdrawal({ amount: '6000000' }));
    scenario.given({ ...walletAdded, id: `${WALLET.slice(0, -3)}999`, label: 'Other' });
    scenario.when(remove(SECOND_OWNER));
    const by = SECOND_OWNER;
    const wallet = { label: 'New', msisdn: '0772000111', network: null, country: null };
    const input = { amount: '7000', currency: 'UGX', msisdn: '0772000111', reference: 'top-up' } as const;
    for (const command of [
      { type: 'AddWallet', ...wallet },
      { type: 'ApproveWallet', walletId: `${WALLET.slice(0, -3)}999` },
      { type: 'RevokeWallet', walletId: WALLET },
      { type: 'ApproveWithdrawal', transactionId },
      { type: 'RejectWithdrawal', transactionId },
      { type: 'CreateDashboardDeposit', input },
      { type: 'ChangeUserRole', userId: MEMBER, role: 'OWNER' },
      { type: 'RemoveUser', userId: MEMBER },
    ] as const) {
      thenRefused(scenario.decide({ ...byOperator, ...command, by }), 'not_permitted', 'by');
    }
  });

  t.test('is still the requester of what they asked for', async () => {
    const scenario = fundedMerchant();
    const { id: transactionId } = scenario.create(withdrawal({ amount: '6000000' }));
    Object.assign(scenario.transaction(transactionId), { requestedBy: MEMBER });
    scenario.when(remove(MEMBER));
    const added = thenBody(scenario.when(add(emailOf(scenario, MEMBER).toUpperCase(), 'ADMIN')));
    const approve = { ...byOperator, type: 'ApproveWithdrawal', transactionId } as const;
    thenRefused(scenario.decide({ ...approve, by: String(added['id']) }), 'not_permitted', 'by');
    thenRecorded(scenario.decide({ ...approve, by: FINANCE }), 'WithdrawalApproved');
  });

  t.test('does not approve the wallet they added when they are added again', async () => {
    const scenario = merchant().given(secondOwner(), { ...walletAdded, by: OWNER });
    scenario.when(remove(OWNER));
    const again = String(thenBody(scenario.when(add(emailOf(scenario, OWNER), 'OWNER')))['id']);
    const approve = { ...byOperator, type: 'ApproveWallet', walletId: WALLET } as const;
    thenRefused(scenario.decide({ ...approve, by: again }), 'not_permitted', 'by');
    thenRecorded(scenario.decide({ ...approve, by: SECOND_OWNER }), 'WalletApproved');
  });

  t.test('is not among the owners of whom another approves', async () => {
    const scenario = merchant().given(secondOwner(), { ...walletAdded, by: OWNER });
    const approve = { ...byOperator, type: 'ApproveWallet', walletId: WALLET, by: OWNER } as const;
    thenRefused(scenario.decide(approve), 'not_permitted', 'by');
    scenario.when(remove(SECOND_OWNER));
    thenRecorded(scenario.decide(approve), 'WalletApproved');
  });

  t.test('added again is a new user', async (t) => {
    const scenario = merchant();
    scenario.when(remove(MEMBER));
    const decision = scenario.when(add(emailOf(scenario, MEMBER), 'ADMIN'));
    thenRecorded(decision, 'UserAdded');
    t.not(thenBody(decision)['id'], MEMBER);
    thenRefused(scenario.decide(add(emailOf(scenario, MEMBER), 'MEMBER')), 'conflict', 'email');
  });

  t.test('takes no room from those who are there, and is told as far as there is some', async (t) => {
    const scenario = merchant();
    const told = (listBytesMax: number): string[] =>
      JSON.parse(renderAccount(scenario.account(), listBytesMax)).users.map(({ id }: any) => id);
    const whole = Buffer.byteLength(JSON.stringify(JSON.parse(renderAccount(scenario.account())).users));
    scenario.accountListBytesMax = whole;
    thenRefused(scenario.decide(add('late@shop.example', 'MEMBER')), 'conflict');
    scenario.when(remove(ADMIN));
    scenario.when(remove(FINANCE));
    thenRecorded(scenario.decide(add('late@shop.example', 'MEMBER')), 'UserAdded');
    t.strictSame(told(Infinity), [OWNER, ADMIN, FINANCE, MEMBER]);
    t.strictSame(told(whole), [OWNER, FINANCE, MEMBER], 'the newest of those removed');
    t.strictSame(told(1), [OWNER, MEMBER]);
  });
});

t.test('nobody is changed or removed before the cluster is told to write it', async () => {
  const scenario = merchant();
  scenario.writeFormat = 2;
  thenRefused(scenario.decide(changeRole(MEMBER, 'ADMIN')), 'conflict');
  thenRefused(scenario.decide(remove(MEMBER)), 'conflict');
  thenRecorded(scenario.decide(changeRole(MEMBER, 'MEMBER')));
  scenario.writeFormat = 3;
  thenRecorded(scenario.decide(changeRole(MEMBER, 'ADMIN')), 'UserRoleChanged');
  thenRecorded(scenario.decide(remove(MEMBER)), 'UserRemoved');
});

t.test(
  'the row of an account whose users are all there is as it was before any could be removed',
  async (t) => {
    const scenario = merchant();
    const row = JSON.parse(encodeAccount(scenario.account()));
    t.strictSame(Object.keys(row.users[0]), ['id', 'email', 'role', 'createdAt']);
    scenario.when(remove(MEMBER));
    scenario.when(changeRole(FINANCE, 'ADMIN'));
    t.strictSame(decodeAccount(encodeAccount(scenario.account())), scenario.account());
    t.equal(decodeAccount(encodeAccount(scenario.account())).users.get(MEMBER)?.removedAt, START);
  },
);
