// A process that reads what may be damaged is there to die, and what is in its memory then may be kept: it has no secrets.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { runReader } from '../../src/damage/reader-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

t.test('of the settings of whoever started it a reader has none', async (t) => {
  const program = join(temporaryDirectory(t), 'reader.mjs');
  writeFileSync(program, 'console.log(JSON.stringify(Object.keys(process.env)));');
  for (const name of ['MASTER_KEY', 'OPERATOR_TOKEN', 'NATS_URL', 'A_SECRET_OF_RAILS']) {
    process.env[name] = 'a-secret';
    t.teardown(() => delete process.env[name]);
  }
  const said: string[][] = [];
  const onSaid = (names: string[]): void => void said.push(names);
  const { signal } = new AbortController();
  const { ending } = await runReader(pathToFileURL(program), [], { onSaid, signal });
  t.equal(ending, null);
  t.equal(said.length, 1);
  const known = ['PATH', 'NODE_OPTIONS', 'LD_LIBRARY_PATH'];
  t.strictSame(
    said[0]!.filter((name) => !known.includes(name)),
    [],
  );
});
