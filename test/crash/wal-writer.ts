// A child process for the tests of the log: appends records that say what they are, and prints each acknowledgement to
// standard output before it does anything else. It is killed, starved of disk, or given a disk that lies and fails.
//
// node wal-writer.ts <directory> <partitions> <epoch> <records on their way> <records in all> <commit ms max>
// Prints `ready <group>/<partition> <sequence>`, `acked <partition> <sequence>`, `failed <message>`, `late` when something
// is acknowledged after a failure, and `done`.
import { writeSync } from 'node:fs';
import { WriteAheadLog } from '../../wal/log.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import { recordAt } from './wal-record.ts';

const [directory = '', ...numbers] = process.argv.slice(2);
const [partitions = 1, epoch = 0, outstanding = 1, total = Infinity, commitMsMax = 60_000] =
  numbers.map(Number);

let failed = false;
let appended = 0;
let acked = 0;
const log = WriteAheadLog.open({
  directory,
  now: Date.now,
  onFailure: fail,
  commitMsMax,
  mapBytes: 1024 * 1024,
});

for (let partition = 0; partition < partitions; partition += 1) {
  const opened = log.openPartition('accounts', partition, {
    epoch,
    replica: null,
    onDurable: ({ firstSequence, records }) =>
      acknowledge(opened, firstSequence + records.length - 1, records.length),
  });
  say(`ready accounts/${partition} ${opened.appended}`);
  for (let count = 0; count < outstanding; count += 1) append(opened);
}

function append(log: PartitionLog): void {
  if (appended === total) return;
  appended += 1;
  log.append(recordAt(log.partition, log.appended + 1));
}

function acknowledge(log: PartitionLog, sequence: number, count: number): void {
  say(failed ? 'late' : `acked ${log.partition} ${sequence}`);
  acked += count;
  for (let again = 0; again < count; again += 1) append(log);
  if (acked === total) void finish();
}

async function finish(): Promise<void> {
  await log.close();
  say('done');
}

function fail(error: Error): void {
  failed = true;
  say(`failed ${error.message}`);
  // What must not come comes soon, if it comes.
  setTimeout(() => process.exit(3), 100);
}

function say(line: string): void {
  writeSync(1, `${line}\n`);
}
