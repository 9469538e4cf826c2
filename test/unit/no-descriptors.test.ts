// As many connections as the process may have open files, from the first moment on: it goes on.

import { closeSync, openSync } from 'node:fs';
import t from 'tap';
import { Scrub } from '../../src/damage/scrub.ts';
import { OPEN_ACCOUNT, openStorage, send, serve } from './storage-driven.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

/** All that are left. */
function takeDescriptors(): number[] {
  const taken: number[] = [];
  for (;;) {
    try {
      taken.push(openSync('/dev/null', 'r'));
    } catch (error) {
      if (Object(error).code === 'EMFILE') return taken;
      throw error;
    }
  }
}

t.test('a partition that is served has its checkpoints', async (t) => {
  const storage = openStorage(temporaryDirectory(t));
  await serve(storage, 0);
  const taken = takeDescriptors();
  try {
    t.equal((await send(storage, 0, OPEN_ACCOUNT)).type, 'done');
    await storage.catchUpViews('accounts', 0);
  } finally {
    for (const descriptor of taken) closeSync(descriptor);
  }
  t.equal(storage.views.position('accounts', 0)?.sequence, 1);
  await storage.close();
});

t.test('a check of the log that no process can be started for is told, and ends nothing', async (t) => {
  const scrub = new Scrub(temporaryDirectory(t), () => t.fail('nothing was read'));
  const taken = takeDescriptors();
  try {
    await t.rejects(scrub.run(), { code: 'EMFILE' });
  } finally {
    for (const descriptor of taken) closeSync(descriptor);
  }
});
