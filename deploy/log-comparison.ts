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

/** Every log is read and proved by its own chain; where two have the same batch it must be the same batch. */
async function comparePartition(copies: readonly Copy[]): Promise<Compared> {
  const findings: string[] = [];
  const seen = new Map<number, Seen>();
  const parts = new Parts();
  const ends: { readonly directory: string; readonly end: Batch }[] = [];
  for (const each of copies) {
    const { finding, ownEnd } = await compareLog(each, seen, parts);
    if (finding !== null) findings.push(finding);
    else parts.add(each.directory);
    if (ownEnd !== null) ends.push({ directory: each.directory, end: ownEnd });
  }
  for (const { directory, end } of ends) {
    const other = seen.get(end.batch);
    if (other?.hash === end.hash.toString('hex')) parts.join(directory, other.directory);
  }
  const [first, ...apart] = parts.ofEach();
  const untold = apart.map(
    (directory) => `${first} and ${directory} have no batch in common, so nothing says that they are one log`,
  );
  return { findings, untold };
}

interface Seen {
  readonly hash: string;
  readonly directory: string;
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

  /** A directory of each part. */
  ofEach(): string[] {
    return [...new Set(this.#partOf.values())];
  }
}

/** Proven batch by batch. What the log begins after is of the chain, too: from a snapshot on, two logs may have nothing else
 *  in common. */
function* chainOf(
  log: LogReader,
  { group, partition }: PartitionName,
): Generator<Pick<Tip, 'batch' | 'hash'>, Batch | null> {
  const start = log.startOf(group, partition);
  yield start;
  let last: Batch | null = null;
  for (const batch of log.read(group, partition, { afterBatch: start.batch })) {
    if (last !== null) yield last;
    last = batch;
  }
  if (last === null) return null;
  // A node that lost the partition as it opened an epoch has that batch alone, until it follows again: nothing is in it.
  if (last.records.length === 0) return last;
  yield last;
  return null;
}

/** `ownEnd`: a last batch that may be this log's alone. */
async function compareLog(
  { directory, log, name }: Copy,
  seen: Map<number, Seen>,
  parts: Parts,
): Promise<{ readonly finding: string | null; readonly ownEnd: Batch | null }> {
  try {
    log.refresh();
    const chain = chainOf(log, name);
    for (let batches = 1; ; batches++) {
      // A turn is one read transaction, and what a service has freed since is not used again as long as it lasts.
      if (batches % BATCHES_A_BREATH === 0) await breathe();
      const { done, value } = chain.next();
      if (done === true) return { finding: null, ownEnd: value };
      const own = { hash: value.hash.toString('hex'), directory };
      const other = seen.get(value.batch) ?? own;
      if (other !== own) parts.join(directory, other.directory);
      if (other.hash !== own.hash) {
        const finding = `batch ${value.batch} differs between ${other.directory} and ${directory}`;
        return { finding, ownEnd: null };
      }
      seen.set(value.batch, other);
    }
  } catch (error) {
    if (error instanceof LogRewritten) throw error;
    return { finding: `${directory}: ${(error as Error).message}`, ownEnd: null };
  }
}
