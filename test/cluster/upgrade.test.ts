// Rolling upgrade: nobody writes records that another node cannot read, and nobody reads a log that it would not understand.
// This version has one format of records; the versions around it are real readers of the cluster's format with another range.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import type { RecordFormats } from '../../src/domain/record-format.ts';
import { joinCluster } from '../../src/nats/cluster-identity.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { LeaseTable } from '../../src/nats/leases/lease-table.ts';
import type { NodeEntry } from '../../src/nats/leases/lease-table.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { ensureLeaseBucket, storedMessage } from '../../src/nats/streams.ts';
import { CLUSTER_STREAM, IDENTITY_SUBJECT, WRITE_FORMAT_SUBJECT } from '../../src/nats/subjects.ts';
import { WriteFormatUnknown } from '../../src/nats/errors.ts';
import { raiseWriteFormat, WriteFormat } from '../../src/nats/write-format.ts';
import { link, made } from './adapters.ts';
import { Cluster, SMALL } from './cluster.ts';
import { needs } from '../needs.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';

needs('nats-server');

const OLD: RecordFormats = { oldestWritten: 1, newest: 1 };
const NEW: RecordFormats = { oldestWritten: 1, newest: 2 };
const { masterKey } = made(4);
const LATER: RecordFormats = { oldestWritten: 3, newest: 3 };

interface Tables {
  readonly nats: NatsLink;
  readonly publisher: StreamPublisher;
  readonly table: LeaseTable;
}

async function tablesOf(t: Test, url: string): Promise<Tables> {
  const nats = await link(url, 'test');
  await ensureLeaseBucket(nats.manager, 1);
  const publisher = new StreamPublisher(nats);
  const table = new LeaseTable(nats, publisher, (error) => {
    throw error;
  });
  await table.ready();
  t.teardown(async () => {
    await table.close();
    await nats.close();
  });
  return { nats, publisher, table };
}

/** The session of a node of another version. */
async function says(
  { table }: Tables,
  name: string,
  entry: Pick<NodeEntry, 'state' | 'newestFormat'>,
): Promise<void> {
  const common = { session: name, groups: [] };
  const revision = table.nodes.get(name)?.revision ?? 0;
  if ((await table.write(`node.${name}`, { ...common, ...entry }, revision)) !== true) {
    throw new Error(`the session of ${name} was not written`);
  }
}

t.test('the format is raised when every live node reads the next one, and not before', async (t) => {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const tables = await tablesOf(t, servers.url);
  const { nats, publisher, table } = tables;
  await joinCluster(nats, made(4), 1, OLD.newest);
  const identity = await joinCluster(nats, made(4), 1, NEW.newest);
  const errors: Error[] = [];
  const follow = async (formats: RecordFormats): Promise<WriteFormat> => {
    const onError = (error: Error): void => void errors.push(error);
    const followed = await WriteFormat.follow({
      link: nats,
      identity,
      formats,
      masterKey,
      onRaised: () => {},
      onError,
    });
    t.teardown(() => followed.close());
    return followed;
  };
  t.strictSame(await raiseWriteFormat(nats, publisher, table), { type: 'no_nodes' });

  const oldNode = await follow(OLD);
  const newNode = await follow(NEW);
  await says(tables, 'old', { state: 'live' });
  await says(tables, 'leaving', { state: 'draining', newestFormat: 1 });
  await says(tables, 'new', { state: 'live', newestFormat: 2 });
  t.equal(newNode.current, 1, 'the new node writes what the old one reads');
  t.strictSame(await raiseWriteFormat(nats, publisher, table), {
    type: 'held_back',
    format: 1,
    wanted: 2,
    by: [
      { node: 'old', newestFormat: 1 },
      { node: 'leaving', newestFormat: 1 },
    ],
  });
  t.equal((await follow(OLD)).current, 1, 'so the old version can still join');

  for (const name of ['old', 'leaving']) await says(tables, name, { state: 'dead' });
  t.strictSame(await raiseWriteFormat(nats, publisher, table), { type: 'raised', format: 2, from: 1 });
  await waitFor('the new node writes the new format', 60_000, () => newNode.current === 2);
  // It had not said yet that it lives.
  await waitFor('an old node that was not seen stops', 60_000, () => errors.length === 2);
  t.ok(errors.every((error) => error instanceof WriteFormatUnknown));
  t.equal(oldNode.current, 1);
  t.strictSame(await raiseWriteFormat(nats, publisher, table), { type: 'newest', format: 2 });

  await t.rejects(follow(OLD), { name: 'WriteFormatUnknown', message: /reads only up to format 1.*Start/ });
  await t.rejects(follow(LATER), { name: 'WriteFormatUnknown', message: /none before format 3.*upgrade/ });
  t.equal((await follow(NEW)).current, 2);
});

