// The table of leases on a real server: of two who write over the same revision one succeeds, what is newer is never replaced by
// what is older, and a lease stands on the session it was made in.
import t from 'tap';
import type { Test } from 'tap';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { request } from '../../src/bus/bus.ts';
import { LIMITS } from '../../src/limits.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import { NatsBus } from '../../src/nats/bus/nats-bus.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import type { NodeEntry } from '../../src/nats/leases/lease-table.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import type { PublishResult } from '../../src/nats/stream-publisher.ts';
import { ensureLeaseBucket } from '../../src/nats/streams.ts';
import { LEASE_BUCKET, LEASE_STREAM, LEASE_SUBJECT_PREFIX } from '../../src/nats/subjects.ts';
import { link, remembering, startNats } from './adapters.ts';
import { done, repeatable } from './bus-driven.ts';
import { Cable } from './cable.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const { servers, nats, publisher } = await startNats(t);
await ensureLeaseBucket(nats.manager, 1);

async function newTable(t: Test, by: StreamPublisher = publisher): Promise<LeaseTable> {
  const table = new LeaseTable(nats, by, (error) => {
    throw error;
  });
  t.teardown(() => table.close());
  await table.ready();
  return table;
}

const LIVE: NodeEntry = { session: 's1', groups: ['accounts'], state: 'live' };

t.test('what stands in the bucket is known when the table is ready, and what comes is told', async (t) => {
  const a = await newTable(t);
  for (let partition = 0; partition < 300; partition++) {
    const lease = { node: 'x', session: 's', epoch: partition + 1 };
    t.equal(await a.write(`lease.accounts.${partition}`, lease, 0), true);
  }
  const b = await newTable(t);
  t.equal(b.leases.size, 300);
  t.strictSame(b.route('accounts', 299), { node: 'x', epoch: 300 });

  const told: string[] = [];
  let changes = 0;
  b.onChange((group, partition) => told.push(`${group}/${partition}`));
  b.onAnyChange(() => changes++);
  t.equal(await a.write('want.accounts.0', { node: 'y', session: 't' }, 0), true);
  const released = { node: null, session: null, epoch: 300 };
  const { revision } = a.lease('accounts', 299)!;
  t.equal(await a.write('lease.accounts.299', released, revision), true);
  await waitFor('the other hears of it', 10_000, () => b.lease('accounts', 299)?.value.node === null);
  t.equal(b.route('accounts', 299), null, 'nobody holds it');
  t.strictSame(told, ['accounts/299']);
  t.equal(changes, 2, 'once for each');
  t.strictSame(b.wants.get('accounts.0')?.value, { node: 'y', session: 't' });
});

t.test('of two who write over the same revision one succeeds, and knows it at once', async (t) => {
  const [a, b] = [await newTable(t), await newTable(t)];
  const by = (node: string) => ({ node, session: node, epoch: 1 });
  const written = await Promise.all(
    [a, b].map((table, i) => table.write('lease.platform.0', by('ab'[i]!), 0)),
  );
  t.strictSame(
    written.toSorted((one, other) => Number(one) - Number(other)),
    [false, true],
  );
  const winner = written[0] === true ? 'a' : 'b';
  await waitFor('both know whose it is', 10_000, () =>
    [a, b].every((table) => table.route('platform', 0)?.node === winner),
  );
  const { revision } = a.lease('platform', 0)!;
  t.equal(await a.write('lease.platform.0', { ...by('a'), epoch: 2 }, revision), true);
  t.equal(a.lease('platform', 0)?.value.epoch, 2, 'without being told');
  t.equal(await b.write('lease.platform.0', { ...by('b'), epoch: 2 }, revision), false);
  t.equal(await b.write('lease.platform.0', { ...by('b'), epoch: 2 }, 0), false);
});

t.test(
  'who writes only if it has heard all is refused where any key was written that it has not heard of',
  async (t) => {
    const a = await newTable(t);
    t.equal(await a.write('node.silent', LIVE, 0), true);
    const { revision } = a.nodes.get('silent')!;
    const isHeard = async (): Promise<void> => {
      const { state } = await nats.manager.streams.info(LEASE_STREAM);
      await waitFor('all is heard', 10_000, () => a.heardUpTo === state.last_seq);
    };
    await isHeard();
    const missedNothingSince = a.missedNothingSince;
    // In this order, on one connection: the second is sent before the first can be heard.
    const other = publisher.publish(
      `${LEASE_SUBJECT_PREFIX}node.other`,
      Buffer.from(JSON.stringify(LIVE)),
      {},
    );
    const dead = { ...LIVE, state: 'dead' } as const;
    t.equal(await a.write('node.silent', dead, revision, { ifAllHeard: true }), false);
    t.equal((await other).type, 'stored');
    await isHeard();
    t.equal(
      await a.write('node.silent', dead, revision - 1, { ifAllHeard: true }),
      false,
      'nor over another',
    );
    t.equal(await a.write('node.silent', dead, revision, { ifAllHeard: true }), true);
    await isHeard();
    t.equal(a.missedNothingSince, missedNothingSince, 'each message was heard');
  },
);

