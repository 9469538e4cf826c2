// How the bench's uWebSockets.js programs listen: on a free port of loopback, which they print; until SIGTERM, or until the bench
// that started them is gone.

import { us_listen_socket_close, us_socket_local_port } from 'uWebSockets.js';
import type { TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import { endWithParent } from './parent.ts';

/** `close`: what is to be done before it ends by SIGTERM; absent: nothing. */
export function listen(app: TemplatedApp, close?: () => Promise<void>): void {
  endWithParent();
  app.listen('127.0.0.1', 0, (socket) => {
    if (socket === false) throw new Error('no free port');
    const listening: us_listen_socket = socket;
    process.stdout.write(`listening ${us_socket_local_port(listening as never)}\n`);
    process.once('SIGTERM', () => {
      us_listen_socket_close(listening);
      void Promise.resolve(close?.()).then(() => process.exit(0));
    });
  });
}
