// What nodes decide by: those with other terms are named, whatever else their sessions say, or do not say.
import t from 'tap';
import { NodeTerms, termsOf } from '../../src/cluster/node-terms.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import type { LeaseTable, NodeEntry } from '../../src/nats/leases/lease-table.ts';
import { createLog, type Log } from '../../src/observability/log.ts';
import { POLICIES } from './storage-driven.ts';

const own = termsOf(POLICIES, ['accounts', 'webhooks']);

/** Sessions of nodes, by name. */
function sessions(said: Readonly<Record<string, object>>): Pick<LeaseTable, 'nodes'> {
  const entries = Object.entries(said).map(([name, each]) => {
    const value = { session: name, groups: [], state: 'live', ...each } as NodeEntry;
    return [name, { value, revision: 1, seenAt: 0 }] as const;
  });
  return { nodes: new Map(entries) };
}

t.test('terms are the same whatever the order of their fields, and others where one number is', (t) => {
  const { accounts, webhooks } = POLICIES;
  const turned = Object.fromEntries(Object.entries(accounts).toReversed()) as typeof accounts;
  t.strictSame(termsOf({ accounts: turned, webhooks }, ['accounts', 'webhooks']), own);
  const { fees } = DEFAULT_POLICY;
  const dearer = { ...fees, PAYOUT: { ...fees.PAYOUT, KES: { ...fees.PAYOUT.KES, basisPoints: 1 } } };
  const other = termsOf({ accounts: { ...accounts, fees: dearer }, webhooks }, ['accounts', 'webhooks']);
  t.not(other.accounts, own.accounts);
  t.equal(other.webhooks, own.webhooks);
  const slower = { ...webhooks, retryMs: [...webhooks.retryMs, 1] };
  t.not(termsOf({ accounts, webhooks: slower }, ['webhooks']).webhooks, own.webhooks);
  t.end();
});

t.test('a node says the terms of the groups alone that it can own', (t) => {
  t.strictSame(Object.keys(termsOf(POLICIES, ['accounts', 'platform'])), ['accounts']);
  t.strictSame(termsOf(POLICIES, ['pollers']), {});
  t.end();
});

t.test('those are named that decide the same by other terms, and live', (t) => {
  const accounts = 'of another';
  const table = sessions({
    me: { terms: { accounts } },
    same: { terms: own },
    other: { terms: { accounts } },
    leaving: { terms: { accounts }, state: 'draining' },
    gone: { terms: { accounts }, state: 'dead' },
    front: { terms: {} },
    earlier: {},
    rotten: { terms: null },
    more: { terms: { accounts: 5, webhooks: own.webhooks } },
  });
  const { log } = noting();
  t.strictSame(new NodeTerms(own, 'me', table, log).others, ['other', 'leaving']);
  const { webhooks } = own;
  t.strictSame(
    new NodeTerms({ webhooks: webhooks! }, 'me', table, log).others,
    [],
    'it decides nothing else',
  );
  t.end();
});

t.test('each change is told once, also that there are none any more', (t) => {
  const table = sessions({ other: { terms: { accounts: 'x' } }, second: { terms: { webhooks: 'y' } } });
  const { log, told } = noting();
  const terms = new NodeTerms(own, 'me', table, log);
  terms.look();
  terms.look();
  t.strictSame(told.splice(0), [['other', 'second']]);
  const other = table.nodes.get('other')!;
  table.nodes.delete('other');
  table.nodes.set('other', other);
  terms.look();
  t.strictSame(told, [], 'in whatever order they are heard of');
  table.nodes.delete('other');
  terms.look();
  table.nodes.clear();
  terms.look();
  terms.look();
  t.strictSame(told, [['second'], []]);
  t.end();
});

function noting(): { log: Log; told: unknown[] } {
  const told: unknown[] = [];
  const write = (line: string): void => void told.push((JSON.parse(line) as { nodes: unknown }).nodes);
  return { log: createLog({ level: 'info', node: 'me', stream: { write } }), told };
}
