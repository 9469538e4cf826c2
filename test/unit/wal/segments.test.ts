// Directories of segments: what is told of a file that cannot be read.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { SegmentDirectory } from '../../../wal/tools/segment.ts';
import { next, tool, write } from './tool-logs.ts';

t.test('a file that cannot be read is named, also when that begins after its check', async (t) => {
  const [data, to] = [next(), next()];
  await write(data, 3);
  await tool('backup', '--data', data, '--to', to);
  const file = join(to, readdirSync(to).find((name) => name.startsWith('accounts-1')) ?? '');

  const source = SegmentDirectory.open(to);
  const check = source.check.bind(source);
  source.check = async (segment) => {
    await check(segment);
    rmSync(file);
  };
  const batches = source.read({ group: 'accounts', partition: 1 });
  await t.rejects(batches.next(), new RegExp(`${file} cannot be read: ENOENT`));

  mkdirSync(file);
  t.match(await tool('restore', '--from', to, '--rehearse'), {
    status: 1,
    err: new RegExp(`${file} cannot be read: EISDIR`),
  });
});
