// A log that is put back to a stream that was lost: each batch in its place, the latest log and no other, nothing half.
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { streamTools } from '../../deploy/stream-tools.ts';
import { FORMAT, IDENTITY_FILE, writeIdentity } from '../../src/data-directory/identity.ts';
import { joinCluster } from '../../src/nats/cluster-identity.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import type { LeaseEntry } from '../../src/nats/leases/lease-table.ts';
import { LogFollower } from '../../src/nats/log/log-follower.ts';
import { batchAt } from '../../src/nats/log/stream-places.ts';
import { LEASE_STREAM, logStream, logSubject } from '../../src/nats/subjects.ts';
import { openLogDatabase } from '../../wal/lmdb.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { walTools } from '../../wal/tools/all.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import type { ToolRun } from '../unit/wal/run-tool.ts';
import { link, startNats } from './adapters.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const { servers, nats, publisher } = await startNats(t);
const root = temporaryDirectory(t);

const GROUP = 'accounts';
let partitions = 0;
const newPartition = (): number => partitions++;

function open(node: string): WriteAheadLog {
  const directory = join(root, node);
  const onFailure = (error: Error): never => {
    throw error;
  };
  return WriteAheadLog.open({ directory, now: Date.now, onFailure });
}

/** A batch opens each epoch, and each record follows in one of its own. */
async function write(
  node: string,
  partition: number,
  epochs: readonly number[],
  perEpoch = 3,
): Promise<void> {
  const log = open(node);
  for (const epoch of epochs) {
    const writer = log.openPartition(GROUP, partition, { epoch, replica: null, onDurable: () => {} });
    await writer.drained();
    for (let i = 0; i < perEpoch; i++) {
      writer.append(`record ${i} of epoch ${epoch}`);
      await writer.drained();
    }
    await log.closePartition(writer);
  }
  await log.close();
}

function putBack(node: string, ...args: string[]): Promise<ToolRun> {
  return putBackOver(() => link(servers.url, 'operator'), node, ...args);
}

function putBackOver(connect: () => Promise<NatsLink>, node: string, ...args: string[]): Promise<ToolRun> {
  return runTool(streamTools(connect), 'put-back', '--data', join(root, node), ...args);
}

const one = (partition: number): string[] => ['--group', GROUP, '--partition', String(partition)];
const WRITE = ['--replicas', '1', '--yes'];

/** [sequence, batch] of what the stream has. */
async function placesIn(partition: number): Promise<[number, number][]> {
  const { state } = await nats.manager.streams.info(logStream(GROUP, partition));
  const places: [number, number][] = [];
  for (let sequence = state.first_seq; sequence <= state.last_seq; sequence++) {
    places.push([sequence, (await batchAt({ link: nats, group: GROUP, partition }, sequence))!.batch]);
  }
  return places;
}

async function withLeases<T>(use: (table: LeaseTable) => Promise<T> | T): Promise<T> {
  const table = new LeaseTable(nats, publisher, (error) => t.fail(error.message));
  try {
    await table.ready();
    return await use(table);
  } finally {
    await table.close();
  }
}
const leaseOf = (partition: number): Promise<LeaseEntry | undefined> =>
  withLeases((table) => table.lease(GROUP, partition)?.value);

/** As put-back leaves it where it was interrupted; null: where it was not. */
async function notePuttingBack(partition: number, what: 'whole' | 'end' | null): Promise<void> {
  await withLeases(async (table) => {
    const { value, revision } = table.lease(GROUP, partition)!;
    const { puttingBack: _, ...rest } = value;
    const changed = what === null ? rest : { ...rest, puttingBack: what };
    await table.write(`lease.${GROUP}.${partition}`, changed, revision);
  });
}

async function turnBit(node: string, partition: number, batch: number): Promise<void> {
  const database = openLogDatabase({ directory: join(root, node) });
  const bytes = Buffer.from(database.getBinary([GROUP, partition, batch])!);
  bytes.writeUInt8(bytes.readUInt8(70) ^ 1, 70);
  await database.put([GROUP, partition, batch], bytes);
  await database.close();
}

/** As a node reads it that has nothing but what is in its log. */
async function isProven(t: Test, node: string, partition: number): Promise<void> {
  const log = open(node);
  const before = log.tip(GROUP, partition);
  const follower = new LogFollower({ link: nats, log, group: GROUP, partition });
  try {
    const { tip, offset } = await follower.reachEnd();
    t.strictSame(tip.hash, before.hash, 'nothing is missing, nothing too much');
    t.equal(offset, 0);
  } finally {
    await follower.close();
    await log.close();
  }
}

