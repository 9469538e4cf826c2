// What a machine has and the stream lacks, because the stream never had it or its servers' disks have forgotten it, is given to the stream
// by whoever takes the partition, and cut off nowhere before another has written.

import { join } from 'node:path';
import t from 'tap';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { batchAt } from '../../src/nats/log/stream-places.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { LIMITS } from '../../src/limits.ts';
import { logStream, logSubject } from '../../src/nats/subjects.ts';
import { fill, OPEN_ACCOUNT, openStorage, send } from '../unit/storage-driven.ts';
import { batchAfter, forgetLast, remembering } from './adapters.ts';
import { type Hosting, startHostServers, writeAccounts } from './host-driven.ts';
import { needs } from '../needs.ts';
import { until } from '../until.ts';

needs('nats-server');

const { directory, servers, nats, publisher, startHost } = await startHostServers(t);

const ASYNC = { onFenced: () => {}, replication: 'async' } as const;

/** What the server's disk has of this log now. What this resolves with has it forget all that came since. */
async function rememberingLog(partition: number): Promise<() => Promise<void>> {
  const stream = logStream('accounts', partition);
  const forget = await remembering(servers, directory, join('nats/n1/jetstream/$G/streams', stream));
  return async () => {
    await forget();
    await until(() => nats.manager.streams.info(stream).then(Boolean, () => false));
  };
}

t.test(
  'with REPLICATION=async what was acknowledged is in the stream before anybody writes on',
  async (t) => {
    const LAGS = 18;
    const startAsync = (): Hosting => startHost({}, null, ASYNC);
    const before = startAsync();
    await before.host.acquire('accounts', LAGS, 1);
    await before.stop();
    // As by a process that dies, or gives its stream up, before that has it.
    const alone = openStorage(directory);
    await fill(alone, LAGS, 3);
    const { hash } = alone.log.tip('accounts', LAGS);
    await alone.close();

    const { host, storage, stop } = startAsync();
    t.teardown(stop);
    await host.acquire('accounts', LAGS, 5);
    const { log } = storage;
    const { batch: end } = log.tip('accounts', LAGS);
    t.ok(log.batch('accounts', LAGS, end - 1).hash.equals(hash));
    const inStream = await batchAt({ link: nats, group: 'accounts', partition: LAGS }, end - 1);
    t.ok(inStream?.hash.equals(hash));
  },
);

t.test('and pollers are told of nothing that the stream does not have', async (t) => {
  const ASKED = 21;
  const to = new StreamPublisher(nats);
  t.teardown(() => to.close());
  const publish = to.publish.bind(to);
  const { promise: goesOn, resolve: goOn } = Promise.withResolvers<void>();
  const { host, server, storage, stop } = startHost({}, null, { ...ASYNC, to });
  t.teardown(stop);
  const told: string[] = [];
  const caller = 'caller';
  server.attach(caller, (id, _attempt, { type }) => told.push(`${id} ${type}`));
  await host.acquire('accounts', ASKED, 1);
  host.serve('accounts', ASKED);
  to.publish = (...message) => goesOn.then(() => publish(...message));
  await writeAccounts(storage, ASKED, 1);
  const asked = { accountId: '', limit: 10, deadline: Date.now() + 60_000 } as const;
  const served = server.served('accounts', ASKED, 1)!;
  served.take({ caller, id: 1, attempt: 1, message: { ...asked, type: 'ListPending', afterId: null } });
  const list = { ...asked, type: 'ListReconciliation', open: true, startingAfter: null } as const;
  served.take({ caller, id: 2, attempt: 1, message: list });
  t.strictSame(told, ['2 done']);
  goOn();
  await until(() => told.length === 2);
  t.strictSame(told, ['2 done', '1 done']);
});

