// The address of a server of ours, from where it listens.

/** `host`: a name or an address; an IPv6 address without brackets. */
export function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
