// `npm run cluster -- put-back`: streams that were lost, or purged empty, get a node's log back, so that partitions can be proved
// again, and served.
//
// Invariant: while a stream is being put back its lease says so, and no node serves the partition: half of a log must not be
// taken for the whole. The lease's epoch is never below the log's: whoever claims it then writes above all that is there.

import { join } from 'node:path';
import { IDENTITY_FILE, readIdentity } from '../src/data-directory/identity.ts';
import { identityIfAny } from '../src/nats/cluster-identity.ts';
import type { NatsLink } from '../src/nats/connection.ts';
import { LIMITS } from '../src/limits.ts';
import { pause } from '../src/pause.ts';
import type { LeaseEntry, LeaseTable } from '../src/nats/leases/lease-table.ts';
import { StreamPublisher } from '../src/nats/stream-publisher.ts';
import { Fenced, StreamReplica } from '../src/nats/log/stream-replica.ts';
import { ensureLeaseBucket, ensureLogStream, hasStream } from '../src/nats/streams.ts';
import { LEASE_STREAM, leaseKey, logStream, partitionOfStream } from '../src/nats/subjects.ts';
import { LogCorruption } from '../wal/batch.ts';
import type { LogReader } from '../wal/log-reader.ts';
import { chosen, partitionOptions, table, withReader } from '../wal/tools/partitions.ts';
import { numberOf, stringOf, UsageError } from '../wal/tools/tool.ts';
import type { Tool, ToolInput, ToolResult } from '../wal/tools/tool.ts';
import { LogEnds } from './log-ends.ts';
import { withLeases, withLink } from './operator-link.ts';
import { planOf } from './put-back-plan.ts';
import type { Plan, Writing } from './put-back-plan.ts';
import { severalAtOnce } from '../src/several-at-once.ts';
import { nameOf, type PartitionName } from '../wal/types.ts';
import type { PartitionPlace } from '../src/bus/bus.ts';

/** `connect` is called once. */
export function putBackTool(connect: () => Promise<NatsLink>): Tool {
  return {
    name: 'put-back',
    summary: "Write a stopped node's log to its streams, which were lost or purged empty.",
    help: `
For partitions that no node serves because their streams are gone, or were purged empty. A stream that is new gets all that the
log has, each batch at the place of its number; one that was purged gets the end of what it had. Stop the nodes that have these
partitions first. Without --yes it says what it would write; where it was interrupted it goes on when it is run again. A stream
that has anything else is left alone, and a log whose daftari.json says that it is of another cluster is not written.

Which node's log: that with the highest epoch, of these with the highest last sequence. Put what "wal inspect --json" prints on
each node into one directory, as <node>.json; with --ends a node's log is written only where no other ends later. What
another log has beyond it is cut off there.

  put-back --data /var/lib/daftari --ends /tmp/ends --replicas 3 --yes
  put-back --data /var/lib/daftari --group accounts --partition 3 --yes`,
    options: {
      ...partitionOptions,
      ends: { type: 'string', value: 'directory', help: 'where the logs of all nodes end' },
      replicas: {
        type: 'string',
        value: '1|3|5',
        help: 'to make what is missing: NATS_REPLICAS of the nodes',
      },
      yes: { type: 'boolean', help: 'write it' },
    },
    run: (input) =>
      withReader(input.directory, async (log) => {
        // What is only planned is refused as it would be.
        if (input.values['replicas'] !== undefined) replicasOf(input.values);
        const names = chosen(log.partitionNames(), input.values).map(withStream);
        const directory = stringOf(input.values, 'ends');
        if (directory === undefined && (names.length !== 1 || input.values['partition'] === undefined)) {
          throw new UsageError('give --group and --partition, or --ends to have the latest of all nodes');
        }
        const ends = directory === undefined ? null : LogEnds.read(directory);
        return withLink(connect, async (link) => {
          await assertOfCluster(input.directory, link);
          return withLeasesIfAny(link, input, (leases) => putBack({ log, link, leases, names, ends }, input));
        });
      }),
  };
}

/** What another service wrote would be held for this cluster's. Where either says nothing of itself, it is not known. */
async function assertOfCluster(directory: string, link: NatsLink): Promise<void> {
  const own = readIdentity(directory);
  const theirs = await identityIfAny(link);
  if (own === null || theirs === null) return;
  const hasItsKey = theirs.masterKey === undefined || [null, theirs.masterKey].includes(own.masterKey);
  if (own.partitions === theirs.partitions && hasItsKey) return;
  throw new Error(
    `${join(directory, IDENTITY_FILE)} says that this is no log of this cluster: it has ${own.partitions} partitions, and ` +
      `${hasItsKey ? 'the same' : 'another'} master key; the cluster has ${theirs.partitions} partitions`,
  );
}

function withStream({ group, partition }: PartitionName): PartitionPlace {
  const place = partitionOfStream(logStream(group as never, partition));
  if (place === null) throw new UsageError(`${nameOf({ group, partition })} has no stream`);
  return place;
}

