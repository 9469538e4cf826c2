// Starts the history writer as a process of its own, so that its memory is gone when the measuring begins.

import { fileURLToPath } from 'node:url';
import { runProgram } from '../servers/child.ts';
import type { HistoryJob, HistoryLine } from './job.ts';

const PROGRAM = fileURLToPath(new URL('main.ts', import.meta.url));

export interface Written {
  readonly seconds: number;
  /** Records of the accounts group in the log, those before included. */
  readonly records: number;
}

/** `signal`: kills it when it is aborted. */
export function writeHistory(
  job: HistoryJob,
  onProgress: (text: string) => void,
  signal?: AbortSignal,
): Promise<Written> {
  const args = [PROGRAM, JSON.stringify(job)];
  return runProgram<HistoryLine, Written>('the history writer', args, signal, (line) => {
    if (line.type === 'done') return line;
    onProgress(`writing a history: ${line.what} ${line.done} of ${line.of}`);
    return null;
  });
}