t.test('but not where another has written since', async (t) => {
  const REPLACED = 19;
  const startAsync = (): Hosting => startHost({}, null, ASYNC);
  const before = startAsync();
  await before.host.acquire('accounts', REPLACED, 1);
  const inBoth = before.storage.log.tip('accounts', REPLACED);
  await before.stop();
  const alone = openStorage(directory);
  await fill(alone, REPLACED, 3);
  await alone.close();
  const other = batchAfter(inBoth, REPLACED, 4, 'of another owner');
  await publisher.publish(logSubject('accounts', REPLACED), other.bytes, {});

  const { storage, stop } = startAsync();
  t.teardown(stop);
  const place = { link: nats, log: storage.log, group: 'accounts', partition: REPLACED } as const;
  const follower = new LogFollower(place);
  const { tip } = await follower.reachEnd(async () => void t.fail('it is the stream that decides'));
  await follower.close();
  t.ok(tip.hash.equals(other.hash));
  t.equal(storage.log.lastBatchNumber('accounts', REPLACED), other.batch);
});

t.test('nor into a stream that may stand where one was lost', async (t) => {
  const LOST = 20;
  const alone = openStorage(directory);
  await fill(alone, LOST, 3);
  await alone.close();
  const { host, storage, stop } = startHost({}, null, ASYNC);
  t.teardown(stop);
  const { batch } = storage.log.tip('accounts', LOST);
  await t.rejects(host.acquire('accounts', LOST, 5), /the stream was lost, and it is not served here/);
  t.equal(storage.log.tip('accounts', LOST).batch, batch, 'all but the first may have been acknowledged');
  t.equal((await nats.manager.streams.info(logStream('accounts', LOST))).state.last_seq, 0);
});

t.test(
  'what was acknowledged, and NATS has forgotten, is given to it again, and cut off nowhere',
  async (t) => {
    const FORGOTTEN = 22;
    const { promise: fenced, resolve: onFenced } = Promise.withResolvers<void>();
    const { host, storage, stop } = startHost({}, null, { onFenced: () => onFenced() });
    t.teardown(stop);
    const { log } = storage;
    await host.acquire('accounts', FORGOTTEN, 1);
    host.serve('accounts', FORGOTTEN);
    const forget = await rememberingLog(FORGOTTEN);
    await writeAccounts(storage, FORGOTTEN, LIMITS.streamForgottenMax);
    const { batch: acknowledged, hash } = log.tip('accounts', FORGOTTEN);
    await forget();
    const place = { link: nats, log, group: 'accounts', partition: FORGOTTEN } as const;
    void send(storage, FORGOTTEN, { ...OPEN_ACCOUNT, accountId: 'acc_next', deadline: Date.now() + 60_000 });
    await fenced;
    await host.lose('accounts', FORGOTTEN);
    t.ok((await batchAt(place, acknowledged))?.hash.equals(hash), 'before another may have the partition');
    await host.acquire('accounts', FORGOTTEN, 2);
    t.ok(log.batch('accounts', FORGOTTEN, acknowledged).hash.equals(hash));
  },
);

t.test('also behind as many as are on their way with REPLICATION=async', async (t) => {
  const BOTH = 36;
  const before = startHost({}, null, ASYNC);
  await before.host.acquire('accounts', BOTH, 1);
  await before.stop();
  const alone = openStorage(directory);
  await fill(alone, BOTH, 0);
  await writeAccounts(alone, BOTH, LIMITS.streamForgottenMax + LIMITS.streamAsyncOutstandingMax);
  const { batch, hash } = alone.log.tip('accounts', BOTH);
  await alone.close();

  const { host, stop } = startHost({}, null, ASYNC);
  t.teardown(stop);
  await host.acquire('accounts', BOTH, 2);
  t.ok((await batchAt({ link: nats, group: 'accounts', partition: BOTH }, batch))?.hash.equals(hash));
});

