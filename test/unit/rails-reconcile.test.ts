// `npm run rails -- reconcile` beside a service: what it reads, it reads in short read transactions.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { reconcile } from '../../src/rails/tools/reconcile.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { BATCHES_A_BREATH } from '../../wal/tools/priority.ts';
import { charge, merchant, MINUTE, outcome } from './domain/scenario.ts';
import { runTool } from './wal/run-tool.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const BREATHS = 8;

t.test('of a long log no read transaction lasts as long as reading it does', async (t) => {
  const directory = temporaryDirectory(t);
  const scenario = merchant();
  while (scenario.lines.length < (BREATHS + 1) * BATCHES_A_BREATH) {
    const { id } = scenario.create(charge({}, { idempotencyKey: `key-${scenario.lines.length}` }));
    scenario.later(MINUTE).when(outcome(id, 'SUCCESSFUL'));
  }
  const log = WriteAheadLog.open({
    directory,
    now: Date.now,
    onFailure: (error) => void t.fail(error.message),
  });
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
  for (const line of scenario.lines) {
    partition.append(line);
    await partition.drained();
  }
  await log.close();
  const statement = join(directory, 'statement.csv');
  writeFileSync(statement, 'reference,amount,currency,time,type\n');

  let turns = 0;
  const count = (): void => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  const period = ['--from', '2020-01-01', '--to', '2100-01-01'];
  const asked = ['--route', 'mtn_ug', '--statement', statement, '--data', directory, ...period];
  const { status, out } = await runTool([reconcile], 'reconcile', ...asked);
  clearImmediate(next);
  t.equal(status, 1, 'nothing of it is in the statement');
  t.match(out, /^mtn_ug, .*: 0 agree, [1-9]\d\d do not\.$/m);
  t.ok(turns >= 2 * BREATHS, `${turns} turns, and it is read twice`);
});
