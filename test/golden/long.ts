// Makes the golden log of a new version: node_modules/.bin/node test/golden/long.ts vN. A version once committed is never made again.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportTool } from '../../wal/tools/export.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { Progress } from '../../wal/tools/progress.ts';
import { liveIn } from './life.ts';
import { stateOf } from './state.ts';

const version = process.argv[2] ?? '';
const target = join(import.meta.dirname, version);
if (!/^v\d+$/.test(version) || existsSync(target)) {
  throw new Error('name a version that is not there yet, as v and its number');
}
const directory = mkdtempSync(join(tmpdir(), 'daftari-golden-'));
const lived = await liveIn(directory);
mkdirSync(target);
const progress = new Progress({ write: () => {}, shown: false, overwrites: false });
await exportTool.run({ directory, values: { to: join(target, 'log') }, progress });
const write = (name: string, content: object): void =>
  writeFileSync(join(target, name), `${JSON.stringify(content, null, 1)}\n`);
write('state.json', await stateOf(directory));
const ends = await beforeRetention(directory);
write('lived.json', { ...lived, beforeRetention: ends });
write('deliveries.json', (await stateOf(directory, ends)).deliveries);
rmSync(directory, { recursive: true });
console.log(`${target} is made. Look at it, then commit it.`);

/** Where each webhooks partition stood before its old deliveries went. */
async function beforeRetention(data: string): Promise<Record<string, number>> {
  const log = LogReader.openReader({ directory: data });
  const found: Record<string, number> = {};
  for (const { group, partition } of log.partitionNames()) {
    for (const { records, firstSequence } of log.read(group, partition, { fromSequence: 1 })) {
      const index = records.findIndex((line) => line.includes('"DeliveriesRemoved"'));
      if (index >= 0) found[`${group}/${partition}`] ??= firstSequence + index - 1;
    }
  }
  await log.close();
  return found;
}
