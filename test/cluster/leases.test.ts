// Leases: one writer per partition at any time, taken over when its node falls silent, handed over when it leaves, never
// by trusting clocks. Nodes here are real leases on real servers around a host that records what it is told.
import t from 'tap';
import type { Test } from 'tap';
import type { GroupName } from '../../src/bus/bus.ts';
import type { PartitionHost } from '../../src/bus/ownership.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { LeaseOwnership } from '../../src/nats/leases/lease-ownership.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import { rankNodes } from '../../src/nats/leases/rendezvous.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { ensureLeaseBucket, storedMessage } from '../../src/nats/streams.ts';
import { LEASE_STREAM, LEASE_SUBJECT_PREFIX } from '../../src/nats/subjects.ts';
import { link } from './adapters.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import type { NatsServers } from '../../deploy/nats-servers.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const partitionCount = 12;
/** Less than `drainMs`, the time of a node that waits in vain, by more than a machine stands still for a moment. */
const AT_ONCE_MS = 20_000;

class Node implements PartitionHost {
  readonly name: string;
  readonly table: LeaseTable;
  readonly ownership: LeaseOwnership;
  readonly serving = new Map<string, number>();
  readonly problems: string[] = [];
  readonly #acquired = new Map<string, number>();
  /** Served before it was held: what waited was turned away. */
  early = 0;
  /** Why nothing can be taken over; null: it can. */
  broken: string | null = null;
  attempts = 0;
  /** Begun, of copies. */
  preparations = 0;
  readonly #mayPrepare: Promise<void>;
  readonly #link: NatsLink;
  readonly #publisher: StreamPublisher;
  #stopped = false;

  private constructor(name: string, nats: NatsLink, mayPrepare: Promise<void>) {
    this.name = name;
    this.#mayPrepare = mayPrepare;
    this.#link = nats;
    this.#publisher = new StreamPublisher(nats);
    this.table = new LeaseTable(
      nats,
      this.#publisher,
      (error) => {
        throw error;
      },
      (problem) => this.problems.push(problem),
      () => ensureLeaseBucket(nats.manager, 1),
    );
    this.ownership = new LeaseOwnership({
      table: this.table,
      host: this,
      node: name,
      newestFormat: 1,
      partitions: { accounts: partitionCount },
      onProblem: (problem) => this.problems.push(problem),
    });
  }

  /** `mayPrepare`: nothing is ready before. */
  static async start(servers: NatsServers, name: string, mayPrepare = Promise.resolve()): Promise<Node> {
    const nats = await link(servers.url, name);
    await ensureLeaseBucket(nats.manager, 1);
    const node = new Node(name, nats, mayPrepare);
    await node.table.ready();
    await node.ownership.start();
    return node;
  }

