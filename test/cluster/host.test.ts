// The part of a node that serves partitions, against a real server: what goes wrong with one partition holds up no other.
import { ErrorCode, type NatsError } from 'nats';
import t from 'tap';
import type { Message, Reply } from '../../src/bus/bus.ts';
import type { LeaseEntry } from '../../src/nats/leases/lease-table.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { commandSubject, logStream, logSubject } from '../../src/nats/subjects.ts';
import { LIMITS } from '../../src/limits.ts';
import { damageBatch, fill, OPEN_ACCOUNT, openAccounts, openStorage, send } from '../unit/storage-driven.ts';
import { encodeBatch } from '../../wal/batch.ts';
import type { Batch, Tip } from '../../wal/types.ts';
import { batchAfter } from './adapters.ts';
import { type Hosting, startHostServers, writeAccounts } from './host-driven.ts';
import { needs } from '../needs.ts';
import { until } from '../until.ts';

needs('nats-server');

const { directory, nats, publisher, startHost } = await startHostServers(t);

const ASYNC = { onFenced: () => {}, replication: 'async' } as const;

t.test('the views never reach beyond the log, also where a take-over cuts it off', async (t) => {
  const STRAY = 2;
  const before = startHost({}, null, ASYNC);
  await before.host.acquire('accounts', STRAY, 1);
  const inStream = before.storage.log.tip('accounts', STRAY);
  await before.stop();
  const alone = openStorage(directory);
  await fill(alone, STRAY, 1);
  await alone.close();
  const other = batchAfter(inStream, STRAY, 3, null);
  await publisher.publish(logSubject('accounts', STRAY), other.bytes, {});

  const { host, storage, lines, stop } = startHost({}, null, ASYNC);
  t.teardown(stop);
  const { log, views } = storage;
  const reached = (): number => {
    views.refresh();
    return views.position('accounts', STRAY)?.batch ?? 0;
  };
  t.equal(reached(), log.lastBatchNumber('accounts', STRAY), 'of what the stream never got, too');
  t.ok(reached() > inStream.batch);
  const cutOff = log.truncateAfter.bind(log);
  const atTheCut: [number, number][] = [];
  log.truncateAfter = (group, partition, batch) => {
    atTheCut.push([batch, reached()]);
    return cutOff(group, partition, batch);
  };
  await host.prepare('accounts', STRAY);
  t.strictSame(atTheCut, [[inStream.batch, 0]]);
  t.ok(log.tip('accounts', STRAY).hash.equals(other.hash));
  t.match(lines.join('\n'), 'views of what the stream never accepted are made anew');
});

t.test('a log that cannot be read is told of when the partition is prepared, and no other', async (t) => {
  const [DAMAGED, SOUND] = [0, 1];
  const before = startHost();
  for (const partition of [DAMAGED, SOUND]) {
    await before.host.acquire('accounts', partition, 1);
    before.host.serve('accounts', partition);
  }
  const bytes = before.storage.log.bytesOf('accounts', DAMAGED, 1)!;
  await before.stop();
  damageBatch(directory, bytes);
  const { host, unreadable, stop } = startHost();
  t.teardown(stop);
  await host.prepare('accounts', SOUND);
  t.strictSame(unreadable, []);
  await t.rejects(host.prepare('accounts', DAMAGED), { name: 'LogCorruption' });
  await t.rejects(host.acquire('accounts', DAMAGED, 2), { name: 'LogCorruption' });
  t.strictSame(unreadable, [`accounts/${DAMAGED}`, `accounts/${DAMAGED}`]);
});

t.test('of more than the next owner gives back it is said what mends it', async (t) => {
  const FAR = 24;
  const before = startHost();
  await before.host.acquire('accounts', FAR, 1);
  await before.stop();
  const alone = openStorage(directory);
  await fill(alone, FAR, 0);
  for (let batches = 0; batches <= LIMITS.streamForgottenMax + 1; batches++) {
    const deadline = Date.now() + 60_000;
    await send(alone, FAR, { ...OPEN_ACCOUNT, accountId: `acc_${batches}`, deadline });
  }
  await alone.close();
  const { host, logs, stop } = startHost();
  t.teardown(stop);
  await t.rejects(host.acquire('accounts', FAR, 9), {
    name: 'LogDiverged',
    message:
      /: \d+ batches of this machine are not in the stream, .* \(nats stream rm DAFTARI_accounts_24\) /,
  });
  t.equal(logs.unprovenCount, 1);
  t.notOk(host.isUnproven('accounts', FAR), 'whoever has less must not write in their place');
});

