// What the tools find does not depend on when the service wrote its views: here after each record, there after all, or not to the end.
import t, { type Test } from 'tap';
import { Checkpointer } from '../../actors/runtime/checkpointer.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { groupsWithLog } from '../../src/storage/groups.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { walTools } from '../../wal/tools/all.ts';
import { ViewStore } from '../../wal/views.ts';
import { ACCOUNT, charge, MINUTE, merchant, outcome } from './domain/scenario.ts';
import { POLICIES } from './storage-driven.ts';
import { runTool } from './wal/run-tool.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const onFailure = (error: Error): never => {
  throw error;
};

const run = (...args: string[]) => runTool([...walTools, ...logTools], ...args);

/** A log of these records, with views that were written after each. */
async function checkpointed(
  t: Test,
  lines: readonly string[],
): Promise<{ directory: string; views: ViewStore }> {
  const directory = temporaryDirectory(t);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure });
  const views = ViewStore.open({ directory });
  const checkpointer = new Checkpointer(
    groupsWithLog(POLICIES),
    { read: (group, partition, { batch }) => log.read(group, partition, { afterBatch: batch }) },
    views,
  );
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
  for (const line of lines) {
    const sequence = partition.append(line);
    await partition.drained();
    await checkpointer.advance('accounts', 0, sequence, () => views.refresh());
  }
  await log.close();
  return { directory, views };
}

t.test('the only charge of its kind that was taken back: where it lay is no difference', async (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  scenario.later(MINUTE).when(outcome(id, 'SUCCESSFUL'));
  scenario.later(MINUTE).when(outcome(id, 'REVERSED'));

  const { directory, views } = await checkpointed(t, scenario.lines);
  const verify = () => run('replay', '--verify', '--data', directory);
  const position = views.position('accounts', 0)!;
  const bucketOf = (status: string): string => {
    const buckets = views.reader('accounts', 0).range('bucket', { start: '', end: '~' });
    return [...buckets].find(({ key }) => key.endsWith(`\x010${status}0000`))!.key;
  };
  const [successful, reversed] = [bucketOf('3'), bucketOf('5')];
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

t.test(
  'rows of a checkpoint that do not count yet, or no more, are not taken for what the log says',
  async (t) => {
    const scenario = merchant();
    const { id } = scenario.create(charge());
    scenario.later(MINUTE).when(outcome(id, 'SUCCESSFUL'));
    const { directory, views } = await checkpointed(t, scenario.lines);
    t.teardown(() => views.close());
    const rows = [...views.rows('accounts', 0)];
    const tip = views.position('accounts', 0);
    const account = ['inspect', '--account', ACCOUNT, '--data', directory];
    t.match(await run(...account), { status: 0, out: /pending \d/ });

    // As far as a snapshot, or a removal, had come whose process was killed, or is still at it.
    await views.drop('accounts', 0);
    const some = rows.filter(({ table }) => table !== 'transaction');
    await views.commit('accounts', 0, null, some);
    const uncounted = /accounts.0: .* is being made, or that was cut short/;
    t.match(await run('verify', '--data', directory), { status: 0, out: uncounted });
    t.match(await run(...account), { status: 2, err: uncounted });
    const compare = ['replay', '--verify', '--data', directory];
    t.match(await run(...compare), { status: 0, out: /accounts.0: .* cut short.* it was not compared/ });

    const other = { table: 'format', key: '', value: '1' };
    await views.commit('accounts', 0, tip, [other]);
    t.match(await run('verify', '--data', directory), { status: 0, out: /accounts.0: .* another version's/ });
    t.match(await run(...compare), { status: 0, out: /accounts.0: .* another version's.* not compared/ });
    t.match(await run(...account), { status: 2, err: /accounts.0: .* another version's.* replay --account/ });

    await views.drop('accounts', 0);
    const begun = rows.filter(({ table }) => table === 'format');
    await views.commit('accounts', 0, { sequence: 0, batch: 0, hash: Buffer.alloc(32) }, begun);
    t.match(await run(...compare), { status: 0, out: / 0 differences from the checkpoint/ }, 'only begun');

    await views.drop('accounts', 0);
    t.match(
      await run(...account),
      { status: 0, out: /pending \d/ },
      'where there are no rows the log has it all',
    );
  },
);

t.test('an account is not shown by a checkpoint of what is in the log no more', async (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  const before = [...scenario.lines];
  scenario.later(MINUTE).when(outcome(id, 'SUCCESSFUL'));
  const { views: cutOff } = await checkpointed(t, scenario.lines);
  t.teardown(() => cutOff.close());
  // Another node went on with something else there, and the views have not followed.
  const { directory, views } = await checkpointed(t, [...before, ...before.slice(-1)]);
  t.teardown(() => views.close());
  await views.drop('accounts', 0);
  await views.commit('accounts', 0, cutOff.position('accounts', 0), [...cutOff.rows('accounts', 0)]);

  t.match(await run('inspect', '--account', ACCOUNT, '--data', directory), {
    status: 2,
    out: '',
    err: /accounts.0: its checkpoint was made from another log.*: use replay --account/,
  });
});