t.test(
  'what is no format, or no identity, in the place of one changes nothing and ends nobody',
  async (t) => {
    const servers = await startNatsServers();
    t.teardown(() => servers.stop());
    const tables = await tablesOf(t, servers.url);
    const { nats, publisher, table } = tables;
    const identity = await joinCluster(nats, made(4), 1, OLD.newest);
    const errors: Error[] = [];
    const raised: number[] = [];
    const options = {
      identity,
      onRaised: (format: number) => void raised.push(format),
      onError: (error: Error) => void errors.push(error),
    };
    const followed = await WriteFormat.follow({ link: nats, formats: NEW, masterKey, ...options });
    t.teardown(() => followed.close());
    const spoil = async (): Promise<void> => {
      for (const subject of [WRITE_FORMAT_SUBJECT, IDENTITY_SUBJECT]) {
        // As a hand at the nats tool does, and NATS itself for whoever asks it something and names this key for the answer.
        const before = (await nats.manager.streams.info(CLUSTER_STREAM)).state.last_seq;
        nats.connection.publish(subject, 'oops');
        nats.connection.publish('$JS.API.INFO', '', { reply: subject });
        await nats.connection.flush();
        await waitFor('it is put right', 20_000, async () => {
          const stored = await nats.manager.streams.getMessage(CLUSTER_STREAM, { last_by_subj: subject });
          return stored.seq >= before + 3 && /^\{"format":\d/.test(stored.string());
        });
      }
    };
    await spoil();
    t.equal(followed.current, 1);
    await says(tables, 'new', { state: 'live', newestFormat: 2 });
    await joinCluster(nats, made(4), null, 1);
    t.strictSame(await raiseWriteFormat(nats, publisher, table), { type: 'raised', format: 2, from: 1 });
    await waitFor('it is told', 20_000, () => followed.current === 2);
    await spoil();
    const late = await WriteFormat.follow({ link: nats, formats: NEW, masterKey, ...options });
    t.equal(late.current, 2, 'the format is not lowered by it');
    const lastSeq = (await nats.manager.streams.info(CLUSTER_STREAM)).state.last_seq;
    nats.connection.publish(WRITE_FORMAT_SUBJECT, '{"format":1}');
    await waitFor('nor by who had not heard that it was raised', 20_000, async () => {
      const query = { last_by_subj: WRITE_FORMAT_SUBJECT };
      const stored = await nats.manager.streams.getMessage(CLUSTER_STREAM, query);
      return stored.seq >= lastSeq + 2 && stored.string() === '{"format":2}';
    });
    // As by a purge, or where the disks of all servers have forgotten it: no message tells of that.
    const identityBefore = await storedMessage(nats.manager, CLUSTER_STREAM, {
      last_by_subj: IDENTITY_SUBJECT,
    });
    await nats.manager.streams.purge(CLUSTER_STREAM);
    await Promise.all([followed.sayIfLost(), late.sayIfLost()]);
    for (const [subject, value] of [
      [IDENTITY_SUBJECT, identityBefore!.string()],
      [WRITE_FORMAT_SUBJECT, '{"format":2}'],
    ] as const) {
      const stored = await storedMessage(nats.manager, CLUSTER_STREAM, { last_by_subj: subject });
      t.strictSame(JSON.parse(stored!.string()), JSON.parse(value));
    }
    await late.close();
    t.strictSame(raised, [2]);
    t.strictSame(errors, []);
  },
);

t.test('a cluster begins with the newest format of the node that makes it', async (t) => {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const { nats } = await tablesOf(t, servers.url);
  const identity = await joinCluster(nats, made(4), 1, NEW.newest);
  const options = { link: nats, identity, onRaised: () => {}, onError: () => {} };
  const followed = await WriteFormat.follow({ ...options, masterKey, formats: NEW });
  t.equal(followed.current, 2);
  await followed.close();
  await t.rejects(WriteFormat.follow({ ...options, masterKey, formats: OLD }), WriteFormatUnknown);
});

function upgrade(url: string): Promise<{ status: number; said: string }> {
  const program = join(import.meta.dirname, '../../deploy/cluster.ts');
  const env = { ...ENVIRONMENT, NATS_URL: url };
  return new Promise((resolve) => {
    execFile(process.execPath, [program, 'upgrade'], { env }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), said: stdout + stderr });
    });
  });
}

