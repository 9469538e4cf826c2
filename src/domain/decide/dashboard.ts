// Decisions on what members do in the dashboard: payout wallets, approval of withdrawals, deposits. Who may do what is
// decided here, from the role of `by`, and nowhere else:
//
//   add a wallet, revoke one        owners, admins
//   approve a wallet                owners; if the account has several, not the one who added it
//   approve, reject a withdrawal    any member but the one who requested it
//   deposit                         owners, admins, finance
//
// Persons are meant, not users (personOf): whoever was removed and added again is the same person.

import { type Account, type PayoutWallet, personOf, type Role, type User } from '../account.ts';
import type {
  AddWallet,
  ApproveWallet,
  ApproveWithdrawal,
  CreateDashboardDeposit,
  RejectWithdrawal,
  RevokeWallet,
} from '../account-command.ts';
import type { WalletAdded } from '../account-event.ts';
import { collect, repeatedUnder } from './create.ts';
import { changed, type Decision, done, NO_ACCOUNT, refuse } from './decision.ts';
import { isRejection, type Rejection, rejection } from '../error-code.ts';
import { newWallet } from '../evolve.ts';
import { makeId } from '../id.ts';
import { networkOf, parseMsisdn } from '../msisdn.ts';
import { carries, routeOf } from '../policy.ts';
import { bytesOf, mayBeUsed, renderWallet } from '../render/account.ts';
import { type Context, findTransaction, type LedgerState } from '../state.ts';
import type { ApprovalStatus, Status, Transaction } from '../transaction.ts';

export interface Member {
  readonly account: Account;
  readonly user: User;
}

/** The member that `by` names, if one of `roles`; null: any role. */
export function memberWith(
  state: LedgerState,
  { accountId, by }: { readonly accountId: string; readonly by: string },
  roles: readonly Role[] | null,
): Member | Rejection {
  const account = state.account(accountId);
  if (account === undefined) return NO_ACCOUNT;
  const user = account.users.get(by);
  if (user === undefined) return notPermitted('`by` names no user of the account.');
  if (user.removedAt !== null) return notPermitted('The user was removed.');
  if (roles !== null && !roles.includes(user.role)) {
    return notPermitted(`The user is ${user.role}; this takes ${roles.join(' or ')}.`);
  }
  return { account, user };
}

function notPermitted(message: string): Rejection {
  return rejection('not_permitted', message, 'by');
}

// --- Payout wallets --------------------------------------------------------------------------------------------------

export function decideAddWallet(
  state: LedgerState,
  command: AddWallet,
  { now, freshBody, walletsMax, accountListBytesMax }: Context,
): Decision {
  const member = memberWith(state, command, ['OWNER', 'ADMIN']);
  if (isRejection(member)) return refuse(member);
  const { account } = member;
  const { label, by } = command;
  const number = parseMsisdn(command.msisdn, command.country ?? account.country);
  if (number === null) return refuse(rejection('invalid_msisdn', null, 'msisdn'));
  const { msisdn, country } = number;
  const network = command.network ?? networkOf(msisdn);
  if (network === null) return refuse(rejection('network_required', null, 'network'));

  // Resent by a front that lost the answer, or added twice by a person: it is the same wallet.
  for (const wallet of account.wallets.values()) {
    if (wallet.status === 'REVOKED' || wallet.msisdn !== msisdn || wallet.network !== network) continue;
    if (wallet.label === label) return done(null, renderWallet(wallet));
  }
  const id = makeId('wallet', freshBody);
  const event: WalletAdded = { type: 'WalletAdded', id, label, country, network, msisdn, by };
  const body = renderWallet(newWallet(event, now));
  const inUse = [...account.wallets.values()].filter(mayBeUsed);
  if (bytesOf([...inUse.map(renderWallet), body]) > accountListBytesMax) {
    const message = `The account has ${inUse.length} payout wallets: no more can be told, revoke one.`;
    return refuse(rejection('conflict', message));
  }
  if (account.wallets.size >= walletsMax) return refuse(hadTooMany(account.wallets.size, inUse.length));
  return changed(account.id, now, event, body);
}

function hadTooMany(wallets: number, inUse: number): Rejection {
  const had = `The account has had ${wallets} payout wallets, as many as it may`;
  const message = `${had}: use one of the ${inUse} that are not revoked, a payout, or another account.`;
  return rejection('conflict', message);
}

export function decideApproveWallet(state: LedgerState, command: ApproveWallet, context: Context): Decision {
  const member = memberWith(state, command, ['OWNER']);
  if (isRejection(member)) return refuse(member);
  const { account, user } = member;
  const { walletId, by } = command;
  const wallet = account.wallets.get(walletId);
  if (wallet === undefined) return refuse(rejection('destination_not_found'));
  if (wallet.status !== 'PENDING_APPROVAL') return refuse(wrongState(wallet));
  if (isSamePerson(user, account.users.get(wallet.addedBy)) && ownersOf(account) > 1) {
    return refuse(notPermitted('Another owner than the one who added the wallet approves it.'));
  }
  const { now, policy } = context;
  const activeAt = now + policy.walletCoolingOffMs;
  const body = renderWallet({ ...wallet, status: 'COOLING_OFF', activeAt });
  return changed(account.id, now, { type: 'WalletApproved', id: walletId, activeAt, by }, body);
}