/** Null: there are none, and nothing is to be written. */
async function withLeasesIfAny(
  link: NatsLink,
  { values }: ToolInput,
  use: (leases: LeaseTable | null) => Promise<ToolResult>,
): Promise<ToolResult> {
  if (!(await hasStream(link.manager, LEASE_STREAM))) {
    if (values['yes'] !== true) return use(null);
    await ensureLeaseBucket(link.manager, replicasOf(values));
  }
  return withLeases(link, use);
}

function replicasOf(values: ToolInput['values']): number {
  const replicas = numberOf(values, 'replicas');
  // Of two servers none may be away.
  if (replicas !== undefined && ![1, 3, 5].includes(replicas)) {
    throw new UsageError(`--replicas is 1, 3 or 5, as NATS_REPLICAS, not ${replicas}`);
  }
  if (replicas !== undefined) return replicas;
  throw new UsageError(
    'streams or leases are missing: give --replicas to make them, NATS_REPLICAS of the nodes',
  );
}

interface PutBack {
  readonly log: LogReader;
  readonly link: NatsLink;
  readonly leases: LeaseTable | null;
  readonly names: readonly PartitionPlace[];
  readonly ends: LogEnds | null;
}

interface Planned {
  readonly name: PartitionPlace;
  readonly plan: Plan;
}

async function putBack(all: PutBack, { values, progress }: ToolInput): Promise<ToolResult> {
  const planned: Planned[] = [];
  for (const name of all.names) planned.push({ name, plan: await planOrTell(all, name) });
  const [only] = planned;
  // Asked for by name: not to be passed over.
  if (all.ends === null && only !== undefined && only.plan.type !== 'writing') {
    throw new Error(`${nameOf(only.name)}: ${only.plan.why}`);
  }
  const isWritten = values['yes'] === true;
  if (!isWritten) return resultOf(all, planned, false);
  const left = planned.filter(({ plan }) => plan.type === 'writing');
  const written: Planned[] = planned.filter(({ plan }) => plan.type !== 'writing');
  progress.start(
    'put-back',
    left.map(({ plan }) => countOf(plan)).reduce((sum, count) => sum + count, 0),
  );
  const onWritten = (bytes: number): void => progress.add(1, bytes);
  // In a stream one batch is on its way at a time, so that each is known to stand in its place: several streams at once.
  await severalAtOnce(LIMITS.takeOversMax, left, async (next) => {
    written.push({ name: next.name, plan: await writeOrTell(all, next, values, onWritten) });
  });
  const order = (one: Planned): number => all.names.indexOf(one.name);
  return resultOf(
    all,
    written.toSorted((one, other) => order(one) - order(other)),
    true,
  );
}

function countOf(plan: Plan): number {
  return plan.type === 'writing' ? plan.last - plan.after : 0;
}

/** One that fails holds up no other. */
async function writeOrTell(
  all: PutBack,
  { name, plan }: Planned,
  values: ToolInput['values'],
  onWritten: (bytes: number) => void,
): Promise<Plan> {
  if (plan.type !== 'writing') return plan;
  try {
    await write(all, name, plan, values, onWritten);
    return plan;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    if (error instanceof LogCorruption) return damagedBy(error);
    if (plan.isMoved && error instanceof Fenced) return { type: 'refused', why: RESTART };
    return { type: 'refused', why: `${String(error)}; run this again` };
  }
}

/** nats-server 2.9.10 has moved what it stores, and counts on from 0 in memory. */
const RESTART =
  'this log begins late, and so does its stream, which nats-server heeds when it starts: restart every nats-server, and run ' +
  'this again';

/** One whose log is damaged holds up no other. */
async function planOrTell(all: PutBack, name: PartitionPlace): Promise<Plan> {
  try {
    const plan = await planFor(all, name);
    // Told of it in the end.
    if (plan.type === 'writing') all.log.tipAt(name.group, name.partition, plan.last);
    return plan;
  } catch (error) {
    if (error instanceof LogCorruption) return damagedBy(error);
    throw error;
  }
}

function damagedBy({ message }: LogCorruption): Plan {
  return {
    type: 'refused',
    why: `${message}; put back another node's log, or restore this one (day 4 of deploy/README.md)`,
  };
}

async function planFor({ log, link, leases, ends }: PutBack, name: PartitionPlace): Promise<Plan> {
  const { group, partition } = name;
  const lease = leases?.lease(group, partition)?.value;
  const held = heldBy(leases, lease);
  if (held !== null) return { type: 'refused', why: held };
  const other = ends?.against(name, log.tip(group, partition), log.startOf(group, partition)) ?? null;
  if (other !== null) return { type: other.isKnown ? 'kept' : 'refused', why: other.why };
  return planOf(log, { link, ...name }, lease);
}

/** Null: nobody has it. */
function heldBy(leases: LeaseTable | null, lease: LeaseEntry | undefined): string | null {
  if (lease === undefined || leases?.isHeld(lease) !== true) return null;
  return `${lease.node} may be serving it: stop it with SIGTERM`;
}

