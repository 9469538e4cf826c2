// What the nodes of a cluster tell Prometheus: between them all that one process would, and of a partition its owner alone,
// whoever that is.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import type { NodeProcess } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { Cluster, SMALL, TOGETHER } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';

needs('nats-server');

const README = readFileSync(join(import.meta.dirname, '../../src/observability/README.md'), 'utf8');

async function metricsOf(cluster: Cluster): Promise<string> {
  const texts = cluster.running.map(async ({ operatorUrl }) =>
    (await fetch(`${operatorUrl}/metrics`)).text(),
  );
  return (await Promise.all(texts)).join('\n');
}

/** As `sum(series)` has it. */
async function sumOf(cluster: Cluster, series: string): Promise<number> {
  const values = (await metricsOf(cluster)).split('\n').filter((line) => line.startsWith(`${series} `));
  return values.reduce((sum, line) => sum + Number(line.slice(series.length)), 0);
}

t.test('the transactions of every partition are counted, also when it has moved', async (t) => {
  // Nobody asks providers: what is created stays as it is.
  const cluster = await Cluster.start({ ...SMALL, pollers: 0 });
  t.teardown(() => cluster.stop());
  const load = cluster.load(8, 0);
  await waitFor('creates are answered', 60_000, () => load.answered > 50);
  const { journal } = await load.stop();
  t.strictSame(notCreated(journal), []);
  const open = 'daftari_transactions_open{status="PENDING_PROVIDER"}';
  t.equal(await sumOf(cluster, open), journal.length);
  const entered = 'daftari_transactions_entered_total{type="CHARGE",status="PENDING_PROVIDER"}';
  t.equal(await sumOf(cluster, entered), journal.length);

  const leaving = cluster.node('ledger1');
  leaving.signal('SIGTERM');
  t.equal(await leaving.exited(), 0);
  await waitFor('the other has everything', 60_000, () => cluster.ownsAll('ledger2'));
  // What it has just claimed it counts when it has read it.
  await untilReady([cluster.node('ledger2')]);
  t.equal(await sumOf(cluster, open), journal.length);

  await t.test('and every metric of the README is there', async (t) => {
    await untilReady([await cluster.add('node1', TOGETHER)]);
    const named = [...README.matchAll(/^\| `(daftari_\w+)` *\|/gm)].map(([, name = '']) => name);
    const told = [...(await metricsOf(cluster)).matchAll(/^# TYPE (daftari_\w+) /gm)].map(([, name]) => name);
    t.ok(named.length > 30);
    t.strictSame(
      named.filter((name) => !told.includes(name)),
      [],
    );
  });

  await t.test(
    'and a node that was started with other fees is told of by the others, and by itself',
    async (t) => {
      const one = cluster.node('ledger2');
      const others = (node: NodeProcess): Promise<boolean> =>
        fetch(`${node.operatorUrl}/metrics`).then(async (answer) =>
          /^daftari_nodes_with_other_terms [1-9]/m.test(await answer.text()),
        );
      t.notOk(await others(one));
      const file = join(cluster.directory, 'policy.json');
      writeFileSync(file, '{ "fees": { "CHARGE": { "UGX": { "basis_points": 300 } } } }');
      const other = await cluster.add('ledger3', 'ledger', { POLICY_FILE: file });
      for (const node of [one, other]) {
        await waitFor('it says so', 60_000, () => others(node));
        const line = /nodes decide by other terms/;
        await waitFor('its log names it', 20_000, async () => line.test(readFileSync(node.logFile, 'utf8')));
      }
      await untilReady([one, other]);
      other.signal('SIGTERM');
      t.equal(await other.exited(), 0);
      await waitFor('there is no other any more', 60_000, async () => !(await others(one)));
    },
  );

  // An alert fires while it is not.
  await waitFor('everything is looked at for webhooks', 60_000, async () => {
    const written = await sumOf(cluster, 'daftari_log_sequence{group="accounts"}');
    return written === (await sumOf(cluster, 'daftari_webhook_feed_sequence'));
  });
});
