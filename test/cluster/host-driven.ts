// The part of a node that serves partitions, over a real nats-server and a log on the disk, without leases: who has what is said by hand.

import { join } from 'node:path';
import type { Test } from 'tap';
import type { NatsServers } from '../../deploy/nats-servers.ts';
import type { GroupName } from '../../src/bus/bus.ts';
import type { Replication } from '../../src/config.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import type { LeaseEntry } from '../../src/nats/leases/lease-table.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import { StreamFaults } from '../../src/nats/stream-faults.ts';
import { StreamFeed } from '../../src/nats/log/stream-feed.ts';
import type { StreamPublisher } from '../../src/nats/stream-publisher.ts';
import { createLog } from '../../src/observability/log.ts';
import { ClusterHost } from '../../src/cluster/cluster-host.ts';
import { NodeFeed } from '../../src/cluster/node-feed.ts';
import type { Storage } from '../../src/storage/storage.ts';
import { WrittenLogs } from '../../src/cluster/written-logs.ts';
import { OPEN_ACCOUNT, openStorage, send } from '../unit/storage-driven.ts';
import { startNats } from './adapters.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

export interface Hosting {
  readonly host: ClusterHost;
  readonly logs: WrittenLogs;
  readonly server: NatsBusServer;
  readonly feed: NodeFeed;
  readonly storage: Storage;
  readonly lines: string[];
  readonly unreadable: string[];
  readonly stop: () => Promise<void>;
}

export interface Writing {
  readonly onFenced?: (group: GroupName, partition: number) => void;
  readonly replication?: Replication;
  /** By which it publishes. */
  readonly to?: StreamPublisher;
  /** Of the log, if it is another than the servers'. */
  readonly directory?: string;
}

export interface HostServers {
  /** Of the logs; the server's own is `nats` in it. */
  readonly directory: string;
  readonly servers: NatsServers;
  readonly nats: NatsLink;
  readonly publisher: StreamPublisher;
  /** Of the directory's log. `said`: of each lease besides that it is ours. */
  readonly startHost: (said?: Partial<LeaseEntry>, unprovenOn?: string | null, writing?: Writing) => Hosting;
}

/** Tries on where NATS has not answered in time, as an owner does: a machine that stood still for some seconds is no finding. */
class PatientHost extends ClusterHost {
  override prepare(group: GroupName, partition: number): Promise<void> {
    return this.#untilAnswered(group, partition, () => super.prepare(group, partition));
  }

  override acquire(group: GroupName, partition: number, epoch: number): Promise<void> {
    return this.#untilAnswered(group, partition, () => super.acquire(group, partition, epoch));
  }

  async #untilAnswered(group: GroupName, partition: number, act: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await act();
      } catch (error) {
        if ((error as { readonly code?: unknown }).code !== 'TIMEOUT') throw error;
        await this.lose(group, partition);
      }
    }
  }
}

/** Until `t` ends; fails it when a host is fenced that does not expect it. The servers keep their data in `nats` of the directory. */
export async function startHostServers(
  t: Pick<Test, 'teardown' | 'fail'>,
  count: 1 | 3 = 1,
): Promise<HostServers> {
  const directory = temporaryDirectory(t);
  const { servers, nats, publisher } = await startNats(t, { count, directory: join(directory, 'nats') });
  const fail = (error: Error): void => void t.fail(error.message);
  const nobodyElse = (): void => fail(new Error('nobody else writes'));
  const decode = (): never => {
    throw new Error('nobody subscribes');
  };

  const startHost: HostServers['startHost'] = (said = {}, unprovenOn = null, writing = {}) => {
    const { onFenced = nobodyElse, replication = 'sync', to = publisher } = writing;
    const storage = openStorage(writing.directory ?? directory);
    const lines: string[] = [];
    const unreadable: string[] = [];
    const feed = new NodeFeed({
      stream: new StreamFeed({ link: nats, epochOf: () => 0, decode, onError: fail }),
      own: { feed: storage.feed, beginsAfter: () => 0 },
    });
    const server = new NatsBusServer(nats.connection);
    const log = createLog({
      level: 'info',
      node: 'ledger',
      stream: { write: (line) => void lines.push(line) },
    });
    const holds = (): boolean => true;
    const logs = new WrittenLogs({
      link: nats,
      publisher: to,
      table: {
        lease: () => ({
          value: { node: 'ledger', session: 's', epoch: 1, ...said },
          revision: 1,
          seenAt: 0,
        }),
      },
      storage,
      feed,
      faults: new StreamFaults(nats, count),
      replicas: count,
      replication,
      snapshotEveryBatches: 1,
      webhooks: null,
      log,
      holds,
      unprovenOn: () => unprovenOn,
      onUnreadable: (group, partition) => void unreadable.push(`${group}/${partition}`),
      onFenced,
    });
    const host = new PatientHost({ server, logs, pollers: null, log, holds, onServing: () => {} });
    const stop = async (): Promise<void> => {
      await host.close();
      await storage.close();
    };
    return { host, logs, server, feed, storage, lines, unreadable, stop };
  };

  return { directory, servers, nats, publisher, startHost };
}

/** A new account is a record. */
export async function writeAccounts(storage: Storage, partition: number, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const accountId = makeId('account', `${encodeTime(i)}${'0'.repeat(16)}`);
    const command = { ...OPEN_ACCOUNT, accountId, deadline: Date.now() + 60_000 };
    const { type } = await send(storage, partition, command);
    if (type !== 'done') throw new Error(type);
  }
}
