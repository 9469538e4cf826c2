// Whether the nats-servers of a test's cluster agree with one another: nothing that stands on them can go on where they do not.

import type { Cluster } from './cluster.ts';
import { streamsOn, type StreamOn } from './streams-on.ts';

const LOOKS = 10;

interface ServerState {
  readonly server: string;
  readonly streams: ReadonlyMap<string, StreamOn>;
}

/** What servers of 2.9 are left with after such a crash, now and then: a stream without a leader for good, or one that its
 *  replicas number differently, so that what a reader was told and what a writer must expect never agree again. Null: sound. */
export async function faultOfNats({ nats }: Cluster): Promise<string | null> {
  // A server that the test has killed, and not started again because it failed before, says nothing of NATS.
  const comeBack = nats.monitorUrls.map(async (url, index) => {
    const isThere = await fetch(`${url}/healthz`).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    // Also one that was started and does not answer yet: there is one server of that name.
    await nats.kill(index, 'SIGKILL');
    await nats.restart(index);
  });
  for (const back of await Promise.allSettled(comeBack)) {
    if (back.status === 'rejected') return String(back.reason);
  }
  for (const url of nats.monitorUrls) {
    const health = await fetch(`${url}/healthz`);
    if (health.status !== 200) return `${url}: ${await health.text()}`;
  }
  // What differs only while it is copied does not differ at every look.
  let differing: Map<string, string> | null = null;
  for (let look = 0; look < LOOKS; look++) {
    const now = differences(await Promise.all(nats.monitorUrls.map(stateOf)));
    differing = new Map([...now].filter(([place]) => differing === null || differing.has(place)));
    await new Promise((resolve) => {
      setTimeout(resolve, 200);
    });
  }
  return differing === null || differing.size === 0 ? null : [...differing.values()].join('; ');
}

/** By stream and server: what is said of it. */
function differences(states: readonly ServerState[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const { server, streams } of states) {
    for (const [name, { last, leader }] of streams) {
      const leading = states.find((each) => each.server === leader)?.streams.get(name);
      if (leading === undefined || leading.last === last) continue;
      found.set(
        `${name} ${server}`,
        `${name} ends at ${last} on ${server}, and at ${leading.last} on its leader ${leader}`,
      );
    }
  }
  return found;
}

async function stateOf(url: string, index: number): Promise<ServerState> {
  return { server: `n${index + 1}`, streams: await streamsOn(url) };
}
