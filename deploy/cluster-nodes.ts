// What is asked of a node of the running cluster from another terminal: to hand over and end, and to start again.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { directory, oldStartFile, readCluster, startFileOf } from './cluster-file.ts';
import type { ClusterFile, ClusterNode } from './cluster-file.ts';
import { printMap } from './cluster-map.ts';
import { lastWords, STOP_MS_MAX, untilReady } from './cluster-processes.ts';
import { waitFor, waitForValue } from './wait-for.ts';
import { writeWholeFile } from '../src/data-directory/whole-file.ts';
import { aliveIn } from '../wal/process-mark.ts';

/** How long a node may take to be noted as ended once it has. */
const NOTED_MS = 10_000;

/** Resolves with an exit status. */
export async function drain(cluster: ClusterFile, name: string | undefined): Promise<number> {
  const target = cluster.nodes.find((each) => each.name === name);
  const pid = target === undefined ? null : aliveIn(target.mark);
  if (target === undefined || pid === null) {
    const running = cluster.nodes.filter(({ mark }) => aliveIn(mark) !== null).map((each) => each.name);
    console.error(`No running node "${name ?? ''}". Running: ${running.join(', ')}`);
    return 2;
  }
  const startedAt = performance.now();
  process.kill(Number(pid), 'SIGTERM');
  await waitFor(`${target.name} has ended`, STOP_MS_MAX, () => aliveIn(target.mark) === null);
  const elapsedMs = Math.round(performance.now() - startedAt);
  const status = await endOf(target);
  if (status !== 0) {
    throw new Error(
      `${target.name} ended with ${status}, before it had handed over all that it had: ${lastWords({ logFile: logFileOf(target) })}`,
    );
  }
  console.log(`${target.name} has handed over and ended, after ${elapsedMs} ms.`);
  await printMap(readCluster() ?? cluster);
  return 0;
}

/** Resolves with an exit status. */
export async function startAgain(cluster: ClusterFile, name: string | undefined): Promise<number> {
  const target = cluster.nodes.find((each) => each.name === name);
  if (target === undefined || aliveIn(target.mark) !== null) {
    console.error(`"${name ?? ''}" is not a node that has ended.`);
    return 2;
  }
  const node = await wanted(target);
  const exitStatus = () => (aliveIn(node.mark) === null ? endOf(node) : null);
  await untilReady([{ ...node, logFile: logFileOf(node), exitStatus }]);
  console.log(`${target.name} runs again.`);
  return 0;
}

/** Resolves with it as whoever runs the cluster has started it. */
async function wanted({ name, mark }: ClusterNode): Promise<ClusterNode> {
  // Of two that ask at once each has one of its own.
  const draft = `${oldStartFile}.${process.pid}`;
  writeWholeFile(startFileOf(name), '', draft);
  writeWholeFile(oldStartFile, name, draft);
  try {
    return await waitForValue(`${name} runs`, 30_000, () =>
      readCluster()?.nodes.find((each) => each.name === name && each.mark !== mark),
    );
  } finally {
    rmSync(startFileOf(name), { force: true });
    rmSync(oldStartFile, { force: true });
  }
}

/** Of a process that has ended: as who started it saw it. */
async function endOf({ name, mark }: ClusterNode): Promise<number | string> {
  return waitForValue(
    `${name} is noted as ended`,
    NOTED_MS,
    () => readCluster()?.nodes.find((each) => each.mark === mark)?.ended ?? undefined,
  );
}

function logFileOf({ name }: ClusterNode): string {
  return join(directory, name, 'node.log');
}
