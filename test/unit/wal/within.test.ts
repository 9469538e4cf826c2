// A wait with an end: what never comes is given up; what came while the process was stopped has come.

import { stat } from 'node:fs/promises';
import t from 'tap';
import { within } from '../../../wal/within.ts';

t.test('what does not come in time is given up, with the reason', async (t) => {
  const startedAt = performance.now();
  await t.rejects(within(100, new Promise(() => {}), 'it did not come'), { message: 'it did not come' });
  t.ok(performance.now() - startedAt > 95);
});

t.test('what comes, or fails, in time is passed on', async (t) => {
  t.equal(await within(10_000, Promise.resolve(7), 'it did not come'), 7);
  await t.rejects(within(10_000, Promise.reject(new Error('broken')), 'it did not come'), {
    message: 'broken',
  });
});

t.test('what came while the process stood still has come in time', async (t) => {
  // From here timers are next in the event loop, before what has been read.
  await new Promise((resolve) => setImmediate(resolve));
  const waiting = within(1_000, stat('.'), 'it did not come');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200);
  t.ok((await waiting).isDirectory());
});
