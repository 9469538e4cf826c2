// What the adapter tests share: links to real servers, a routing table set by hand, a log in a temporary directory.

import { cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StreamInfo } from 'nats';
import type { Test } from 'tap';
import { startNatsServers, type NatsServers } from '../../deploy/nats-servers.ts';
import type { GroupName } from '../../src/bus/bus.ts';
import type { Route, Routes } from '../../src/bus/ownership.ts';
import { connectNats } from '../../src/nats/connection.ts';
import type { NatsEvents, NatsLink } from '../../src/nats/connection.ts';
import { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { StreamReplica } from '../../src/nats/log/stream-replica.ts';
import { ensureLogStream } from '../../src/nats/streams.ts';
import { logStream, logSubject } from '../../src/nats/subjects.ts';
import { encodeBatch } from '../../wal/batch.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import type { Batch, Tip } from '../../wal/types.ts';
import { ViewStore } from '../../wal/views.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

export function link(url: string, name: string, events: NatsEvents = {}): Promise<NatsLink> {
  return connectNats({ url, name, inboxPrefix: `_INBOX.${name}` }, events);
}

export interface Nats {
  readonly servers: NatsServers;
  /** Of a ledger. */
  readonly nats: NatsLink;
  readonly publisher: StreamPublisher;
  /** Of a writer that is never told to stop, and of `accounts`, where nothing else is said. */
  readonly replica: (partition: number, of?: ReplicaOf) => StreamReplica;
}

interface ReplicaOf {
  readonly group?: GroupName;
  readonly offset?: number;
  /** By which it publishes. */
  readonly by?: StreamPublisher;
  readonly mayWrite?: () => boolean;
}

/** Real nats-servers, one where nothing else is said, with a link to them and what publishes over that, until `t` ends. */
export async function startNats(
  t: Pick<Test, 'teardown'>,
  options: Parameters<typeof startNatsServers>[0] = {},
): Promise<Nats> {
  const servers = await startNatsServers(options);
  const nats = await link(servers.url, 'ledger');
  const publisher = new StreamPublisher(nats);
  t.teardown(async () => {
    publisher.close();
    await nats.close();
    await servers.stop();
  });
  const { manager } = nats;
  const replica: Nats['replica'] = (partition, of = {}) => {
    const { group = 'accounts', offset = 0, by = publisher, mayWrite = () => true } = of;
    return new StreamReplica({ publisher: by, manager, group, partition, offset, mayWrite });
  };
  return { servers, nats, publisher, replica };
}

/** Each call makes the stream of another accounts partition, of one replica, and resolves with its number, from 0 on. */
export function partitionMaker({ manager }: NatsLink): () => Promise<number> {
  let partitions = 0;
  return async () => {
    const partition = partitions++;
    await ensureLogStream(manager, 'accounts', partition, 1);
    return partition;
  };
}

/** Who next asks what a stream has is told something else. */
export function tellOnce({ manager: { streams } }: NatsLink, told: (now: StreamInfo) => StreamInfo): void {
  const info = streams.info.bind(streams);
  streams.info = async (name) => {
    streams.info = info;
    return told(await info(name));
  };
}

/** As if a stream ended so many messages later. */
export function longer(now: StreamInfo, by: number): StreamInfo {
  const { state } = now;
  return { ...now, state: { ...state, last_seq: state.last_seq + by, messages: state.messages + by } };
}

/** Of the accounts' stream of a partition, in order. */
export async function messagesOf({ manager }: NatsLink, partition: number): Promise<Buffer[]> {
  const name = logStream('accounts', partition);
  const { state } = await manager.streams.info(name);
  const messages: Buffer[] = [];
  for (let seq = 1; seq <= state.last_seq; seq++) {
    messages.push(Buffer.from((await manager.streams.getMessage(name, { seq })).data));
  }
  return messages;
}

/** What the disk of the first server has at `stored`, below `directory`, now. What this resolves with has it forget all that came since, as
 *  after a power cut: nats-server 2.9 acknowledges what it has not synced. Slower than `forgetLast`, and nearer to that. */
export async function remembering(
  servers: NatsServers,
  directory: string,
  stored: string,
): Promise<() => Promise<void>> {
  const [path, kept] = [join(directory, stored), join(directory, 'kept')];
  await servers.kill(0, 'SIGKILL');
  cpSync(path, kept, { recursive: true });
  await servers.restart(0);
  return async () => {
    await servers.kill(0, 'SIGKILL');
    rmSync(path, { recursive: true });
    renameSync(kept, path);
    await servers.restart(0);
  };
}

/** As if all servers of NATS had lost power before so many of these were on their disks. Never the first: before it is, nobody is told of
 *  anything. */
export async function forgetLast(nats: NatsLink, partition: number, count: number): Promise<void> {
  const { manager } = nats;
  const messages = await messagesOf(nats, partition);
  const name = logStream('accounts', partition);
  const { config } = await manager.streams.info(name);
  await manager.streams.delete(name);
  await ensureLogStream(manager, 'accounts', partition, config.num_replicas);
  const publisher = new StreamPublisher(nats);
  for (const message of messages.slice(0, Math.max(1, messages.length - count))) {
    await publisher.publish(logSubject('accounts', partition), message, {});
  }
  publisher.close();
}

/** With one record. */
export function batchAfter(
  tip: Tip,
  partition: number,
  epoch: number,
  record: string | null,
  timeMs = 1_764_000_000_000,
): Batch {
  return encodeBatch({
    group: 'accounts',
    partition,
    batch: tip.batch + 1,
    epoch,
    firstSequence: tip.sequence + 1,
    records: record === null ? [] : [record],
    recordsBytes: Buffer.byteLength(record ?? ''),
    timeMs,
    previousHash: tip.hash,
  });
}

/** How a cluster is made, by its number of partitions. */
export function made(partitions: number): { readonly partitions: number; readonly masterKey: string } {
  return { partitions, masterKey: '0123456789abcdef' };
}

export class RoutesByHand implements Routes {
  readonly #routes = new Map<string, Route | null>();
  readonly #listeners: ((group: GroupName, partition: number) => void)[] = [];

  set(group: GroupName, partition: number, route: Route | null): void {
    this.#routes.set(`${group}/${partition}`, route);
    for (const listener of this.#listeners) listener(group, partition);
  }

  route(group: GroupName, partition: number): Route | null {
    return this.#routes.get(`${group}/${partition}`) ?? null;
  }

  onChange(listener: (group: GroupName, partition: number) => void): void {
    this.#listeners.push(listener);
  }

  doubt(): void {}
}

export interface TemporaryLog {
  readonly directory: string;
  readonly log: WriteAheadLog;
  readonly views: ViewStore;
  remove(): Promise<void>;
}

export function temporaryLog(): TemporaryLog {
  const directory = mkdtempSync(join(tmpdir(), 'daftari-log-'));
  const log = WriteAheadLog.open({
    directory,
    now: () => Date.now(),
    onFailure: (error) => {
      throw error;
    },
  });
  const views = ViewStore.open({ directory });
  return {
    directory,
    log,
    views,
    async remove() {
      await log.close();
      await views.close();
      await removeDirectory(directory);
    },
  };
}
