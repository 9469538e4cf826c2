// strace, with which tests read system calls, and make them slow or fail.

import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitFor } from '../deploy/wait-for.ts';

export const tracer = 'strace';

export const canTrace =
  spawnSync(tracer, ['-qq', '-e', 'trace=none', process.execPath, '--version']).status === 0;

/** Of a test that needs it. */
export const traced = { skip: canTrace ? false : 'strace is not here, or may not trace' };

/** No `fdatasync` of the process ends any more, for five minutes; resolves, when it is so, with how they go on. */
export function hangDisk(pid: number): Promise<() => void> {
  return disturbSyncs(pid, 'delay_enter=300s');
}

/** `fault`: what happens to each `fdatasync` of the process, or to those of this file alone, as strace says it. Resolves, when it is so,
 *  with how it ends. */
export async function disturbSyncs(pid: number, fault: string, file?: string): Promise<() => void> {
  const inject = `inject=fdatasync:${fault}`;
  const which = file === undefined ? [] : ['-P', file];
  const given = ['-f', '-qq', ...which, '-e', 'trace=fdatasync', '-e', inject, '-p', String(pid)];
  const disk = spawn(tracer, given, { stdio: 'ignore' });
  const isTraced = (): boolean => !/^TracerPid:\t0$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  await waitFor('the process is traced', 60_000, isTraced);
  return () => disk.kill('SIGKILL');
}

/** What `program`, a module's text, syncs, renames and makes below `directory`, in its order: "fsync(7</data>) = 0". Paths are
 *  told from there, and leave out files outside of it. */
export function namesSynced(directory: string, program: string): string[] {
  const trace = join(directory, 'trace');
  // With the path of each file descriptor.
  const options = ['-f', '-y', '-o', trace, '-e', 'trace=fsync,fdatasync,rename,mkdir'];
  const node = [process.execPath, '--input-type=module', '-e', program];
  const { status, stderr } = spawnSync(tracer, [...options, ...node], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`the traced program has ended: ${status}, ${stderr}`);
  return readFileSync(trace, 'utf8')
    .split('\n')
    .filter((line) => line.includes(directory))
    .map((line) =>
      line
        .replaceAll(directory, '')
        .replace(/^\d+ +/, '')
        .replace(/ += /, ' = '),
    );
}
