// The groups that have a log, for whoever hosts them: the main thread that serves, and the checkpoint thread that follows.

import { accountsGroup } from '../../actors/accounts/group.ts';
import { platformGroup } from '../../actors/platform/group.ts';
import type { Group } from '../../actors/runtime/group.ts';
import type { GroupName } from '../bus/bus.ts';
import type { Policy } from '../domain/policy.ts';

/** A group whose types only its own files know. */
export type HostedGroup = Group<never, never, unknown>;

export function groupsWithLog(policy: Policy): readonly HostedGroup[] {
  return [accountsGroup(policy), platformGroup] as unknown as HostedGroup[];
}

export function groupNamed(groups: readonly HostedGroup[], name: GroupName): HostedGroup {
  const group = groups.find((each) => each.name === name);
  if (group === undefined) throw new Error(`no group "${name}" has a log`);
  return group;
}
