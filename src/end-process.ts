// The end of a process that cannot wait for its threads, as `process.exit` does: one whose disk does not answer, or one of
// lmdb-js that waits for the rest of a batch whose own thread has just been stopped, would keep it there for ever, with its port
// open and nobody behind it.

import { closeSync, fstatSync, readdirSync } from 'node:fs';
import { constants } from 'node:os';

/** Those of the descriptors that are a process's own. */
const FIRST_OWN = 3;
/** Those that ask a process to stop; the last: its terminal is closed. */
export const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** A shell's, of what a signal has ended: with its number added. */
export const STATUS_BY_SIGNAL = 128;

/** After the listeners of `exit` the process becomes one that only ends, with `status`; its threads are gone with that. Nothing
 *  else ends it at once and with a status, nor by a signal of its own where it is the first process of a container. */
export function endProcess(status: number): never {
  process.on('exit', () => {
    try {
      // A thread that the disk has in its hands is waited for by the system itself: whoever is connected is not to wait, too.
      for (const descriptor of sockets()) closeSync(descriptor);
    } finally {
      process.execve?.(process.execPath, [process.execPath, '--eval', `process.exit(${status})`], {});
    }
  });
  process.exit(status);
}

/** For a program that needs nothing of its own to stop. The first process of a container is given only the signals that it hears:
 *  an interrupted tool would go on to its end. Whoever has something to remove hears them before this does. */
export function endBySignals(): void {
  if (process.pid !== 1) return;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => endProcess(STATUS_BY_SIGNAL + constants.signals[signal]));
  }
}

function sockets(): number[] {
  return readdirSync('/dev/fd')
    .map(Number)
    .filter((descriptor) => descriptor >= FIRST_OWN && isSocket(descriptor));
}

function isSocket(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isSocket();
  } catch (error) {
    // What the directory itself was read by.
    if (Object(error).code === 'EBADF') return false;
    throw error;
  }
}
