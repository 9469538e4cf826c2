// Whether the logs of several nodes are one: whoever has the same batch of a partition has the same bytes.

import { realpathSync } from 'node:fs';
import { LogRewritten } from '../wal/batch.ts';
import { LogReader, untilUnchanged } from '../wal/log-reader.ts';
import { BATCHES_A_BREATH, breathe } from '../wal/tools/priority.ts';
import { type Batch, nameOf, type PartitionName, type Tip } from '../wal/types.ts';
import { CouldNotTell, reasonOf } from './could-not-tell.ts';

/** Compares the logs of stopped or running nodes, partition by partition. Findings, in words; none: they are one. Rejects with
 *  CouldNotTell where a log cannot be opened, has nothing in it, or nothing in common with the others. `note` hears what no other
 *  log has: a node that has lost a partition, or has another role, looks the same. */
export async function checkReplicas(
  directories: readonly string[],
  note: (line: string) => void = () => {},
): Promise<string[]> {
  const findings: string[] = [];
  const untold: string[] = [];
  const logs = await openLogs(directories, untold);
  try {
    const copies = logs.flatMap((each) => partitionsIn(each, untold).map((name) => ({ ...each, name })));
    const alone: { readonly key: string; readonly directory: string }[] = [];
    for (const [key, ofOne] of Map.groupBy(copies, ({ name }) => nameOf(name))) {
      const [{ directory }, ...others] = ofOne as [Copy, ...Copy[]];
      if (others.length === 0) alone.push({ key, directory });
      const told = await compareAgain(ofOne);
      findings.push(...told.findings.map((finding) => `${key}: ${finding}`));
      untold.push(...told.untold.map((why) => `${key}: ${why}`));
    }
    for (const [directory, keys] of Map.groupBy(logs.length > 1 ? alone : [], (each) => each.directory)) {
      note(`In ${directory} alone, and compared with nothing: ${keys.map(({ key }) => key).join(', ')}`);
    }
  } finally {
    for (const { log } of logs) await log.close();
  }
  if (untold.length > 0) throw new CouldNotTell(untold, findings);
  return findings;
}

interface OpenLog {
  readonly directory: string;
  readonly log: LogReader;
}

/** Of a partition. */
interface Copy extends OpenLog {
  readonly name: PartitionName;
}

/** Those that can be opened, each once: a log is not compared with itself. */
async function openLogs(directories: readonly string[], untold: string[]): Promise<OpenLog[]> {
  const byPath = Map.groupBy(directories, pathOf);
  for (const [path, { length }] of byPath) if (length > 1) untold.push(`${path} is named twice`);
  const logs: OpenLog[] = [];
  for (const [directory = ''] of byPath.values()) {
    try {
      logs.push({ directory, log: await LogReader.openBeside({ directory }) });
    } catch (error) {
      untold.push(reasonOf(error));
    }
  }
  return logs;
}

function partitionsIn({ directory, log }: OpenLog, untold: string[]): readonly PartitionName[] {
  try {
    const names = log.partitionNames();
    if (names.length === 0) untold.push(`${directory} holds a log with no partition in it`);
    return names;
  } catch (error) {
    untold.push(`${directory}: ${reasonOf(error)}`);
    return [];
  }
}

function pathOf(directory: string): string {
  try {
    return realpathSync(directory);
  } catch {
    // Whoever opens it is told.
    return directory;
  }
}

interface Compared {
  readonly findings: readonly string[];
  readonly untold: readonly string[];
}

/** Of running nodes one may write its log anew while another's is read: what is found then is found again, or it was nothing. */
async function compareAgain(copies: readonly Copy[]): Promise<Compared> {
  try {
    const told = await untilUnchanged(() => comparePartition(copies));
    return told.findings.length === 0 ? told : await untilUnchanged(() => comparePartition(copies));
  } catch (error) {
    if (!(error instanceof LogRewritten)) throw error;
    return { findings: [], untold: ['it is written anew again and again: try again later'] };
  }
}

/** Every log is read and proved by its own chain; where two have the same batch it must be the same batch. All are read at once, batch
 *  by batch: of however long a log, what is kept is where each of them is. */