async function write(
  { log, link, leases }: PutBack,
  { group, partition }: PartitionPlace,
  { what, after, last, offset, isMoved }: Writing,
  values: ToolInput['values'],
  onWritten: (bytes: number) => void,
): Promise<void> {
  const { manager } = link;
  if (leases === null) throw new Error('leases are made before anything is written');
  const { epoch } = log.tip(group, partition);
  await changeLease(leases, { group, partition }, (lease) => {
    // Minutes may have passed since it was planned, and an empty machine may have begun the partition.
    const held = heldBy(leases, lease);
    if (held !== null) throw new Error(held);
    return {
      node: null,
      session: null,
      epoch: Math.max(lease?.epoch ?? 0, epoch),
      hasBegun: true,
      puttingBack: what,
    };
  });
  const stream = logStream(group, partition);
  if (!(await hasStream(manager, stream))) {
    await ensureLogStream(manager, group, partition, replicasOf(values));
  }
  if (isMoved) await move(link, stream, after);
  const publisher = new StreamPublisher(link);
  const mayWrite = (): boolean => true;
  const isRemembered = false;
  const replica = new StreamReplica({ publisher, manager, group, partition, offset, mayWrite, isRemembered });
  try {
    for (const batch of log.read(group, partition, { afterBatch: after })) {
      if (batch.batch > last) break;
      await replica.publish(batch);
      onWritten(batch.bytes.length);
    }
  } finally {
    publisher.close();
  }
  // Nodes that run meanwhile may have claimed it, and were refused: what they wrote stays.
  await changeLease(leases, { group, partition }, (lease) => {
    const { puttingBack: _, ...rest } = lease!;
    return rest;
  });
}

/** A purge beyond the end of an empty stream has the next message take that place. */
async function move({ manager }: NatsLink, stream: string, after: number): Promise<void> {
  const { state } = await manager.streams.info(stream);
  if (state.last_seq < after) await manager.streams.purge(stream, { seq: after + 1 });
}

async function changeLease(
  leases: LeaseTable,
  { group, partition }: PartitionPlace,
  change: (lease: LeaseEntry | undefined) => LeaseEntry,
): Promise<void> {
  const until = performance.now() + LIMITS.streamPublishMs;
  for (;;) {
    const seen = leases.lease(group, partition);
    const key = leaseKey(group, partition);
    if ((await leases.write(key, change(seen?.value), seen?.revision ?? 0)) === true) return;
    if (performance.now() > until) throw new Error(`the lease ${key} could not be written`);
    // What it has become is on its way here.
    await pause(LIMITS.busRetryMs);
  }
}

function resultOf({ log, ends }: PutBack, planned: readonly Planned[], written: boolean): ToolResult {
  const rows = planned.map(({ name, plan }) => {
    if (plan.type !== 'writing') return [nameOf(name), `${plan.type}: ${plan.why}`];
    const { epoch, sequence } = log.tipAt(name.group, name.partition, plan.last);
    const batches = countOf(plan) === 0 ? 'all there' : `batches ${plan.after + 1} to ${plan.last}`;
    return [nameOf(name), `${batches}, up to epoch ${epoch}, sequence ${sequence}`];
  });
  const sound = planned.every(({ plan }) => plan.type !== 'refused');
  return {
    sound,
    report: {
      written,
      compared: ends?.files ?? null,
      partitions: planned.map(({ name, plan }) => ({ ...name, ...plan })),
    },
    lines: [
      ...comparedLines(ends),
      ...table(rows),
      lastLine(planned, written, sound),
      ...nextLines(planned, ends, written),
    ],
  };
}

/** Whoever forgot a node sees it here. */
function comparedLines(ends: LogEnds | null): string[] {
  return ends === null ? [] : [`Compared with what is in ${ends.directory}: ${ends.files.join(', ')}.`];
}

function lastLine(planned: readonly Planned[], written: boolean, sound: boolean): string {
  if (!planned.some(({ plan }) => plan.type === 'writing')) return 'There is nothing to write.';
  if (!written) return 'Nothing was written: add --yes to write this.';
  return sound ? 'Written.' : 'Written, but for what is refused.';
}

/** Whoever starts a node too early has partitions begun with nothing, or half of a log taken for the whole. */
function nextLines(planned: readonly Planned[], ends: LogEnds | null, written: boolean): string[] {
  const types = planned.map(({ plan }) => plan.type);
  if (types.includes('refused')) {
    return ['Next: do what is said of what is refused, and run this again. Start no node before.'];
  }
  if (!written && types.includes('writing')) return [];
  if (ends === null) return ['Next: start the nodes that were stopped for it, and wait for their /readyz.'];
  const others = 'run this on the nodes of the other files too, and when nothing is refused on any of them ';
  return [
    `Next: ${ends.files.length > 1 ? others : ''}start the ledgers. Once their /readyz is 200 start the webhooks, then the pollers, and the fronts last.`,
  ];
}
