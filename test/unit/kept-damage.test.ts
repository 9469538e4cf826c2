// What a node refused is known after a restart, also where the file that says so has rotted.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { keep, readKept } from '../../src/damage/kept-damage.ts';
import { FORMAT, placesOf, writeIdentity } from '../../src/data-directory/identity.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const PARTITIONS = 3;

t.test('what was kept is read, until nothing is', async (t) => {
  const directory = temporaryDirectory(t);
  t.strictSame(readKept(directory), []);
  const kept = [{ group: 'accounts', partition: 2 }] as const;
  keep(directory, kept);
  t.strictSame(readKept(directory), kept);
  keep(directory, []);
  t.strictSame(readKept(directory), []);
});

const ofNone = ['[{"group":"accountz","partition":2}]', '[{"group":"accounts","partition":6}]'];
for (const rotten of [
  '[{"group":"acc',
  '',
  '{}',
  'null',
  '[null]',
  '[{"group":"accounts"}]',
  '[2]',
  ...ofNone,
]) {
  t.test(`of ${JSON.stringify(rotten)} any partition may have been refused`, async (t) => {
    const directory = temporaryDirectory(t);
    const identity = {
      format: FORMAT,
      partitions: PARTITIONS,
      masterKey: null,
      records: 0,
      money: null,
      cluster: false,
    };
    writeIdentity(directory, identity);
    writeFileSync(join(directory, 'damaged.json'), rotten);
    t.strictSame(readKept(directory), placesOf(PARTITIONS));
  });
}
