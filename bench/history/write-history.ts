// Starts the history writer as a process of its own, so that its memory is gone when the measuring begins.

import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawnChild } from '../servers/child.ts';
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
  return new Promise((resolve, reject) => {
    const args = [PROGRAM, JSON.stringify(job)];
    const child = spawnChild(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] }, signal);
    let written: Written | null = null;
    let failure = '';
    createInterface({ input: child.stdout! }).on('line', (text) => {
      const line = JSON.parse(text) as HistoryLine;
      if (line.type === 'done') written = line;
      else if (line.type === 'failed') failure = `: ${line.message}`;
      else onProgress(`writing a history: ${line.what} ${line.done} of ${line.of}`);
    });
    child.once('error', reject);
    child.once('close', (status, by) => {
      if (written === null) reject(new Error(`the history writer ended with ${status ?? by}${failure}`));
      else resolve(written);
    });
  });
}
