// Rot in a node's log: that node serves the partition no more and says so, another one does, and everything else goes on.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { untilReady } from '../../deploy/cluster-processes.ts';
import type { NodeProcess } from '../../deploy/cluster-processes.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { damageBatch } from '../unit/storage-driven.ts';
import { Cluster, PARTITIONS, SMALL } from './cluster.ts';
import { notCreated } from './load.ts';
import { needs } from '../needs.ts';

needs('nats-server');

/** Rots on the disk of a node that is stopped. Returns how to undo it. */
async function rot(
  { dataDir: directory }: NodeProcess,
  partition: number,
  which: 'middle' | 'newest',
): Promise<() => void> {
  const log = LogReader.openReader({ directory });
  const batches = [...log.read('accounts', partition, { afterBatch: 0 })];
  const { bytes } = batches[which === 'middle' ? Math.floor(batches.length / 2) : batches.length - 1]!;
  await log.close();
  damageBatch(directory, bytes);
  const rotten = Buffer.from(bytes);
  rotten[80]! ^= 0x04;
  return () => damageBatch(directory, rotten);
}

async function ended(node: NodeProcess): Promise<void> {
  node.signal('SIGTERM');
  t.equal(await node.exited(), 0);
}

async function get({ operatorUrl }: NodeProcess, path: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(operatorUrl + path);
  return { status: answer.status, text: await answer.text() };
}

const DAMAGED = 'the log is damaged: this partition is not served here';

interface Line {
  readonly message: string;
}

function logged({ logFile }: NodeProcess): Line[] {
  const lines = readFileSync(logFile, 'utf8').split('\n');
  return lines.filter((line) => line.startsWith('{') && line.endsWith('}')).map((line) => JSON.parse(line));
}

async function ownersOf(cluster: Cluster): Promise<(string | null)[]> {
  const owners: (string | null)[] = Array.from({ length: PARTITIONS }, () => null);
  for (const { group, partition, node } of await cluster.partitions()) {
    if (group === 'accounts') owners[partition] = node;
  }
  return owners;
}

const cluster = await Cluster.start(SMALL);
t.teardown(() => cluster.stop());

for (const which of ['middle', 'newest'] as const) {
  t.test(`the ${which} batch of a partition rots on one node: another has the partition`, async (t) => {
    const load = cluster.load(16, 50);
    await waitFor('creates are answered', 60_000, () => load.answered > 500);
    const before = await ownersOf(cluster);
    const victim = before.indexOf('ledger1');
    const others = before.filter((node) => node === 'ledger1').length - 1;
    t.ok(victim >= 0 && others > 0, `owners: ${before.join(', ')}`);

    const stopped = cluster.node('ledger1');
    await ended(stopped);
    const mend = await rot(stopped, victim, which);
    const { length: earlier } = logged(stopped);
    const back = await cluster.add('ledger1', 'ledger');
    const told = (): object[] =>
      logged(back)
        .slice(earlier)
        .filter(({ message }) => message === DAMAGED);
    await waitFor('it says that the partition is damaged', 60_000, () => told().length > 0);
    const settled = async (): Promise<boolean> => {
      const owners = await ownersOf(cluster);
      return owners.every(
        (node, partition) => node === (partition === victim ? 'ledger2' : before[partition]),
      );
    };
    await waitFor('the other node has it, and this one all else that it had', 60_000, settled);
    const ready = await get(back, '/readyz');
    t.equal(ready.status, 503);
    t.match(ready.text, new RegExp(`damaged, not served: log corrupt: accounts/${victim}\\b`));
    t.match((await get(back, '/metrics')).text, /^daftari_partitions_damaged 1$/m);
    t.equal(told().length, 1, 'it is told once');
    const damaged = async () =>
      (await cluster.partitions()).filter(({ damaged_on: nodes }) => nodes.length > 0);
    await waitFor('the front has heard of it', 60_000, async () => (await damaged()).length > 0);
    t.hasStrict(await damaged(), [
      { group: 'accounts', partition: victim, node: 'ledger2', damaged_on: ['ledger1'] },
    ]);

    const then = load.answered;
    await waitFor('creates are answered', 60_000, () => load.answered > then + 300);
    const report = await load.stop();
    t.strictSame(notCreated(report.journal), []);
    t.ok(await settled(), 'nothing has moved since');
    t.equal(back.exitStatus(), null);
    if (which === 'newest') return;

    // What it knows does not depend on where the damage is.
    await ended(back);
    const { length } = logged(back);
    const again = await cluster.add('ledger1', 'ledger');
    await waitFor('it has all else that it had again', 60_000, settled);
    t.match(
      (await get(again, '/readyz')).text,
      new RegExp(`damaged, not served: log corrupt: accounts/${victim}\\b`),
    );
    const said = logged(again)
      .slice(length)
      .map(({ message }) => message);
    t.ok(said.indexOf(DAMAGED) < said.indexOf('started'), 'it knew before it took anything');

    await ended(again);
    mend();
    const whole = await cluster.add('ledger1', 'ledger');
    await waitFor('it has what it had before', 60_000, async () => {
      return (await ownersOf(cluster)).every((node, partition) => node === before[partition]);
    });
    await untilReady([whole]);
    t.notOk(existsSync(join(whole.dataDir, 'damaged.json')));
  });
}
