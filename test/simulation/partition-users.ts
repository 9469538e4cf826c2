// Who is a member of an account and as what, said naively: the part of the model of a partition (partition-model.ts).

import type { Role } from '../../src/domain/account.ts';
import type { ChangeUserRole, RemoveUser } from '../../src/domain/account-command.ts';
import type { Expected } from './partition-model.ts';

export interface ModelUser {
  readonly id: string;
  role: Role;
  isRemoved: boolean;
}

export function ownersOf(users: readonly ModelUser[]): ModelUser[] {
  return users.filter(({ role, isRemoved }) => role === 'OWNER' && !isRemoved);
}

/** `acting`: who is named by `by`, and is a member. */
export function expectedOfUser(
  users: readonly ModelUser[],
  command: ChangeUserRole | RemoveUser,
  acting: ModelUser | undefined,
): Expected {
  const user = users.find(({ id }) => id === command.userId)!;
  const isForOperators = user.role === 'OWNER' && user !== acting;
  if (command.by !== null && (acting?.role !== 'OWNER' || isForOperators)) return { code: 'not_permitted' };
  if (user.isRemoved) return command.type === 'RemoveUser' ? { events: [] } : { code: 'conflict' };
  if (command.type === 'ChangeUserRole' && command.role === user.role) return { events: [] };
  if (user.role === 'OWNER' && ownersOf(users).length === 1) return { code: 'conflict' };
  return { events: [command.type === 'RemoveUser' ? 'UserRemoved' : 'UserRoleChanged'] };
}
