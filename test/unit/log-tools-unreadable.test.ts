// A partition of the log whose reader is ended by it (wal/unreadable.ts) is told as damaged, and keeps nothing from the others.
import t from 'tap';
import { encodeRecord } from '../../src/domain/event-codec.ts';
import { makeId } from '../../src/domain/id.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { walTools } from '../../wal/tools/all.ts';
import { noteUnreadable } from '../../wal/unreadable.ts';
import { opened, START } from './domain/scenario.ts';
import { runTool } from './wal/run-tool.ts';
import { next } from './wal/tool-logs.ts';

const PARTITIONS = [0, 1, 2];
const DAMAGED = 1;

async function logOf(records: number): Promise<string> {
  const directory = next();
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure, batchRecordsMax: 1 });
  for (const number of PARTITIONS) {
    const partition = log.openPartition('accounts', number, { epoch: 1, replica: null, onDurable() {} });
    for (let n = 0; n < records; n += 1) {
      const accountId = makeId('account', `01M7XZDPYD000C65AR95C6T${number}0${n}`);
      partition.append(encodeRecord({ accountId, at: START, events: [opened] }));
    }
    await partition.drained();
  }
  await log.close();
  return directory;
}

for (const [from, batch, sequence] of [
  ['its beginning', 0, 1],
  ['a batch', 3, 2],
] as const) {
  t.test(`from ${from} on`, async (t) => {
    const directory = await logOf(5);
    noteUnreadable(directory, {
      names: PARTITIONS.map((partition) => ({ group: 'accounts', partition })),
      places: [{ group: 'accounts', partition: DAMAGED, batch, ending: 'SIGBUS' }],
      views: null,
    });
    const run = async (name: string, ...args: string[]) => {
      const tools = [...walTools, ...logTools];
      const { status, out } = await runTool(tools, name, '--data', directory, '--json', ...args);
      return { status, report: out === '' ? null : JSON.parse(out) };
    };
    const problem = /a process that reads it is ended \(SIGBUS\)/;
    const fault = { group: 'accounts', partition: DAMAGED, problem };
    const verified = await run('verify');
    t.match(verified, { status: 1, report: { records: sequence - 1 + 10, faults: [fault] } });
    t.match(verified.report.faults.at(-1), { batch: Math.max(1, batch), sequence });
    t.match(await run('replay'), { status: 1, report: { records: sequence - 1 + 10, faults: [fault] } });
    t.match(await run('inspect'), {
      status: 1,
      report: { partitions: [{ records: 5 }, fault, { records: 5 }] },
    });
    for (const [name, ...args] of [['backup'], ['archive', '--before', '2999-01-01']] as const) {
      t.match(await run(name, '--to', next(), ...args), {
        status: 1,
        report: { segments: [{ partition: 0 }, { partition: 2 }] },
      });
    }
  });
}
