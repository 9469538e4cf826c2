// Where servers of Debian's packages lie: in /usr/sbin, to which the PATH of a plain user does not lead.

/** An environment in which they are found. */
export function withServers(environment: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return { ...environment, PATH: `${environment['PATH'] ?? '/usr/bin:/bin'}:/usr/local/sbin:/usr/sbin` };
}