t.test('a new stream gets the whole log, and the lease its epoch', async (t) => {
  const partition = newPartition();
  await write('a', partition, [1, 4]);
  t.match(await putBack('a', ...one(partition)), {
    status: 0,
    out: /batches 1 to 8, up to epoch 4, sequence 6\nNothing was written: add --yes to write this\.\n$/,
  });
  await t.rejects(nats.manager.streams.info(logStream(GROUP, partition)), 'not even made');
  t.match(await putBack('a', ...one(partition), '--yes'), { status: 2, err: /give --replicas/ });
  for (const replicas of ['0', '2']) {
    for (const only of [[], ['--yes']]) {
      const refused = await putBack('a', ...one(partition), ...only, '--replicas', replicas);
      t.match(refused, { status: 2, err: /--replicas is 1, 3 or 5/ });
    }
  }
  const written = await putBack('a', ...one(partition), ...WRITE);
  t.match(
    written,
    { status: 0, out: /batches 1 to 8.*\nWritten\.\nNext: start the nodes that/ },
    written.err,
  );
  t.strictSame(
    await placesIn(partition),
    Array.from({ length: 8 }, (_, i) => [i + 1, i + 1]),
  );
  t.strictSame(await leaseOf(partition), { node: null, session: null, epoch: 4, hasBegun: true });
  await isProven(t, 'a', partition);
  t.match(await putBack('a', ...one(partition), ...WRITE), { status: 1, err: /is not empty/ });
});

t.test('where the log begins later, so does the stream, each batch in its place', async (t) => {
  const partition = newPartition();
  await write('b', partition, [1, 2]);
  const log = open('b');
  await log.trimBefore(GROUP, partition, 5);
  await log.close();
  let written = await putBack('b', ...one(partition), ...WRITE);
  if (written.status !== 0) {
    // nats-server 2.9.10.
    t.match(written, { status: 1, out: /restart every nats-server/ });
    t.match(written.out, /\nNext: do what is said .* Start no node before\.\n$/);
    const again = await putBack('b', ...one(partition), ...WRITE);
    t.match(again, { status: 1, out: /restart every nats-server/ }, 'it says so until that was done');
    t.match(await leaseOf(partition), { puttingBack: 'whole' });
    await servers.kill(0, 'SIGKILL');
    const isBack = new Promise<void>((resolve) => void nats.onReconnect(resolve));
    await servers.restart(0);
    await isBack;
    written = await putBack('b', ...one(partition), ...WRITE);
  }
  t.match(written, { status: 0, out: /batches 5 to 8/ }, written.err);
  t.strictSame(await placesIn(partition), [
    [5, 5],
    [6, 6],
    [7, 7],
    [8, 8],
  ]);
  await isProven(t, 'b', partition);
});

t.test('of several nodes the log that ends latest is put back, whichever is asked first', async (t) => {
  const [late, stale, equal] = [newPartition(), newPartition(), newPartition()];
  await write('c1', late, [1, 3], 1);
  await write('c2', late, [1, 2], 5);
  await write('c1', stale, [1], 2);
  await write('c2', stale, [1], 4);
  await write('c1', equal, [1]);
  const ends = join(root, 'ends');
  mkdirSync(ends);
  const inspect = async (node: string): Promise<void> => {
    const { out } = await runTool(walTools, 'inspect', '--data', join(root, node), '--json');
    writeFileSync(join(ends, `${node}.json`), out);
  };
  await inspect('c1');
  await inspect('c2');
  const { out: verified } = await runTool(walTools, 'verify', '--data', join(root, 'c2'), '--json');
  // What the shell leaves of an inspect that failed, and what was never one.
  for (const content of ['', '{"partitions":[', '{}', 'null', '{"partitions":{}}', verified]) {
    writeFileSync(join(ends, 'c3.json'), content);
    const refused = await putBack('c1', '--ends', ends, ...WRITE);
    t.match(refused, { status: 2, err: /c3\.json is not what wal inspect --json prints/ }, content);
  }
  rmSync(join(ends, 'c3.json'));
  t.match(await putBack('c1', ...WRITE), { status: 2, err: /--ends/ }, 'not all of a log without comparing');
  const first = await putBack('c1', '--ends', ends, ...WRITE);
  t.match(first, { status: 0 }, first.err);
  t.match(first.out, `Compared with what is in ${ends}: c1.json, c2.json.\n`);
  t.match(first.out, new RegExp(`accounts/${late} +batches 1 to 4`));
  t.match(first.out, new RegExp(`accounts/${stale} +kept: c2.json has epoch 1, sequence 4, batch 5`));
  t.match(first.out, new RegExp(`accounts/${equal} +batches 1 to 4`));
  t.match(first.out, /\nWritten\.\nNext: run this on the nodes of the other files too, .* start the ledgers/);
  const second = await putBack('c2', '--ends', ends, ...WRITE);
  t.match(second, { status: 0 }, second.err);
  t.match(second.out, new RegExp(`accounts/${late} +kept: c1.json`));
  t.match(second.out, new RegExp(`accounts/${stale} +batches 1 to 5`));
  await isProven(t, 'c1', late);
  await isProven(t, 'c2', stale);
  const again = await putBack('c1', '--ends', ends, ...WRITE);
  t.match(again.out, new RegExp(`accounts/${late} +kept: the stream is not empty`));
});

