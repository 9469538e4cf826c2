// By what a process is known to others of the machine: its number and, where the system tells, when it started, for another
// process may get the number.
import { readFileSync } from 'node:fs';

/** Of this process. */
export function ownMark(): string {
  return markOf(process.pid);
}

/** Of a process that is alive. */
export function markOf(pid: number): string {
  return `${pid} ${startOf(pid) ?? ''}`;
}

/** The number of the process whose mark it is, when it is alive; null: it is not. */
export function aliveIn(mark: string): string | null {
  const [pid = '', start = ''] = mark.split(' ');
  // A power cut leaves a file empty; and 0, or less, is more than one process.
  const now = Number(pid) > 0 ? startOf(Number(pid)) : null;
  return now !== null && (start === '' || now === start) ? pid : null;
}

/** When a live process started, in the system's ticks; '' where the system does not say; null: there is none. */
function startOf(pid: number): string | null {
  if (process.platform !== 'linux') return isAlive(pid) ? '' : null;
  const fields = statOf(pid);
  if (fields === null) return null;
  return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? '');
}

/** What Linux says of a process after its name in parentheses, proc(5): its state, field 3, is the first, its session the fourth,
 *  its start time, field 22, the twentieth. Null: there is none, or this is no Linux. */
export function statOf(pid: number): string[] | null {
  const stat = readOrNull(`/proc/${pid}/stat`);
  return stat === null ? null : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return Object(error).code === 'EPERM';
  }
}

/** Null: there is no such file. */
export function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(Object(error).code)) return null;
    throw error;
  }
}