t.test('a copy that can no longer be kept up is said to be left behind', async (t) => {
  const LEFT = 23;
  const owner = startHost();
  await owner.host.acquire('accounts', LEFT, 1);
  const tip = owner.storage.log.tip('accounts', LEFT);
  await owner.host.release('accounts', LEFT);
  await owner.host.prepare('accounts', LEFT);
  t.teardown(owner.stop);
  t.notOk(owner.host.isLeftBehind('accounts', LEFT));
  const { bytes } = batchAfter(tip, LEFT, 1, 'a record');
  const rotten = Buffer.from(bytes);
  rotten[70]! ^= 1;
  nats.connection.publish(logSubject('accounts', LEFT), rotten);
  await until(() => owner.host.isLeftBehind('accounts', LEFT));
  await t.rejects(owner.host.prepare('accounts', LEFT), { name: 'LogCorruption' });
  t.match(owner.lines.join(''), 'following the log begins anew');
});

t.test('a partition that was served before is not begun anew with nothing', async (t) => {
  const LOST = 3;
  const { host, logs, storage, stop } = startHost({ hasBegun: true });
  t.teardown(stop);
  await t.rejects(host.acquire('accounts', LOST, 2), /an empty partition is not begun in its place/);
  t.match(logs.problem, /not proven, not served: accounts\/3: it was served before/);
  t.equal(logs.unprovenCount, 1);
  t.notOk(host.isDoubtedElsewhere('accounts', LOST));
  t.equal(storage.log.tip('accounts', LOST).batch, 0);
});

t.test('what could not be taken over is not said to be lost', async (t) => {
  const [NEVER_HAD, SERVED] = [15, 16];
  const said: Partial<LeaseEntry> = {};
  const { host, lines, stop } = startHost(said);
  t.teardown(stop);
  const lost = (): string[] => lines.filter((line) => line.includes('"message":"lost"'));
  Object.assign(said, { hasBegun: true });
  await t.rejects(host.acquire('accounts', NEVER_HAD, 2), /is not begun in its place/);
  await host.lose('accounts', NEVER_HAD);
  t.strictSame(lost(), []);
  Object.assign(said, { hasBegun: false });
  await host.acquire('accounts', SERVED, 1);
  host.serve('accounts', SERVED);
  await host.lose('accounts', SERVED);
  t.match(lost(), [/"partition":16/]);
});

t.test('nor while another node has something of it, and cannot prove that it is all', async (t) => {
  const LOST = 5;
  const { host, stop } = startHost({}, 'ledger2');
  t.teardown(stop);
  const refusal = /node ledger2 cannot prove that its log has all of it, .* is not begun in its place/;
  await t.rejects(host.acquire('accounts', LOST, 2), refusal);
  t.ok(host.isUnproven('accounts', LOST));
  t.ok(host.isDoubtedElsewhere('accounts', LOST), 'which keeps no other node from beginning it');
  await t.rejects(
    host.prepare('accounts', LOST),
    refusal,
    'what could not be acquired is not said to be prepared',
  );
  t.ok(host.isUnproven('accounts', LOST));
});

t.test('a stream that is being put back is not taken for a whole one', async (t) => {
  const HALF = 4;
  const { host, logs, storage, stop } = startHost({ puttingBack: 'whole' });
  t.teardown(stop);
  await t.rejects(host.acquire('accounts', HALF, 2), /has not all of its log yet/);
  await t.rejects(host.prepare('accounts', HALF), /has not all of its log yet/);
  t.match(logs.problem, /accounts\/4: its stream has not all of its log yet/);
  t.equal(storage.log.tip('accounts', HALF).batch, 0);
});