t.test('a message that was dropped before it was heard is missed, which the next one tells', async (t) => {
  const { cable, url } = await Cable.lay(servers.url);
  const far = await link(url, 'far');
  const ofFar = new StreamPublisher(far);
  const a = new LeaseTable(far, ofFar, (error) => void t.fail(error.message));
  t.teardown(async () => {
    await a.close();
    ofFar.close();
    await far.close();
    cable.remove();
  });
  await a.ready();
  const b = await newTable(t);
  t.equal(await b.write('node.dropped', LIVE, 0), true);
  await waitFor('it is heard', 10_000, () => a.nodes.has('dropped'));
  const { missedNothingSince, heardUpTo } = a;
  cable.cut();
  t.equal(await b.write('node.dropped', LIVE, b.nodes.get('dropped')!.revision), true);
  await nats.manager.streams.purge(LEASE_STREAM, { filter: `${LEASE_SUBJECT_PREFIX}node.dropped` });
  t.equal(await b.write('node.next', LIVE, 0), true);
  cable.mend();
  await waitFor('the next is heard', 30_000, () => a.nodes.has('next'));
  t.ok(a.heardUpTo >= heardUpTo + 2);
  t.ok(a.missedNothingSince > missedNothingSince);
});

/** What it publishes is not answered before `answer`. */
class LatePublisher extends StreamPublisher {
  answer = (): void => {};

  override async publish(...what: Parameters<StreamPublisher['publish']>): Promise<PublishResult> {
    const result = await super.publish(...what);
    await new Promise<void>((resolve) => (this.answer = resolve));
    return result;
  }
}

async function tableAnsweredLate(t: Test) {
  const late = new LatePublisher(nats);
  t.teardown(() => late.close());
  return { table: await newTable(t, late), answer: () => late.answer() };
}

t.test('an acknowledgement that comes after newer news changes nothing', async (t) => {
  const { table: a, answer } = await tableAnsweredLate(t);
  const b = await newTable(t);
  const writing = a.write('node.late', LIVE, 0);
  await waitFor('it is read', 10_000, () => a.nodes.has('late') && b.nodes.has('late'));
  const seenAt = a.nodes.get('late')!.seenAt;
  const { revision } = b.nodes.get('late')!;
  t.equal(await b.write('node.late', { ...LIVE, state: 'dead' }, revision), true);
  await waitFor('the end is read', 10_000, () => a.nodes.get('late')?.value.state === 'dead');
  const newer = a.nodes.get('late')!;
  t.ok(newer.seenAt > seenAt);
  answer();
  t.equal(await writing, true);
  t.equal(a.nodes.get('late'), newer);
});

t.test('a lease stands on the session it was made in, until that has ended', async (t) => {
  const table = await newTable(t);
  const lease = { node: 'n', session: 's1', epoch: 1 };
  t.notOk(table.isHeld(lease), 'of a node that nobody knows');
  let revision = 0;
  const says = async (entry: NodeEntry): Promise<void> => {
    t.equal(await table.write('node.n', entry, revision), true);
    ({ revision } = table.nodes.get('n')!);
  };
  await says(LIVE);
  t.ok(table.isHeld(lease));
  t.notOk(table.isHeld({ node: null, session: null, epoch: 1 }), 'released');
  await says({ ...LIVE, state: 'draining' });
  t.ok(table.isHeld(lease), 'while it leaves');
  await says({ ...LIVE, state: 'dead' });
  t.notOk(table.isHeld(lease));
  await says({ ...LIVE, session: 's2' });
  t.notOk(table.isHeld(lease), 'the process has begun anew, and holds nothing of before');
});