export function decideRevokeWallet(state: LedgerState, command: RevokeWallet, { now }: Context): Decision {
  const member = memberWith(state, command, ['OWNER', 'ADMIN']);
  if (isRejection(member)) return refuse(member);
  const { account } = member;
  const { walletId, by } = command;
  const wallet = account.wallets.get(walletId);
  if (wallet === undefined) return refuse(rejection('destination_not_found'));
  if (wallet.status === 'REVOKED') return refuse(wrongState(wallet));
  const body = renderWallet({ ...wallet, status: 'REVOKED' });
  return changed(account.id, now, { type: 'WalletRevoked', id: walletId, by }, body);
}

function wrongState({ status }: PayoutWallet): Rejection {
  return rejection('conflict', `The payout wallet is ${status}.`);
}

export function isSamePerson(user: User, other: User | undefined): boolean {
  return other !== undefined && personOf(user) === personOf(other);
}

function ownersOf(account: Account): number {
  const owners = new Set<string>();
  for (const user of account.users.values()) {
    if (user.role === 'OWNER' && user.removedAt === null) owners.add(personOf(user));
  }
  return owners.size;
}

// --- Approval of withdrawals -----------------------------------------------------------------------------------------

export function decideApproveWithdrawal(
  state: LedgerState,
  command: ApproveWithdrawal,
  { now, policy }: Context,
): Decision {
  const waiting = findWaiting(state, command);
  if (isRejection(waiting)) return refuse(waiting);
  const { id, accountId, destination, provider, country, network } = waiting;
  // Checked as when it was requested: what has been switched off or revoked since then moves no money.
  const account = state.account(accountId);
  if (account?.settings.live !== true) return refuse(rejection('live_mode_not_enabled'));
  if (!account.settings.withdrawalsEnabled) return refuse(rejection('withdrawals_not_enabled_live'));
  const wallet = account.wallets.get(destination ?? '');
  if (wallet?.status !== 'ACTIVE') return refuse(rejection('destination_not_active'));
  // Once approved it could neither be rejected nor sent: its money would stay on hold.
  if (routeOf(policy.routes, country, network) !== provider) {
    return refuse(rejection('network_not_supported', `There is no rail ${provider} any more.`));
  }
  if (!carries(policy, 'WITHDRAWAL', country, network)) {
    return refuse(rejection('network_not_supported', `The rail ${provider} has no credentials to send.`));
  }
  const body = verdict(id, 'PENDING_PROVIDER', 'APPROVED');
  return changed(accountId, now, { type: 'WithdrawalApproved', id, by: command.by }, body);
}

export function decideRejectWithdrawal(
  state: LedgerState,
  command: RejectWithdrawal,
  { now }: Context,
): Decision {
  const waiting = findWaiting(state, command);
  if (isRejection(waiting)) return refuse(waiting);
  const { id, accountId } = waiting;
  const body = verdict(id, 'FAILED', 'REJECTED');
  return changed(accountId, now, { type: 'WithdrawalRejected', id, by: command.by }, body);
}

/** The withdrawal, if it waits for approval and `by` may give it. */
function findWaiting(
  state: LedgerState,
  command: ApproveWithdrawal | RejectWithdrawal,
): Transaction | Rejection {
  const member = memberWith(state, command, null);
  if (isRejection(member)) return member;
  const transaction = findTransaction(state, command.accountId, command.transactionId);
  if (transaction?.type !== 'WITHDRAWAL') return rejection('withdrawal_not_found');
  const { status, approvalStatus, requestedBy } = transaction;
  if (approvalStatus !== 'PENDING') {
    return rejection('conflict', `The withdrawal is ${status}, its approval ${approvalStatus}.`);
  }
  if (requestedBy !== null && isSamePerson(member.user, member.account.users.get(requestedBy))) {
    return notPermitted('Another member than the requester decides.');
  }
  return transaction;
}

function verdict(id: string, status: Status, approvalStatus: ApprovalStatus): string {
  return `{"id":"${id}","object":"withdrawal","status":"${status}","approval_status":"${approvalStatus}"}`;
}

// --- Deposits --------------------------------------------------------------------------------------------------------

export function decideDashboardDeposit(
  state: LedgerState,
  command: CreateDashboardDeposit,
  context: Context,
): Decision {
  const member = memberWith(state, command, ['OWNER', 'ADMIN', 'FINANCE']);
  if (isRejection(member)) return refuse(member);
  const { account } = member;
  if (!account.settings.live) return refuse(rejection('live_mode_not_enabled'));
  const { accountId, input, by, repeatable = null } = command;
  // No app's key can contain the arrow, so the dashboard's keys are apart from them.
  const request =
    repeatable === null
      ? null
      : { ...repeatable, idempotencyKey: `${DASHBOARD_KEY_PREFIX}${repeatable.idempotencyKey}` };
  const repeated = request === null ? null : repeatedUnder(state, accountId, request, 'DEPOSIT');
  return repeated ?? collect(account, input, 'DEPOSIT', { app: null, user: by, request }, context);
}

const DASHBOARD_KEY_PREFIX = 'dashboard→';