interface Said {
  readonly status: number;
  readonly body: any;
}

async function call(cluster: Cluster, node: string, method: string, path: string): Promise<Said> {
  const answer = await fetch(`${cluster.node(node).operatorUrl}/operator/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${cluster.settings.operatorToken}` },
  });
  return { status: answer.status, body: await answer.json() };
}

t.test('nodes say what they read, and do not run in a cluster that writes more', async (t) => {
  const cluster = await Cluster.start({ ...SMALL, ledgers: 1 });
  t.teardown(() => cluster.stop());
  const tables = await tablesOf(t, cluster.nats.url);
  const { newest } = RECORD_FORMATS;
  const done = await upgrade(cluster.nats.url);
  t.equal(done.status, 0, done.said);
  t.match(done.said, `writes records in format ${newest} already`);

  const raise = (node: string): Promise<Said> => call(cluster, node, 'POST', '/write_format/raise');
  t.hasStrict(await raise('poller1'), { status: 200, body: { object: 'write_format', format: newest } });

  // Renewed as a node renews it: who is silent for the time of a lease is no longer asked.
  const newer = { state: 'live', newestFormat: newest + 1 } as const;
  await says(tables, 'newer', newer);
  const renewing = setInterval(() => void says(tables, 'newer', newer).catch(() => {}), 500);
  t.teardown(() => clearInterval(renewing));
  let refused = { status: 0, said: '' };
  await waitFor('the upgrade is refused', 60_000, async () => {
    refused = await upgrade(cluster.nats.url);
    return refused.status === 1;
  });
  t.match(refused.said, new RegExp(`ledger1 \\(reads up to ${newest}\\)`));
  t.match(refused.said, new RegExp(`poller1 \\(reads up to ${newest}\\)`));

  let told: Said = { status: 0, body: null };
  await waitFor('an operator is told the same', 40_000, async () => {
    told = await raise('ledger1');
    return told.status === 409;
  });
  const { error } = told.body;
  t.equal(error.code, 'conflict');
  t.match(error.message, new RegExp(`stays at format ${newest}.*poller1 \\(reads up to ${newest}\\)`));
  t.match((await raise('front1')).body, { error: { code: 'conflict', message: /^A front/ } });
  const { data: audit } = (await call(cluster, 'front1', 'GET', '/audit?limit=100')).body;
  const raises = audit.filter(({ action }: any) => action === 'POST /operator/v1/write_format/raise');
  t.hasStrict(raises.at(-1), { outcome: 'done' });
  t.hasStrict(raises[0], { outcome: 'refused', code: 'conflict' });

  const other = await cluster.add('front2', 'front', { PARTITIONS: '3' });
  t.equal(await other.exited(), 2, 'starting it again would change nothing');
  t.match(
    readFileSync(other.logFile, 'utf8'),
    /^the cluster was created with PARTITIONS=6 and .* Set PARTITIONS=6\.\n$/,
  );

  const data = Buffer.from(JSON.stringify({ format: newest + 1 }));
  const raised = await tables.publisher.publish(WRITE_FORMAT_SUBJECT, data, { lastSubjectSequence: 0 });
  t.equal(raised.type, 'stored');
  const running = cluster.node('ledger1');
  t.equal(await running.exited(), 1);
  t.match(readFileSync(running.logFile, 'utf8'), /reads only up to format/);
  const late = await cluster.add('ledger2', 'ledger');
  t.equal(await late.exited(), 2);
  t.match(readFileSync(late.logFile, 'utf8'), /^the cluster writes records in format .* Start the version/m);
  t.equal(cluster.node('front1').exitStatus(), null, 'a front reads no records');
});
