// The decision core: command in; events to record, or a refusal, out. Changes nothing: `evolve` applies what was decided.
//
// The checks come in one order, whatever the command, and each has one code:
//   deadline → authentication → live mode → idempotency → rate limit → enablement → field rules → limits → balance
//
// create.ts           what merchants create
// outcome.ts          what providers answer
// reconciliation.ts   what they say that contradicts us, or explains nothing yet
// due.ts              what falls due
// operator.ts, users.ts, dashboard.ts
//                     what operators and dashboard members do

import type { AccountCommand } from '../account-command.ts';
import { TOO_LATE } from './authorisation.ts';
import { decideCollection, decidePayout, decideWithdrawal } from './create.ts';
import {
  decideConnectApp,
  decideChangeAppWebhook,
  decideChangeSettings,
  decideOpenAccount,
  decideRemoveApp,
} from './operator.ts';
import {
  decideAddWallet,
  decideApproveWallet,
  decideApproveWithdrawal,
  decideDashboardDeposit,
  decideRejectWithdrawal,
  decideRevokeWallet,
} from './dashboard.ts';
import { decideActivateWallet, decideExpiry, decideFixAnswer, decideRelease } from './due.ts';
import { decideBeginSubmission, decideOutcome, decideSettle, decideSubmission } from './outcome.ts';
import { decideNoteCallback, decideRaise, decideResolve } from './reconciliation.ts';
import { decideAddUser, decideChangeUserRole, decideRemoveUser } from './users.ts';
import { type Decision, refuse } from './decision.ts';
import type { Context, LedgerState } from '../state.ts';

export function decide(state: LedgerState, command: AccountCommand, context: Context): Decision {
  if (context.now > command.deadline) return refuse(TOO_LATE);
  switch (command.type) {
    case 'CreateCharge':
      return decideCollection(state, command, 'CHARGE', context);
    case 'CreateDeposit':
      return decideCollection(state, command, 'DEPOSIT', context);
    case 'CreatePayout':
      return decidePayout(state, command, context);
    case 'CreateWithdrawal':
      return decideWithdrawal(state, command, context);
    case 'BeginSubmission':
      return decideBeginSubmission(state, command, context);
    case 'RecordSubmission':
      return decideSubmission(state, command, context);
    case 'RecordOutcome':
      return decideOutcome(state, command, context);
    case 'RaiseReconciliation':
      return decideRaise(state, command, context);
    case 'NoteCallback':
      return decideNoteCallback(state, command, context);
    case 'ExpireTransaction':
      return decideExpiry(state, command, context);
    case 'FixAnswer':
      return decideFixAnswer(state, command, context);
    case 'ReleaseCharge':
      return decideRelease(state, command, context);
    case 'ActivateWallet':
      return decideActivateWallet(state, command, context);
    case 'OpenAccount':
      return decideOpenAccount(state, command, context);
    case 'ChangeAccountSettings':
      return decideChangeSettings(state, command, context);
    case 'AddUser':
      return decideAddUser(state, command, context);
    case 'ChangeUserRole':
      return decideChangeUserRole(state, command, context);
    case 'RemoveUser':
      return decideRemoveUser(state, command, context);
    case 'ConnectApp':
      return decideConnectApp(state, command, context);
    case 'ChangeAppWebhook':
      return decideChangeAppWebhook(state, command, context);
    case 'RemoveApp':
      return decideRemoveApp(state, command, context);
    case 'ResolveReconciliation':
      return decideResolve(state, command, context);
    case 'SettleCashOut':
      return decideSettle(state, command, context);
    case 'AddWallet':
      return decideAddWallet(state, command, context);
    case 'ApproveWallet':
      return decideApproveWallet(state, command, context);
    case 'RevokeWallet':
      return decideRevokeWallet(state, command, context);
    case 'ApproveWithdrawal':
      return decideApproveWithdrawal(state, command, context);
    case 'RejectWithdrawal':
      return decideRejectWithdrawal(state, command, context);
    case 'CreateDashboardDeposit':
      return decideDashboardDeposit(state, command, context);
  }
}
