// A log that cannot be read while another one is proven: it is that one which has to be checked, and refused.

import t from 'tap';
import type { PartitionPlace } from '../../src/bus/bus.ts';
import { LogProof } from '../../src/cluster/log-proof.ts';
import { NodeFeed } from '../../src/cluster/node-feed.ts';
import { UnprovenLogs } from '../../src/cluster/unproven-logs.ts';
import { LogCorruption } from '../../wal/batch.ts';
import { damageBatch, OPEN_ACCOUNT, openStorage, send, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

t.test('webhooks whose accounts, written here, are damaged have these checked', async (t) => {
  const directory = temporaryDirectory(t);
  const storage = openStorage(directory, () => {});
  await serve(storage, 0);
  await send(storage, 0, OPEN_ACCOUNT);
  const feed = new NodeFeed({
    stream: storage.feed,
    own: { feed: { subscribe: (...place) => storage.feed.subscribe(...place) }, beginsAfter: () => 0 },
  });
  feed.written('accounts', 0);
  const proof = new LogProof({
    // What is written here is asked of nobody else.
    link: null as never,
    table: { lease: () => undefined },
    storage,
    feed,
    unprovenOn: () => null,
  });
  const checked: PartitionPlace[] = [];
  const unproven = new UnprovenLogs((group, partition) => checked.push({ group, partition }));
  const tip = storage.log.tip('accounts', 0);
  const prove = (): Promise<void> =>
    unproven.during('webhooks', 0, () => proof.assertProven('webhooks', 0, { ...tip, batch: 1 }));

  await prove();
  t.strictSame(checked, []);
  damageBatch(directory, storage.log.bytesOf('accounts', 0, tip.batch)!);
  await t.rejects(prove(), LogCorruption);
  t.strictSame(checked, [{ group: 'accounts', partition: 0 }]);
  await storage.close();
});
