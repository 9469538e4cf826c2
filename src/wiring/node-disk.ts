// What a node of the cluster keeps on its disk: the log of what it may write, and the room for it. Where the log is damaged or there is no
// room, another node, which has the log whole, takes the partition.

import {
  noteCluster,
  noteMasterKey,
  notingFormat,
  openDataDirectory,
  tellIfEmpty,
} from '../data-directory/data-directory.ts';
import { tellDiskSpace } from '../data-directory/disk-space.ts';
import { NodeDamage, type NodeDamageOptions } from '../damage/node-damage.ts';
import { proveStart, type StartProof } from '../damage/start-proof.ts';
import { LIMITS } from '../limits.ts';
import { noteClusterKey } from '../nats/cluster-identity.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Secrets } from '../secrets.ts';
import { type ClusterNats, usesDataDirectory } from './cluster-nats.ts';
import type { GroupPolicies } from '../storage/groups.ts';
import { clusterKeyProof } from './master-key-proof.ts';
import type { ServiceOptions } from './service-options.ts';
import { type OnFailure, Storage, type StorageOptions } from '../storage/storage.ts';
import { watchStorage } from './metrics.ts';

export interface NodeDiskOptions extends ServiceOptions {
  readonly secrets: Secrets;
  readonly policies: GroupPolicies;
  readonly metrics: Metrics;
  /** Of the process. */
  readonly clock: () => number;
  readonly nats: ClusterNats;
  readonly othersHaveRoom: () => boolean;
  /** The node has all the partitions that it is to have. */
  readonly isSettled: () => boolean;
  readonly onRefused: NodeDamageOptions['onRefused'];
}

export interface NodeDisk {
  readonly storage: Storage;
  readonly damage: NodeDamage;
  /** The disk is short or does not answer: the node is not to have more partitions. */
  readonly isShort: boolean;
  /** For /readyz: the disk does not answer or is short, or what is on it is damaged; null: nothing is wrong. */
  readonly problem: string | null;
  /** Ends the process if the disk no longer answers and other nodes can take its partitions. To be called now and then. */
  yieldIfLost(): void;
  /** Finds out whether the master key is the one that the partitions here were sealed with, once all of them are here. To be called now
   *  and then. */
  readonly proveKey: () => void;
  /** The node has started: what is here is checked. */
  started(): void;
  /** The start ends for a reason that is no fault of the views: the next one need not read them first. */
  endProof(): void;
  close(): Promise<void>;
}

/** Null: this node owns nothing that has a log. */
export async function openNodeDisk(options: NodeDiskOptions): Promise<NodeDisk | null> {
  const { config, log, onFailure, secrets, metrics, nats, othersHaveRoom, isSettled, onRefused } = options;
  const { writeFormat } = nats;
  if (writeFormat === null || !usesDataDirectory(config)) return null;
  const directory = await openDataDirectory(
    config,
    tellDiskSpace(log, {
      short: 'partitions go to nodes that have room; without one changes are refused',
      roomy: 'partitions are taken',
    }),
  );
  tellIfEmpty(directory, log);
  noteCluster(directory);
  // While the cluster does not say its key, this node may have the wrong one. Noted here, it would refuse the right one for ever.
  if (writeFormat.isMasterKeyNoted) noteMasterKey(directory, secrets);
  const { space } = directory;
  const damage = new NodeDamage({ directory: config.dataDir, log, metrics, onRefused });
  const proof = await proveStart(config.dataDir, log);
  const fail: OnFailure = (error, part) => {
    storage.abandon();
    onFailure(error, part);
  };
  const storage = openStorage(proof, {
    directory: config.dataDir,
    policies: options.policies,
    observer: metrics,
    clock: options.clock,
    // Callers are on other machines.
    deadlineClock: () => Date.now(),
    writeFormat: notingFormat(directory, () => writeFormat.current),
    onFlush: (flush) => metrics.flushed(flush),
    // What is on its way to others goes on meanwhile.
    isDiskShort: () => space.isShort && (space.isNearlyFull || !othersHaveRoom()),
    onDamage: (group, partition, error) => damage.refuse(group, partition, error),
    onFailure: fail,
  });
  watchStorage(metrics, storage, space);
  return {
    storage,
    damage,
    get isShort() {
      return space.isShort || storage.stall !== null;
    },
    get problem() {
      return storage.stall ?? space.shortage ?? damage.damaged.problem;
    },
    proveKey: clusterKeyProof(nats, secrets, storage, {
      isSettled,
      noteKey: (fingerprint) => noteClusterKey(nats.link, fingerprint),
      log,
      onFailure: fail,
    }),
    yieldIfLost() {
      const isLost = storage.flushingMs >= LIMITS.diskLostMs && othersHaveRoom();
      if (isLost) fail(new Error(`${storage.stall}; other nodes take what is here`));
    },
    started() {
      proof.cameThrough();
      void damage.checkAll();
    },
    endProof: () => proof.end(),
    async close() {
      await damage.stop();
      await storage.close();
      proof.end();
      await directory.release();
    },
  };
}

function openStorage(proof: StartProof, options: StorageOptions): Storage {
  try {
    return new Storage(options);
  } catch (error) {
    proof.endBy(error);
    throw error;
  }
}
