// Why NATS, which is there, does not give a node what it begins with, or a command of an operator what it needs, and what mends it:
// the client and JetStream say it in codes, or of what is inside of them.

import { ErrorCode, NatsError } from 'nats';
import { CannotJoin } from './errors.ts';

const MENDS: readonly (readonly [RegExp, string])[] = [
  [
    /permissions violation/i,
    'deploy/nats/permissions.conf has what the user in NATS_URL needs for its ROLES, or as `operator`',
  ],
  [
    /replicas > 1/,
    'NATS_REPLICAS says how many servers keep each stream, and this is one alone: with one set NATS_REPLICAS=1',
  ],
  [
    /stream not found/,
    'no node has created the cluster yet (start one that has another role than front), or its streams are lost',
  ],
  [/no suitable peers|insufficient resources/, 'fewer servers run than NATS_REPLICAS, or they have no room'],
];
const NO_JETSTREAM =
  'JetStream does not answer: the servers of NATS_URL need a `jetstream` block in their configuration, its account must have it, ' +
  'and of three servers two must run';

/** In a line. */
export function natsProblem(error: unknown): string {
  const { message, code } = error as NatsError;
  if (code === ErrorCode.JetStreamNotEnabled) return NO_JETSTREAM;
  const [, mend] = MENDS.find(([said]) => said.test(message)) ?? [];
  return mend === undefined ? message : `${message}: ${mend}`;
}

/** Of what a node asks of NATS as it begins: what NATS refuses, or does not answer, rejects with CannotJoin. */
export async function joining<Result>(act: () => Promise<Result>): Promise<Result> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof NatsError)) throw error;
    throw new CannotJoin(`cannot join the cluster: ${natsProblem(error)}`, { cause: error });
  }
}
