// A service that ran alone becomes a cluster: its log is put into streams that are new, its machine goes on as the first node, and an
// empty one joins. What it had acknowledged is there once, under the same keys.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type ClusterSettings, startNode, untilReady } from '../../deploy/cluster-processes.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { type Answer, answerTo, get, startProcess } from '../crash/service-process.ts';
import { putBackLogs } from './put-back-logs.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const CREATES = 20;
const charge = (n: number): string =>
  JSON.stringify({ amount: '5000', currency: 'UGX', msisdn: '+256772123400', reference: `grown-${n}` });

t.test('a service that ran alone goes on as the first node of a cluster', async (t) => {
  const directory = temporaryDirectory(t);
  const dataDir = join(directory, 'node1', 'data');
  const partitions = { PARTITIONS: '4' };
  const alone = await startProcess(dataDir, partitions);
  const creates = (service: typeof alone): Promise<Answer[]> =>
    Promise.all(
      Array.from({ length: CREATES }, (_, n) =>
        answerTo(service, '/v1/charges', `grown-key-${n}`, charge(n)),
      ),
    );
  const balances = async (service: typeof alone): Promise<string> =>
    (await get(service, '/v1/balances')).text();
  const answers = await creates(alone);
  const all = String(CREATES * 4_875);
  await waitFor('all charges are paid', 30_000, async () =>
    (await balances(alone)).includes(`"pending":"${all}"`),
  );
  const before = await balances(alone);
  t.equal(await alone.end('SIGTERM'), 0);

  const nats = await startNatsServers();
  t.teardown(() => nats.stop());
  const nodes = [{ name: 'node1', dataDir }];
  const written = await putBackLogs(nats.url, 1, join(directory, 'ends'), nodes);
  t.match(written, [{ status: 0, out: /Written\.\nNext: start the ledgers/ }], written[0]!.err);

  const settings: ClusterSettings = {
    natsUrl: nats.url,
    directory,
    operatorToken: alone.demo.operator_token,
    masterKey: readFileSync(join(dataDir, 'master.key'), 'utf8').trim(),
    environment: { ...partitions, NATS_REPLICAS: '1' },
  };
  const node1 = await startNode(settings, 'node1', 'front,ledger,webhooks,poller');
  t.teardown(() => node1.signal('SIGKILL'));
  await untilReady([node1]);
  const grown = { ...alone, demo: { ...alone.demo, base_url: node1.baseUrl } };
  t.equal(await balances(grown), before);
  t.strictSame(
    await creates(grown),
    answers.map((answer) => ({ ...answer, replayed: true })),
    'each key has its first answer',
  );
  t.hasStrict(await answerTo(grown, '/v1/charges', 'grown-key-new', charge(CREATES)), { status: 201 });

  const node2 = await startNode(settings, 'node2', 'ledger,webhooks,poller');
  t.teardown(() => node2.signal('SIGKILL'));
  await untilReady([node2]);
  node1.signal('SIGTERM');
  t.equal(await node1.exited(), 0);
  await t.rejects(startProcess(dataDir, partitions), /is of a node of a cluster.*NATS_URL.* is not set/);
  const front = await startNode(settings, 'front1', 'front');
  t.teardown(() => front.signal('SIGKILL'));
  await untilReady([front]);
  const moved = { ...alone, demo: { ...alone.demo, base_url: front.baseUrl } };
  const more = String((CREATES + 1) * 4_875);
  await waitFor('the machine that came empty has it all, and the charge made between', 30_000, async () =>
    (await balances(moved)).includes(`"pending":"${more}"`),
  );
});
