// The conditions under which everything is measured, found out at the start.

import { spawnSync } from 'node:child_process';
import { closeSync, fdatasyncSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { hasWrk } from '../load/wrk.ts';
import type { Conditions } from '../result.ts';
import { percentile } from '../statistics.ts';

const MIB = 1_048_576;
const BLOCK_BYTES = 4_096;

/** `wrk`: may be used where it is installed. */
export function findConditions(
  dataDirectory: string,
  fsyncSeconds: number,
  wrk: boolean,
): Omit<Conditions, 'commit'> {
  const processors = cpus();
  return {
    cores: availableParallelism(),
    cpu: processors[0]?.model.trim() ?? 'unknown',
    memoryMiB: Math.round(totalmem() / MIB),
    node: process.version,
    kernel: `${process.platform} ${release()}`,
    dataDirectory,
    fileSystem: fileSystemOf(dataDirectory),
    loadAverage: loadavg()[0] ?? 0,
    fsync: measureFsync(dataDirectory, fsyncSeconds),
    closedLoopDriver: wrk && hasWrk() ? 'wrk' : 'node',
  };
}

/** Appends 4 KiB and waits for it, one after another: what one group commit costs at least. */
function measureFsync(directory: string, seconds: number): Conditions['fsync'] {
  // Another bench may be measuring the same disk.
  const path = join(directory, `fsync-probe-${process.pid}`);
  const file = openSync(path, 'w');
  const block = Buffer.alloc(BLOCK_BYTES, 'x');
  const timesMs: number[] = [];
  try {
    const until = performance.now() + seconds * 1_000;
    for (let from = performance.now(); from < until; from = performance.now()) {
      writeSync(file, block);
      fdatasyncSync(file);
      timesMs.push(performance.now() - from);
    }
  } finally {
    closeSync(file);
    rmSync(path);
  }
  const total = timesMs.reduce((sum, ms) => sum + ms, 0);
  return {
    perSecond: (timesMs.length / total) * 1_000,
    p50Ms: percentile(timesMs, 50),
    p99Ms: percentile(timesMs, 99),
  };
}

/** Magic numbers of statfs(2). */
const FILE_SYSTEMS: Readonly<Record<number, string>> = {
  0xef53: 'ext4',
  0x58465342: 'xfs',
  0x9123683e: 'btrfs',
  0x01021994: 'tmpfs (in memory: fsync costs nothing here)',
  0x794c7630: 'overlayfs',
};

function fileSystemOf(path: string): string | null {
  return FILE_SYSTEMS[statfsSync(path).type] ?? null;
}

/** Null outside a git clone. What was measured may be more than what was committed. */
export function commitOf(folder: string): string | null {
  const git = (...args: readonly string[]): string | null => {
    const { status, stdout } = spawnSync('git', args, { cwd: folder, encoding: 'utf8' });
    return status === 0 ? stdout.trim() : null;
  };
  const commit = git('rev-parse', '--short', 'HEAD');
  const changed = git('status', '--porcelain', '--untracked-files=no');
  return commit === null || changed === '' ? commit : `${commit} with changes`;
}