t.test('an entry that an operator has removed is gone, and can be written again', async (t) => {
  const [a, b] = [await newTable(t), await newTable(t)];
  t.equal(await a.write('node.old', LIVE, 0), true);
  await waitFor('it is known', 10_000, () => b.nodes.has('old'));
  const bucket = await nats.connection.jetstream().views.kv(LEASE_BUCKET);
  await bucket.delete('node.old');
  await waitFor('both know that it is gone', 10_000, () => !a.nodes.has('old') && !b.nodes.has('old'));
  const c = await newTable(t);
  t.notOk(c.nodes.has('old'), 'nor does one that begins now know it');
  t.equal(await c.write('node.old', { ...LIVE, session: 's2' }, 0), true);
  await waitFor('it is known again', 10_000, () => b.nodes.get('old')?.value.session === 's2');
  t.equal(await a.write('node.old', LIVE, 0), false);
  t.equal(await c.write('node.old', LIVE, c.nodes.get('old')!.revision), true);
});

t.test('an entry that was purged by its key, of which no message tells, is written again', async (t) => {
  const [a, b] = [await newTable(t), await newTable(t)];
  t.equal(await a.write('node.purged', LIVE, 0), true);
  t.equal(await a.write('node.newer', LIVE, 0), true);
  await waitFor('both are known', 10_000, () => b.nodes.has('newer'));
  await purge('node.purged');
  await waitFor('its node writes it', 10_000, async () => {
    return (await a.write('node.purged', LIVE, a.nodes.get('purged')!.revision)) === true;
  });
  await waitFor('others hear of it', 10_000, () => {
    return b.nodes.get('purged')?.revision === a.nodes.get('purged')!.revision;
  });
  t.equal(a.nodes.get('newer')?.isSpoilt ?? false, false, 'what stands there does so still');
});

t.test('what was purged before its acknowledgement came is to be said again all the same', async (t) => {
  const { table, answer } = await tableAnsweredLate(t);
  const writing = table.write('node.purged-early', LIVE, 0);
  await waitFor('it is read', 10_000, () => table.nodes.has('purged-early'));
  await purge('node.purged-early');
  await table.noteDropped();
  answer();
  t.equal(await writing, true);
  t.hasStrict(table.nodes.get('purged-early'), { revision: 0, isSpoilt: true });
});

t.test('whoever begins where the newest entry was purged does not wait for it', async (t) => {
  const a = await newTable(t);
  t.equal(await a.write('node.newest', LIVE, 0), true);
  await purge('node.newest');
  const b = await newTable(t);
  t.notOk(b.nodes.has('newest'));
  t.ok(b.nodes.has('n'), 'and knows all that is there');
  t.equal(await b.write('node.newest', LIVE, 0), true);
});

t.test('what is left of an entry that was removed may be purged, too', async (t) => {
  const a = await newTable(t);
  t.equal(await a.write('want.accounts.1', { node: 'n', session: 's' }, 0), true);
  const bucket = await nats.connection.jetstream().views.kv(LEASE_BUCKET);
  await bucket.delete('want.accounts.1');
  await waitFor('it is known to be gone', 10_000, () => !a.wants.has('accounts.1'));
  await purge('want.accounts.1');
  await waitFor('it is written', 10_000, async () => {
    return (await a.write('want.accounts.1', { node: 'n', session: 's2' }, 0)) === true;
  });
});

/** As if the server at which consumers read had a copy without leases. Undone by what it returns. */
function lackLeases(): () => void {
  const { consumers } = nats.manager;
  const add = consumers.add.bind(consumers);
  consumers.add = (stream, config) =>
    add(stream, { ...config, filter_subject: `${LEASE_SUBJECT_PREFIX}node.>` });
  return () => {
    consumers.add = add;
  };
}

/** The same for those that read already. */
async function readOnWithoutLeases(): Promise<() => void> {
  const mend = lackLeases();
  const { consumers } = nats.manager;
  const lists = await consumers.list(LEASE_STREAM).next();
  await Promise.all(lists.map(({ name }) => consumers.delete(LEASE_STREAM, name)));
  await waitFor('they read on', 10_000, async () => {
    return (await consumers.list(LEASE_STREAM).next()).length >= 2;
  });
  return mend;
}

t.test('who begins at a server that lacks keys reads them at another', async (t) => {
  const writer = await newTable(t);
  t.equal(await writer.write('lease.accounts.930', { node: 'n', session: 's', epoch: 1 }, 0), true);
  t.equal(await writer.write('node.n930', LIVE, 0), true);
  const mend = lackLeases();
  const table = new LeaseTable(nats, publisher, (error) => void t.fail(error.message));
  t.teardown(() => table.close());
  const isReady = table.ready();
  await waitFor('it has begun', 10_000, () => table.nodes.has('n930'));
  t.equal(table.lease('accounts', 930), undefined);
  mend();
  await isReady;
  t.equal(table.lease('accounts', 930)?.value.epoch, 1);
});

