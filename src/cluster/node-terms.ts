// What the partitions of a node decide by (fees, limits, routes, waits), said in its session as a hash: where nodes were started with
// other settings, what a merchant pays goes by who has the account. That refuses nobody, for nodes get new settings one after the other.

import { createHash } from 'node:crypto';
import type { GroupName } from '../bus/bus.ts';
import type { LeaseTable, NodeEntry } from '../nats/leases/lease-table.ts';
import type { Log } from '../observability/log.ts';
import type { GroupPolicies } from '../storage/groups.ts';

type Terms = NonNullable<NodeEntry['terms']>;

/** `groups`: that the node can own. */
export function termsOf(policies: GroupPolicies, groups: readonly GroupName[]): Terms {
  const { accounts, webhooks } = policies;
  const hashes = { accounts: hashOf(accounts), webhooks: hashOf(webhooks) };
  return Object.fromEntries(Object.entries(hashes).filter(([group]) => groups.includes(group as GroupName)));
}

/** Whatever the order of its fields. */
function hashOf(policy: object): string {
  const text = JSON.stringify(policy, (_, value: unknown) => {
    const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isRecord ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;
  });
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

export class NodeTerms {
  readonly own: Terms;
  readonly #node: string;
  readonly #nodes: LeaseTable['nodes'];
  readonly #log: Log;
  /** The nodes that were told last. */
  #told = '';

  constructor(own: Terms, node: string, { nodes }: Pick<LeaseTable, 'nodes'>, log: Log) {
    this.own = own;
    this.#node = node;
    this.#nodes = nodes;
    this.#log = log;
  }

  /** Live nodes that decide the same by other terms than this one. */
  get others(): string[] {
    return [...this.#nodes].flatMap(([name, { value }]) => {
      if (name === this.#node || value.state === 'dead') return [];
      const said = Object(value.terms) as Terms;
      const isOther = (Object.keys(this.own) as GroupName[]).some((group) => {
        return typeof said[group] === 'string' && said[group] !== this.own[group];
      });
      return isOther ? [name] : [];
    });
  }

  /** Tells of those that it has not told of. To be called now and then. */
  look(): void {
    const others = this.others.sort();
    const names = others.join(' ');
    if (names === this.#told) return;
    this.#told = names;
    const message =
      others.length === 0
        ? 'all nodes decide by the same terms again'
        : 'nodes decide by other terms: compare their POLICY_FILE, RAILS and the settings of their durations';
    this.#log.warn({ nodes: others }, message);
  }
}
