// Who is a member of an account and as what, said naively: the part of the model of a partition (partition-model.ts).

import type { Role } from '../../src/domain/account.ts';
import type { AddUser, ChangeUserRole, RemoveUser } from '../../src/domain/account-command.ts';
import type { Expected } from './partition-model.ts';

export interface ModelUser {
  readonly id: string;
  readonly email: string;
  role: Role;
  isRemoved: boolean;
}

export function ownersOf(users: readonly ModelUser[]): ModelUser[] {
  return users.filter(({ role, isRemoved }) => role === 'OWNER' && !isRemoved);
}

const isSame = (one: { email: string }, other: { email: string }): boolean =>
  one.email.toLowerCase() === other.email.toLowerCase();

/** By their addresses, in whatever capitals. */
export function isOnePerson(users: readonly ModelUser[], id: string, otherId: string): boolean {
  const [one, other] = [id, otherId].map((wanted) => users.find((user) => user.id === wanted)!);
  return isSame(one!, other!);
}

/** `acting`: who is named by `by`, and is a member. */
export function expectedOfUser(
  users: readonly ModelUser[],
  command: AddUser | ChangeUserRole | RemoveUser,
  acting: ModelUser | undefined,
  writeFormat: number,
): Expected {
  if (command.type === 'AddUser') {
    const known = users.find((user) => !user.isRemoved && isSame(user, command));
    if (known === undefined) return { events: ['UserAdded'] };
    return known.role === command.role ? { events: [] } : { code: 'conflict' };
  }
  const user = users.find(({ id }) => id === command.userId)!;
  const isForOperators = user.role === 'OWNER' && (acting === undefined || !isSame(user, acting));
  if (command.by !== null && (acting?.role !== 'OWNER' || isForOperators)) return { code: 'not_permitted' };
  if (user.isRemoved) return command.type === 'RemoveUser' ? { events: [] } : { code: 'conflict' };
  if (command.type === 'ChangeUserRole' && command.role === user.role) return { events: [] };
  if (user.role === 'OWNER' && ownersOf(users).length === 1) return { code: 'conflict' };
  if (writeFormat < 3) return { code: 'conflict' };
  return { events: [command.type === 'RemoveUser' ? 'UserRemoved' : 'UserRoleChanged'] };
}