t.test('so does who goes on at such a server, when a write is refused', async (t) => {
  const [writer, table] = [await newTable(t), await newTable(t)];
  const entry = { node: 'n', session: 's', epoch: 1 };
  t.equal(await writer.write('lease.accounts.931', entry, 0), true);
  await waitFor('both know it', 10_000, () => table.lease('accounts', 931) !== undefined);
  const { revision } = writer.lease('accounts', 931)!;
  const mend = await readOnWithoutLeases();
  t.equal(await writer.write('lease.accounts.931', { ...entry, epoch: 2 }, revision), true);
  mend();
  t.equal(await table.write('lease.accounts.931', { ...entry, epoch: 9 }, revision), false);
  await waitFor('it hears of the newer', 10_000, () => table.lease('accounts', 931)?.value.epoch === 2);
});

t.test('so does who only asks, when an owner that is none any more does not answer', async (t) => {
  const [writer, table] = [await newTable(t), await newTable(t)];
  const entry = { node: 'n', session: 's', epoch: 1 };
  t.equal(await writer.write('lease.webhooks.2', entry, 0), true);
  await waitFor('both know it', 10_000, () => table.lease('webhooks', 2) !== undefined);
  const { revision } = writer.lease('webhooks', 2)!;
  const mend = await readOnWithoutLeases();
  t.equal(await writer.write('lease.webhooks.2', { ...entry, node: 'm', epoch: 2 }, revision), true);
  mend();

  const { connection } = nats;
  const served = new NatsBusServer(connection).serve('webhooks', 2, 2);
  served.open({ inbox: (_, onReply) => onReply(done('new')), holds: () => true });
  const partitions = { accounts: 4, webhooks: 4, pollers: 4, platform: 1 };
  const server = new NatsBusServer(connection);
  const bus = new NatsBus({ connection, caller: 'front', routes: table, partitions, server });
  t.teardown(() => {
    bus.close();
    served.stop();
  });
  const { commandDeadlineMs } = LIMITS;
  t.strictSame(await request(bus, 'webhooks', 2, repeatable(1, commandDeadlineMs)), done('new'));
  t.equal(table.lease('webhooks', 2)?.value.epoch, 2);
});

t.test('and a front whom nobody asks, since it knows of no owner', async (t) => {
  const [writer, table] = [await newTable(t), await newTable(t)];
  const [before, after] = ['s-before', 's-after'].map((session) => ({ node: 'n940', session, epoch: 1 }));
  t.equal(await writer.write('node.n940', { ...LIVE, session: 's-after' }, 0), true);
  t.equal(await writer.write('lease.accounts.940', before!, 0), true);
  await waitFor('both know it', 10_000, () => table.lease('accounts', 940) !== undefined);
  const { revision } = writer.lease('accounts', 940)!;
  const mend = await readOnWithoutLeases();
  t.equal(await writer.write('lease.accounts.940', after!, revision), true);
  mend();
  t.notOk(table.isHeld(table.lease('accounts', 940)!.value));
  table.doubtUnheld();
  await waitFor('it is held', 10_000, () => table.isHeld(table.lease('accounts', 940)!.value));
});

t.test('where the disk of NATS has forgotten what it wrote last, it is written again', async (t) => {
  const directory = temporaryDirectory(t);
  const forgetful = await startNatsServers({ directory });
  const ledger = await link(forgetful.url, 'ledger');
  await ensureLeaseBucket(ledger.manager, 1);
  const [by, late] = [new StreamPublisher(ledger), new LatePublisher(ledger)];
  const [a, b, c] = [by, by, late].map(
    (each) => new LeaseTable(ledger, each, (error) => t.fail(error.message)),
  ) as [LeaseTable, LeaseTable, LeaseTable];
  t.teardown(async () => {
    await Promise.all([a, b, c].map((table) => table.close()));
    for (const each of [by, late]) each.close();
    await ledger.close();
    await forgetful.stop();
  });
  await Promise.all([a, b, c].map((table) => table.ready()));
  const renew = async (): Promise<boolean> =>
    (await a.write('node.a', LIVE, a.nodes.get('a')?.revision ?? 0)) === true;
  t.ok(await renew());
  const forget = await remembering(forgetful, directory, 'n1/jetstream');
  for (let count = 0; count < 5; count++) await waitFor('it is renewed', 10_000, renew);
  await waitFor('the other hears of it', 10_000, () => (b.nodes.get('a')?.revision ?? 0) > 5);
  const writing = c.write('node.c', LIVE, 0);
  await waitFor('it is read', 10_000, () => c.nodes.has('c'));

  await forget();
  await waitFor('it is renewed once more', 30_000, renew);
  const { revision } = a.nodes.get('a')!;
  t.ok(revision < 5);
  await b.noteDropped();
  await waitFor('the other hears of it', 10_000, () => b.nodes.get('a')?.revision === revision);

  await c.noteDropped();
  late.answer();
  await writing;
  t.hasStrict(c.nodes.get('c'), { revision: 0, isSpoilt: true }, 'also what is answered only then');
});

