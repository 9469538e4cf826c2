// Nodes' logs compared: what makes them one chain, what says that they are not, and how little of them is kept meanwhile.
import { execFile } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import type { CouldNotTell } from '../../deploy/could-not-tell.ts';
import { checkReplicas } from '../../deploy/log-comparison.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { BATCHES_A_BREATH } from '../../wal/tools/priority.ts';
import type { Tip } from '../../wal/types.ts';
import { collectGarbage } from '../garbage.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { next } from './wal/tool-logs.ts';
import { written } from './wal/rewriting.ts';

const BATCHES = 20_000;
const TURNS_A_LOOK = 50;

t.test('however long the logs are, only where each is read is kept', async (t) => {
  const { directory, log } = await written(BATCHES, () => ['{}']);
  await log.close();
  const copy = next();
  cpSync(directory, copy, { recursive: true });

  const used: number[] = [];
  let isDone = false;
  const look = async (): Promise<void> => {
    for (let turns = 0; !isDone; turns++) {
      await nextTurn();
      if (turns % TURNS_A_LOOK !== 0) continue;
      await collectGarbage();
      used.push(process.memoryUsage().heapUsed);
    }
  };
  const looked = look();
  t.strictSame(await checkReplicas([directory, copy]), []);
  isDone = true;
  await looked;
  // The first is from before anything was read.
  const [, begun = 0] = used;
  t.ok(used.length > 3, `${used.length} looks`);
  const grown = Math.max(...used) - begun;
  t.ok(grown < 32 * BATCHES, `${grown} bytes more: not even a hash of each batch`);
});

t.test(
  'logs that have no batch in common are one chain only if one begins where the other was',
  async (t) => {
    const [whole, later] = [t.testdir({ whole: {}, later: {} })].flatMap((root) => [
      join(root, 'whole'),
      join(root, 'later'),
    ]);
    const open = (directory: string): WriteAheadLog =>
      WriteAheadLog.open({ directory, now: Date.now, onFailure: (error) => void t.fail(error.message) });
    const log = open(whole!);
    const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
    await partition.drained();
    partition.append('{}');
    await partition.drained();
    await log.close();
    const reader = LogReader.openReader({ directory: whole! });
    const tip = reader.tip('accounts', 0);
    await reader.close();

    const other = open(later!);
    await other.startAt('accounts', 0, tip);
    t.strictSame(await checkReplicas([whole!, later!]), []);
    await other.startAt('accounts', 0, { ...tip, hash: Buffer.alloc(32, 1) });
    await other.close();
    for (const directories of [
      [whole!, later!],
      [later!, whole!],
    ]) {
      t.strictSame(await checkReplicas(directories), [
        `accounts/0: batch ${tip.batch} differs between ${directories[0]} and ${directories[1]}`,
      ]);
    }
  },
);

t.test('logs are read in many turns: a service beside them is not held up', async (t) => {
  const directory = join(temporaryDirectory(t), 'long');
  const log = WriteAheadLog.open({
    directory,
    now: Date.now,
    onFailure: (error) => void t.fail(error.message),
  });
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
  for (let batches = 0; batches < 8 * BATCHES_A_BREATH; batches++) {
    partition.append('{}');
    await partition.drained();
  }
  await log.close();
  let turns = 0;
  const count = (): void => {
    turns++;
    again = setImmediate(count);
  };
  let again = setImmediate(count);
  t.strictSame(await checkReplicas([directory]), []);
  clearImmediate(again);
  t.ok(turns >= 8, `${turns} turns`);
});

