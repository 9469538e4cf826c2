// When the checker prints what it found, and what its exit status says where that comes to nobody.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, cpSync, existsSync, openSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { WriteAheadLog } from '../../wal/log.ts';
import { overwritePages } from '../damaged-pages.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

async function writeLog(t: Test, directory: string, ...records: string[]): Promise<string> {
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure, batchRecordsMax: 1 });
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
  for (const record of records) partition.append(record);
  await partition.drained();
  await log.close();
  return directory;
}

t.test('whoever reads no further, or a full disk, makes nothing of what was found', async (t) => {
  const directory = temporaryDirectory(t);
  const one = await writeLog(t, join(directory, 'one'), '{}');
  const other = await writeLog(t, join(directory, 'other'), '[]');
  const check = async (stdout: number | 'closed', ...directories: string[]): Promise<[number, string]> => {
    const args = ['deploy/checker.ts', ...directories.flatMap((at) => ['--data-dir', at])];
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', stdout === 'closed' ? 'pipe' : stdout, 'pipe'],
    });
    child.stdout?.destroy();
    const [said, [status]] = await Promise.all([text(child.stderr!), once(child, 'close')]);
    return [status as number, said];
  };
  t.strictSame(await check('closed', one), [0, '']);
  t.strictSame(await check('closed', one, other), [1, '']);
  if (!existsSync('/dev/full')) return;
  const full = openSync('/dev/full', 'w');
  const told =
    'What it found could not be written to standard output: ENOSPC: no space left on device, write\n';
  t.strictSame(await check(full, one), [2, told], 'sound, and nobody was told so');
  t.strictSame(await check(full, one, other), [1, told]);
  closeSync(full);
});

t.test('what was found is told before logs are read, which may take long', async (t) => {
  const nothing = JSON.stringify({ data: [], has_more: false });
  const server = createServer((_, response) => response.end(nothing)).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const directory = temporaryDirectory(t);
  const body = { reference: 'order-1', amount: '500', currency: 'UGX' };
  const entry = {
    account_id: 'acc_1',
    secret_key: 'sk_live_1',
    path: '/v1/charges',
    key: 'key-order',
    body,
  };
  const journal = join(directory, 'sent.jsonl');
  writeFileSync(journal, JSON.stringify({ ...entry, status: 201, reply: { id: 'chg_1' } }));
  const log = await writeLog(t, join(directory, 'log'), '{}');
  const urls = ['--base-url', url, '--operator-url', url];
  const args = ['deploy/checker.ts', '--journal', journal, '--data-dir', log, ...urls];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const said = (await text(child.stdout)).split('\n');
  t.strictSame(said.slice(0, 1), ['1 creates checked']);
  t.match(said[1], /^FOUND acc_1: order-1 .* does not exist$/);
  t.strictSame(said.slice(-3), ['1 data directories compared', 'Not sound: 1 findings.', '']);
});

t.test('what would end the process that reads a log is a finding', async (t) => {
  const records = Array.from({ length: 100 }, (_, n) => JSON.stringify(`record ${n}`.padEnd(400, '.')));
  const directory = temporaryDirectory(t);
  const [whole, damaged] = [join(directory, 'whole'), join(directory, 'damaged')];
  await writeLog(t, whole, ...records);
  cpSync(whole, damaged, { recursive: true });
  const check = async (): Promise<[number, string, string]> => {
    const args = ['deploy/checker.ts', '--data-dir', whole, '--data-dir', damaged];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = once(child, 'close');
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    const [status] = await ended;
    return [status as number, out, err];
  };
  overwritePages(damaged, 'record 50.');
  const [status, out] = await check();
  t.equal(status, 1);
  t.match(out, /^FOUND accounts\/0: .*damaged: .*batch \d+: a process that reads it is ended \(SIG/m);
  overwritePages(damaged, null);
  const [unopened, , said] = await check();
  t.equal(unopened, 2);
  t.match(said, /^Could not tell: the log in .*damaged cannot be opened \(SIG/);
});