t.test('also where others have written more since than it had read', async (t) => {
  const directory = temporaryDirectory(t);
  const forgetful = await startNatsServers({ directory });
  const { cable, url } = await Cable.lay(forgetful.url);
  const [ledger, far] = [await link(forgetful.url, 'ledger'), await link(url, 'far')];
  await ensureLeaseBucket(ledger.manager, 1);
  const [by, ofA] = [new StreamPublisher(ledger), new StreamPublisher(far)];
  const fail = (error: Error): void => void t.fail(error.message);
  const [a, b] = [new LeaseTable(far, ofA, fail), new LeaseTable(ledger, by, fail)];
  t.teardown(async () => {
    await Promise.all([a.close(), b.close()]);
    for (const each of [by, ofA]) each.close();
    await Promise.all([far.close(), ledger.close()]);
    cable.remove();
    await forgetful.stop();
  });
  await Promise.all([a.ready(), b.ready()]);
  const renewal = (table: LeaseTable, name: string) => async (): Promise<boolean> =>
    (await table.write(`node.${name}`, LIVE, table.nodes.get(name)?.revision ?? 0)) === true;
  t.ok(await renewal(a, 'a')());
  const forget = await remembering(forgetful, directory, 'n1/jetstream');
  for (let count = 0; count < 5; count++) await waitFor('it is renewed', 10_000, renewal(a, 'a'));
  const known = a.nodes.get('a')!.revision;
  await waitFor('it is read', 10_000, () => a.heardUpTo === known && b.heardUpTo === known);

  cable.cut();
  await forget();
  await waitFor('as much is written', 30_000, async () => {
    await renewal(b, 'b')();
    return (b.nodes.get('b')?.revision ?? 0) > known;
  });
  cable.mend();
  await waitFor('it is renewed once more', 30_000, renewal(a, 'a'));
  await waitFor('and hears of the other', 10_000, () => a.nodes.has('b'));
});

function purge(key: string): Promise<unknown> {
  return nats.manager.streams.purge(LEASE_STREAM, { filter: LEASE_SUBJECT_PREFIX + key });
}

t.test('without an answer nobody knows whether it was written, and the table shows it', async (t) => {
  const unheard = new (class extends StreamPublisher {
    override async publish(...what: Parameters<StreamPublisher['publish']>): Promise<PublishResult> {
      await super.publish(...what);
      return { type: 'unanswered', description: 'no acknowledgement in time' };
    }
  })(nats);
  t.teardown(() => unheard.close());
  const table = await newTable(t, unheard);
  t.equal(await table.write('lease.accounts.900', { node: 'n', session: 's', epoch: 1 }, 0), null);
  await waitFor('it was', 10_000, () => table.route('accounts', 900)?.epoch === 1);
});

t.test(
  "nor is what a bucket has taken that is no more: in the one made anew its revision is nobody's",
  async (t) => {
    const { table, answer } = await tableAnsweredLate(t);
    const writing = table.write('node.remade', LIVE, 0);
    await waitFor('it is read', 10_000, () => table.nodes.has('remade'));
    await nats.manager.streams.delete(LEASE_STREAM);
    await ensureLeaseBucket(nats.manager, 1);
    await table.noteDropped();
    answer();
    t.equal(await writing, null);
    t.hasStrict(table.nodes.get('remade'), { revision: 0, isSpoilt: true });
    const again = table.write('node.remade', LIVE, 0);
    await waitFor('it is read there', 10_000, () => table.nodes.get('remade')?.revision === 1);
    answer();
    t.equal(await again, true);
  },
);
