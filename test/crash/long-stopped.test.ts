// The long crash run, stopped before its end: the service that it has started does not run on.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { childrenOf } from '../../deploy/stop-signal.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const READY_MS = 60_000;

for (const [signal, status] of [
  ['SIGTERM', 128 + 15],
  ['SIGHUP', 128 + 1],
] as const) {
  t.test(`by ${signal}`, async (t) => {
    const run = spawn(process.execPath, ['test/crash/long.ts', '--cycles', '1000'], {
      env: { ...process.env, TMPDIR: temporaryDirectory(t) },
      stdio: 'ignore',
    });
    const exited = new Promise<number | null>((resolve) => run.once('exit', resolve));
    let service = 0;
    t.teardown(() => {
      run.kill('SIGKILL');
      if (isService(service)) process.kill(service, 'SIGKILL');
    });
    await waitFor('it has started a service', READY_MS, () => {
      service = childrenOf(run.pid!).find(isService) ?? 0;
      return service > 0;
    });
    run.kill(signal);
    t.equal(await exited, status);
    await waitFor('the service has ended', READY_MS, () => !isService(service));
  });
}

/** No: it has ended. */
function isService(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('src/main.ts');
  } catch {
    return false;
  }
}
