// A proxy between a node and NATS, on loopback.

import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';

/** A proxy to NATS that may be long, and can go silent: it takes what comes and passes nothing on, as a cut cable does. */
export class Cable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cut = false;

  private constructor(target: URL, delayMs: number) {
    this.#server = createServer((near) => {
      const far = connect(Number(target.port), target.hostname);
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from);
        from.on('data', (bytes) => {
          if (!this.#cut) setTimeout(() => to.write(bytes), delayMs);
        });
        from.on('error', () => {});
        from.on('close', () => {
          this.#sockets.delete(from);
          if (!this.#cut) setTimeout(() => to.destroy(), delayMs);
        });
      }
    });
  }

  /** `delayMs`: each way. */
  static async lay(url: string, delayMs = 0): Promise<{ cable: Cable; url: string }> {
    const cable = new Cable(new URL(url), delayMs);
    await new Promise<void>((resolve) => {
      cable.#server.listen(0, '127.0.0.1', resolve);
    });
    const address = cable.#server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    return { cable, url: `nats://127.0.0.1:${address.port}` };
  }

  cut(): void {
    this.#cut = true;
  }

  /** Connections of before the cut stay dead. */
  mend(): void {
    this.#cut = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  remove(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
