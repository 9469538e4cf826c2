// Loaded before a node (`node --import`): its machine's clock, which the test sets by a file of milliseconds to be ahead.
// Beside that, `<file>.<pid>` says how far ahead the process now is: its main thread, for each thread loads this.

import { readFileSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env['CLOCK_FILE'] ?? '';
const EVERY_MS = 20;
const machineNow = Date.now;
let aheadMs = 0;

Date.now = () => machineNow() + aheadMs;

function look(): void {
  const text = readFileSync(file, 'utf8');
  if (text === '' || Number(text) === aheadMs) return;
  aheadMs = Number(text);
  if (isMainThread) writeFileSync(`${file}.${process.pid}`, text);
}

look();
setInterval(look, EVERY_MS).unref();
