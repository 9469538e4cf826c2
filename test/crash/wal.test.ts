// The log's writer is killed with SIGKILL in the middle of its work, again and again on the same directory. Every time,
// everything it acknowledged is there, the chain holds, and it goes on with the next epoch.
//
// Environment: WAL_CRASH_CYCLES (20), SEED (random; printed, rerun with it).
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import type { Test } from 'tap';
import { LogReader } from '../../wal/log-reader.ts';
import { recordAt } from './wal-record.ts';
import { randomFrom, seedOf } from '../seed.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const cycles = Number(process.env['WAL_CRASH_CYCLES'] ?? 20);
const seed = seedOf(t);
const partitions = 3;
const directory = temporaryDirectory(t);

const random = randomFrom(seed);
/** Highest acknowledged sequence of each partition, over all cycles. */
const acknowledged = new Map<number, number>();
/** Up to where each partition was proven; the next cycle goes on from there. */
const proven = new Map<number, { batch: number; sequence: number }>();

t.test(`${cycles} kills lose nothing that was acknowledged`, async (t) => {
  for (let cycle = 1; cycle <= cycles; cycle += 1) {
    const startedAt = await writeAndKill(cycle, 1 + Math.floor(random() * 300));
    for (const [partition, sequence] of startedAt) {
      // Recovery found what the check before it found: nothing appeared or vanished in between.
      const found = proven.get(partition)?.sequence ?? 0;
      if (sequence !== found) t.fail(`cycle ${cycle}: started at ${sequence}, not ${found}`);
    }
    await prove(t, cycle);
  }
  t.ok(
    [...acknowledged.values()].every((sequence) => sequence > cycles),
    'every partition got somewhere',
  );
});

/** Kills the writer after so many acknowledgements; the disk is then at work on the next batch. */
async function writeAndKill(epoch: number, acknowledgements: number): Promise<Map<number, number>> {
  const writer = join(import.meta.dirname, 'wal-writer.ts');
  const args = [writer, directory, `${partitions}`, `${epoch}`, `${1 + Math.floor(random() * 40)}`];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const startedAt = new Map<number, number>();
  let count = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    const [word, place = '', sequence = ''] = line.split(' ');
    if (word === 'ready') startedAt.set(Number(place.split('/')[1]), Number(sequence));
    if (word !== 'acked') continue;
    acknowledged.set(Number(place), Number(sequence));
    count += 1;
    if (count === acknowledgements) child.kill('SIGKILL');
  }
  return startedAt;
}

async function prove(t: Test, cycle: number): Promise<void> {
  const reader = LogReader.openReader({ directory });
  for (let partition = 0; partition < partitions; partition += 1) {
    let { batch, sequence } = proven.get(partition) ?? { batch: 0, sequence: 0 };
    // Every tenth time from the very first batch, so that old ones are seen to stay.
    if (cycle % 10 === 0) [batch, sequence] = [0, 0];
    for (const read of reader.read('accounts', partition, { afterBatch: batch })) {
      for (const record of read.records) {
        sequence += 1;
        const same = record === recordAt(partition, sequence);
        if (!same) t.fail(`cycle ${cycle}: ${partition}/${sequence} has changed`);
      }
      ({ batch } = read);
    }
    const wanted = acknowledged.get(partition) ?? 0;
    if (sequence < wanted) t.fail(`cycle ${cycle}: ${partition} ends at ${sequence}, not ${wanted}`);
    proven.set(partition, { batch, sequence });
  }
  await reader.close();
}
