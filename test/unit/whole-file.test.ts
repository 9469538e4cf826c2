// What is written next may rely on it: a file written whole, and a directory with those it lies in, are on the disk under their
// names when the call returns.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeWithParents } from '../../wal/make-with-parents.ts';
import { namesSynced, traced } from '../tracer.ts';

const programOf = (path: string): string => new URL(`../../${path}`, import.meta.url).href;

t.test('its bytes are synced before it has its name, and its name before the call returns', traced, (t) => {
  const directory = t.testdir({ 'identity.json': 'before' });
  const file = join(directory, 'identity.json');
  const program = programOf('src/data-directory/whole-file.ts');
  const calls = namesSynced(
    directory,
    `import { writeWholeFile } from '${program}'; writeWholeFile('${file}', 'after');`,
  );
  t.equal(readFileSync(file, 'utf8'), 'after');
  t.match(calls, [
    /^f(data)?sync\(\d+<\/identity\.json\.new>\) = 0/,
    /^rename\("\/identity\.json\.new", "\/identity\.json"\) = 0/,
    /^fsync\(\d+<>\) = 0/,
  ]);
  t.equal(calls.length, 3);
  t.end();
});

t.test(
  'a directory has its name in each that was made for it, and in the one that was there',
  traced,
  (t) => {
    const directory = t.testdir({ there: {} });
    const program = programOf('wal/make-with-parents.ts');
    const make = `import { makeWithParents } from '${program}'; makeWithParents('${directory}/there/a/b');`;
    t.match(namesSynced(directory, make), [
      /^mkdir\("\/there\/a", 0700\) = 0/,
      /^fsync\(\d+<\/there>\) = 0/,
      /^mkdir\("\/there\/a\/b", 0700\) = 0/,
      /^fsync\(\d+<\/there\/a>\) = 0/,
    ]);
    t.match(namesSynced(directory, make), [/^mkdir\("\/there\/a\/b", 0700\) = -1 EEXIST/], 'nothing is new');
    t.end();
  },
);

t.test(
  'a mark of what is not whole has its name before that is written, and none any more when it is served',
  traced,
  (t) => {
    const directory = t.testdir({ log: {} });
    const marks = programOf('wal/unfinished.ts');
    const run = (steps: string): string[] =>
      namesSynced(directory, `import * as marks from '${marks}'; const at = '${directory}'; ${steps}`).filter(
        (call) => call.includes('sync('),
      );
    const log = /^fsync\(\d+<\/log>\) = 0/;
    const names = [log, /^fsync\(\d+<>\) = 0/];
    const itself = /^f(data)?sync\(\d+<\/log\/unfinished-import-accounts-0>\) = 0/;
    for (const [call, synced] of [
      ['markImport', [itself, ...names]],
      ['markImported', names],
    ] as const) {
      t.match(run(`await marks.${call}(at, new Map([['accounts-0', 1]]))`), synced, call);
    }
    const mark = /^f(data)?sync\(\d+<\/log\/unfinished>\) = 0/;
    t.match(run('await marks.markUnfinished(at)'), [mark, log]);
    t.ok(existsSync(join(directory, 'log', 'unfinished')));
    t.match(run('await marks.markFinished(at)'), names);
    t.notOk(existsSync(join(directory, 'log', 'unfinished')));
    t.end();
  },
);

t.test('a file is no directory', async (t) => {
  const file = join(t.testdir({ file: '' }), 'file');
  t.throws(() => makeWithParents(file), { code: 'EEXIST' });
  t.throws(() => makeWithParents(join(file, 'below')), { code: 'ENOTDIR' });
});
