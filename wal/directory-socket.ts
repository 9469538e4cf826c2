// The socket in a directory on which whoever writes it listens: the service its data directory, or a tool beside it, and a tool
// its directory of segments. That somebody does is told by it also to another container, where process numbers mean nothing:
// the system closes it when its process ends, however it ends, so what is left of a killed one refuses connections and may be
// removed.
import { randomBytes } from 'node:crypto';
import { closeSync, linkSync, lstatSync, openSync, renameSync, unlinkSync, type BigIntStats } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { WAL_LIMITS } from './limits.ts';

/** In the directory. */
export const socketFile = 'lock';

/** Processes that find what a killed one left, all at once. */
const takesMax = 3;

export interface HeldDirectory {
  /** Lets another process have it. */
  release(): Promise<void>;
}

/** Null: another process, or this one, has it. Rejects where it cannot be told. */
export async function holdDirectory(directory: string): Promise<HeldDirectory | null> {
  const descriptor = openSync(directory, 'r');
  let server: Server | null;
  try {
    server = await take(pathIn(directory, descriptor));
  } catch (error) {
    closeSync(descriptor);
    throw untold(directory, error);
  }
  if (server === null) {
    closeSync(descriptor);
    return null;
  }
  return {
    release: () =>
      new Promise((resolve) => {
        server.close(() => {
          closeSync(descriptor);
          resolve();
        });
      }),
  };
}

/** Whether a process has it, of whoever only asks. Rejects where it cannot be told. */
export async function isHeld(directory: string): Promise<boolean> {
  const descriptor = openSync(directory, 'r');
  try {
    return await isListenedOn(pathIn(directory, descriptor));
  } catch (error) {
    throw untold(directory, error);
  } finally {
    closeSync(descriptor);
  }
}

function untold(directory: string, error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  const what = `${join(directory, socketFile)} cannot be made or asked: ${code ?? message}`;
  return Object.assign(new Error(what, { cause: error }), { code });
}

/** The system bounds the length of a socket's path, and cuts off what is longer: where a directory can be named by its
 *  descriptor, which is open for as long as the socket is, its own path may be any. */
function pathIn(directory: string, descriptor: number): string {
  if (process.platform === 'linux') return `/proc/self/fd/${descriptor}/${socketFile}`;
  const path = join(directory, socketFile);
  const tooLongBy = Buffer.byteLength(path) - WAL_LIMITS.socketPathBytesMax;
  if (tooLongBy > 0) {
    throw new Error(`its path is too long by ${tooLongBy} bytes: a symbolic link's is shorter`);
  }
  return path;
}

async function take(socket: string): Promise<Server | null> {
  for (let tries = 0; tries < takesMax; tries++) {
    const server = await listen(socket);
    if (server !== null) return server;
    const found = lstatSync(socket, { bigint: true, throwIfNoEntry: false });
    if (found === undefined) continue;
    if ((await isListenedOn(socket)) || !removed(socket, found)) break;
  }
  return null;
}

/** Null: there is something already. */
function listen(socket: string): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((connection) => connection.end());
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(null);
      else reject(error);
    });
    server.listen(socket, () => {
      server.unref();
      resolve(server);
    });
  });
}

/** Only a socket that refuses, or is gone, is nobody's. Rejects where it cannot be told. */
function isListenedOn(socket: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const connection = connect(socket);
    connection.once('connect', () => {
      connection.destroy();
      resolve(true);
    });
    connection.once('error', (error: NodeJS.ErrnoException) => {
      const { code = '' } = error;
      if (['ECONNREFUSED', 'ENOENT'].includes(code)) resolve(false);
      // As many wait for its holder already as may.
      else if (code === 'EAGAIN') resolve(true);
      else reject(error);
    });
  });
}

/** False: another process has put its own in the place of the one that was found, and keeps it. */
function removed(socket: string, found: BigIntStats): boolean {
  const aside = `${socket}.${randomBytes(4).toString('hex')}`;
  try {
    renameSync(socket, aside);
  } catch (error) {
    // Another process was quicker; who gets the directory is seen next.
    if (Object(error).code === 'ENOENT') return true;
    throw error;
  }
  const { ino, mtimeNs } = lstatSync(aside, { bigint: true });
  const isFound = ino === found.ino && mtimeNs === found.mtimeNs;
  if (!isFound) linkSync(aside, socket);
  unlinkSync(aside);
  return isFound;
}
