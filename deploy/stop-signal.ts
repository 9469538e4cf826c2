// How a program that has started others is asked to stop: at the first signal it stops them and ends, at the second it ends at
// once and they with it. One that has nothing to put in order ends so at the first.

import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { STATUS_BY_SIGNAL, STOP_SIGNALS } from '../src/end-process.ts';

/** Ctrl-C reaches every process of the terminal, and npm passes it on to its child once more: that is one wish. */
const ONE_WISH_MS = 1_000;

type StopSignal = (typeof STOP_SIGNALS)[number];

export class StopAsked extends Error {
  readonly signal: StopSignal;
  readonly exitStatus: number;

  constructor(signal: StopSignal) {
    super(`asked to stop by ${signal}`);
    this.signal = signal;
    this.exitStatus = STATUS_BY_SIGNAL + constants.signals[signal];
  }
}

/** Aborted, with a StopAsked as its reason, by the first signal. To be called before anything is started. */
export function stopSignal(): AbortSignal {
  const controller = new AbortController();
  let askedAt = 0;
  const ask = (asked: StopAsked): void => {
    if (!controller.signal.aborted) {
      askedAt = performance.now();
      controller.abort(asked);
    } else if (performance.now() - askedAt > ONE_WISH_MS) {
      for (const pid of childrenOf(process.pid)) process.kill(pid, 'SIGKILL');
      process.exit(asked.exitStatus);
    }
  };
  for (const signal of STOP_SIGNALS) process.on(signal, () => ask(new StopAsked(signal)));
  return controller.signal;
}

/** Whatever ends this process, a signal that asks it to or an error, ends those that it has started at once. */
export function endWithChildren(): void {
  process.on('exit', () => {
    for (const pid of childrenOf(process.pid)) process.kill(pid, 'SIGKILL');
  });
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => process.exit(STATUS_BY_SIGNAL + constants.signals[signal]));
  }
}

/** Those that its main thread has started, as Node starts all; none where the system does not say. */
export function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}
