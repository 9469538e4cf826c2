// A bit that turned over in a key by which LMDB searches: it finds what lies before the place that was asked for, again and again.
// Whoever looks for the partitions of a log, or of views, comes to an end all the same.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { isPageFault, openLogDatabase, openViewsDatabase } from '../../../wal/lmdb.ts';
import { LogReader, LogUnsearchable } from '../../../wal/log-reader.ts';
import { ViewStore } from '../../../wal/views.ts';
import { next, tool, write } from './tool-logs.ts';

const PAGE_BYTES = 4_096;
const HEADER_BYTES = 24;
const BRANCH = 0x01;
/** Of a page that says which transaction was the last, and where the keys begin. */
const TRANSACTION_AT = 152;
const ROOT_AT = 136;
/** Of a node: before its key. */
const NODE_BYTES = 8;

/** Where the keys of the pages lie that lead to others. */
function keysIn(file: Buffer): number[] {
  const places: number[] = [];
  for (let page = 0; page < file.length; page += PAGE_BYTES) {
    if (file.readUInt16LE(page + 18) !== BRANCH) continue;
    const count = file.readUInt16LE(page + 20) / 2;
    for (let index = 0; index < count; index += 1) {
      const node = page + HEADER_BYTES + file.readUInt16LE(page + HEADER_BYTES + 2 * index);
      const bytes = file.readUInt16LE(node + 6);
      for (let at = 0; at < bytes; at += 1) places.push(node + NODE_BYTES + at);
    }
  }
  return places;
}

/** `look` at a copy for each of the keys' bytes. */
async function turnEach(
  t: Test,
  sound: string,
  which: 'log' | 'views',
  look: (directory: string) => Promise<string>,
): Promise<void> {
  const bytes = readFileSync(join(sound, which, 'data.mdb'));
  const places = keysIn(bytes);
  t.ok(places.length > 0, 'there are such pages');
  const told = new Set<string>();
  for (const at of places) {
    const directory = next();
    mkdirSync(join(directory, which), { recursive: true });
    const turned = Buffer.from(bytes);
    turned[at]! ^= 0x80;
    writeFileSync(join(directory, which, 'data.mdb'), turned);
    told.add(await look(directory));
    rmSync(directory, { recursive: true });
  }
  t.ok(told.has('accounts/0 accounts/1 webhooks/0'), 'most are not met');
  t.ok(told.has('out of order'), 'and some are');
}

const namesOf = (found: readonly { group: string; partition: number }[]): string =>
  found.map(({ group, partition }) => `${group}/${partition}`).join(' ');

t.test('in a log', async (t) => {
  const sound = next();
  await write(sound, 40);
  await turnEach(t, sound, 'log', async (directory) => {
    const log = LogReader.openReader({ directory });
    try {
      return namesOf(log.partitionNames());
    } catch (error) {
      if (error instanceof LogUnsearchable) return 'out of order';
      throw error;
    } finally {
      await log.close();
    }
  });
});

t.test('in views', async (t) => {
  const sound = next();
  const views = ViewStore.open({ directory: sound });
  const rows = Array.from({ length: 400 }, (_, n) => ({ table: 'row', key: `${n}`, value: 'x'.repeat(50) }));
  const position = { sequence: 1, batch: 1, hash: Buffer.alloc(32) };
  for (const [group, partition] of [
    ['accounts', 0],
    ['accounts', 1],
    ['webhooks', 0],
  ] as const) {
    await views.commit(group, partition, position, rows);
  }
  await views.close();
  await turnEach(t, sound, 'views', async (directory) => {
    const turned = ViewStore.open({ directory, readOnly: true });
    try {
      return namesOf(turned.partitionNames());
    } catch (error) {
      if (isPageFault(error)) return 'out of order';
      throw error;
    } finally {
      await turned.close();
    }
  });
});

t.test('a key that names no partition is told, too', async (t) => {
  const directory = next();
  await write(directory, 1);
  const database = openLogDatabase({ directory });
  await database.put(['accounts', 70_000, 1], Buffer.alloc(3));
  await database.close();
  const log = LogReader.openReader({ directory });
  t.throws(() => log.partitionNames(), { message: /cannot be read: .*keys are no partitions/ });
  await log.close();
});

t.test('views whose keys name none keep nothing from a backup or an export', async (t) => {
  const directory = next();
  await write(directory, 1);
  const rows = openViewsDatabase({ directory });
  await rows.put('accounts/1/row', 'x');
  await rows.put('accounts/x/row', 'x');
  await rows.close();
  for (const name of ['backup', 'export']) {
    t.match(await tool(name, '--data', directory, '--to', next()), {
      status: 0,
      out: /^Whether the end of the log is lost was not looked at: .* no partitions/m,
    });
  }
});

t.test('nor is gone on from before the last transaction, by a bit in what says which that was', async (t) => {
  const directory = next();
  const database = openLogDatabase({ directory });
  for (let batch = 1; batch <= 5; batch += 1) await database.put(['accounts', 0, batch], Buffer.alloc(batch));
  await database.close();
  const file = join(directory, 'log', 'data.mdb');
  const sound = readFileSync(file);
  const [older, newest] = [0, PAGE_BYTES];
  const transactionIn = (page: number): bigint => sound.readBigUInt64LE(page + TRANSACTION_AT);
  t.strictSame([transactionIn(older), transactionIn(newest)], [4n, 5n]);
  const opens = async (bytes: Buffer): Promise<boolean> => {
    writeFileSync(file, bytes);
    try {
      await openLogDatabase({ directory, readOnly: true }).close();
      return true;
    } catch (error) {
      t.match(error, {
        message: /data\.mdb is damaged: its first two pages .* restore the log from a backup/,
      });
      return false;
    }
  };
  const taken: string[] = [];
  const turn = async (place: number, bits: number): Promise<void> => {
    for (let bit = 0; bit < bits; bit += 1) {
      const turned = Buffer.from(sound);
      turned[place + (bit >> 3)]! ^= 1 << (bit & 7);
      if (await opens(turned)) taken.push(`${place}, bit ${bit}`);
    }
  };
  await turn(older + TRANSACTION_AT, 64);
  await turn(newest + TRANSACTION_AT, 64);
  // To another page that is there: only that was written before.
  t.equal(sound.readBigUInt64LE(newest + ROOT_AT), 3n);
  await turn(newest + ROOT_AT, 3);
  t.strictSame(taken, []);
  // What LMDB leaves of a commit that failed as its page was written: the number of the one before, and what it would have named.
  const failed = Buffer.from(sound);
  sound.copy(failed, older + ROOT_AT, newest + ROOT_AT, newest + ROOT_AT + 8);
  t.ok(await opens(failed));
  t.ok(await opens(sound));
});
