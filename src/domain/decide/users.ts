// Decisions on the users of an account, by operators, or by an owner in the dashboard (`by`):
//
//   add a user                                         operators
//   change the role of a user, remove one              operators, owners
//   change the role of another owner, remove one       operators: an owner alone would do what takes two
//
// The last owner of an account stays its owner. A removed user may do nothing; added again they are a new user, but the same
// person.

import { type Account, personOf, type User } from '../account.ts';
import type { AddUser, ChangeUserRole, RemoveUser } from '../account-command.ts';
import { isSamePerson, type Member, memberWith } from './dashboard.ts';
import { changed, type Decision, done, NO_ACCOUNT, refuse } from './decision.ts';
import { isRejection, type Rejection, rejection } from '../error-code.ts';
import { newUser } from '../evolve.ts';
import { makeId } from '../id.ts';
import { USERS_CHANGED_FORMAT } from '../record-format.ts';
import { bytesOf, isNotRemoved, renderUser } from '../render/account.ts';
import type { Context, LedgerState } from '../state.ts';

export function decideAddUser(
  state: LedgerState,
  command: AddUser,
  { now, freshBody, accountListBytesMax }: Context,
): Decision {
  const account = state.account(command.accountId);
  if (account === undefined) return refuse(NO_ACCOUNT);
  const { email, role, operator: by } = command;
  const members = [...account.users.values()].filter(isNotRemoved);
  const existing = members.find((user) => personOf(user) === personOf(command));
  if (existing !== undefined) {
    if (existing.role === role) return done(null, renderUser(existing));
    return refuse(rejection('conflict', `A user with this email is already ${existing.role}.`, 'email'));
  }
  const id = makeId('user', freshBody);
  const body = renderUser(newUser({ id, email, role }, now));
  if (bytesOf([...members.map(renderUser), body]) > accountListBytesMax) {
    return refuse(rejection('conflict', `The account has ${members.length} users: no more can be told.`));
  }
  return changed(account.id, now, { type: 'UserAdded', id, email, role, by }, body);
}

export function decideChangeUserRole(
  state: LedgerState,
  command: ChangeUserRole,
  context: Context,
): Decision {
  const found = find(state, command);
  if (isRejection(found)) return refuse(found);
  const { account, user } = found;
  const { role, operator, by } = command;
  if (user.removedAt !== null) return refuse(rejection('conflict', 'The user was removed.'));
  if (user.role === role) return done(null, renderUser(user));
  const refusal = whyKept(account, user, context);
  if (refusal !== null) return refuse(refusal);
  const event = { type: 'UserRoleChanged', id: user.id, role, by: by ?? operator } as const;
  return changed(account.id, context.now, event, renderUser({ ...user, role }));
}

export function decideRemoveUser(state: LedgerState, command: RemoveUser, context: Context): Decision {
  const found = find(state, command);
  if (isRejection(found)) return refuse(found);
  const { account, user } = found;
  const { operator, by } = command;
  if (user.removedAt !== null) return done(null, renderUser(user));
  const refusal = whyKept(account, user, context);
  if (refusal !== null) return refuse(refusal);
  const event = { type: 'UserRemoved', id: user.id, by: by ?? operator } as const;
  return changed(account.id, context.now, event, renderUser({ ...user, removedAt: context.now }));
}

/** The user, if whoever acts may change them. */
function find(state: LedgerState, command: ChangeUserRole | RemoveUser): Member | Rejection {
  const { accountId, userId, by } = command;
  const account = state.account(accountId);
  if (account === undefined) return NO_ACCOUNT;
  const user = account.users.get(userId);
  if (by !== null) {
    const member = memberWith(state, { accountId, by }, ['OWNER']);
    if (isRejection(member)) return member;
    if (user?.role === 'OWNER' && !isSamePerson(member.user, user)) {
      return rejection('not_permitted', 'Operators alone change or remove another owner.', 'by');
    }
  }
  return user === undefined
    ? rejection('not_found', 'There is no such user on the account.')
    : { account, user };
}

/** Null: they may be removed, or have another role. */
function whyKept({ users }: Account, { id, role }: User, { writeFormat }: Context): Rejection | null {
  const isOtherOwner = (user: User): boolean =>
    user.id !== id && user.role === 'OWNER' && user.removedAt === null;
  if (role === 'OWNER' && ![...users.values()].some(isOtherOwner)) {
    return rejection('conflict', 'The last owner of an account stays: add another one first.');
  }
  if (writeFormat >= USERS_CHANGED_FORMAT) return null;
  const message = `Records are written in format ${writeFormat}, which has no such change: raise it first.`;
  return rejection('conflict', message);
}
