// Takes into the model of a partition what was logged, and asserts that it is what was expected.

import { strict as assert } from 'node:assert';
import type { AccountEvent, AccountRecord } from '../../src/domain/account-event.ts';
import { bodyOf } from '../../src/domain/id.ts';
import type { Policy } from '../../src/domain/policy.ts';
import type { Status } from '../../src/domain/transaction.ts';
import { isCashOut, type Model, type ModelTransaction } from './partition-model.ts';

/** `created`: what was expected of a new transaction. */
export function apply(
  model: Model,
  { accountId, at, events }: AccountRecord,
  policy: Policy,
  created?: ModelTransaction,
): void {
  for (const event of events) applyEvent(model, accountId, event, { at, policy, created });
}

interface Applied {
  readonly at: number;
  readonly policy: Policy;
  readonly created: ModelTransaction | undefined;
}

function applyEvent(model: Model, accountId: string, event: AccountEvent, applied: Applied): void {
  const { at, policy, created } = applied;
  const id = 'id' in event ? event.id : '';
  const one = model.transactions.get(id)!;
  const account = model.accounts[accountId]!;
  const wallet = account?.wallets.find((own) => own.id === id);
  const enter = (status: Status): void => {
    one.status = status;
    one.statuses.push(status);
    one.updatedAt = at;
  };
  switch (event.type) {
    case 'ChargeCreated':
    case 'DepositCreated':
    case 'PayoutCreated':
    case 'WithdrawalCreated':
      addTransaction(model, created!, event);
      break;
    case 'SubmissionBegun':
      one.begun = true;
      break;
    case 'SubmissionAccepted':
      one.submitted = one.begun = true;
      if (!isCashOut(one.type)) enter('AWAITING_CUSTOMER');
      break;
    case 'AnswerFixed':
      break;
    case 'TransactionSucceeded':
      one.releaseAt = one.type === 'CHARGE' ? at + policy.chargeReleaseMs : null;
      assert.equal(event.releaseAt, one.releaseAt);
      one.providerId = event.providerTransactionId;
      enter('SUCCESSFUL');
      break;
    case 'TransactionFailed':
      enter('FAILED');
      one.failure = event.failureCode;
      break;
    case 'ChargeReleased':
      one.released = true;
      break;
    case 'ChargeReversed':
      enter('REVERSED');
      break;
    case 'WithdrawalApproved':
      enter('PENDING_PROVIDER');
      one.approval = 'APPROVED';
      break;
    case 'WithdrawalRejected':
      enter('FAILED');
      one.approval = 'REJECTED';
      one.failure = 'approval_rejected';
      break;
    case 'AccountOpened':
      model.accounts[accountId] = { settings: event.settings, users: [], apps: [], wallets: [] };
      break;
    case 'AccountSettingsChanged':
      account.settings = event.settings;
      break;
    case 'UserAdded':
      account.users.push({ id, email: event.email, role: event.role, isRemoved: false });
      break;
    case 'UserRoleChanged':
      account.users.find((user) => user.id === id)!.role = event.role;
      break;
    case 'UserRemoved':
      account.users.find((user) => user.id === id)!.isRemoved = true;
      break;
    case 'AppConnected':
      account.apps.push({
        id,
        keyHash: event.secretKeyHash,
        isRemoved: false,
        webhookUrl: event.webhookUrl,
      });
      break;
    case 'AppRemoved':
      account.apps.find((app) => app.id === id)!.isRemoved = true;
      break;
    case 'AppWebhookChanged':
      account.apps.find((app) => app.id === id)!.webhookUrl = event.webhookUrl;
      break;
    case 'WalletAdded':
      account.wallets.push({ ...event, status: 'PENDING_APPROVAL', activeAt: Infinity });
      break;
    case 'WalletApproved':
      wallet!.status = 'COOLING_OFF';
      wallet!.activeAt = at + policy.walletCoolingOffMs;
      assert.equal(event.activeAt, wallet!.activeAt);
      break;
    case 'WalletActivated':
      wallet!.status = 'ACTIVE';
      break;
    case 'WalletRevoked':
      wallet!.status = 'REVOKED';
      break;
    case 'ReconciliationRaised': {
      const { kind, transactionId: transaction, detail } = event;
      const [said = ''] = detail.split(' Ours: ');
      model.items.set(id, { account: accountId, kind, transaction, said, resolution: null, by: null });
      break;
    }
    case 'ReconciliationResolved':
      Object.assign(model.items.get(id)!, { resolution: event.resolution, by: event.by });
      break;
  }
}

function addTransaction(
  model: Model,
  created: ModelTransaction,
  event: Extract<AccountEvent, { fee: unknown }>,
): void {
  const { id, fee, amount, appId, country, network, idempotencyKey: key } = event;
  for (const [name, value] of Object.entries({ fee, amount, appId, country, network, key })) {
    assert.equal(value, created[name as keyof ModelTransaction], name);
  }
  if ('expiresAt' in event) assert.equal(event.expiresAt, created.expiresAt);
  if ('approvalRequired' in event) assert.equal(event.approvalRequired, created.status === 'INITIATED');
  const newest = [...model.transactions.keys()].at(-1);
  assert(newest === undefined || bodyOf(newest) < bodyOf(id), `${id} is above ${newest}, which is older`);
  model.transactions.set(id, { ...structuredClone(created), id });
  if (created.key !== null) model.keys.set(`${created.account} ${created.key}`, id);
}
