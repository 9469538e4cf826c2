// Where the logs of several nodes end, as `npm run wal -- inspect --json` says it of each, and which of them is to be put back.
//
// The later one has the higher epoch: its writer had read all that was acknowledged before. Of one epoch, which has one writer,
// the longer one; of equal ends the one that begins earlier.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../wal/tools/tool.ts';
import { nameOf, type PartitionName, type Tip } from '../wal/types.ts';

interface Place {
  readonly epoch: number;
  readonly sequence: number;
  readonly batch: number;
}

type Inspected = PartitionName &
  ({ readonly tip: Place; readonly start: { readonly batch: number } } | { readonly problem: string });

export class LogEnds {
  readonly directory: string;
  readonly #files: ReadonlyMap<string, readonly Inspected[]>;

  private constructor(directory: string, files: ReadonlyMap<string, readonly Inspected[]>) {
    this.directory = directory;
    this.#files = files;
  }

  /** A file `<node>.json` for each node. */
  static read(directory: string): LogEnds {
    const names = readdirSync(directory).filter((name) => name.endsWith('.json'));
    if (names.length === 0) throw new UsageError(`${directory} has no file ending in .json`);
    return new LogEnds(directory, new Map(names.map((name) => [name, inspectedIn(join(directory, name))])));
  }

  /** Their names. */
  get files(): readonly string[] {
    return [...this.#files.keys()];
  }

  /** Why another log is to be put back, or none; null: this one, which ends and begins there. */
  against(
    name: PartitionName,
    tip: Tip,
    start: Tip,
  ): { readonly isKnown: boolean; readonly why: string } | null {
    for (const [file, inspected] of this.#files) {
      const other = inspected.find((each) => nameOf(each) === nameOf(name));
      if (other === undefined) continue;
      if ('problem' in other) {
        return { isKnown: false, why: `${file} cannot say where its log ends: ${other.problem}` };
      }
      const order = compareEnds(other.tip, tip) || start.batch - other.start.batch;
      if (order > 0) {
        const { epoch, sequence, batch } = other.tip;
        return { isKnown: true, why: `${file} has epoch ${epoch}, sequence ${sequence}, batch ${batch}` };
      }
    }
    return null;
  }
}

/** Above 0: `one` is the later. */
export function compareEnds(one: Place, other: Place): number {
  return one.epoch - other.epoch || one.sequence - other.sequence || one.batch - other.batch;
}

function inspectedIn(path: string): readonly Inspected[] {
  const text = readFileSync(path, 'utf8');
  try {
    const { partitions } = Object(JSON.parse(text)) as { partitions?: unknown };
    if (Array.isArray(partitions) && partitions.every(isInspected)) return partitions;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new UsageError(`${path} is not what wal inspect --json prints: write it anew on its node`);
}

function isInspected(one: unknown): one is Inspected {
  const { group, partition, problem, tip, start } = Object(one) as Record<string, unknown>;
  if (typeof group !== 'string' || typeof partition !== 'number') return false;
  const { epoch, sequence, batch } = Object(tip) as Record<string, unknown>;
  const places = [epoch, sequence, batch, Object(start).batch];
  return typeof problem === 'string' || places.every((place) => typeof place === 'number');
}