t.test('also where nobody has written since: when the partition is handed over', async (t) => {
  const HANDED_OVER = 32;
  const { host, storage, stop } = startHost();
  t.teardown(stop);
  await host.acquire('accounts', HANDED_OVER, 1);
  host.serve('accounts', HANDED_OVER);
  await writeAccounts(storage, HANDED_OVER, 2);
  const { batch, hash } = storage.log.tip('accounts', HANDED_OVER);
  await forgetLast(nats, HANDED_OVER, 2);
  await host.release('accounts', HANDED_OVER);
  t.ok((await batchAt({ link: nats, group: 'accounts', partition: HANDED_OVER }, batch))?.hash.equals(hash));
});

t.test('and whoever serves it finds out', async (t) => {
  const [REMOVED, SILENT, IDLE] = [33, 37, 34];
  let fenced = 0;
  const { host, logs, storage, stop } = startHost({}, null, { onFenced: () => void fenced++ });
  t.teardown(stop);
  for (const partition of [REMOVED, SILENT, IDLE]) {
    await host.acquire('accounts', partition, 1);
    host.serve('accounts', partition);
  }
  await writeAccounts(storage, IDLE, 1);
  await logs.lookAtStreams();
  t.equal(fenced, 0);
  await forgetLast(nats, IDLE, 1);
  await nats.manager.streams.delete(logStream('accounts', REMOVED));
  const { streams } = nats.manager;
  const info = streams.info.bind(streams);
  // As of one that has no leader.
  streams.info = async (name, ...rest) => {
    if (name === logStream('accounts', SILENT)) throw new Error('TIMEOUT');
    return info(name, ...rest);
  };
  t.teardown(() => (streams.info = info));
  await t.rejects(logs.lookAtStreams(), /TIMEOUT/, 'to be looked at again');
  t.equal(fenced, 1, 'also beside a stream that is gone, and one of which nobody says anything');
});

/** As a server that leads with a short copy: from `silence` on it answers nothing that is written. */
function silenced(): { readonly to: StreamPublisher; readonly silence: () => void } {
  let isSilent = false;
  const to = {
    publish: async (...published: Parameters<StreamPublisher['publish']>) =>
      isSilent
        ? ({ type: 'unanswered', description: 'no acknowledgement in time' } as const)
        : publisher.publish(...published),
  } as StreamPublisher;
  return { to, silence: () => (isSilent = true) };
}

t.test('at once, where what it writes next has no answer for long', async (t) => {
  const [FORGOTTEN, WHOLE] = [38, 39];
  const fenced: number[] = [];
  const { to, silence } = silenced();
  const onFenced = (_: string, partition: number): void => void fenced.push(partition);
  const { host, logs, storage, stop } = startHost({}, null, { onFenced, to });
  t.teardown(stop);
  for (const partition of [FORGOTTEN, WHOLE]) {
    await host.acquire('accounts', partition, 1);
    host.serve('accounts', partition);
    await writeAccounts(storage, partition, 2);
  }
  await forgetLast(nats, FORGOTTEN, 1);
  silence();
  const command = { ...OPEN_ACCOUNT, deadline: Date.now() + 60_000 };
  for (const partition of [FORGOTTEN, WHOLE]) void send(storage, partition, command);
  await until(() => logs.stall?.includes(`accounts/${FORGOTTEN}, accounts/${WHOLE} `) === true);
  await logs.lookAtStalled();
  t.strictSame(fenced, [FORGOTTEN]);
  for (const partition of [FORGOTTEN, WHOLE]) await host.lose('accounts', partition);
});

