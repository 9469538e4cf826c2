// Webhooks in the cluster: each event reaches the merchant, although the node that delivers, or the one that polls, is killed
// or leaves while events arrive. A delivery may be repeated, as the same event; one that failed is tried again by whoever
// has its partition then.
import { createServer } from 'node:http';
import { once } from 'node:events';
import t from 'tap';
import type { Test } from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { Cluster, TOGETHER } from './cluster.ts';
import type { ClusterShape } from './cluster.ts';
import { makeAccounts, notCreated } from './load.ts';
import type { Load } from './load.ts';
import { needs } from '../needs.ts';

needs('nats-server');

/** A merchant's endpoint that refuses every tenth event the first time. */
class Receiver {
  /** Events taken, by transaction. */
  readonly told = new Map<string, Set<string>>();
  readonly #refused = new Set<string>();
  readonly #seen = new Set<string>();
  readonly #server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => (text += chunk));
    request.on('end', () => {
      response.statusCode = this.#take(JSON.parse(text)) ? 200 : 500;
      response.end();
    });
  });

  static async listen(t: Test): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    t.teardown(() => receiver.#server.close());
    return receiver;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    return `http://127.0.0.1:${address.port}/hook`;
  }

  /** Events refused once and not taken since. */
  get owed(): number {
    return this.#refused.size;
  }

  #take({ id, type, data }: { id: string; type: string; data: { object: { id: string } } }): boolean {
    const isNew = !this.#seen.has(id);
    this.#seen.add(id);
    if (isNew && this.#seen.size % 10 === 0) {
      this.#refused.add(id);
      return false;
    }
    this.#refused.delete(id);
    const events = this.told.get(data.object.id) ?? new Set();
    this.told.set(data.object.id, events.add(`${type} ${id}`));
    return true;
  }
}

const APART = { ledgers: 1, webhooks: 2, pollers: 2 };

async function startCluster(
  t: Test,
  receiver: Receiver,
  shape: Pick<ClusterShape, 'ledgers' | 'webhooks' | 'pollers' | 'together'> = APART,
): Promise<{ cluster: Cluster; load: Load }> {
  const cluster = await Cluster.start({
    natsServers: 1,
    fronts: 1,
    ...shape,
    environment: { WEBHOOK_ALLOW_PRIVATE: 'true', WEBHOOK_RETRY_SECONDS: '1,1,1' },
  });
  t.teardown(() => cluster.stop());
  cluster.accounts = await makeAccounts(cluster.service, 6, receiver.url);
  const load = cluster.load(4, 60);
  await waitFor('events arrive', 30_000, () => receiver.told.size > 20);
  return { cluster, load };
}

async function moreArrive({ told }: Receiver): Promise<void> {
  const before = told.size;
  await waitFor('more events arrive', 30_000, () => told.size > before + 50);
}

async function has(cluster: Cluster, group: string, node: string): Promise<boolean> {
  return (await cluster.partitions()).some((each) => each.group === group && each.node === node);
}

/** Each charge that was acknowledged has been told, as one event; what was refused once has come again. */
async function checkTold(t: Test, cluster: Cluster, load: Load, receiver: Receiver): Promise<void> {
  const report = await load.stop();
  t.strictSame(notCreated(report.journal), []);
  const created = report.journal.map(({ reply }) => reply?.id ?? '');
  const { told } = receiver;
  await waitFor('every charge has been told', 60_000, () => created.every((id) => told.has(id)));
  t.equal(receiver.owed, 0, 'what failed was tried again');
  for (const [id, events] of told) {
    if (events.size !== 1) t.fail(`${id} was told as ${[...events].join(', ')}`);
  }
  t.ok(created.length > 70);
  t.strictSame(await cluster.check(report), []);
}

t.test('where nodes have one role each', async (t) => {
  const receiver = await Receiver.listen(t);
  const { cluster, load } = await startCluster(t, receiver);

  await t.test('each charge is told while webhooks and pollers leave and come back', async (t) => {
    for (const [name, role, group] of [
      ['webhooks1', 'webhooks', 'webhooks'],
      ['poller2', 'poller', 'pollers'],
    ] as const) {
      await waitFor(`${name} has its share`, 30_000, () => has(cluster, group, name));
      const leaving = cluster.node(name);
      leaving.signal('SIGTERM');
      t.equal(await leaving.exited(), 0, `${name} ends gracefully`);
      // The front hears of it in its own time.
      await waitFor(`${name} has nothing any more`, 20_000, async () => !(await has(cluster, group, name)));
      await moreArrive(receiver);
      await untilReady([await cluster.add(name, role)]);
      await waitFor(`${name} has its share again`, 30_000, () => has(cluster, group, name));
      await moreArrive(receiver);
    }
    await checkTold(t, cluster, load, receiver);
  });

  await t.test('each charge is told once it is final, whoever dies', async (t) => {
    const load = cluster.load(4, 60);
    await moreArrive(receiver);
    await waitFor('poller2 polls', 30_000, () => has(cluster, 'pollers', 'poller2'));
    cluster.node('poller2').signal('SIGKILL');
    for (const name of ['webhooks1', 'webhooks2']) {
      await waitFor(`${name} delivers`, 30_000, () => has(cluster, 'webhooks', name));
      const killed = cluster.node(name);
      killed.signal('SIGKILL');
      await killed.exited();
      await moreArrive(receiver);
      await untilReady([await cluster.add(name, 'webhooks')]);
    }
    await untilReady(cluster.running);
    await checkTold(t, cluster, load, receiver);
  });
});

t.test('each charge is told where nodes have all roles, whoever leaves or dies', async (t) => {
  const receiver = await Receiver.listen(t);
  const shape = { ledgers: 0, webhooks: 0, pollers: 0, together: 2 };
  const { cluster, load } = await startCluster(t, receiver, shape);
  for (const [name, signal] of [
    ['node1', 'SIGTERM'],
    ['node2', 'SIGKILL'],
  ] as const) {
    const leaving = cluster.node(name);
    leaving.signal(signal);
    t.equal(await leaving.exited(), signal === 'SIGTERM' ? 0 : signal);
    await moreArrive(receiver);
    await untilReady([await cluster.add(name, TOGETHER)]);
    for (const group of ['accounts', 'webhooks', 'pollers']) {
      await waitFor(`${name} has its share of ${group}`, 30_000, () => has(cluster, group, name));
    }
    await moreArrive(receiver);
  }
  await checkTold(t, cluster, load, receiver);
});
