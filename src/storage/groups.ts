// The groups that have a log, for whoever hosts them: the main thread that serves, and the checkpoint thread that follows.

import { accountsGroup } from '../../actors/accounts/group.ts';
import { platformGroup } from '../../actors/platform/group.ts';
import type { Group } from '../../actors/runtime/group.ts';
import type { WebhookPolicy } from '../../actors/webhooks/decide.ts';
import { createWebhooksGroup, WebhooksLogic } from '../../actors/webhooks/group.ts';
import { assert } from '../domain/assert.ts';
import type { Policy } from '../domain/policy.ts';

/** A group whose types only its own files know. */
export type HostedGroup = Group<never, never, unknown>;

/** What the groups decide by. Plain data: it also goes to the checkpoint thread. */
export interface GroupPolicies {
  readonly accounts: Policy;
  readonly webhooks: WebhookPolicy;
}

export function groupsWithLog(policies: GroupPolicies): readonly HostedGroup[] {
  return [
    accountsGroup(policies.accounts),
    createWebhooksGroup(policies.webhooks),
    platformGroup,
  ] as unknown as HostedGroup[];
}

export function groupNamed(groups: readonly HostedGroup[], name: string): HostedGroup {
  const group = groups.find((each) => each.name === name);
  if (group === undefined) throw new Error(`this program knows no group "${name}"`);
  return group;
}

/** What a partition of webhooks runs. */
export function webhooksLogicOf({ logic }: { readonly logic: unknown }): WebhooksLogic {
  assert(logic instanceof WebhooksLogic, 'the partition is one of webhooks');
  return logic;
}