t.test('of many that have no answer only so many are asked about at once', async (t) => {
  const partitions = Array.from({ length: LIMITS.streamsStalledAtOnce + 3 }, (_, i) => 100 + i);
  const { to, silence } = silenced();
  const { host, logs, storage, stop } = startHost({}, null, { to });
  t.teardown(stop);
  for (const partition of partitions) {
    await host.acquire('accounts', partition, 1);
    host.serve('accounts', partition);
  }
  silence();
  const command = { ...OPEN_ACCOUNT, deadline: Date.now() + 60_000 };
  for (const partition of partitions) void send(storage, partition, command);
  await until(() => partitions.every((partition) => logs.stall?.includes(`accounts/${partition}`) === true));

  const { streams } = nats.manager;
  const info = streams.info.bind(streams);
  t.teardown(() => void (streams.info = info));
  const asked: string[] = [];
  let [atOnce, atOnceMax] = [0, 0];
  streams.info = async (name) => {
    asked.push(name);
    atOnceMax = Math.max(atOnceMax, ++atOnce);
    return info(name).finally(() => atOnce--);
  };
  await logs.lookAtStalled();
  t.equal(asked.length, partitions.length);
  t.equal(atOnceMax, LIMITS.streamsStalledAtOnce);
  for (const partition of partitions) await host.lose('accounts', partition);
});

t.test('nor is the last one alone, though a writer may have had as many on its way', async (t) => {
  const [READ_BEFORE, READ_SINCE, SEVERAL] = [29, 30, 35];
  const { host, storage, stop } = startHost();
  t.teardown(stop);
  const { log } = storage;
  const partitions = [READ_BEFORE, READ_SINCE, SEVERAL];
  const places = partitions.map((partition) => ({ group: 'accounts', partition }) as const);
  for (const { group, partition } of places) {
    await host.acquire(group, partition, 1);
    host.serve(group, partition);
  }
  const countIn = (partition: number): number => (partition === SEVERAL ? 4 : 1);
  for (const { partition } of places) await writeAccounts(storage, partition, countIn(partition));
  for (const { group, partition } of places) await host.release(group, partition);
  const tips = places.map(({ group, partition }) => log.tip(group, partition));
  await host.prepare('accounts', READ_BEFORE);
  for (const { partition } of places) await forgetLast(nats, partition, countIn(partition));
  for (const partition of [READ_SINCE, SEVERAL]) {
    const refused = new RegExp(`has ${countIn(partition)} after it: whoever takes .* gives them back`);
    await t.rejects(host.prepare('accounts', partition), refused);
    // Or one that has none of them would be preferred, and write in their place.
    t.notOk(host.isUnproven('accounts', partition), 'which takes no person');
  }
  for (const [i, place] of places.entries()) {
    await t.rejects(batchAt({ link: nats, ...place }, tips[i]!.batch), /has nothing at/, 'it is forgotten');
  }
  for (const [i, place] of places.entries()) {
    const { group, partition } = place;
    const { batch, hash } = tips[i]!;
    await host.acquire(group, partition, 2);
    t.ok(log.batch(group, partition, batch).hash.equals(hash));
    t.ok((await batchAt({ link: nats, ...place }, batch))?.hash.equals(hash));
  }
});

t.test('views of what was followed, and is cut off after all, are not made again before it is', async (t) => {
  const REPLACED = 31;
  const { host, logs, storage, stop } = startHost();
  t.teardown(stop);
  const { log, views } = storage;
  await host.acquire('accounts', REPLACED, 1);
  host.serve('accounts', REPLACED);
  const inBoth = log.tip('accounts', REPLACED);
  await writeAccounts(storage, REPLACED, 1);
  await host.release('accounts', REPLACED);
  await host.prepare('accounts', REPLACED);
  views.refresh();
  t.equal(views.position('accounts', REPLACED)?.batch, inBoth.batch + 1);
  await forgetLast(nats, REPLACED, 1);
  const other = batchAfter(inBoth, REPLACED, 2, null);
  await publisher.publish(logSubject('accounts', REPLACED), other.bytes, {});
  const cutOff = log.truncateAfter.bind(log);
  log.truncateAfter = async (...args) => {
    await logs.keepViewsUp();
    return cutOff(...args);
  };
  await t.rejects(host.acquire('accounts', REPLACED, 3), /no longer has what views are made of/);
  await host.acquire('accounts', REPLACED, 3);
  t.ok(log.tipAt('accounts', REPLACED, other.batch).hash.equals(other.hash));
});
