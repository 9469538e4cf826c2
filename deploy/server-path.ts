// Where servers of Debian's packages lie: in /usr/sbin, to which the PATH of a plain user does not lead.

import { spawnSync } from 'node:child_process';

/** An environment in which they are found. */
export function withServers(environment: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return { ...environment, PATH: `${environment['PATH'] ?? '/usr/bin:/bin'}:/usr/local/sbin:/usr/sbin` };
}

export function isInstalled(server: 'nats-server' | 'nginx'): boolean {
  return spawnSync(server, ['-v'], { env: withServers() }).status === 0;
}
