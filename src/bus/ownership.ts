// Ownership: which process is the one writer of a partition, and under which epoch. In the cluster leases in NATS decide
// (src/nats/leases/lease-ownership.ts). One process owns everything: the lock on its data directory keeps a second one out.
//
// Invariants: an epoch of a partition is given to one process once, and each is higher than the one before. `holds` may
// turn false at any moment and is asked again before anything is said in the owner's name; that it was true proves
// nothing about the log, which is fenced by the epoch.

import type { GroupName } from './bus.ts';

/** Where commands to a partition go. */
export interface Route {
  readonly node: string;
  readonly epoch: number;
}

export interface Routes {
  /** Null: nobody owns it now. */
  route(group: GroupName, partition: number): Route | null;
  /** Called after each change. */
  onChange(listener: (group: GroupName, partition: number) => void): void;
  /** Somebody has not been answered for long: what is known of owners may be old. To be said as often as one likes. */
  doubt(): void;
}

/** The log has been written under this epoch, or a later one, by an owner of whom nothing was heard. */
export class EpochPassed extends Error {
  /** The log's. */
  readonly epoch: number;

  constructor(what: string, epoch: number) {
    super(what);
    this.name = 'EpochPassed';
    this.epoch = epoch;
  }
}

/** Only what another node does, or a person, helps: asked for again at once it is refused again. */
export class NotSoon extends Error {}

/** What ownership drives: the part of a process that can serve partitions. */
export interface PartitionHost {
  /** Brings the local copy of the log close to its end without owning it, and keeps it up, so that `acquire` is short. Rejects:
   *  the copy is not kept up. */
  prepare(group: GroupName, partition: number): Promise<void>;
  /** Neither owner nor next in line any more: the copy need not be kept up. */
  forget(group: GroupName, partition: number): Promise<void>;
  /** Reads the log to its end and opens it under `epoch`; messages wait. Rejects with EpochPassed, and when another writer got in
   *  between. */
  acquire(group: GroupName, partition: number, epoch: number): Promise<void>;
  /** What was acquired is held: answers what waited, and what comes. */
  serve(group: GroupName, partition: number): void;
  /** Planned: stops taking, finishes and flushes what it took. Then another may acquire it. */
  release(group: GroupName, partition: number): Promise<void>;
  /** It is no longer ours: stop at once and say nothing more in its name. */
  lose(group: GroupName, partition: number): Promise<void>;
  /** When it was last prepared or acquired, nothing proved that this process has all of its log: others have it, if theirs is
   *  proven. Absent: never. */
  isUnproven?(group: GroupName, partition: number): boolean;
  /** It is unproven only because another process says that it cannot prove its own. Absent: never. */
  isDoubtedElsewhere?(group: GroupName, partition: number): boolean;
  /** This process has nothing of its log. Absent: it has. */
  isEmpty?(group: GroupName, partition: number): boolean;
  /** What was prepared is not kept up any more, for what came failed: it has to be prepared again. Absent: never. */
  isLeftBehind?(group: GroupName, partition: number): boolean;
}

export interface Ownership {
  /** Starts to acquire partitions; resolves when the first round is through. */
  start(): Promise<void>;
  /** True only while nobody else can have been given the partition. */
  holds(group: GroupName, partition: number): boolean;
  /** Hands everything over; resolves when nothing is held. */
  drain(): Promise<void>;
  /** Ends at once, holding or not. */
  close(): Promise<void>;
}