  /** Partitions whose copies are not kept up any more. */
  readonly leftBehind = new Set<number>();
  async prepare(_: GroupName, partition: number): Promise<void> {
    this.preparations++;
    await this.#mayPrepare;
    this.leftBehind.delete(partition);
  }
  /** It has nothing of any log. */
  isNew = false;
  isEmpty(): boolean {
    return this.isNew;
  }
  isLeftBehind(_: GroupName, partition: number): boolean {
    return this.leftBehind.has(partition);
  }
  async forget(): Promise<void> {}
  async acquire(group: GroupName, partition: number, epoch: number): Promise<void> {
    this.attempts++;
    if (this.broken !== null) throw new Error(this.broken);
    this.#acquired.set(`${group}/${partition}`, epoch);
  }
  serve(group: GroupName, partition: number): void {
    const key = `${group}/${partition}`;
    if (!this.ownership.holds(group, partition)) this.early++;
    this.serving.set(key, this.#acquired.get(key) ?? 0);
  }
  async release(group: GroupName, partition: number): Promise<void> {
    this.serving.delete(`${group}/${partition}`);
  }
  async lose(group: GroupName, partition: number): Promise<void> {
    this.serving.delete(`${group}/${partition}`);
  }

  get held(): number[] {
    return Array.from({ length: partitionCount }, (_, p) => p).filter((p) =>
      this.ownership.holds('accounts', p),
    );
  }

  /** The connection is gone, as with a crash: nobody is told. */
  async crash(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    await this.#link.close();
    await this.ownership.close();
    await this.table.close();
  }

  async leave(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    await this.ownership.drain();
    await this.ownership.close();
    await this.table.close();
    await this.#link.close();
  }
}

/** As NATS itself does for whoever asks it something and names this key for the answer; and as a hand at the nats tool. */
const NO_ENTRIES = [
  '1 1 n\n',
  '',
  'null',
  '{"type":"io.nats.jetstream.api.v1.stream_info_response","epoch":"7"}',
];

async function cluster(t: Test, names: readonly string[]): Promise<{ servers: NatsServers; nodes: Node[] }> {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const nodes: Node[] = [];
  for (const name of names) {
    const node = await Node.start(servers, name);
    t.teardown(() => node.crash());
    nodes.push(node);
  }
  return { servers, nodes };
}

const everything = Array.from({ length: partitionCount }, (_, p) => p);
function heldBy(nodes: readonly Node[]): number[] {
  return nodes.flatMap(({ held }) => held).toSorted((a, b) => a - b);
}
function isSpread(nodes: readonly Node[]): boolean {
  const names = nodes.map(({ name }) => name);
  return nodes.every((node) =>
    everything.every((p) => (rankNodes(names, 'accounts', p)[0] === node.name) === node.held.includes(p)),
  );
}

/** Of an entry in the bucket that is there now; null: it has none. */
async function revisionOf({ manager }: NatsLink, key: string): Promise<number | null> {
  return storedMessage(manager, LEASE_STREAM, { last_by_subj: LEASE_SUBJECT_PREFIX + key }).then(
    (stored) => stored?.seq ?? null,
    () => null,
  );
}

// Each test has a server and nodes of its own, and mostly waits.
t.jobs = 4;

t.test('a partition moves only when its node comes or goes', async (t) => {
  const three = everything.map((p) => rankNodes(['a', 'b', 'c'], 'accounts', p)[0]);
  const two = everything.map((p) => rankNodes(['a', 'c'], 'accounts', p)[0]);
  for (const p of everything) if (three[p] !== 'b') t.equal(two[p], three[p]);
  t.strictSame(new Set(three), new Set(['a', 'b', 'c']));
});

t.test('partitions spread over the nodes that live, each held once', async (t) => {
  const { servers, nodes } = await cluster(t, ['a']);
  await waitFor('one node holds everything', 60_000, () => heldBy(nodes).length === partitionCount);
  const b = await Node.start(servers, 'b');
  t.teardown(() => b.crash());
  nodes.push(b);
  await waitFor('two share', 40_000, () => isSpread(nodes));
  t.strictSame(heldBy(nodes), everything);
  for (const p of b.held) t.equal(b.serving.get(`accounts/${p}`), 2, 'under a new epoch');
  for (const { name, early } of nodes) t.equal(early, 0, `${name} serves what it holds`);
});

t.test('a copy that is left behind is prepared again, and not only when its owner is gone', async (t) => {
  const { nodes } = await cluster(t, ['a', 'b']);
  await waitFor('two share', 60_000, () => isSpread(nodes));
  const [a, b] = nodes as [Node, Node];
  for (const partition of everything) b.leftBehind.add(partition);
  await waitFor('its copies are kept up', 60_000, () => a.held.every((p) => !b.leftBehind.has(p)));
  for (const partition of a.held) b.leftBehind.add(partition);
  await waitFor('and are again', 20_000, () => a.held.every((p) => !b.leftBehind.has(p)));
});

t.test('a silent node is replaced, within its lease and a little more', async (t) => {
  const { nodes } = await cluster(t, ['a', 'b', 'c']);
  await waitFor('three share', 60_000, () => isSpread(nodes));
  const [a, ...others] = nodes as [Node, Node, Node];
  const orphans = a.held;
  const crashedAt = performance.now();
  await a.crash();
  await waitFor('the others have everything', 60_000, () => heldBy(others).length === partitionCount);
  const replacedMs = performance.now() - crashedAt;
  // A lease and a little more; the rest is for a machine that stands still for a moment.
  t.ok(replacedMs < 2_500 + 15_000, `after ${Math.round(replacedMs)} ms`);
  t.ok(orphans.length > 0);
  t.strictSame(
    orphans.filter((p) => a.ownership.holds('accounts', p)),
    [],
    'the silent node no longer thinks that it holds them',
  );
});

// Alone: the clock is that of the whole process.
t.test(
  'a silent node is replaced by nodes whose processes have only just begun',
  { buffered: false },
  async (t) => {
    const servers = await startNatsServers();
    t.teardown(() => servers.stop());
    const now = performance.now.bind(performance);
    const begunAt = now();
    performance.now = () => now() - begunAt;
    t.teardown(() => {
      performance.now = now;
    });
    const [a, b] = [await Node.start(servers, 'a'), await Node.start(servers, 'b')];
    t.teardown(() => Promise.all([a.crash(), b.crash()]));
    await waitFor('two share', 60_000, () => isSpread([a, b]));
    await a.crash();
    await waitFor('the other has everything', 20_000, () => b.held.length === partitionCount);
  },
);

for (const isPreparing of [false, true]) {
  t.test(
    `nobody waits for a node that is far from ready where another is${isPreparing ? ', and prepares' : ''}`,
    async (t) => {
      const { servers, nodes } = await cluster(t, ['b', 'c']);
      const [b, c] = nodes as [Node, Node];
      await waitFor('all are held', 20_000, () => b.held.length + c.held.length === partitionCount);
      // As an empty machine that has large logs to read.
      const { promise: mayPrepare, resolve: isReady } = Promise.withResolvers<void>();
      const a = await Node.start(servers, 'a', mayPrepare);
      t.teardown(() => a.crash());
      const all = Array.from({ length: partitionCount }, (_, partition) => partition);
      const ranked = (names: readonly string[], places: number): number[] =>
        all.filter((partition) => rankNodes(names, 'accounts', partition).slice(0, places).includes('a'));
      a.isNew = true;
      if (isPreparing) {
        const wanted = ranked(['a', 'b', 'c'], 2).length;
        await waitFor('it prepares what it may have', 20_000, () => a.preparations === wanted);
      }
      await b.crash();
      await waitFor('all are served', 30_000, () => c.held.length === partitionCount);
      t.strictSame(a.held, []);
      isReady();
      const due = ranked(['a', 'c'], 1);
      await waitFor('it has them in the end', 20_000, () => a.held.length === due.length);
      t.strictSame(a.held, due);
      t.equal(c.held.length, partitionCount - due.length);
    },
  );
}

t.test('a node that leaves hands everything over first', async (t) => {
  const { nodes } = await cluster(t, ['a', 'b']);
  await waitFor('two share', 60_000, () => isSpread(nodes));
  const [a, b] = nodes as [Node, Node];
  const startedAt = performance.now();
  await a.leave();
  await waitFor('the other has everything', 60_000, () => b.held.length === partitionCount);
  const tookMs = performance.now() - startedAt;
  t.ok(tookMs < AT_ONCE_MS, `${Math.round(tookMs)} ms`);
});

t.test('a node leaves at once when nobody that lives could have what it has', async (t) => {
  const { nodes } = await cluster(t, ['a']);
  const [a] = nodes as [Node];
  await waitFor('it holds everything', 60_000, () => a.held.length === partitionCount);
  const poller = {
    session: 's',
    groups: ['pollers'],
    state: 'live',
  } as const;
  t.equal(await a.table.write('node.poller', poller, 0), true);
  const startedAt = performance.now();
  await a.leave();
  const tookMs = performance.now() - startedAt;
  t.ok(tookMs < AT_ONCE_MS, `${Math.round(tookMs)} ms`);
});

t.test('what a node gives up is opened under a new epoch', async (t) => {
  const { nodes } = await cluster(t, ['a']);
  const [a] = nodes as [Node];
  await waitFor('it holds everything', 60_000, () => a.held.length === partitionCount);
  await a.ownership.surrender('accounts', 3);
  await waitFor('it has it again', 60_000, () => a.ownership.epoch('accounts', 3) === 2);
  t.equal(a.serving.get('accounts/3'), 2);
});

t.test('a lease of its own that a node serves nothing under is claimed again, not waited for', async (t) => {
  const { nodes } = await cluster(t, ['a']);
  const [a] = nodes as [Node];
  await waitFor('it holds everything', 60_000, () => a.held.length === partitionCount);
  // As if a claim had been written and its answer lost.
  const { session } = a.table.nodes.get('a')!.value;
  const { revision } = a.table.lease('accounts', 5)!;
  t.equal(await a.table.write('lease.accounts.5', { node: 'a', session, epoch: 9 }, revision), true);
  await waitFor('it is served again', 60_000, () => a.ownership.epoch('accounts', 5) === 10);
  t.equal(a.serving.get('accounts/5'), 10);
});

t.test('while NATS is away nobody holds anything, and afterwards everybody what they had', async (t) => {
  const { servers, nodes } = await cluster(t, ['a', 'b']);
  await waitFor('two share', 60_000, () => isSpread(nodes));
  const epochs = nodes.map((node) => node.held.map((p) => node.ownership.epoch('accounts', p)));
  await servers.kill(0, 'SIGKILL');
  await waitFor('nobody holds anything', 60_000, () => heldBy(nodes).length === 0);
  await servers.restart(0);
  await waitFor('two share again', 60_000, () => isSpread(nodes));
  t.strictSame(
    nodes.map((node) => node.held.map((p) => node.ownership.epoch('accounts', p))),
    epochs,
    'no session was ended for a silence that was not its own',
  );
});

t.test('why a partition cannot be taken over is told once, however often it is tried', async (t) => {
  const { nodes } = await cluster(t, ['a']);
  const [only] = nodes;
  await waitFor('each holds its share', 30_000, () => isSpread(nodes));
  const tried = async (why: string): Promise<string[]> => {
    only!.broken = why;
    const { attempts } = only!;
    await only!.ownership.surrender('accounts', 0);
    await waitFor('it was tried', 30_000, () => only!.attempts >= attempts + 3);
    return only!.problems.splice(0);
  };
  const told = ['accounts/0 could not be taken over'];
  t.strictSame(await tried('the stream was lost'), told);
  t.strictSame(await tried('the stream was lost'), []);
  t.strictSame(await tried('the stream was purged'), told);
  only!.broken = null;
  await waitFor('it is held', 30_000, () => heldBy(nodes).length === partitionCount);
  t.strictSame(await tried('the stream was purged'), told);
});

t.test('two processes of one name say so', async (t) => {
  const { servers, nodes } = await cluster(t, ['a']);
  const twin = await Node.start(servers, 'a');
  t.teardown(() => twin.crash());
  const both = [...nodes, twin];
  const complains = ({ problems }: Node): boolean =>
    problems.some((each) => /another process is node a/.test(each));
  await waitFor('one complains', 60_000, () => both.some(complains));
  // What either has the other takes, so that each of them is about to take something over, now and for ever.
  await waitFor('whoever asks either is told why', 60_000, () => {
    return both.every(({ ownership }) => /another process is node a/.test(ownership.rival ?? ''));
  });
  await twin.crash();
  const [only] = nodes;
  await waitFor('it has everything again, alone', 60_000, () => {
    return only!.ownership.rival === null && heldBy(nodes).length === partitionCount;
  });
});

t.test('what is no entry in the bucket moves nothing, ends nobody, and goes', async (t) => {
  const { servers, nodes } = await cluster(t, ['a', 'b']);
  await waitFor('each holds its share', 30_000, () => isSpread(nodes));
  const before = nodes.map(({ serving }) => [...serving]);
  const hand = await link(servers.url, 'hand');
  t.teardown(() => hand.close());
  const leases = everything.map((partition) => `lease.accounts.${partition}`);
  for (const text of NO_ENTRIES) {
    for (const key of ['node.a', 'node.c', 'want.accounts.0', 'lease', 'other.0', ...leases]) {
      await hand.connection.jetstream().publish(LEASE_SUBJECT_PREFIX + key, text);
    }
    await waitFor('each node has said again what is its own', 30_000, async () => {
      const stored = ['node.a', ...leases].map((key) =>
        hand.manager.streams.getMessage(LEASE_STREAM, { last_by_subj: LEASE_SUBJECT_PREFIX + key }),
      );
      return (await Promise.all(stored)).every((each) => /"session":/.test(each.string()));
    });
  }
  t.strictSame(
    nodes.map(({ serving }) => [...serving]),
    before,
  );
  const late = await Node.start(servers, 'late');
  t.teardown(() => late.crash());
  await waitFor('who comes late gets its share', 30_000, () => late.held.length > 0);
  await waitFor('everything is held', 30_000, () => heldBy([...nodes, late]).length === partitionCount);
});

t.test(
  'a bucket that is purged, of which no message tells, moves nothing, and is filled again',
  async (t) => {
    const { servers, nodes } = await cluster(t, ['a', 'b']);
    await waitFor('each holds its share', 30_000, () => isSpread(nodes));
    const before = nodes.map(({ serving }) => [...serving]);
    const hand = await link(servers.url, 'hand');
    t.teardown(() => hand.close());
    await hand.manager.streams.purge(LEASE_STREAM);
    const keys = ['node.a', 'node.b', ...everything.map((partition) => `lease.accounts.${partition}`)];
    await waitFor('each node has said again what is its own', 30_000, async () => {
      return !(await Promise.all(keys.map((key) => revisionOf(hand, key)))).includes(null);
    });
    t.ok(nodes.every(({ ownership }) => ownership.isSessionValid()));
    t.strictSame(
      nodes.map(({ serving }) => [...serving]),
      before,
    );
    const late = await Node.start(servers, 'late');
    t.teardown(() => late.crash());
    await waitFor('who comes late gets its share', 30_000, () => isSpread([...nodes, late]));
    t.ok(
      [...late.serving.values()].every((epoch) => epoch > 1),
      'under epochs above those before',
    );
  },
);

t.test('entries that are purged by their keys move nothing, and are written again', async (t) => {
  const { servers, nodes } = await cluster(t, ['a', 'b']);
  await waitFor('each holds its share', 30_000, () => isSpread(nodes));
  const before = nodes.map(({ serving }) => [...serving]);
  const hand = await link(servers.url, 'hand');
  t.teardown(() => hand.close());
  // The session last: its next renewal is refused, and then its node looks what else is gone.
  const keys = ['lease.accounts.3', 'node.a'];
  for (const key of keys) {
    await hand.manager.streams.purge(LEASE_STREAM, { filter: LEASE_SUBJECT_PREFIX + key });
  }
  for (const key of keys) {
    await waitFor(`${key} has been said again`, 30_000, async () => (await revisionOf(hand, key)) !== null);
  }
  t.ok(nodes.every(({ ownership }) => ownership.isSessionValid()));
  t.strictSame(
    nodes.map(({ serving }) => [...serving]),
    before,
  );
});

t.test('a bucket that is removed is made anew by the nodes, which know what stood there', async (t) => {
  const { servers, nodes } = await cluster(t, ['a', 'b']);
  await waitFor('each holds its share', 30_000, () => isSpread(nodes));
  const hand = await link(servers.url, 'hand');
  t.teardown(() => hand.close());
  // As a front: it makes nothing.
  const publisher = new StreamPublisher(hand);
  const front = new LeaseTable(hand, publisher, (error) => t.fail(error.message));
  t.teardown(async () => {
    await front.close();
    publisher.close();
  });
  await front.ready();
  const epochs = everything.map((partition) => front.route('accounts', partition)!.epoch);
  await hand.manager.streams.delete(LEASE_STREAM);
  await waitFor('each node has said again what is its own, and a front hears of it', 30_000, async () => {
    const sessions = await Promise.all(['node.a', 'node.b'].map((key) => revisionOf(hand, key)));
    const leases = await Promise.all(everything.map((each) => revisionOf(hand, `lease.accounts.${each}`)));
    return (
      !sessions.includes(null) &&
      everything.every((partition) => {
        const { revision, value } = front.lease('accounts', partition)!;
        return revision === leases[partition] && front.isHeld(value) && value.epoch >= epochs[partition]!;
      })
    );
  });
  t.ok(isSpread(nodes), 'each node holds its share');
  const late = await Node.start(servers, 'late');
  t.teardown(() => late.crash());
  await waitFor('who comes late gets its share', 30_000, () => isSpread([...nodes, late]));
  t.ok(
    late.held.every((partition) => late.ownership.epoch('accounts', partition) > epochs[partition]!),
    'under epochs above those before',
  );
  // And again, while it is young.
  await hand.manager.streams.delete(LEASE_STREAM);
  await waitFor('three share again', 30_000, () => isSpread([...nodes, late]));
});
