// A batch that is damaged where a feed still has to read it: its partition stops and says so, and the process lives.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Message, Reply } from '../../src/bus/bus.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { Storage } from '../../src/wiring/storage.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { byOperator, opened } from './domain/scenario.ts';

const RECORDS = 8;
const DAMAGED = 5;

const directory = mkdtempSync(join(tmpdir(), 'daftari-feed-'));
t.teardown(() => rmSync(directory, { recursive: true }));

async function serve(onDamage: (what: string) => void) {
  const storage = new Storage({
    directory,
    policies: { accounts: DEFAULT_POLICY, webhooks: { retryMs: [], retentionMs: 0 } },
    observer: { decided: () => {} },
    clock: Date.now,
    onFlush: () => {},
    onDamage: (group, partition, error) => onDamage(`${group}/${partition}: ${error.name}`),
    onFailure: (error) => {
      throw error;
    },
  });
  await storage.openPartition('accounts', 0, { epoch: 1, replica: null, onFenced: null });
  return storage;
}

function send(storage: Storage, message: object): Promise<Reply> {
  return new Promise((resolve) => {
    storage.inbox('accounts', 0)({ ...byOperator, ...message } as unknown as Message, resolve);
  });
}

void t.test('damage that a feed comes upon stops its partition, not the process', async (t) => {
  const before = await serve((what) => t.fail(what));
  const { name, country } = opened;
  await send(before, {
    type: 'OpenAccount',
    name,
    country,
    live: true,
    payoutsEnabled: true,
    withdrawalsEnabled: true,
  });
  for (let i = 1; i < RECORDS; i++) {
    const reply = await send(before, { type: 'AddUser', email: `user${i}@shop.test`, role: 'MEMBER' });
    t.equal(reply.type, 'done');
  }
  await before.close();
  const log = LogReader.openReader({ directory });
  const bytes = log.bytesOf('accounts', 0, DAMAGED + 1)!;
  await log.close();
  flip(bytes);

  let damage = (_what: string): void => {};
  const told = new Promise<string>((resolve) => {
    damage = resolve;
  });
  const after = await serve((what) => damage(what));
  const seen: number[] = [];
  const subscription = after.feed.subscribe<unknown>('accounts', 0, 0, ({ firstSequence }) => {
    seen.push(firstSequence);
  });
  t.equal(await told, 'accounts/0: LogCorruption');
  t.same(await send(after, { type: 'AddUser', email: 'x@shop.test', role: 'MEMBER' }), {
    type: 'unavailable',
  });
  t.ok(
    seen.every((sequence) => sequence < DAMAGED),
    'nothing behind the damage is delivered',
  );
  await subscription.close();
  await after.close();
});

/** Pages are copied when they are written: older copies may hold the batch, too. */
function flip(bytes: Buffer): void {
  const file = join(directory, 'log', 'data.mdb');
  const content = readFileSync(file);
  for (let at = content.indexOf(bytes); at >= 0; at = content.indexOf(bytes, at + 1)) {
    content[at + 80]! ^= 0x04;
  }
  writeFileSync(file, content);
}
