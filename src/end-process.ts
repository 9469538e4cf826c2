// The end of a process that must not wait for its threads. `process.exit` waits for them: a thread whose disk does not answer
// would keep the process there for ever, with its port open and nobody behind it.

import { closeSync, fstatSync, readdirSync } from 'node:fs';
import { constants } from 'node:os';

/** Those of the descriptors that are a process's own. */
const FIRST_OWN = 3;
/** Those that ask a process to stop; the last: its terminal is closed. */
export const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Plus a signal's number: the status by which a shell says that the signal ended a process. */
export const STATUS_BY_SIGNAL = 128;

/** After the listeners of `exit` the process is replaced by one that only ends, with `status`, and its threads are gone. Nothing else
 *  ends it at once and with a status; and as the first process of a container it could not end itself by a signal either. */
export function endProcess(status: number): never {
  process.on('exit', () => {
    try {
      // The system itself waits for a thread that the disk holds: clients should not have to wait, too.
      for (const descriptor of sockets()) closeSync(descriptor);
    } finally {
      process.execve?.(process.execPath, [process.execPath, '--eval', `process.exit(${status})`], {});
    }
  });
  process.exit(status);
}

/** For a program that has nothing to do before it stops. The first process of a container gets only the signals that it listens to, so
 *  an interrupted tool would go on to its end. A tool that has something to remove listens before this does. */
export function endBySignals(): void {
  if (process.pid !== 1) return;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => endProcess(STATUS_BY_SIGNAL + constants.signals[signal]));
  }
}

/** As if the signal had ended it, whatever listens to it. */
export function endBySignal(signal: NodeJS.Signals): void {
  // The first process of a container is ended by none.
  if (process.pid === 1) endProcess(STATUS_BY_SIGNAL + constants.signals[signal]);
  // Whoever else hears it would keep it from ending this.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
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
