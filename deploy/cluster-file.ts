// Where the cluster of `npm run cluster` is, and the file by which other invocations know the running one.

import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { ClusterSettings, NodeProcess } from './cluster-processes.ts';
import type { NatsServers } from './nats-servers.ts';
import { writeWholeFile } from '../src/data-directory/whole-file.ts';
import { aliveIn, ownMark } from '../wal/process-mark.ts';

/** What other invocations need to know of the running one. */
export interface ClusterFile {
  /** Of the process that runs it, as wal/process-mark.ts has it. Absent: in the file of a version from before. */
  readonly mark?: string;
  readonly operatorToken: string;
  readonly natsUrls: readonly string[];
  readonly simulatorUrl: string;
  readonly nodes: readonly {
    readonly name: string;
    readonly roles: string;
    readonly mark: string;
    /** Its exit status, or the signal that ended it; null: it runs. Absent: as `mark` above. */
    readonly ended?: number | string | null;
    readonly baseUrl: string;
    readonly operatorUrl: string;
  }[];
}

export type ClusterNode = ClusterFile['nodes'][number];

export const directory = resolve(process.env['CLUSTER_DIR'] || 'data/cluster');
export const clusterFile = join(directory, 'cluster.json');
/** Of each node one: of two that are asked for at once neither is forgotten. */
export const startFileOf = (name: string): string => join(directory, `start-${name}`);
/** That of any node, for who runs a cluster since before 2026-11-27. */
export const oldStartFile = join(directory, 'start');

export function writeCluster(
  { operatorToken }: ClusterSettings,
  nats: NatsServers,
  simulatorUrl: string,
  nodes: readonly NodeProcess[],
): ClusterFile {
  const content: ClusterFile = {
    mark: ownMark(),
    operatorToken,
    natsUrls: nats.urls,
    simulatorUrl,
    nodes: nodes.map((each) => ({
      name: each.name,
      roles: each.roles,
      mark: each.mark,
      ended: each.exitStatus(),
      baseUrl: each.baseUrl,
      operatorUrl: each.operatorUrl,
    })),
  };
  writeWholeFile(clusterFile, JSON.stringify(content, null, 2));
  return content;
}

/** Null: none runs. */
export function readCluster(): ClusterFile | null {
  if (!existsSync(clusterFile)) return null;
  const cluster = JSON.parse(readFileSync(clusterFile, 'utf8')) as ClusterFile;
  return cluster.mark !== undefined && aliveIn(cluster.mark) !== null ? cluster : null;
}
