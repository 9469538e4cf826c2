// The peer of a scenario, when one was asked for.

import type { Bench, Prepared } from '../bench.ts';
import type { PeaksOptions } from './peaks.ts';
import { startPostgresPeer } from '../servers/start-postgres-peer.ts';

/** `target`: how many times the peer's throughput the service should have. */
export async function startPeer(
  bench: Bench,
  prepared: Prepared,
  target: number,
): Promise<PeaksOptions['peer']> {
  if (bench.options.peer === null) return null;
  bench.progress('starting PostgreSQL');
  const server = await startPostgresPeer(bench.directory(), prepared.keysFile);
  return { server: bench.keep(server), target };
}