async function comparePartition(copies: readonly Copy[]): Promise<Compared> {
  const parts = new Parts();
  const chains = copies.map((copy) => new Chain(copy));
  for (let batches = 0; ;) {
    const number = Math.min(...chains.map(({ at }) => at?.batch ?? Infinity));
    if (number === Infinity) break;
    const there = chains.filter(({ at }) => at?.batch === number);
    compareBatch(there, parts);
    for (const chain of there) {
      if (chain.finding === null) chain.next();
      // A turn is one read transaction, and what a service has freed since is not used again as long as it lasts.
      if (++batches % BATCHES_A_BREATH === 0) await breathe();
    }
  }
  for (const { finding, directory } of chains) if (finding === null) parts.add(directory);
  const [first, ...apart] = parts.firstOfEach(copies.map(({ directory }) => directory));
  const untold = apart.map(
    (directory) => `${first} and ${directory} have no batch in common, so nothing says that they are one log`,
  );
  return { findings: chains.flatMap(({ finding }) => finding ?? []), untold };
}

/** `there`: each is at the same number. */
function compareBatch(there: readonly Chain[], parts: Parts): void {
  const first = there.find(({ at }) => at?.isOwn === false);
  if (first === undefined) return;
  for (const other of there) {
    if (other === first) continue;
    const isSame = other.at!.hash.equals(first.at!.hash);
    if (isSame || !other.at!.isOwn) parts.join(other.directory, first.directory);
    if (!isSame && !other.at!.isOwn) other.differsFrom(first);
  }
}

/** Which logs were compared with each other, themselves or by others. */
class Parts {
  readonly #partOf = new Map<string, string>();

  add(directory: string): void {
    if (!this.#partOf.has(directory)) this.#partOf.set(directory, directory);
  }

  join(one: string, other: string): void {
    this.add(one);
    this.add(other);
    const [kept, gone] = [this.#partOf.get(other)!, this.#partOf.get(one)!];
    if (kept === gone) return;
    for (const [directory, part] of this.#partOf) if (part === gone) this.#partOf.set(directory, kept);
  }

  /** The first directory of each part. */
  firstOfEach(directories: readonly string[]): string[] {
    const known = directories.filter((directory) => this.#partOf.has(directory));
    return [...Map.groupBy(known, (directory) => this.#partOf.get(directory)).values()].map(
      ([first]) => first!,
    );
  }
}

interface Link extends Pick<Tip, 'batch' | 'hash'> {
  /** A last batch that may be this log's alone. */
  readonly isOwn: boolean;
}

/** A log, read and proven batch by batch. */
class Chain {
  readonly directory: string;
  /** What is wrong with it; it is read no further then. */
  finding: string | null = null;
  /** Null: it is at its end, or read no further. */
  at: Link | null = null;
  readonly #links: Iterator<Link, void>;

  constructor({ directory, log, name }: Copy) {
    this.directory = directory;
    log.refresh();
    this.#links = linksOf(log, name);
    this.next();
  }

  next(): void {
    try {
      const { done, value } = this.#links.next();
      this.at = done === true ? null : value;
    } catch (error) {
      if (error instanceof LogRewritten) throw error;
      this.#end(`${this.directory}: ${(error as Error).message}`);
    }
  }

  differsFrom({ directory }: Chain): void {
    this.#end(`batch ${this.at!.batch} differs between ${directory} and ${this.directory}`);
  }

  #end(finding: string): void {
    this.at = null;
    this.finding = finding;
  }
}

/** What the log begins after is of the chain, too: from a snapshot on, two logs may have nothing else in common. */
function* linksOf(log: LogReader, { group, partition }: PartitionName): Generator<Link, void> {
  const start = log.startOf(group, partition);
  yield linkOf(start);
  let last: Batch | null = null;
  for (const batch of log.read(group, partition, { afterBatch: start.batch })) {
    if (last !== null) yield linkOf(last);
    last = batch;
  }
  // A node that lost the partition as it opened an epoch has that batch alone, until it follows again: nothing is in it.
  if (last !== null) yield linkOf(last, last.records.length === 0);
}

function linkOf({ batch, hash }: Pick<Tip, 'batch' | 'hash'>, isOwn = false): Link {
  return { batch, hash, isOwn };
}
