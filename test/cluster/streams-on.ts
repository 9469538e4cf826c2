// What a nats-server itself has of each stream, which need not be what another has.

export interface StreamOn {
  /** Sequence that it ends with there. */
  readonly last: number;
  /** Who leads it, as that server knows; undefined: it knows nobody. */
  readonly leader: string | undefined;
}

/** By name. */
export async function streamsOn(monitorUrl: string): Promise<ReadonlyMap<string, StreamOn>> {
  const answer = await fetch(`${monitorUrl}/jsz?accounts=true&streams=true`);
  const { account_details: accounts = [] } = (await answer.json()) as {
    account_details?: {
      stream_detail?: { name: string; state: { last_seq: number }; cluster?: { leader?: string } }[];
    }[];
  };
  const streams = accounts.flatMap(({ stream_detail: details }) => details ?? []);
  return new Map(
    streams.map(({ name, state, cluster }) => [name, { last: state.last_seq, leader: cluster?.leader }]),
  );
}
