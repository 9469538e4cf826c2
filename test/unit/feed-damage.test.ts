// A batch that is damaged where a feed still has to read it: its partition stops and says so, and the process lives.

import t from 'tap';
import { LogReader } from '../../wal/log-reader.ts';
import { damageBatch, OPEN_ACCOUNT, openStorage, send, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const RECORDS = 8;
const DAMAGED = 5;

const directory = temporaryDirectory(t);

async function open(onDamage: (what: string) => void) {
  const storage = openStorage(directory, (group, partition, error) => {
    onDamage(`${group}/${partition}: ${error.name}`);
  });
  await serve(storage, 0);
  return storage;
}

void t.test('damage that a feed comes upon stops its partition, not the process', async (t) => {
  const before = await open((what) => t.fail(what));
  await send(before, 0, OPEN_ACCOUNT);
  for (let i = 1; i < RECORDS; i++) {
    const reply = await send(before, 0, { type: 'AddUser', email: `user${i}@shop.test`, role: 'MEMBER' });
    t.equal(reply.type, 'done');
  }
  await before.close();
  const log = LogReader.openReader({ directory });
  const bytes = log.bytesOf('accounts', 0, DAMAGED + 1)!;
  await log.close();
  damageBatch(directory, bytes);

  let damage = (_what: string): void => {};
  const told = new Promise<string>((resolve) => {
    damage = resolve;
  });
  const after = await open((what) => damage(what));
  const seen: number[] = [];
  const subscription = after.feed.subscribe<unknown>('accounts', 0, 0, ({ firstSequence }) => {
    seen.push(firstSequence);
  });
  t.equal(await told, 'accounts/0: LogCorruption');
  t.same(await send(after, 0, { type: 'AddUser', email: 'x@shop.test', role: 'MEMBER' }), {
    type: 'unavailable',
  });
  t.ok(
    seen.every((sequence) => sequence < DAMAGED),
    'nothing behind the damage is delivered',
  );
  await subscription.close();
  await after.close();
});
