// One process writes a directory at a time. Who was killed, or lost its power, as it did keeps nobody out.
import { once } from 'node:events';
import { existsSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { WriterLock } from '../../../wal/writer-lock.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

const directory = temporaryDirectory(t);

t.test('of two that would write at the same moment, one does', async (t) => {
  const takers = 2;
  const directories = Array.from({ length: 60 }, (_, index) => join(directory, 'taken', `${index}`));
  // Every other one was left behind by a writer that was killed.
  directories.forEach((path, index) => {
    mkdirSync(path, { recursive: true });
    if (index % 2 === 1) writeFileSync(join(path, 'writer.lock'), '999999999 1');
  });
  const arrived = new Int32Array(new SharedArrayBuffer(4 * directories.length));
  const workerData = { directories, arrived, takers };
  const all = await Promise.all(
    Array.from({ length: takers }, async () => {
      const worker = new Worker(new URL('lock-taker.ts', import.meta.url), { workerData });
      const [taken] = (await once(worker, 'message')) as [boolean[]];
      return taken;
    }),
  );
  const counts = directories.map((_, index) => all.filter((taken) => taken[index]).length);
  t.strictSame(
    counts,
    directories.map(() => 1),
  );
});

t.test('a lock whose process is gone is taken, though another process has its number now', async (t) => {
  const path = join(directory, 'numbered');
  mkdirSync(path);
  const file = join(path, 'writer.lock');
  for (const text of [`${process.pid} 1`, '999999999 1', '']) {
    writeFileSync(file, text);
    const lock = WriterLock.take(path);
    t.throws(() => WriterLock.take(path), new RegExp(`being written by process ${process.pid}$`));
    lock.release();
    t.notOk(existsSync(file));
  }
});

t.test('a lock that names no process is taken, too, where the system does not say when one started', (t) => {
  t.intercept(process, 'platform', { value: 'darwin' });
  const path = join(directory, 'nameless');
  mkdirSync(path);
  // As a power cut leaves it; then what else signals more than one process.
  for (const text of ['', '0', '-1', 'none', '999999999 ']) {
    writeFileSync(join(path, 'writer.lock'), text);
    const lock = WriterLock.take(path);
    t.throws(() => WriterLock.take(path), new RegExp(`being written by process ${process.pid}$`));
    lock.release();
  }
  writeFileSync(join(path, 'writer.lock'), `${process.ppid} `);
  t.throws(
    () => WriterLock.take(path),
    new RegExp(`being written by process ${process.ppid}$`),
    'one that lives',
  );
  t.end();
});

t.test('one that was killed while it took the lock is seen to be dead', (t) => {
  const path = join(directory, 'killed');
  const claim = join(path, 'writer.lock.claim');
  mkdirSync(path);
  const leave: ((text: string) => void)[] = [
    (text) => symlinkSync(text, claim),
    // Where there are no symbolic links.
    (text) => writeFileSync(claim, text),
  ];
  for (const left of leave) {
    left('999999999 1');
    WriterLock.take(path).release();
    t.notOk(lstatSync(claim, { throwIfNoEntry: false }));
  }
  writeFileSync(claim, '');
  t.throws(() => WriterLock.take(path), /has just begun \(if none has, remove .*writer\.lock\.claim\)/);
  t.end();
});
