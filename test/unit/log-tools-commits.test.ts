// What `replay --verify` finds does not depend on when the service wrote its views: here after each record, there after all.
import t from 'tap';
import { Checkpointer } from '../../actors/runtime/checkpointer.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { groupsWithLog } from '../../src/wiring/groups.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { walTools } from '../../wal/tools/all.ts';
import { ViewStore } from '../../wal/views.ts';
import { charge, MINUTE, merchant, outcome } from './domain/scenario.ts';
import { POLICIES } from './storage-driven.ts';
import { runTool } from './wal/run-tool.ts';

const onFailure = (error: Error): never => {
  throw error;
};

t.test('the only charge of its kind that was taken back: where it lay is no difference', async (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  scenario.later(MINUTE).when(outcome(id, 'SUCCESSFUL'));
  scenario.later(MINUTE).when(outcome(id, 'REVERSED'));

  const directory = t.testdir();
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure });
  const views = ViewStore.open({ directory });
  const checkpointer = new Checkpointer(
    groupsWithLog(POLICIES),
    { read: (group, partition, { batch }) => log.read(group, partition, { afterBatch: batch }) },
    views,
  );
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
  for (const line of scenario.lines) {
    const sequence = partition.append(line);
    await partition.drained();
    await checkpointer.advance('accounts', 0, sequence, () => views.refresh());
  }
  const verify = () => runTool([...walTools, ...logTools], 'replay', '--verify', '--data', directory);
  const position = views.position('accounts', 0)!;
  const bucketOf = (status: string): string => {
    const buckets = views.reader('accounts', 0).range('bucket', { start: '', end: '~' });
    return [...buckets].find(({ key }) => key.endsWith(`\x010${status}0000`))!.key;
  };
  const [successful, reversed] = [bucketOf('3'), bucketOf('5')];
  await log.close();
  await views.close();
  const { status, out } = await verify();
  t.equal(status, 0, out);

  const again = ViewStore.open({ directory });
  const lost = { table: 'bucket', key: reversed, value: null };
  await again.commit('accounts', 0, position, [lost, { table: 'bucket', key: successful, value: null }]);
  await again.close();
  const damaged = await verify();
  t.equal(damaged.status, 1, 'without the one that it lies in, lists would lack it');
  t.match(damaged.out, /1 difference/);
});
