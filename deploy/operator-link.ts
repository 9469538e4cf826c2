// How commands for operators reach the NATS of a cluster.

import { connectNats } from '../src/nats/connection.ts';
import type { NatsEvents, NatsLink, NatsOptions } from '../src/nats/connection.ts';

export type Nats = Pick<NatsOptions, 'url'> & Partial<NatsOptions>;

/** `onProblem` hears why it takes long. */
export function linkForOperator(
  name: string,
  nats: Nats,
  onProblem?: NatsEvents['onProblem'],
): Promise<NatsLink> {
  return connectNats(
    { name, inboxPrefix: '_INBOX.operator', ...nats },
    onProblem === undefined ? {} : { onProblem },
  );
}

/** The NATS of the environment, with the names that nodes read it by; null: none is named. */
export function natsOf(environment: NodeJS.ProcessEnv): Nats | null {
  const url = environment['NATS_URL'];
  if (url === undefined || url === '') return null;
  return {
    url,
    caFile: environment['NATS_CA_FILE'],
    certFile: environment['NATS_CERT_FILE'],
    keyFile: environment['NATS_KEY_FILE'],
    credentialsFile: environment['NATS_CREDENTIALS_FILE'],
  };
}
