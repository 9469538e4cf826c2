// How commands for operators reach the NATS of a cluster, and its table of who owns what.

import { NatsError } from 'nats';
import { connectNats } from '../src/nats/connection.ts';
import type { NatsLink, NatsOptions } from '../src/nats/connection.ts';
import { natsProblem } from '../src/nats/nats-problem.ts';
import { LeaseTable } from '../src/nats/leases/lease-table.ts';
import { StreamPublisher } from '../src/nats/stream-publisher.ts';

export type Nats = Pick<NatsOptions, 'url'> & Partial<NatsOptions>;

/** `onProblem` hears why it takes long. */
export function linkForOperator(
  name: string,
  nats: Nats,
  onProblem: (problem: string) => void,
): Promise<NatsLink> {
  return connectNats({ name, inboxPrefix: '_INBOX.operator', ...nats }, { onProblem });
}

/** The NATS of the environment, with the names that nodes read it by; null: none is named. */
export function natsOf(environment: NodeJS.ProcessEnv): Nats | null {
  // An empty value is an absent one, as it is to a node.
  const given = (name: string): string | undefined => environment[name] || undefined;
  const url = given('NATS_URL');
  if (url === undefined) return null;
  return {
    url,
    caFile: given('NATS_CA_FILE'),
    certFile: given('NATS_CERT_FILE'),
    keyFile: given('NATS_KEY_FILE'),
    credentialsFile: given('NATS_CREDENTIALS_FILE'),
  };
}

/** Closes what `connect` has opened when `use` is done. What NATS refuses `use` is thrown in words. */
export async function withLink<T>(
  connect: () => Promise<NatsLink>,
  use: (link: NatsLink) => Promise<T>,
): Promise<T> {
  const link = await connect();
  try {
    return await use(link);
  } catch (error) {
    throw error instanceof NatsError ? new Error(natsProblem(error), { cause: error }) : error;
  } finally {
    await link.close();
  }
}

/** Rejects when the table can be followed no more. `use` may publish by what the table writes with. */
export async function withLeases<T>(
  link: NatsLink,
  use: (leases: LeaseTable, publisher: StreamPublisher) => Promise<T>,
): Promise<T> {
  const publisher = new StreamPublisher(link);
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const leases = new LeaseTable(link, publisher, reject);
  try {
    return await Promise.race([leases.ready().then(() => use(leases, publisher)), failed]);
  } finally {
    await leases.close();
    publisher.close();
  }
}
