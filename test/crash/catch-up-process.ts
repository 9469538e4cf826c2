// Makes the views of a data directory from its log, and dies by SIGKILL as soon as some of them are there: the rest of what is
// under way is cut short.
//
//   node catch-up-process.ts <data directory> <partitions>

import { catchUp } from '../../src/storage/catch-up.ts';
import { openStorage, POLICIES } from '../unit/storage-driven.ts';

const [directory, partitions] = process.argv.slice(2);
const storage = openStorage(directory!);
await catchUp({
  directory: directory!,
  policies: POLICIES,
  lags: storage.lags('accounts', Number(partitions)),
  threads: 1,
  onProgress: () => process.kill(process.pid, 'SIGKILL'),
});