/** Served for as long as it takes to log that the accounts' log is read up to there. */
async function readAccounts({ host, storage }: Hosting, partition: number, epoch: number, upTo: number) {
  await host.acquire('webhooks', partition, epoch);
  const command = {
    type: 'TakeEvents',
    afterSequence: upTo - 1,
    upstreamSequence: upTo,
    endpoints: [],
    events: [],
    deadline: Date.now() + 60_000,
  } as Message;
  const reply = await new Promise<Reply>((resolve) => {
    storage.inbox('webhooks', partition)(command, resolve);
  });
  if (reply.type !== 'done') throw new Error(reply.type);
  await host.release('webhooks', partition);
}

t.test('webhooks that have read more of their accounts than there is are not served', async (t) => {
  const AHEAD = 8;
  const hosting = startHost();
  const { host, logs, storage, stop } = hosting;
  t.teardown(stop);
  await host.acquire('accounts', AHEAD, 1);
  await writeAccounts(storage, AHEAD, 1);
  await readAccounts(hosting, AHEAD, 1, 1);
  await readAccounts(hosting, AHEAD, 2, 2);
  const refusal = /read its accounts up to 2, and their stream ends before/;
  await t.rejects(host.acquire('webhooks', AHEAD, 3), refusal);
  t.match(logs.problem, /not proven, not served: webhooks\/8/);
  host.serve('accounts', AHEAD);
  await t.rejects(host.acquire('webhooks', AHEAD, 3), refusal, 'nor beside who writes them');
  await writeAccounts(storage, AHEAD, 2);
  await host.acquire('webhooks', AHEAD, 3);
  t.equal(logs.problem, null);
});

t.test('nor are those whose next record is in the stream no more', async (t) => {
  const PURGED = 9;
  const hosting = startHost();
  const { host, logs, storage, stop } = hosting;
  t.teardown(stop);
  await host.acquire('accounts', PURGED, 1);
  await writeAccounts(storage, PURGED, 3);
  await readAccounts(hosting, PURGED, 1, 1);
  await nats.manager.streams.purge(logStream('accounts', PURGED), { keep: 2 });
  await host.acquire('webhooks', PURGED, 2);
  await host.release('webhooks', PURGED);
  await nats.manager.streams.purge(logStream('accounts', PURGED), { keep: 1 });
  const refusal = /read its accounts up to 1, and their stream begins after/;
  await t.rejects(host.acquire('webhooks', PURGED, 3), refusal);

  const kept: string[] = [];
  const catchUpViews = storage.catchUpViews.bind(storage);
  storage.catchUpViews = async (...asked) => {
    storage.catchUpViews = (...again) => {
      kept.push(again.join('/'));
      return catchUpViews(...again);
    };
    await logs.keepViewsUp();
    await catchUpViews(...asked);
  };
  await t.rejects(
    host.prepare('webhooks', PURGED),
    refusal,
    'also where its views are kept up meanwhile, which say nothing of that',
  );
  t.equal(kept[0], `webhooks/${PURGED}`);
  const { length } = kept;
  await logs.keepViewsUp();
  t.equal(kept.length, length, 'what could not be prepared is not kept up');
  host.serve('accounts', PURGED);
  await host.acquire('webhooks', PURGED, 3);
  t.equal(logs.problem, null, 'who writes them has it in the own log');
});

t.test('webhooks that are taken over do not wait for the views of logs that are followed', async (t) => {
  const FOLLOWED = [10, 11, 12];
  const TAKEN = 13;
  const hosting = startHost();
  const { host, storage, stop } = hosting;
  t.teardown(stop);
  for (const partition of FOLLOWED) {
    await host.acquire('accounts', partition, 1);
    await openAccounts(storage, partition, 5 * LIMITS.checkpointRecordsPerCommitMax);
    await host.release('accounts', partition);
    await storage.views.drop('accounts', partition);
  }
  await host.acquire('accounts', TAKEN, 1);
  await writeAccounts(storage, TAKEN, 1);
  await readAccounts(hosting, TAKEN, 1, 1);
  await storage.views.drop('webhooks', TAKEN);

  const ended: string[] = [];
  let followed: Promise<unknown>[] = [];
  const catchUpViews = storage.catchUpViews.bind(storage);
  storage.catchUpViews = async (...asked) => {
    followed = FOLLOWED.map((partition) =>
      catchUpViews('accounts', partition).then(() => ended.push(`followed ${partition}`)),
    );
    await catchUpViews(...asked);
    ended.push(asked[0]);
  };
  await host.acquire('webhooks', TAKEN, 2);
  await Promise.all(followed);
  t.equal(followed.length, FOLLOWED.length);
  t.equal(ended[0], 'webhooks');
});

