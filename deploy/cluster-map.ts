// The map of the cluster that `npm run cluster` runs: where its nodes are, and who has each partition.

import type { ClusterFile, ClusterNode } from './cluster-file.ts';
import { aliveIn } from '../wal/process-mark.ts';

/** How long a node may take to say who has what. */
const MAP_MS = 2_000;

/** Resolves with an exit status. */
export async function printMap(cluster: ClusterFile): Promise<number> {
  console.log(`\nNATS        ${cluster.natsUrls.join('  ')}`);
  console.log(`simulator   ${cluster.simulatorUrl}`);
  for (const node of cluster.nodes) {
    const { name, roles, baseUrl, operatorUrl } = node;
    const merchants = roles === 'front' ? `merchants ${baseUrl}  ` : '';
    console.log(`${name.padEnd(11)} ${merchants}operators ${operatorUrl}  ${stateOf(node)}`);
  }
  console.log(`operator token  ${cluster.operatorToken}\n`);
  const running = cluster.nodes.filter(({ mark }) => aliveIn(mark) !== null);
  if (running.length === 0) return 0;
  try {
    // Each knows: one that is stopped, or cannot, is not waited for.
    printPartitions(await Promise.any(running.map((node) => partitionsOf(node, cluster.operatorToken))));
    return 0;
  } catch (error) {
    const whys = (error as AggregateError).errors.map(
      (why: Error, index) => `${running[index]?.name}: ${why.message}`,
    );
    console.error(`Nobody says who has what: ${whys.join('; ')}`);
    return 1;
  }
}

function stateOf({ mark, ended }: ClusterNode): string {
  const pid = aliveIn(mark);
  if (pid !== null) return `pid ${pid}`;
  return (ended ?? 0) === 0 ? 'ended' : `ended with ${ended}`;
}

interface OwnedPartition {
  readonly group: string;
  readonly partition: number;
  readonly node: string | null;
  readonly epoch: number;
}

async function partitionsOf({ operatorUrl }: ClusterNode, token: string): Promise<readonly OwnedPartition[]> {
  const answer = await fetch(`${operatorUrl}/operator/v1/partitions`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(MAP_MS),
  });
  const body = await answer.text();
  if (answer.status !== 200) throw new Error(`${answer.status} ${body}`);
  return (JSON.parse(body) as { readonly data: readonly OwnedPartition[] }).data;
}

function printPartitions(all: readonly OwnedPartition[]): void {
  for (const [group, partitions] of Map.groupBy(all, (each) => each.group)) {
    console.log(group);
    for (const [owner, own] of Map.groupBy(partitions, (each) => each.node ?? 'nobody')) {
      console.log(
        `  ${owner.padEnd(10)} ${own.map(({ partition, epoch }) => `${partition} (epoch ${epoch})`).join(', ')}`,
      );
    }
  }
}
