// Why a commit failed is told, however late lmdb-js tells it: on a busy machine its thread ends some turns after the commit is refused.
import t from 'tap';
import { commitDurably } from '../../../wal/lmdb.ts';
import { next } from './tool-logs.ts';

const REFUSED = 'Commit failed (see commitError for details)';

/** Of lmdb-js, what a failed commit is to its caller. */
function refusing(directory: string, reason: Promise<unknown>): Parameters<typeof commitDurably>[0] {
  const refused = (): Promise<never> =>
    Promise.reject(Object.assign(new Error(REFUSED), { commitError: reason }));
  const database: unknown = { batch: refused, flushed: Promise.resolve(), env: { path: directory } };
  return database as Parameters<typeof commitDurably>[0];
}

t.test('the reason is waited for', async (t) => {
  const { promise: reason, reject } = Promise.withResolvers<never>();
  const failed = commitDurably(refusing(next(), reason), []);
  // Some turns of the event loop later.
  const withPast = 'Input/output error: Attempting to setup locks after open';
  setTimeout(() => reject(new Error(withPast)), 20);
  await t.rejects(failed, {
    message: /^LMDB did not commit to \S+data\.mdb: Input\/output error \(its disk has \d+ MiB free\)$/,
  });
});

t.test('one that never comes is not waited for for ever', async (t) => {
  const never = new Promise<never>(() => {});
  await t.rejects(commitDurably(refusing(next(), never), []), {
    message: new RegExp(`data\\.mdb: ${REFUSED.replaceAll(/[()]/g, '.')}`),
  });
});
