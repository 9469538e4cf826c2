// The top of a new volume, which is mounted where the data directory is to be, is an empty directory: ext4 has `lost+found` there.
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { markUnfinished } from '../../../wal/unfinished.ts';
import { next, tips, tool, write } from './tool-logs.ts';

const [data, backup] = [next(), next()];

t.before(async () => {
  await write(data, 2);
  await tool('backup', '--data', data, '--to', backup);
});

function volume(): string {
  const path = next();
  mkdirSync(join(path, 'lost+found'), { recursive: true });
  return path;
}

t.test('a restore goes there, and begins anew there', async (t) => {
  const to = volume();
  t.match(await tool('restore', '--from', backup, '--to', to), { status: 0 });
  t.strictSame(await tips(to), await tips(data));
  t.match(await tool('restore', '--from', backup, '--to', to), { status: 2, err: /is not empty/ });
  await markUnfinished(to);
  t.match(await tool('restore', '--from', backup, '--to', to), { status: 0, out: /^Begun anew/ });
  const killedAtOnce = volume();
  mkdirSync(join(killedAtOnce, 'log'));
  t.match(await tool('restore', '--from', backup, '--to', killedAtOnce), { status: 0, out: /^Begun anew/ });
});

for (const format of ['segments', 'jsonl']) {
  t.test(`an export as ${format} goes there`, async (t) => {
    const to = volume();
    const args = ['--data', data, '--to', to, '--format', format];
    t.match(await tool('export', ...args), { status: 0 });
    t.ok(readdirSync(to).includes('lost+found'));
    t.match(await tool('export', ...args), { status: 2, err: /is not empty/ });
  });
}
