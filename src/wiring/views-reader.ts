// Reads every row of the views, as a process of its own: node views-reader.ts <data directory>. Exit status 0: all can be
// read; UNREADABLE: LMDB says that they cannot. What it does not see, it dies of.

import { ViewStore } from '../../wal/views.ts';
import { UNREADABLE } from './views-proof.ts';

try {
  const views = ViewStore.open({ directory: process.argv[2]!, readOnly: true });
  views.readAll();
  await views.close();
} catch (error) {
  // LMDB's own errors have a number. Another one is a bug of ours, which says nothing about the file.
  if (typeof (error as { code?: unknown }).code !== 'number') throw error;
  process.stderr.write(`${String(error)}\n`);
  process.exitCode = UNREADABLE;
}
