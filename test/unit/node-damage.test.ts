// What a node does about partitions that it has refused because its log of them is damaged, when it starts again: it refuses them until
// they are found whole, and those that nobody could look at, too.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { PartitionPlace } from '../../src/bus/bus.ts';
import { keep, readKept } from '../../src/damage/kept-damage.ts';
import { NodeDamage } from '../../src/damage/node-damage.ts';
import { FORMAT, writeIdentity } from '../../src/data-directory/identity.ts';
import { createLog } from '../../src/observability/log.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { damage, written } from './wal/rewriting.ts';

const [ROTTEN, WHOLE]: PartitionPlace[] = [
  { group: 'accounts', partition: 0 },
  { group: 'accounts', partition: 1 },
];

/** A directory whose log has one partition, of which a batch has rotted; and what a start before this one has refused. */
async function refused(t: Test, ...kept: PartitionPlace[]) {
  const { directory, log } = await written(10);
  await log.close();
  await damage(directory, 3);
  const identity = { partitions: 2, masterKey: null, records: 0, money: null, cluster: true };
  writeIdentity(directory, { format: FORMAT, ...identity });
  keep(directory, kept);
  const told: PartitionPlace[] = [];
  const node = new NodeDamage({
    directory,
    log: createLog({ level: 'fatal', node: 'n1', stream: { write() {} } }),
    metrics: new Metrics(),
    onRefused: (group, partition) => told.push({ group, partition }),
  });
  t.teardown(() => node.stop());
  return { directory, node, told };
}

t.test('what is still damaged is refused again, and what is whole is not', async (t) => {
  const { directory, node, told } = await refused(t, ROTTEN!, WHOLE!);
  await node.checkKept();
  t.strictSame(node.damaged.partitions(), [ROTTEN]);
  t.strictSame(readKept(directory), [ROTTEN], 'nor is it by the next start');
  t.strictSame(told, [], 'nobody had it');
  await node.checkAll();
  t.strictSame(told, [], 'it is known');
});

t.test('all are refused where nobody can look at them', async (t) => {
  const { directory, node } = await refused(t, ROTTEN!, WHOLE!);
  rmSync(join(directory, 'log'), { recursive: true });
  await node.checkKept();
  t.strictSame(node.damaged.partitions(), [ROTTEN, WHOLE]);
  t.match(node.damaged.problem, /was damaged, and could not be checked/);
  t.strictSame(readKept(directory), [ROTTEN, WHOLE]);
});

t.test('what is found damaged is refused from then on, also by the next start', async (t) => {
  const { directory, node, told } = await refused(t);
  await node.checkKept();
  t.equal(node.damaged.size, 0);
  await node.checkAll();
  t.strictSame(told, [ROTTEN]);
  t.strictSame(readKept(directory), [ROTTEN]);
  node.refuse('accounts', 0, new Error('once more'));
  t.strictSame(told, [ROTTEN], 'once');
});