t.test('a partition is opened only under an epoch above its log', async (t) => {
  const AGAIN = 7;
  const { host, stop } = startHost();
  t.teardown(stop);
  await host.acquire('accounts', AGAIN, 2);
  await host.release('accounts', AGAIN);
  for (const epoch of [1, 2]) {
    await t.rejects(host.acquire('accounts', AGAIN, epoch), /is not above the log's, 2/);
  }
  await host.acquire('accounts', AGAIN, 3);
});

t.test('what the stream has refused before it is served is not read as written here', async (t) => {
  const REPLACED = 17;
  let isHeld = false;
  const fenced: Promise<void>[] = [];
  const onFenced = (): void => {
    // As ownership does: while it is claimed the claim ends by itself.
    fenced.push(isHeld ? hosting.host.lose('accounts', REPLACED) : Promise.resolve());
  };
  const hosting = startHost({}, null, { onFenced });
  const { host, feed, storage, stop } = hosting;
  t.teardown(stop);
  await host.acquire('accounts', REPLACED, 1);
  const other = batchAfter(storage.log.tip('accounts', REPLACED), REPLACED, 2, 'of another owner');
  await publisher.publish(logSubject('accounts', REPLACED), other.bytes, {});
  // As a timer does that falls due.
  void writeAccounts(storage, REPLACED, 1).catch(() => {});
  await until(() => fenced.length === 1);
  isHeld = true;
  host.serve('accounts', REPLACED);
  await Promise.all(fenced);
  t.equal(fenced.length, 2);
  t.notOk(feed.isOwn('accounts', REPLACED, 0));
});

/** Of another owner's epoch. */
function openingAfter({ batch, sequence, hash }: Tip, partition: number, epoch: number): Batch {
  return encodeBatch({
    group: 'accounts',
    partition,
    batch: batch + 1,
    epoch,
    firstSequence: sequence + 1,
    records: [],
    recordsBytes: 0,
    timeMs: Date.now(),
    previousHash: hash,
  });
}

t.test('a partition that another opens first is not taken over', async (t) => {
  for (const [partition, replication] of [
    [25, 'sync'],
    [26, 'async'],
  ] as const) {
    const to = new StreamPublisher(nats);
    t.teardown(() => to.close());
    const publish = to.publish.bind(to);
    let other: Batch | null = null;
    to.publish = async (subject, data, expected) => {
      if (other !== null) {
        const { batch, bytes } = other;
        // The disk has the opening by then.
        await until(() => storage.log.lastBatchNumber('accounts', partition) === batch);
        await publish(subject, bytes, {});
      }
      return publish(subject, data, expected);
    };
    const { host, storage, stop } = startHost({}, null, { onFenced: () => {}, replication, to });
    await host.acquire('accounts', partition, 1);
    await host.release('accounts', partition);
    const { hash } = (other = openingAfter(storage.log.tip('accounts', partition), partition, 3));
    await t.rejects(host.acquire('accounts', partition, 2), { name: 'Fenced' }, replication);
    host.serve('accounts', partition);
    t.notOk(host.isServing('accounts', partition));
    await host.lose('accounts', partition);
    other = null;
    await host.acquire('accounts', partition, 4);
    const { batch } = storage.log.tip('accounts', partition);
    t.ok(storage.log.batch('accounts', partition, batch - 1).hash.equals(hash), 'which is kept');
    await stop();
  }
});

t.test('who hands over a partition that another has written to lets it go', async (t) => {
  const REPLACED = 27;
  const fenced: number[] = [];
  const { host, feed, storage, stop } = startHost({}, null, { onFenced: () => fenced.push(REPLACED) });
  t.teardown(stop);
  await host.acquire('accounts', REPLACED, 1);
  host.serve('accounts', REPLACED);
  const other = openingAfter(storage.log.tip('accounts', REPLACED), REPLACED, 2);
  await publisher.publish(logSubject('accounts', REPLACED), other.bytes, {});
  const command = { ...OPEN_ACCOUNT, accountId: 'acc_late', deadline: Date.now() + 60_000 };
  const told = send(storage, REPLACED, command);
  t.ok(feed.isOwn('accounts', REPLACED, 0));
  await host.release('accounts', REPLACED);
  t.notOk(feed.isOwn('accounts', REPLACED, 0), 'what the next owner writes is read from the stream');
  t.strictSame(await told, { type: 'unknown' });
  await host.acquire('accounts', REPLACED, 3);
  const { batch } = storage.log.tip('accounts', REPLACED);
  t.ok(storage.log.batch('accounts', REPLACED, batch - 1).hash.equals(other.hash));
});

t.test('what a writer that was lost hears late of its stream does not end the next one', async (t) => {
  const AGAIN = 28;
  const to = new StreamPublisher(nats);
  t.teardown(() => to.close());
  const publish = to.publish.bind(to);
  const { promise: late, resolve: answer } = Promise.withResolvers<void>();
  let isSilent = false;
  to.publish = async (...args) => {
    if (!isSilent) return publish(...args);
    await late;
    return { type: 'unanswered', description: 'late' };
  };
  const fenced: number[] = [];
  const writing = { ...ASYNC, to, onFenced: () => fenced.push(AGAIN) };
  const { host, storage, lines, stop } = startHost({}, null, writing);
  t.teardown(stop);
  await host.acquire('accounts', AGAIN, 1);
  host.serve('accounts', AGAIN);
  isSilent = true;
  const command = { ...OPEN_ACCOUNT, accountId: 'acc_again', deadline: Date.now() + 60_000 };
  t.hasStrict(await send(storage, AGAIN, command), { type: 'done' });
  await host.lose('accounts', AGAIN);
  isSilent = false;
  await host.acquire('accounts', AGAIN, 2);
  host.serve('accounts', AGAIN);
  answer();
  await until(() => lines.some((line) => line.includes('the stream refused this writer')));
  t.strictSame(fenced, []);
  t.ok(host.isServing('accounts', AGAIN));
});

t.test(
  'for what it has lost a node listens no more, and for what it has handed over only for a while',
  async (t) => {
    const [LOST, HANDED_OVER] = [57, 58];
    const { host, server, stop } = startHost();
    t.teardown(stop);
    const isListening = (partition: number): Promise<boolean> =>
      nats.connection.request(commandSubject('accounts', partition, 1), '', { timeout: 1_000 }).then(
        () => true,
        ({ code }: NatsError) => code !== ErrorCode.NoResponders,
      );
    for (const partition of [LOST, HANDED_OVER]) {
      await host.acquire('accounts', partition, 1);
      host.serve('accounts', partition);
      t.ok(await isListening(partition));
    }
    await host.lose('accounts', LOST);
    t.notOk(await isListening(LOST));
    t.equal(server.served('accounts', LOST, 1), null);
    await host.release('accounts', HANDED_OVER);
    await until(() => server.served('accounts', HANDED_OVER, 1) === null);
    t.notOk(await isListening(HANDED_OVER));
  },
);

t.test('a machine whose other streams are all lost begins no empty partition', async (t) => {
  const [OWN, NEVER_HAD] = [5, 6];
  const { host, storage, stop } = startHost();
  await host.acquire('accounts', OWN, 1);
  await host.release('accounts', OWN);
  await host.acquire('accounts', OWN, 2);
  await host.release('accounts', OWN);
  for (const { group, partition } of storage.log.partitionNames()) {
    if (partition !== NEVER_HAD) await nats.manager.streams.delete(logStream(group as never, partition));
  }
  await t.rejects(
    host.acquire('accounts', NEVER_HAD, 1),
    /the streams of all other logs of this machine were lost/,
  );
  t.equal(storage.log.tip('accounts', NEVER_HAD).batch, 0);
  await stop();
  const again = startHost({}, 'ledger2');
  t.teardown(again.stop);
  await t.rejects(again.host.acquire('accounts', NEVER_HAD, 1), /were lost/);
  t.notOk(again.host.isDoubtedElsewhere('accounts', NEVER_HAD), 'whatever others say');
});