t.test('a log that ends later than the one that was put back without it is not passed over', async (t) => {
  const [partition, ahead] = [newPartition(), newPartition()];
  await write('g1', partition, [1, 2]);
  await write('g2', partition, [1]);
  await write('g2', ahead, [1], 2);
  cpSync(join(root, 'g2'), join(root, 'g3'), { recursive: true });
  await write('g3', ahead, [2], 2);
  const ends = join(root, 'ends-of-g');
  mkdirSync(ends);
  // The files of the others were forgotten.
  const { out } = await runTool(walTools, 'inspect', '--data', join(root, 'g2'), '--json');
  writeFileSync(join(ends, 'g2.json'), out);
  const early = await putBack('g2', '--ends', ends, ...WRITE);
  t.match(early, { status: 0 }, early.err);
  // Nor where the last that stands there is no batch.
  await publisher.publish(logSubject(GROUP, partition), Buffer.from('an answer'), {});
  const late = await putBack('g1', '--ends', ends, ...WRITE);
  const why = 'refused: this log ends later than its stream, which has epoch 1, sequence 3, batch 4: ';
  t.match(late, { status: 1, out: new RegExp(`accounts/${partition} +${why}`) }, late.err);
  t.match(late.out, `nats stream rm ${logStream(GROUP, partition)}`);
  // So many its next owner gives back itself.
  const bit = await putBack('g3', '--ends', ends, ...WRITE);
  t.match(bit, { status: 0, out: new RegExp(`accounts/${ahead} +kept: the stream is not empty`) }, bit.err);
});

t.test(
  'a log that has nothing behind its snapshot is refused, and keeps no other from being put back',
  async (t) => {
    const [bare, whole] = [newPartition(), newPartition()];
    const log = open('d');
    await log.startAt(GROUP, bare, { batch: 9, sequence: 9, epoch: 1, timeMs: 1, hash: Buffer.alloc(32, 1) });
    await log.close();
    await write('d', whole, [1]);
    const ends = join(root, 'ends-of-d');
    mkdirSync(ends);
    const { out } = await runTool(walTools, 'inspect', '--data', join(root, 'd'), '--json');
    writeFileSync(join(ends, 'd.json'), out);
    const written = await putBack('d', '--ends', ends, ...WRITE);
    t.match(written, { status: 1, err: '' }, written.err);
    t.match(
      written.out,
      new RegExp(`accounts/${bare} +refused: this log has no batch of it behind the snapshot`),
    );
    t.match(written.out, new RegExp(`accounts/${whole} +batches 1 to 4`));
    await isProven(t, 'd', whole);
  },
);

t.test('a log that is damaged is refused, and keeps no other from being put back', async (t) => {
  const [atEnd, within, whole] = [newPartition(), newPartition(), newPartition()];
  for (const partition of [atEnd, within, whole]) await write('h1', partition, [1]);
  cpSync(join(root, 'h1'), join(root, 'h2'), { recursive: true });
  const ends = join(root, 'ends-of-h');
  mkdirSync(ends);
  const { out } = await runTool(walTools, 'inspect', '--data', join(root, 'h1'), '--json');
  writeFileSync(join(ends, 'h1.json'), out);
  await turnBit('h1', atEnd, 4);
  await turnBit('h1', within, 2);

  const damaged = (partition: number, batch: number): RegExp =>
    new RegExp(
      `accounts/${partition} +refused: .*batch ${batch}: CRC32C differs.*another node's log, or restore`,
    );
  t.match(await putBack('h1', '--ends', ends), { status: 1, err: '', out: damaged(atEnd, 4) });
  const written = await putBack('h1', '--ends', ends, ...WRITE);
  t.match(written, { status: 1, out: damaged(atEnd, 4) }, written.err);
  t.match(written.out, damaged(within, 2));
  t.match(written.out, new RegExp(`accounts/${whole} +batches 1 to 4`));
  await isProven(t, 'h1', whole);
  t.match(await leaseOf(within), { puttingBack: 'whole' }, 'nobody serves the half of it');

  const others = await putBack('h2', '--ends', ends, ...WRITE);
  t.match(others, { status: 0 }, others.err);
  t.match(others.out, new RegExp(`accounts/${within} +batches 2 to 4`));
  for (const partition of [atEnd, within]) await isProven(t, 'h2', partition);
});

