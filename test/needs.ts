// What some test files run on that npm does not install. Where it is missing such a file is skipped and says how to install it;
// in CI, which installs all of it, that is a failure.

import { spawnSync } from 'node:child_process';
import t from 'tap';
import { withServers } from '../deploy/server-path.ts';

/** To be called before anything is started. Where there is no such command the process ends here. */
export function needs(command: 'nats-server' | 'nginx', debianPackage: string = command): void {
  if (spawnSync(command, ['-v'], { env: withServers() }).error === undefined) return;
  const reason = `${command} is not installed: apt-get install -y ${debianPackage}`;
  if (process.env['CI'] !== undefined) t.bailout(reason);
  t.plan(0, reason);
  process.exit();
}
