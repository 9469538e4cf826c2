// Streams are archived and trimmed, and nothing is lost by it: what webhooks and empty machines need stays, a node that was left
// behind begins anew, and what was trimmed comes back from the archive.
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { streamTools } from '../../deploy/stream-tools.ts';
import { partitionOf } from '../../src/bus/bus.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import { firstBatchOf } from '../../src/nats/log/stream-places.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { walTools } from '../../wal/tools/all.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import type { ToolRun } from '../unit/wal/run-tool.ts';
import { link } from './adapters.ts';
import { Cluster, PARTITIONS, saveSnapshots, SMALL, startsOf } from './cluster.ts';
import { makeAccounts } from './load.ts';
import { needs } from '../needs.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

needs('nats-server');

interface Trimmed {
  readonly removed: boolean;
  readonly partitions: readonly {
    readonly group: string;
    readonly partition: number;
    readonly first: number;
    readonly last: number;
    readonly why: string;
  }[];
}

async function merchant(t: Test): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as { port: number }).port}/`;
}

t.test('the cluster goes on from what is left', async (t) => {
  const environment = { WEBHOOK_ALLOW_PRIVATE: 'true' };
  const cluster = await Cluster.start({ ...SMALL, webhooks: 1, environment }, 0);
  t.teardown(() => cluster.stop());
  cluster.accounts = await makeAccounts(cluster.service, 6, await merchant(t));
  const connect = () => link(cluster.nats.url, 'operator');
  const run = (...args: string[]): Promise<ToolRun> => runTool(streamTools(connect), ...args);
  const archive = join(cluster.directory, 'archive');
  const trim = async (...args: string[]): Promise<Trimmed['partitions']> => {
    const { status, out, err } = await run('trim', '--archive', archive, '--json', ...args);
    t.equal(status, 0, err);
    return (JSON.parse(out) as Trimmed).partitions.filter(({ group }) => group === 'accounts');
  };

  const load = cluster.load(6, 10);
  await waitFor('creates are answered', 60_000, () => load.answered > 100);
  const leftBehind = cluster.node('ledger2');
  leftBehind.signal('SIGTERM');
  t.equal(await leftBehind.exited(), 0);
  const answered = async (more: number): Promise<void> => {
    const then = load.answered;
    await waitFor('creates are answered', 120_000, () => load.answered > then + more);
  };
  await answered(150);
  t.match(await run('trim', '--archive', archive), { status: 2, err: /no backup, archive or export/ });
  t.match(
    await run('archive', '--to', archive),
    { status: 0, out: /^Nothing to archive/ },
    'all of it is young',
  );
  const written = new Set(cluster.accounts.map(({ id }) => partitionOf(id, PARTITIONS)));
  const archived = await run('archive', '--to', archive, '--before', '2999-01-01');
  t.equal(archived.status, 0, archived.err);
  const { records } = JSON.parse(readFileSync(join(archive, 'manifest.json'), 'utf8')) as { records: number };
  t.equal(records, RECORD_FORMATS.newest, 'an older version is not to import it');
  for (const partition of written) {
    t.match(archived.out, new RegExp(`^accounts/${partition}: sequences 1 to `, 'm'));
  }
  for (const { first, last, why } of await trim('--yes')) {
    t.match([first, last, why], [1, 0, /^there is no snapshot/]);
  }
  await answered(300);
  const report = await load.stop();
  t.equal((await run('archive', '--to', archive, '--before', '2999-01-01')).status, 0, 'it goes on');

  const leaving = cluster.node('ledger1');
  leaving.signal('SIGTERM');
  t.equal(await leaving.exited(), 0);
  const saved = await saveSnapshots(cluster, leaving);
  const nats = await connect();
  t.teardown(() => nats.close());
  const firsts = (): Promise<number[]> =>
    Promise.all(
      Array.from({ length: PARTITIONS }, (_, partition) =>
        firstBatchOf({ link: nats, group: 'accounts', partition }),
      ),
    );
  let planned: Trimmed['partitions'] = [];
  // What webhooks have yet to read is kept; a slow machine is some seconds behind.
  await waitFor('webhooks have read what the snapshots reach', 60_000, async () => {
    planned = await trim();
    return planned.every(({ why }) => !why.startsWith('webhooks have read'));
  });
  t.ok(
    planned.every(({ partition, first, last, why }) => {
      if (!written.has(partition)) return last === 0;
      return first === 1 && last > 1 && last < saved[partition]! && why.startsWith('the snapshot reaches');
    }),
    planned.map(({ last, why }) => `to ${last}: ${why}`).join('; '),
  );
  t.strictSame(
    await firsts(),
    Array.from({ length: PARTITIONS }, () => 1),
    'nothing is removed without --yes',
  );
  t.strictSame(await trim('--yes'), planned);
  const left = planned.map(({ last }) => last + 1);
  t.strictSame(await firsts(), left);
  t.ok(
    (await trim('--yes')).every(({ first, last }) => last === first - 1),
    'again: nothing',
  );

  await t.test('a node whose log ends before what is left begins anew with the snapshot', async (t) => {
    const back = await cluster.add('ledger2', 'ledger');
    await untilReady([back]);
    await waitFor('it has everything', 60_000, () => cluster.ownsAll('ledger2'));
    t.strictSame(await startsOf(back), saved);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('so does an empty machine', async (t) => {
    await removeDirectory(leaving.dataDir);
    const empty = await cluster.add('ledger1', 'ledger');
    await untilReady([empty]);
    const more = cluster.load(8, 50);
    await waitFor('creates are answered', 60_000, () => more.answered > 100);
    const other = cluster.node('ledger2');
    other.signal('SIGTERM');
    t.equal(await other.exited(), 0);
    const [then] = [more.answered];
    await waitFor('creates are answered', 60_000, () => more.answered > then + 50);
    const reported = await more.stop();
    t.strictSame(await startsOf(empty), saved);
    t.strictSame(await cluster.check(reported), []);
    t.strictSame(await cluster.check(report), []);
  });

  await t.test('views are made anew when the archive has put back what was trimmed', async (t) => {
    const node = cluster.node('ledger1');
    node.signal('SIGTERM');
    t.equal(await node.exited(), 0);
    rmSync(join(node.dataDir, 'views'), { recursive: true });
    const stuck = await cluster.add('ledger1', 'ledger');
    await waitFor('it says what it lacks', 60_000, () => {
      return readFileSync(stuck.logFile, 'utf8').includes('must be put back from the archive');
    });
    stuck.signal('SIGTERM');
    await stuck.exited();
    t.equal(
      (await run('archive', '--to', archive, '--before', '2999-01-01')).status,
      0,
      'up to the snapshots',
    );
    const putBack = await runTool(
      walTools,
      'import',
      '--data',
      stuck.dataDir,
      '--from',
      archive,
      '--group',
      'accounts',
    );
    t.equal(putBack.status, 0, putBack.err);
    const back = await cluster.add('ledger1', 'ledger');
    await untilReady([back]);
    await waitFor('it has everything', 60_000, () => cluster.ownsAll('ledger1'));
    t.strictSame(
      await startsOf(back),
      Array.from({ length: PARTITIONS }, () => 0),
    );
    t.strictSame(await cluster.check(report), []);
  });

  await t.test("a node's own log is trimmed by the same archive", async (t) => {
    const node = cluster.node('ledger1');
    node.signal('SIGTERM');
    t.equal(await node.exited(), 0);
    const { status, out } = await runTool(
      [...walTools, ...logTools],
      'trim',
      '--data',
      node.dataDir,
      '--archive',
      archive,
      '--yes',
      '--group',
      'accounts',
    );
    t.equal(status, 0, out);
    const back = await cluster.add('ledger1', 'ledger');
    await untilReady([back]);
    await waitFor('it has everything', 60_000, () => cluster.ownsAll('ledger1'));
    const starts = await startsOf(back);
    t.ok(
      [...written].every((partition) => starts[partition]! >= left[partition]! - 1),
      `its logs begin after batches ${starts.join(', ')}`,
    );
    // The other ledger, which has stopped, may have none of these batches any more.
    t.strictSame(await cluster.check(report, [back]), []);
  });
});
