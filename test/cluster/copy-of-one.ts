// What one of three servers has of a stream, otherwise than the others: the store of a server that has it alone is put in its place. So
// nats-server 2.9 can be left, for good, that was frozen or killed at a wrong moment.

import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { startNatsServers, type NatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { ensureLogStream, leadElsewhere } from '../../src/nats/streams.ts';
import { logStream, logSubject } from '../../src/nats/subjects.ts';
import type { Batch } from '../../wal/types.ts';
import { link } from './adapters.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

export interface Copy {
  readonly partition: number;
  readonly batches: readonly Batch[];
  /** Sequences at which it has nothing of them. */
  readonly lacks?: readonly number[];
}

interface Three {
  readonly servers: NatsServers;
  /** Theirs. */
  readonly directory: string;
  readonly nats: NatsLink;
}

/** Three that have these logs, each in the stream of its partition. `problems`: what the link says. */
export async function startThree(
  t: Test,
  logs: readonly { readonly partition: number; readonly log: readonly Batch[] }[],
): Promise<Three & { readonly problems: string[] }> {
  const directory = temporaryDirectory(t);
  const servers = await startNatsServers({ count: 3, directory });
  const problems: string[] = [];
  const nats = await link(servers.url, 'ledger', { onProblem: (problem) => problems.push(problem) });
  t.teardown(async () => {
    await nats.close();
    await servers.stop();
  });
  for (const { partition, log } of logs) {
    await ensureLogStream(nats.manager, 'accounts', partition, 3);
    await publish(nats, log);
  }
  return { servers, directory, nats, problems };
}

/** Of accounts, each its partition's next. */
export async function publish({ connection }: NatsLink, batches: readonly Batch[]): Promise<void> {
  for (const { partition, bytes } of batches) {
    await connection.jetstream().publish(logSubject('accounts', partition), bytes);
  }
}

export async function leaderOf({ manager }: NatsLink, partition: number): Promise<string | undefined> {
  return (await manager.streams.info(logStream('accounts', partition))).cluster?.leader;
}

export async function untilThirdLeadsNone(
  nats: NatsLink,
  of: readonly Pick<Copy, 'partition'>[],
): Promise<void> {
  await waitFor('the third leads none', 60_000, async () => {
    const leaders = await Promise.all(of.map(({ partition }) => leaderOf(nats, partition)));
    const led = of.filter((_, index) => leaders[index] === 'n3');
    for (const { partition } of led) await leadElsewhere(nats, logStream('accounts', partition));
    return led.length === 0;
  });
}

/** Of these partitions the third server has that, and leads none of them. */
export async function putCopies(t: Test, three: Three, copies: readonly Copy[]): Promise<void> {
  const { servers, directory, nats } = three;
  const other = temporaryDirectory(t);
  const alone = await startNatsServers({ directory: other });
  const writer = await link(alone.url, 'writer');
  const { manager } = writer;
  for (const { partition, batches, lacks = [] } of copies) {
    const name = logStream('accounts', partition);
    // Unlike one of ours, it lets messages be removed.
    await manager.streams.add({ name, subjects: [logSubject('accounts', partition)] });
    await publish(writer, batches);
    for (const sequence of lacks) await manager.streams.deleteMessage(name, sequence);
  }
  await writer.close();
  await alone.stop();
  await untilThirdLeadsNone(nats, copies);
  await servers.kill(2, 'SIGKILL');
  for (const { partition } of copies) {
    const store = join('jetstream', '$G', 'streams', logStream('accounts', partition), 'msgs');
    rmSync(join(directory, 'n3', store), { recursive: true });
    cpSync(join(other, 'n1', store), join(directory, 'n3', store), { recursive: true });
  }
  await servers.restart(2);
}
