// Why a server cannot listen, which uWebSockets does not say: the system is asked for the same once more.

import { createServer } from 'node:net';

export class CannotListen extends Error {
  constructor(host: string, port: number, why: string) {
    super(
      `cannot listen on ${host}:${port}: ${why}; PORT and HOST, OPERATOR_PORT and OPERATOR_HOST choose others`,
    );
    this.name = 'CannotListen';
  }
}

const WHY: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken',
  EACCES: 'its user may not, as below port 1024 without CAP_NET_BIND_SERVICE',
  EADDRNOTAVAIL: 'the address is not of this machine',
};

export function whyCannotListen(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', ({ code = '', message }: NodeJS.ErrnoException) => resolve(WHY[code] ?? message));
    server.listen({ host, port, exclusive: true }, () => {
      server.close(() => resolve('the port was taken'));
    });
  });
}
