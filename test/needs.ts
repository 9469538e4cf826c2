// What some test files run on that npm does not install. Where it is missing such a file is skipped and says how to install it;
// in CI, which installs all of it, that is a failure.

import t from 'tap';
import { isInstalled } from '../deploy/server-path.ts';

/** To be called before anything is started. Where there is no such server the process ends here. */
export function needs(server: 'nats-server' | 'nginx', debianPackage: string = server): void {
  if (isInstalled(server)) return;
  const reason = `${server} is not installed: apt-get install -y ${debianPackage}`;
  if (process.env['CI'] !== undefined) t.bailout(reason);
  t.plan(0, reason);
  process.exit();
}
