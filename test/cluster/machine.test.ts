// What happens to machines: cut off from the rest, replaced by an empty one, a disk that does not answer.
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { lastWords, untilReady } from '../../deploy/cluster-processes.ts';
import type { NodeProcess } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { Cable } from './cable.ts';
import { Cluster, SMALL } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';
import { hangDisk, traced } from '../tracer.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

needs('nats-server');

async function flushesOf({ operatorUrl }: NodeProcess): Promise<number> {
  const response = await fetch(`${operatorUrl}/metrics`);
  return Number(/^daftari_log_flush_seconds_count (\d+)$/m.exec(await response.text())?.[1]);
}

/** Has five of six partitions by its name, and so some account's. */
const OTHER = 'ledger3';

t.test('beside a machine that stays', async (t) => {
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1 });
  t.teardown(() => cluster.stop());
  const { cable, url } = await Cable.lay(cluster.nats.urls[0]!);
  t.teardown(() => cable.remove());

  await t.test('an owner is cut off from the rest, and comes back', async (t) => {
    const far: NodeProcess = await cluster.add(OTHER, 'ledger', { NATS_URL: url });
    await untilReady([far]);
    await waitFor('it owns partitions', 60_000, () => cluster.ownsSome(OTHER));
    const load = cluster.load(16, 60);
    await waitFor('creates are answered', 60_000, () => load.answered > 300);

    cable.cut();
    await waitFor('the other ledger has everything', 60_000, () => cluster.ownsAll('ledger1'));
    const before = load.answered;
    await waitFor('creates are answered without it', 60_000, () => load.answered > before + 300);
    cable.mend();
    await waitFor('it owns partitions again', 40_000, () => cluster.ownsSome(OTHER));
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('a machine is replaced by an empty one', async (t) => {
    const lost = cluster.node(OTHER);
    const load = cluster.load(16, 60);
    await waitFor('creates are answered', 60_000, () => load.answered > 300);
    lost.signal('SIGKILL');
    await lost.exited();
    await removeDirectory(lost.dataDir);
    await cluster.addOwner(OTHER);
    const before = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > before + 300);
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('a disk does not answer: its node ends, and others take its partitions', traced, async (t) => {
    const hung = cluster.node(OTHER);
    const before = await flushesOf(hung);
    const load = cluster.load(16, 60);
    await waitFor('it writes', 60_000, async () => (await flushesOf(hung)) > before + 50);
    const goOn = await hangDisk(hung.pid);
    t.teardown(goOn);
    await waitFor('it says what it does', 60_000, () => {
      return /has not answered for \d+ s; other nodes take what is here/.test(lastWords(hung));
    });
    await waitFor('the other ledger has everything', 60_000, () => cluster.ownsAll('ledger1'));
    const answered = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > answered + 300);
    goOn();
    t.equal(await hung.exited(), 1);
    const report = await load.stop();
    t.strictSame(
      report.journal.filter(({ status }) => status !== 201 && status !== null),
      [],
    );
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('a port that is taken leaves the next start no views to suspect', async (t) => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const taken = String((server.address() as AddressInfo).port);
    for (const setting of ['OPERATOR_PORT', 'PORT']) {
      const node = await cluster.add(OTHER, 'front,ledger', { [setting]: taken });
      t.equal(await node.exited(), 1);
      t.match(lastWords(node), /cannot listen on .*: the port is taken/);
      t.notOk(existsSync(join(node.dataDir, 'starting')), setting);
    }
  });
});
