// Webhooks in the cluster: an event reaches the merchant although the node that delivers, or the one that polls, is killed.
import { createServer } from 'node:http';
import { once } from 'node:events';
import t from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import { hasNatsServer, waitFor } from '../../deploy/nats-servers.ts';
import { Cluster } from './cluster.ts';
import { makeAccounts } from './load.ts';

if (!hasNatsServer()) t.bailout('nats-server is not installed: apt-get install -y nats-server');

t.test('each charge is told once it is final, whoever dies', async (t) => {
  const told = new Map<string, Set<string>>();
  const receiver = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => (text += chunk));
    request.on('end', () => {
      const event = JSON.parse(text) as { id: string; type: string; data: { object: { id: string } } };
      const ids = told.get(event.data.object.id) ?? new Set();
      told.set(event.data.object.id, ids.add(`${event.type} ${event.id}`));
      response.end();
    });
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const address = receiver.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  t.teardown(() => receiver.close());

  const cluster = await Cluster.start({
    natsServers: 1,
    fronts: 1,
    ledgers: 1,
    webhooks: 2,
    pollers: 2,
    environment: { WEBHOOK_ALLOW_PRIVATE: 'true', WEBHOOK_RETRY_SECONDS: '1,1,1' },
  });
  t.teardown(() => cluster.stop());
  cluster.accounts = await makeAccounts(cluster.service, 6, `http://127.0.0.1:${address.port}/hook`);
  const load = cluster.load(4, 20);
  await waitFor('events arrive', 30_000, () => told.size > 20);
  cluster.node('webhooks1').signal('SIGKILL');
  cluster.node('poller1').signal('SIGKILL');
  const before = told.size;
  await waitFor('events arrive without them', 30_000, () => told.size > before + 50);
  await untilReady(cluster.running);
  const report = await load.stop();
  const created = report.journal.filter(({ status }) => status === 201).map(({ reply }) => reply?.id ?? '');
  await waitFor('every charge has been told', 60_000, () => created.every((id) => told.has(id)));
  for (const [id, events] of told) {
    if (events.size !== 1) t.fail(`${id} was told as ${[...events].join(', ')}`);
  }
  t.ok(created.length > 70);
  t.strictSame(await cluster.check(report), []);
});