t.test('one that was interrupted goes on, with the same log alone', async (t) => {
  const partition = newPartition();
  await write('d1', partition, [1, 2]);
  await write('d2', partition, [1, 2]);
  t.match(await putBack('d1', ...one(partition), ...WRITE), { status: 0 });
  // As if it had ended after five batches.
  const bytes = await Promise.all(
    [1, 2, 3, 4, 5].map((seq) => nats.manager.streams.getMessage(logStream(GROUP, partition), { seq })),
  );
  const { config } = await nats.manager.streams.info(logStream(GROUP, partition));
  await nats.manager.streams.delete(logStream(GROUP, partition));
  await nats.manager.streams.add(config);
  for (const { data } of bytes) await publisher.publish(logSubject(GROUP, partition), data, {});
  await notePuttingBack(partition, 'whole');
  t.match(await putBack('d2', ...one(partition), ...WRITE), { status: 1, err: /another log was put back/ });
  const again = await putBack('d1', ...one(partition), ...WRITE);
  t.match(again, { status: 0, out: /batches 6 to 8/ }, again.err);
  t.equal((await placesIn(partition)).length, 8);
  t.strictSame(await leaseOf(partition), { node: null, session: null, epoch: 2, hasBegun: true });
  await isProven(t, 'd1', partition);
});

/** A log that begins with a snapshot of another history, behind all that a stream has. */
async function writeLate(node: string, partition: number): Promise<void> {
  const log = open(node);
  const hash = Buffer.alloc(32, 1);
  await log.startAt(GROUP, partition, { batch: 9, sequence: 7, epoch: 3, timeMs: 1, hash });
  await log.close();
  await write(node, partition, [3]);
}

t.test('a stream that was purged gets the end of what it had, behind its last place', async (t) => {
  const partition = newPartition();
  const stream = logStream(GROUP, partition);
  await write('k', partition, [1, 2]);
  t.match(await putBack('k', ...one(partition), ...WRITE), { status: 0 });
  // Two batches that the stream never had.
  await write('k', partition, [3], 1);
  await nats.manager.streams.purge(stream);
  cpSync(join(root, 'k'), join(root, 'k-damaged'), { recursive: true });
  await turnBit('k-damaged', partition, 8);
  t.match(await putBack('k-damaged', ...one(partition)), {
    status: 1,
    err: /batch 8: CRC32C differs.*put back another node's log/,
  });
  await writeLate('k-late', partition);
  t.match(await putBack('k-late', ...one(partition)), { status: 1, err: /has had nothing of this log/ });
  await notePuttingBack(partition, 'whole');
  t.match(await putBack('k', ...one(partition)), { status: 1, err: /another log was put back/ });

  await notePuttingBack(partition, null);
  const written = await putBack('k', ...one(partition), ...WRITE);
  t.match(written, { status: 0, out: /batches 1 to 8, up to epoch 2, sequence 6/ }, written.err);
  const places = Array.from({ length: 8 }, (_, i) => [9 + i, 1 + i] as [number, number]);
  t.strictSame(await placesIn(partition), places);
  t.strictSame(await leaseOf(partition), { node: null, session: null, epoch: 3, hasBegun: true });
  // Interrupted as it came to its end.
  await notePuttingBack(partition, 'end');
  t.match(await putBack('k', ...one(partition), ...WRITE), { status: 0, out: /all there/ });
  t.strictSame(await placesIn(partition), places);
  t.notOk((await leaseOf(partition))?.puttingBack);
});

t.test('a log that goes on elsewhere than what was put back of another does not go on with it', async (t) => {
  const partition = newPartition();
  await write('m', partition, [1, 2]);
  t.match(await putBack('m', ...one(partition), ...WRITE), { status: 0 });
  await notePuttingBack(partition, 'whole');
  await write('m-short', partition, [1], 1);
  await writeLate('m-late', partition);
  for (const node of ['m-short', 'm-late']) {
    t.match(
      await putBack(node, ...one(partition), ...WRITE),
      { status: 1, err: /another log was put back/ },
      node,
    );
  }
});

