// Views: rows and the position they reach, together or not at all, written by one thread and read by another.
import fc from 'fast-check';
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import type { Test } from 'tap';
import type { Row } from '../../../wal/types.ts';
import { ViewStore } from '../../../wal/views.ts';
import { seedOf } from '../../seed.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

const SEED = seedOf(t);

const root = temporaryDirectory(t);
let opened = 0;

function openStore(t: Test): { store: ViewStore; directory: string } {
  opened += 1;
  const directory = join(root, `${opened}`);
  const store = ViewStore.open({ directory });
  t.teardown(() => store.close());
  return { store, directory };
}

const at = (sequence: number) => ({ sequence, batch: sequence, hash: Buffer.alloc(32, sequence) });

t.test('rows are written, replaced and deleted with the position they reach', async (t) => {
  const { store } = openStore(t);
  const views = store.reader('accounts', 1);
  t.equal(store.position('accounts', 1), null);
  await store.commit('accounts', 1, at(1), [
    { table: 'charges', key: 'a', value: 'one' },
    { table: 'charges', key: 'b', value: 'ünï €' },
    { table: 'payouts', key: 'a', value: '' },
  ]);
  t.strictSame(store.position('accounts', 1), at(1));
  t.equal(views.get('charges', 'a'), 'one');
  t.equal(views.get('charges', 'b'), 'ünï €');
  t.equal(views.get('payouts', 'a'), '');
  t.equal(views.get('payouts', 'b'), undefined);
  t.equal(store.reader('accounts', 11).get('charges', 'a'), undefined, 'a partition sees its own rows only');
  await store.commit('accounts', 1, at(2), [
    { table: 'charges', key: 'a', value: null },
    { table: 'charges', key: 'never', value: null },
    { table: 'charges', key: 'b', value: 'x'.repeat(100_000) },
  ]);
  t.equal(views.get('charges', 'a'), undefined);
  t.equal(views.get('charges', 'b')?.length, 100_000);
  t.strictSame(store.position('accounts', 1), at(2));
});

t.test('the partitions that were checkpointed are known by their positions', async (t) => {
  const { store } = openStore(t);
  t.strictSame(store.partitionNames(), []);
  const names = [1, 10, 2].map((partition) => ({ group: 'accounts', partition }));
  names.push({ group: 'webhooks', partition: 1 });
  for (const { group, partition } of names) {
    await store.commit(group, partition, at(1), [{ table: 'list', key: 'a/1', value: 'x' }]);
  }
  t.strictSame(store.partitionNames(), names);
  await store.drop('accounts', 10);
  t.strictSame(
    store.partitionNames(),
    names.filter(({ partition }) => partition !== 10),
  );
});

t.test('all rows of all partitions can be read through', async (t) => {
  const { store } = openStore(t);
  t.equal(store.readAll(), 0);
  for (const group of ['accounts', 'webhooks']) {
    await store.commit(group, 3, at(1), [
      { table: 'list', key: '', value: '' },
      { table: 'list', key: '€', value: 'x' },
    ]);
  }
  t.equal(store.readAll(), 6, 'positions are rows too');
});

t.test('every row of a partition can be read, and no other', async (t) => {
  const { store } = openStore(t);
  const rows = ['', 'a', 'a/b', '€'].map((key): Row => ({ table: 'list', key, value: `value of ${key}` }));
  for (const partition of [0, 1, 10, 2]) await store.commit('accounts', partition, at(1), rows);
  await store.commit('webhooks', 1, at(1), rows);
  t.strictSame([...store.rows('accounts', 1)], rows);
  t.strictSame([...store.rows('accounts', 3)], []);
});

t.test('who still reads rows when the views are closed is told, and ends no process', async (t) => {
  const store = ViewStore.open({ directory: join(root, 'closed') });
  const rows = Array.from({ length: 10_000 }, (_, i): Row => ({ table: 't', key: String(i), value: 'v' }));
  await store.commit('accounts', 0, at(1), rows);
  const readers = Array.from({ length: 4 }, () => store.rows('accounts', 0));
  const [whole, goesOn, ends, late] = readers;
  t.equal([...whole!].length, rows.length);
  for (const reader of [goesOn, ends]) t.notOk(reader!.next().done);
  await store.close();
  // What lacks an end must not be taken for all.
  for (const reader of [goesOn, late]) t.throws(() => reader!.next(), /the views were closed/);
  t.strictSame(ends!.return(), { done: true, value: undefined });
});

t.test('rows without a position are strays, of their own partition alone, and no views', async (t) => {
  const { store } = openStore(t);
  const row = { table: 'list', key: 'a', value: 'x' };
  await store.commit('accounts', 1, null, [row]);
  await store.commit('accounts', 2, at(1), [row]);
  const stray = [0, 1, 10, 2].filter((partition) => store.hasStrayRows('accounts', partition));
  t.strictSame(stray, [1]);
  t.strictSame(store.partitionNames(), [{ group: 'accounts', partition: 2 }]);
  await store.commit('accounts', 1, at(1), []);
  t.notOk(store.hasStrayRows('accounts', 1));
});