t.test('logs of which nothing is compared are not called one', async (t) => {
  const root = temporaryDirectory(t);
  const at = (name: string): string => join(root, name);
  const write = async (name: string, act: (log: WriteAheadLog) => Promise<void>): Promise<void> => {
    const onFailure = (error: Error): void => void t.fail(error.message);
    const log = WriteAheadLog.open({ directory: at(name), now: Date.now, onFailure });
    await act(log);
    await log.close();
  };
  const append = async (log: WriteAheadLog, epoch: number, records: readonly string[]): Promise<void> => {
    const partition = log.openPartition('accounts', 0, { epoch, replica: null, onDurable: () => {} });
    await partition.drained();
    for (const record of records) {
      partition.append(record);
      await partition.drained();
    }
  };
  const tipOf = async (name: string): Promise<Tip> => {
    const reader = LogReader.openReader({ directory: at(name) });
    const tip = reader.tip('accounts', 0);
    await reader.close();
    return tip;
  };
  await write('empty', () => Promise.resolve());
  await write('early', (log) => append(log, 1, ['{}']));
  cpSync(at('early'), at('whole'), { recursive: true });
  await write('whole', (log) => append(log, 2, ['{}', '{}']));
  const [early, whole] = [await tipOf('early'), await tipOf('whole')];
  const late = { ...whole, hash: Buffer.alloc(32, 1) };
  await write('late', (log) => log.startAt('accounts', 0, late));
  await write('middle', (log) => log.startAt('accounts', 0, early));

  const untold = async (
    names: readonly string[],
    why: string,
    findings: readonly string[] = [],
  ): Promise<void> => {
    const error = (await checkReplicas(names.map(at)).catch((thrown: unknown) => thrown)) as CouldNotTell;
    t.strictSame([error.message, error.findings], [why, findings], names.join(', '));
  };
  const nothingIn = `${at('empty')} holds a log with no partition in it`;
  await untold(['empty'], nothingIn);
  await untold(['early', 'empty'], nothingIn);
  const apart = (one: string, other: string): string =>
    `accounts/0: ${at(one)} and ${at(other)} have no batch in common, so nothing says that they are one log`;
  await untold(['early', 'late'], apart('early', 'late'));
  await untold(['late', 'early'], apart('late', 'early'));
  t.strictSame(await checkReplicas(['early', 'middle', 'whole'].map(at)), []);
  await untold(['early', 'early'], `${at('early')} is named twice`);
  await write('more', async (log) => {
    const partition = log.openPartition('accounts', 1, { epoch: 1, replica: null, onDurable: () => {} });
    await partition.drained();
  });
  const args = ['early', 'more'].flatMap((name) => ['--data-dir', at(name)]);
  const { stdout } = await promisify(execFile)(process.execPath, ['deploy/checker.ts', ...args]);
  t.strictSame(stdout.split('\n').slice(0, 2), [
    `In ${at('early')} alone, and compared with nothing: accounts/0`,
    `In ${at('more')} alone, and compared with nothing: accounts/1`,
  ]);
  // What was found is told all the same.
  await untold(['late', 'early', 'whole', 'empty'], nothingIn, [
    `accounts/0: batch ${whole.batch} differs between ${at('late')} and ${at('whole')}`,
  ]);
});

t.test(
  'a log that ends with an epoch that nobody else has is of the chain, unless that has records',
  async (t) => {
    const root = temporaryDirectory(t);
    const [lost, went] = [join(root, 'lost'), join(root, 'went-on')];
    const write = async (directory: string, epoch: number, records: readonly string[]): Promise<void> => {
      const log = WriteAheadLog.open({
        directory,
        now: Date.now,
        onFailure: (error) => void t.fail(error.message),
      });
      const partition = log.openPartition('accounts', 0, { epoch, replica: null, onDurable: () => {} });
      await partition.drained();
      for (const record of records) partition.append(record);
      await partition.drained();
      await log.close();
    };
    await write(lost, 1, ['{}']);
    cpSync(lost, went, { recursive: true });
    await write(lost, 2, []);
    await write(went, 3, ['{}']);
    t.strictSame(await checkReplicas([lost, went]), []);
    t.strictSame(await checkReplicas([went, lost]), []);

    const acknowledged = join(root, 'acknowledged');
    cpSync(lost, acknowledged, { recursive: true });
    await write(acknowledged, 2, ['{}']);
    t.strictSame(await checkReplicas([went, acknowledged]), [
      `accounts/0: batch 3 differs between ${went} and ${acknowledged}`,
    ]);
  },
);