t.test(
  'of equal ends the log that begins earlier is put back, and none while one cannot say its end',
  async (t) => {
    const partition = newPartition();
    await write('n', partition, [1, 2]);
    const log = open('n');
    await log.trimBefore(GROUP, partition, 5);
    const { epoch, sequence, batch } = log.tip(GROUP, partition);
    await log.close();
    const ends = join(root, 'ends-of-n');
    mkdirSync(ends);
    const place = { group: GROUP, partition };
    for (const [said, expected] of [
      [
        { tip: { epoch, sequence, batch }, start: { batch: 3 } },
        `kept: other.json has epoch 2, sequence ${sequence}`,
      ],
      [{ problem: 'it is damaged' }, 'refused: other.json cannot say where its log ends: it is damaged'],
      [{ tip: { epoch, sequence, batch }, start: { batch: 5 } }, 'batches 5 to 8'],
    ] as const) {
      writeFileSync(join(ends, 'other.json'), JSON.stringify({ partitions: [{ ...place, ...said }] }));
      const { out } = await putBack('n', '--ends', ends);
      t.match(out, new RegExp(`accounts/${partition} +${expected}`));
    }
  },
);

t.test('what a node may be serving is left alone, and an epoch never falls', async (t) => {
  const partition = newPartition();
  await write('e', partition, [1]);
  const nodeEntry = { session: 's', groups: [GROUP] } as const;
  await withLeases(async (table) => {
    await table.write('node.ledger1', { ...nodeEntry, state: 'live' }, 0);
    await table.write(`lease.${GROUP}.${partition}`, { node: 'ledger1', session: 's', epoch: 9 }, 0);
  });
  t.match(await putBack('e', ...one(partition), ...WRITE), {
    status: 1,
    err: /ledger1 may be serving it: stop it/,
  });
  await withLeases(async (table) => {
    const { revision } = table.nodes.get('ledger1')!;
    await table.write('node.ledger1', { ...nodeEntry, state: 'dead' }, revision);
  });
  t.match(await putBack('e', ...one(partition), ...WRITE), { status: 0 });
  t.match(await leaseOf(partition), { node: null, epoch: 9 });
  t.ok((await nats.manager.streams.info(LEASE_STREAM)).state.messages > 0);
});

t.test('what a node has taken since it was looked at is left to it', async (t) => {
  const partition = newPartition();
  await write('f', partition, [1]);
  const claim = { node: 'ledger2', session: 's', epoch: 1 };
  const meanwhile = once(() =>
    withLeases(async (table) => {
      await table.write('node.ledger2', { session: 's', groups: [GROUP], state: 'live' }, 0);
      await table.write(`lease.${GROUP}.${partition}`, claim, 0);
    }),
  );
  // Its stream is looked at when it is planned what to write.
  const connect = async (): Promise<NatsLink> => {
    const nats = await link(servers.url, 'operator');
    const { streams } = nats.manager;
    const info = streams.info.bind(streams);
    t.intercept(streams, 'info', {
      value: async (...args: Parameters<typeof info>) => {
        if (args[0] === logStream(GROUP, partition)) await meanwhile();
        return info(...args);
      },
    });
    return nats;
  };
  t.match(await putBackOver(connect, 'f', ...one(partition), ...WRITE), {
    status: 1,
    out: /ledger2 may be serving it: stop it/,
  });
  t.strictSame(await leaseOf(partition), claim);
});

t.test('a log that says that it is of another cluster is not written', async (t) => {
  const partition = newPartition();
  await write('other', partition, [1]);
  const notes = { format: FORMAT, records: 0, money: null, cluster: true };
  const own = { partitions: 4, masterKey: 'a' };
  const put = async (noted: { partitions: number; masterKey: string | null }): Promise<ToolRun> => {
    writeIdentity(join(root, 'other'), { ...notes, ...noted });
    return putBack('other', ...one(partition));
  };
  t.match(await put(own), { status: 0 }, 'nothing is known of the cluster');
  await joinCluster(nats, own, 1, 1);
  for (const [noted, why] of [
    [{ ...own, partitions: 8 }, 'it has 8 partitions, and the same master key; the cluster has 4 partitions'],
    [{ ...own, masterKey: 'b' }, 'it has 4 partitions, and another master key; the cluster has 4 partitions'],
  ] as const) {
    const err = `put-back: ${join(root, 'other', IDENTITY_FILE)} says that this is no log of this cluster: ${why}\n`;
    t.strictSame(await put(noted), { status: 1, out: '', err });
  }
  for (const noted of [own, { ...own, masterKey: null }]) t.match(await put(noted), { status: 0 });
});

function once(act: () => Promise<void>): () => Promise<void> {
  let acting: Promise<void> | null = null;
  return () => (acting ??= act());
}
