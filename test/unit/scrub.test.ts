// The check of the whole log behind the callers' backs: finds damage, and takes no take-over for it.
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import type { Damage } from '../../src/damage/damage.ts';
import { Scrub } from '../../src/damage/scrub.ts';
import { holdDirectory } from '../../wal/directory-socket.ts';
import type { WriteAheadLog } from '../../wal/log.ts';
import { CUT, damage, rewrite, written } from './wal/rewriting.ts';

const BATCHES = 5_000;
const RUNS = 10;
/** Often enough to meet each run, and seldom enough to let it end; at the most so often: it runs when nobody else wants its core, and
 *  may take long. */
const REWRITE_EVERY_MS = 25;
const REWRITES_MAX = 60;
/** Each of the first, where one step of the start follows the other; then seldom, while its thread loads its code, which it
 *  has by the last. */
const STARTING_MS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 18, 22, 26, 30, 35, 40, 45, 50, 55, 60, 70, 80];

t.test(
  'a log that is cut off and written anew meanwhile is not damaged, and damage is found in it',
  async (t) => {
    const { directory, log } = await written(BATCHES);
    // As the service does that writes it: what is committed while the scrub opens the log would be lost (commit-gate.ts).
    const held = await holdDirectory(directory);
    t.teardown(async () => {
      await log.close();
      await held!.release();
    });
    const found: Damage[] = [];
    const scrub = new Scrub(directory, (each) => void found.push(each));
    for (let run = 0; run < RUNS; run += 1) {
      await whileRewriting(log, () => (run % 2 === 0 ? scrub.run() : scrub.check('accounts', 0)));
    }
    t.strictSame(found, []);
    await damage(directory, BATCHES / 2);
    await whileRewriting(log, () => scrub.run());
    t.hasStrict(found, [{ group: 'accounts', partition: 0, batch: BATCHES / 2 }]);
  },
);

async function whileRewriting(log: WriteAheadLog, act: () => Promise<void>): Promise<void> {
  let ended = false;
  const rewriting = (async () => {
    for (let count = 0; !ended && count < REWRITES_MAX; count += 1) {
      await rewrite(log, CUT, CUT + (count % 2 === 0 ? 7 : -7));
      await pause(REWRITE_EVERY_MS);
    }
  })();
  try {
    await act();
  } finally {
    ended = true;
    await rewriting;
  }
}

t.test('one partition is checked without a check of all', async (t) => {
  const { directory, log } = await written(10);
  t.teardown(() => log.close());
  const found: Damage[] = [];
  const scrub = new Scrub(directory, (each) => void found.push(each));
  await damage(directory, 3);
  await scrub.check('accounts', 1);
  t.strictSame(found, []);
  await Promise.all([scrub.check('accounts', 1), scrub.check('accounts', 0)]);
  t.hasStrict(found, [{ group: 'accounts', partition: 0, batch: 3 }]);
});

t.test('it is stopped at any moment of its start', async (t) => {
  const { directory, log } = await written(10);
  t.teardown(() => log.close());
  const found: Damage[] = [];
  for (const afterMs of STARTING_MS) {
    const scrub = new Scrub(directory, (each) => void found.push(each));
    const running = scrub.run();
    await pause(afterMs);
    await scrub.stop();
    await running;
  }
  t.strictSame(found, []);
});
