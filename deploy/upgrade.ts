// `npm run cluster -- upgrade`: once every node runs the new version, has the cluster write records in its format. Until
// then a node of the new version writes what the old one reads (src/nats/write-format.ts).

import { linkForOperator, withLeases, withLink } from './operator-link.ts';
import type { Nats } from './operator-link.ts';
import { raiseWriteFormat, tellRaised } from '../src/nats/write-format.ts';

/** `done`: the cluster writes the newest format that its nodes read. `onProblem` hears why it takes long. */
export async function upgrade(
  nats: Nats,
  onProblem: (problem: string) => void,
): Promise<{ readonly done: boolean; readonly said: string }> {
  return withLink(
    () => linkForOperator('upgrade', nats, onProblem),
    (link) =>
      withLeases(link, async (leases, publisher) => {
        const raised = await raiseWriteFormat(link, publisher, leases);
        return { done: raised.type === 'raised' || raised.type === 'newest', said: tellRaised(raised) };
      }),
  );
}
