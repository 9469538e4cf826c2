// Makes the golden log of a new version: node_modules/.bin/node test/golden/long.ts vN. A version once committed is never made again; only
// the sums of its rows, with `rows` in the place of vN, when a viewsFormat was raised.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportTool } from '../../wal/tools/export.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { liveIn } from './life.ts';
import { rowsOf } from './rows.ts';
import { stateOf } from './state.ts';
import { quiet } from '../unit/wal/run-tool.ts';
import { imported, VERSION, VERSIONS } from './versions.ts';

const [version = ''] = process.argv.slice(2);
if (version === 'rows') await writeRowsAnew();
else await make(version);

async function make(version: string): Promise<void> {
  const target = join(import.meta.dirname, version);
  if (!VERSION.test(version) || existsSync(target)) {
    throw new Error('name a version that is not there yet, as v and its number');
  }
  const directory = mkdtempSync(join(tmpdir(), 'daftari-golden-'));
  const lived = await liveIn(directory);
  mkdirSync(target);
  await exportTool(null).run({ directory, values: { to: join(target, 'log') }, progress: quiet });
  write(target, 'state.json', await stateOf(directory));
  const ends = await beforeRetention(directory);
  write(target, 'lived.json', { ...lived, beforeRetention: ends });
  write(target, 'deliveries.json', (await stateOf(directory, ends)).deliveries);
  write(target, 'rows.json', await rowsOf(directory));
  rmSync(directory, { recursive: true });
  console.log(`${target} is made. Look at it, then commit it.`);
}

async function writeRowsAnew(): Promise<void> {
  for (const each of VERSIONS) {
    const directory = await imported(each);
    write(join(import.meta.dirname, each), 'rows.json', await rowsOf(directory));
    rmSync(directory, { recursive: true });
  }
}

function write(target: string, name: string, content: object): void {
  writeFileSync(join(target, name), `${JSON.stringify(content, null, 1)}\n`);
}

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
