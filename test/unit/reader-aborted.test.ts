// A process that looks whether the log or the views are damaged and is itself aborted, for want of memory or by a person, says
// nothing of them: only what ends the next one, too, is damage. And one whose service was killed opens neither.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import type { Damage } from '../../src/damage/damage.ts';
import { proveFiles } from '../../src/damage/files-proof.ts';
import { Scrub } from '../../src/damage/scrub.ts';
import { written } from './wal/rewriting.ts';
import { checkpointAll } from './wal/tool-logs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

/** Ends the next process that reads `what` as it says that it is about to read the first partition; or before it says anything. */
function abortNext(t: Test, what: string, when: 'saying' | 'opening'): string {
  const aborted = join(temporaryDirectory(t), 'aborted');
  const code = `
    import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    const abort = () => {
      if (fs.existsSync('${aborted}') || !process.argv.includes('${what}')) return;
      fs.writeFileSync('${aborted}', '');
      process.kill(process.pid, 'SIGABRT');
    };
    const write = fs.writeSync;
    fs.writeSync = (...given) => {
      const bytes = write(...given);
      if (given[0] === 1 && String(given[1]) !== '\\n') abort();
      return bytes;
    };
    syncBuiltinESMExports();
    if ('${when}' === 'opening') abort();`;
  const imported = `--import=data:text/javascript,${encodeURIComponent(code)}`;
  const NODE_OPTIONS = `${ENVIRONMENT.NODE_OPTIONS} ${imported}`;
  t.intercept(process, 'env', { value: { ...process.env, NODE_OPTIONS } });
  return aborted;
}

t.test('the check of the log', async (t) => {
  const { directory, log } = await written(10);
  t.teardown(() => log.close());
  const aborted = abortNext(t, 'accounts/0', 'saying');
  const found: Damage[] = [];
  await new Scrub(directory, (each) => void found.push(each)).run();
  t.ok(existsSync(aborted));
  t.strictSame(found, []);
});

for (const [what, when] of [
  ['log', 'saying'],
  ['log', 'opening'],
  ['views', 'opening'],
] as const) {
  t.test(`of a start or a tool, ${what}, ${when}`, async (t) => {
    const { directory, log } = await written(10);
    await log.close();
    await checkpointAll(directory);
    const aborted = abortNext(t, what, when);
    const { log: problem, unread, unreadable } = await proveFiles(directory, null);
    t.ok(existsSync(aborted));
    t.strictSame([problem, unread, unreadable.places, unreadable.views], [null, [], [], null]);
  });
}

for (const [file, program, ...args] of [
  ['log', 'scrub-process', 'accounts/0'],
  ['log', 'files-reader', 'log', 'accounts/0'],
  ['views', 'files-reader', 'views'],
] as const) {
  t.test(`${program} of ${file}, whose service was killed as it started`, async (t) => {
    const { directory, log } = await written(10);
    await log.close();
    await checkpointAll(directory);
    // Whoever opens the file makes it.
    const lock = join(directory, file, 'lock.mdb');
    rmSync(lock);
    const reader = spawn(process.execPath, [`src/damage/${program}.ts`, directory, ...args], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    reader.stdout.destroy();
    await once(reader, 'exit');
    t.notOk(existsSync(lock), 'it opened nothing');
  });
}
