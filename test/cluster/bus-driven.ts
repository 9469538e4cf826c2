// A real nats-server with a link of who owns partitions and one of who calls, and what is sent between them.

import type { Test } from 'tap';
import type { Message, Reply } from '../../src/bus/bus.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { NatsBusServer } from '../../src/nats/bus/nats-bus-server.ts';
import { NatsBus } from '../../src/nats/bus/nats-bus.ts';
import { startNatsServers, type NatsServers } from '../../deploy/nats-servers.ts';
import { link, RoutesByHand } from './adapters.ts';

const partitions = { accounts: 4, webhooks: 4, pollers: 4, platform: 1 };

export interface BusServers {
  readonly servers: NatsServers;
  readonly ownerLink: NatsLink;
  readonly callerLink: NatsLink;
  /** Of the caller. `server`: what its own process serves; absent: nothing. `over`: another connection than `callerLink`'s. */
  readonly newBus: (
    server?: NatsBusServer,
    caller?: string,
    over?: NatsLink,
  ) => { readonly bus: NatsBus; readonly routes: RoutesByHand };
}

/** Until `t` ends. */
export async function startBusServers(t: Pick<Test, 'teardown'>): Promise<BusServers> {
  const servers = await startNatsServers();
  const ownerLink = await link(servers.url, 'owner');
  const callerLink = await link(servers.url, 'caller');
  t.teardown(async () => {
    await Promise.all([ownerLink.close(), callerLink.close()]);
    await servers.stop();
  });
  let callers = 0;
  const newBus: BusServers['newBus'] = (
    server = new NatsBusServer(callerLink.connection),
    caller = `front${++callers}`,
    { connection } = callerLink,
  ) => {
    const routes = new RoutesByHand();
    return { bus: new NatsBus({ connection, caller, routes, partitions, server }), routes };
  };
  return { servers, ownerLink, callerLink, newBus };
}

export function repeatable(n: number, deadlineMs = 60_000): Message {
  return { type: 'RecordOutcome', n, deadline: Date.now() + deadlineMs } as unknown as Message;
}

export function done(body: unknown): Reply {
  return { type: 'done', body: JSON.stringify(body), replayed: false };
}

/** It acts anew each time that it is taken. */
export function onceOnly(deadlineMs = 60_000): Message {
  return { type: 'ReplayDelivery', deadline: Date.now() + deadlineMs };
}