t.test('ranges are ordered by UTF-8 bytes, both ways, with a limit', async (t) => {
  const { store } = openStore(t);
  const views = store.reader('accounts', 0);
  const keys = ['', ' ', '0', 'A', 'a', 'a/b', 'aa', 'b', 'z', '~', 'é', 'ü', '€', '\u{1f600}'];
  const rows = keys.map((key): Row => ({ table: 'list', key, value: `value of ${key}` }));
  await store.commit('accounts', 0, at(1), [
    ...rows.toReversed(),
    { table: 'lis', key: 'x', value: 'before' },
    { table: 'listed', key: 'x', value: 'after' },
  ]);
  const found = (options: object): string[] =>
    [...views.range('list', { start: '', end: '\u{10ffff}', ...options })].map(({ key }) => key);
  t.strictSame(found({}), keys);
  t.strictSame(found({ reverse: true }), keys.toReversed());
  t.strictSame(found({ limit: 3 }), keys.slice(0, 3));
  t.strictSame(found({ limit: 2, reverse: true }), ['\u{1f600}', '€']);
  t.strictSame(found({ start: 'a', end: 'b' }), ['a', 'a/b', 'aa'], 'start included, end excluded');
  t.strictSame(found({ start: 'a', end: 'b', reverse: true }), ['aa', 'a/b', 'a']);
  t.hasStrict(
    [...views.range('list', { start: 'a', end: 'aa', limit: 1 })],
    [{ key: 'a', value: 'value of a' }],
  );
});

t.test('a range is what sorting and filtering all rows would give', async (t) => {
  const { store } = openStore(t);
  const views = store.reader('accounts', 0);
  const text = fc
    .string({ unit: 'grapheme', maxLength: 6 })
    .filter((key) => !key.includes('\0') && key.isWellFormed());
  const keys = [...new Set(fc.sample(text, { seed: SEED, numRuns: 300 }))];
  const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
  await store.commit(
    'accounts',
    0,
    at(1),
    keys.map((key) => ({ table: 't', key, value: key })),
  );
  fc.assert(
    fc.property(fc.constantFrom(...keys), fc.constantFrom(...keys), fc.boolean(), (start, end, reverse) => {
      const wanted = keys
        .filter((key) => byBytes(key, start) >= 0 && byBytes(key, end) < 0)
        .toSorted(byBytes);
      const found = [...views.range('t', { start, end, reverse })].map(({ key }) => key);
      t.strictSame(found, reverse ? wanted.toReversed() : wanted);
    }),
    { seed: SEED },
  );
});

t.test('a partition is dropped, and no other', async (t) => {
  const { store } = openStore(t);
  const rows = Array.from({ length: 25_000 }, (_, n): Row => ({ table: 't', key: `${n}`, value: 'v' }));
  for (const partition of [1, 10, 2]) await store.commit('accounts', partition, at(1), rows);
  await store.drop('accounts', 1);
  t.equal(store.position('accounts', 1), null);
  t.strictSame([...store.reader('accounts', 1).range('t', { start: '', end: '\u{10ffff}' })], []);
  t.equal([...store.reader('accounts', 10).range('t', { start: '', end: '\u{10ffff}' })].length, 25_000);
  t.strictSame(store.position('accounts', 2), at(1));
});

t.test('a key that cannot be kept is refused', async (t) => {
  const { store } = openStore(t);
  const row = (table: string, key: string): Promise<void> =>
    store.commit('accounts', 0, at(1), [
      { table: 't', key: 'first', value: 'v' },
      { table, key, value: 'v' },
    ]);
  await t.rejects(row('t', 'a\0b'), /not a view key/);
  await t.rejects(row('t/u', 'a'), /not a view key/);
  await t.rejects(row('t', 'ü'.repeat(1000)), /too long/);
  await t.rejects(row('t', '€'.repeat(700)), /too long/);
  await row('t', 'x'.repeat(1900));
  t.equal(store.reader('accounts', 0).get('t', 'x'.repeat(1900)), 'v');
});

t.test('a worker thread writes while the main thread reads', async (t) => {
  const { store, directory } = openStore(t);
  const views = store.reader('accounts', 0);
  const worker = new Worker(new URL('./views-writer.ts', import.meta.url), {
    workerData: { directory, commits: 50 },
  });
  const done = new Promise<number>((resolve) => worker.on('exit', resolve));
  const seen: number[] = [];
  worker.on('message', (sequence: number) => {
    store.refresh();
    // What the worker says it has committed is here, whole.
    const position = store.position('accounts', 0)?.sequence ?? 0;
    if (position < sequence) t.fail(`said ${sequence}, found ${position}`);
    for (let n = 0; n < 100; n += 1) {
      if (Number(views.get('t', `key ${n}`)) < sequence) t.fail(`row ${n} is behind`);
    }
    seen.push(sequence);
  });
  t.equal(await done, 0);
  t.equal(seen.length, 50);
  t.equal(views.get('t', 'key 99'), '50');
  await store.commit('accounts', 0, at(51), [{ table: 't', key: 'key 99', value: 'main' }]);
  t.equal(views.get('t', 'key 99'), 'main', 'the environment outlives the worker');
});

t.test('a read-only store sees what is committed', async (t) => {
  const { store, directory } = openStore(t);
  await store.commit('accounts', 0, at(1), [{ table: 't', key: 'a', value: 'v' }]);
  const other = ViewStore.open({ directory, readOnly: true });
  t.teardown(() => other.close());
  t.equal(other.reader('accounts', 0).get('t', 'a'), 'v');
  t.strictSame(other.position('accounts', 0), at(1));
});

t.test('views without a name, as a tool has them, tell of a disk that is full like others', async (t) => {
  const small = join(root, 'small');
  mkdirSync(small);
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', small]).status !== 0) {
    t.pass('mounting needs root');
    return;
  }
  const directory = join(small, 'gone');
  const store = ViewStore.open({ directory });
  rmSync(directory, { recursive: true });
  const rows = [{ table: 't', key: 'a', value: 'v'.repeat(2 * 1024 * 1024) }];
  await t.rejects(store.commit('accounts', 0, at(1), rows), /did not commit .*\/gone\/.* 0 MiB free\)/);
  await store.close();
  t.equal(spawnSync('umount', [small]).status, 0);
});
