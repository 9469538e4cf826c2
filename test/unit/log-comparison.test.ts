// Two nodes' logs compared: what is kept of them meanwhile does not grow with their length.
import { cpSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { checkReplicas } from '../../deploy/log-comparison.ts';
import { collectGarbage } from '../garbage.ts';
import { next } from './wal/tool-logs.ts';
import { written } from './wal/rewriting.ts';

const BATCHES = 20_000;
const TURNS_A_LOOK = 50;

t.test('however long the logs are, only where each is read is kept', async (t) => {
  const { directory, log } = await written(BATCHES, () => ['{}']);
  await log.close();
  const copy = next();
  cpSync(directory, copy, { recursive: true });

  const used: number[] = [];
  let isDone = false;
  const look = async (): Promise<void> => {
    for (let turns = 0; !isDone; turns++) {
      await setImmediate();
      if (turns % TURNS_A_LOOK !== 0) continue;
      await collectGarbage();
      used.push(process.memoryUsage().heapUsed);
    }
  };
  const looked = look();
  t.strictSame(await checkReplicas([directory, copy]), []);
  isDone = true;
  await looked;
  // The first is from before anything was read.
  const [, begun = 0] = used;
  t.ok(used.length > 3, `${used.length} looks`);
  const grown = Math.max(...used) - begun;
  t.ok(grown < 32 * BATCHES, `${grown} bytes more: not even a hash of each batch`);
});
