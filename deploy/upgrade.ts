// `npm run cluster -- upgrade`: once every node runs the new version, has the cluster write records in its format. Until
// then a node of the new version writes what the old one reads (src/nats/write-format.ts).

import { linkForOperator } from './operator-link.ts';
import type { Nats } from './operator-link.ts';
import type { NatsEvents } from '../src/nats/connection.ts';
import { LeaseTable } from '../src/nats/lease-table.ts';
import { StreamPublisher } from '../src/nats/stream-publisher.ts';
import { raiseWriteFormat, tellRaised } from '../src/nats/write-format.ts';

/** `done`: the cluster writes the newest format that its nodes read. `onProblem` hears why it takes long. */
export async function upgrade(
  nats: Nats,
  onProblem?: NatsEvents['onProblem'],
): Promise<{ readonly done: boolean; readonly said: string }> {
  const link = await linkForOperator('upgrade', nats, onProblem);
  const publisher = new StreamPublisher(link);
  const table = new LeaseTable(link, publisher, (error) => {
    throw error;
  });
  try {
    await table.ready();
    const raised = await raiseWriteFormat(link, publisher, table);
    return { done: raised.type === 'raised' || raised.type === 'newest', said: tellRaised(raised) };
  } finally {
    await table.close();
    publisher.close();
    await link.close();
  }
}
