// What a session says of its node, while one renewal of it is under way: the next word waits for it, and is not lost. And until when
// a node is sure of it.
import t from 'tap';
import type { NodeEntry, Seen } from '../../../src/nats/leases/lease-table.ts';
import { NodeSession, type SessionWords } from '../../../src/nats/leases/node-session.ts';
import { LIMITS } from '../../../src/limits.ts';
import { until } from '../../until.ts';

/** A table that answers each write when it is told to. */
class SlowTable {
  readonly nodes = new Map<string, Seen<NodeEntry>>();
  readonly missedNothingSince = 0;
  readonly states: string[] = [];
  readonly #waiting: (() => void)[] = [];
  isSlow = false;

  get heardUpTo(): number {
    return Math.max(0, ...[...this.nodes.values()].map(({ revision }) => revision));
  }

  get isAsked(): boolean {
    return this.#waiting.length > 0;
  }

  async write(key: string, value: object, revision: number): Promise<boolean> {
    const entry = value as NodeEntry;
    if (this.isSlow) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const name = key.slice('node.'.length);
    if ((this.nodes.get(name)?.revision ?? 0) !== revision) return false;
    this.nodes.set(name, { value: entry, revision: revision + 1, seenAt: performance.now() });
    this.states.push(entry.state);
    return true;
  }

  answer(): void {
    this.isSlow = false;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

async function begin(): Promise<{
  table: SlowTable;
  session: NodeSession;
  say: (state: 'draining') => void;
}> {
  const table = new SlowTable();
  let words: SessionWords = { groups: ['accounts'], state: 'live' };
  const session = new NodeSession({
    table,
    node: 'a',
    words: () => words,
    onEnded: async () => {},
    onSaidAgain: () => {},
    onProblem: (problem) => t.fail(problem),
  });
  await session.renew();
  return { table, session, say: (state) => (words = { ...words, state }) };
}

t.test('what is to be said while it is renewed has been said when that has resolved', async (t) => {
  const { table, session, say } = await begin();
  table.isSlow = true;
  const renewed = session.renew();
  await until(() => table.isAsked);
  say('draining');
  const said = Promise.all([session.renew(), session.renew()]);
  table.answer();
  await said;
  t.strictSame(table.states, ['live', 'live', 'draining'], 'once');
  await renewed;
});

t.test('it is ended also where it was just being renewed', async (t) => {
  const { table, session } = await begin();
  table.isSlow = true;
  const renewed = session.renew();
  await until(() => table.isAsked);
  const closed = session.close();
  table.answer();
  await Promise.all([renewed, closed]);
  t.equal(table.nodes.get('a')?.value.state, 'dead');
});

t.test(
  'after the machine was suspended it is not sure of its session before it has renewed it',
  async (t) => {
    const { session } = await begin();
    t.ok(session.isValid);
    const now = Date.now;
    let suspendedMs: number = LIMITS.leaseMs;
    // The clock that only goes forward has stood still meanwhile.
    t.intercept(Date, 'now', { value: () => now() + suspendedMs });
    t.notOk(session.isValid, 'another node may have ended it: a payout could be sent twice');
    await session.renew();
    t.ok(session.isValid);
    suspendedMs = -3_600_000;
    t.ok(session.isValid, 'a clock that is set back ends nothing');
  },
);
