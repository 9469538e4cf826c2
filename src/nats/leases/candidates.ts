// Which nodes a partition can be given to, and in which order: those that live and own its group, ranked by rendezvous
// hashing, so that every node comes to the same order without asking the others.

import type { GroupName, PartitionPlace } from '../../bus/bus.ts';
import type { LeaseTable } from './lease-table.ts';
import { rankNodes } from './rendezvous.ts';
import { partitionKey } from '../subjects.ts';

/** Why a node is not to have a partition, or only where no other takes it, as its session says it. */
export type Flaw = 'damaged' | 'unproven' | 'failing';

export interface CandidatesOptions {
  readonly nodes: LeaseTable['nodes'];
  /** This node. */
  readonly node: string;
  /** Of this node as it knows itself: its session may not say it yet. */
  readonly ownFlaw: (what: Flaw, group: GroupName, partition: number) => boolean;
}

export class Candidates {
  readonly #options: CandidatesOptions;

  constructor(options: CandidatesOptions) {
    this.#options = options;
  }

  /** For the partition, from first choice to last. Those that fail to take it over come last: they may be all that there are. */
  ranked(place: PartitionPlace): string[] {
    const { group, partition } = place;
    const { failing = [], others = [] } = Object.groupBy(this.of(place), (name) =>
      this.#has(name, 'failing', place) ? 'failing' : 'others',
    );
    return [...rankNodes(others, group, partition), ...rankNodes(failing, group, partition)];
  }

  /** For the partition. Nodes that cannot prove their logs count only if no node can. One whose copy is damaged never does. */
  of(place: PartitionPlace): string[] {
    const whole = this.#whole(place);
    const proven = whole.filter((name) => !this.#has(name, 'unproven', place));
    return this.#preferRoom(proven.length > 0 ? proven : whole);
  }

  /** For some partition of the group. */
  ofGroup(group: GroupName): string[] {
    return this.#preferRoom(this.#live(group));
  }

  /** For anything. */
  all(): string[] {
    return this.#preferRoom(this.#live());
  }

  /** This node says that it cannot prove its log, and goes on trying to, also when others have come since that are to have it before this
   *  one: nobody begins an empty log while it says so. */
  isToProve(place: PartitionPlace): boolean {
    const { node } = this.#options;
    return this.#has(node, 'unproven', place) && this.#preferRoom(this.#whole(place)).includes(node);
  }

  isShort(node: string): boolean {
    return this.#options.nodes.get(node)?.value.isShort === true;
  }

  #live(group?: GroupName): string[] {
    const names: string[] = [];
    for (const [name, { value }] of this.#options.nodes) {
      if (value.state === 'live' && (group === undefined || value.groups.includes(group))) names.push(name);
    }
    return names;
  }

  #whole(place: PartitionPlace): string[] {
    return this.#live(place.group).filter((name) => !this.#has(name, 'damaged', place));
  }

  /** Without those whose disks are short, unless all are: then nothing is won by moving. */
  #preferRoom(names: string[]): string[] {
    const withRoom = names.filter((name) => !this.isShort(name));
    return withRoom.length > 0 ? withRoom : names;
  }

  #has(name: string, what: Flaw, { group, partition }: PartitionPlace): boolean {
    const { nodes, node, ownFlaw } = this.#options;
    if (name === node) return ownFlaw(what, group, partition);
    return nodes.get(name)?.value[what]?.includes(partitionKey(group, partition)) === true;
  }
}
