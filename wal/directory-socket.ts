// The socket in a directory on which whoever writes it listens: the service its data directory, or a tool beside it, and a tool
// its directory of segments. That somebody does is told by it also to another container, where process numbers mean nothing:
// the system closes it when its process ends, however it ends, so what is left of a killed one refuses connections and may be
// removed.
//
// Who opens LMDB's files beside it asks there (commit-gate.ts):  connect, which, its mark ──▶ (commits end, none begins) ──▶ "!"
// They go on when that connection ends. Who stands still while others wait for it is ended: then its connection is, too.
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  openSync,
  renameSync,
  unlinkSync,
  type BigIntStats,
} from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { closeGate, type GatedFile, isGatedFile, openGate } from './commit-gate.ts';
import { WAL_LIMITS } from './limits.ts';
import { aliveIn, ownMark } from './process-mark.ts';

/** In the directory. */
export const socketFile = 'lock';

/** Processes that find what a killed one left, all at once. */
const takesMax = 3;

const youMay = '!';
/** Of a connection that ends without an answer. */
const asksMax = 3;

export interface HeldDirectory {
  /** Lets another process have it. */
  release(): Promise<void>;
}

/** Null: another process, or this one, has it. Rejects where it cannot be told. */
export async function holdDirectory(directory: string): Promise<HeldDirectory | null> {
  const descriptor = openSync(directory, 'r');
  const asking = new Set<Socket>();
  let server: Server | null;
  try {
    server = await take(pathIn(directory, descriptor), asking);
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
        // It commits nothing more.
        for (const connection of asking) connection.destroy();
      }),
  };
}

/** As `open`, which opens that file of LMDB's in the directory, with nothing being committed to it by the process that has it. */
export async function openBeside<T>(directory: string, file: GatedFile, open: () => T): Promise<T> {
  if (!existsSync(directory)) return open();
  const descriptor = openSync(directory, 'r');
  let asked: Socket | null;
  try {
    asked = await mayOpen(pathIn(directory, descriptor), file);
  } catch (error) {
    throw untold(directory, error);
  } finally {
    closeSync(descriptor);
  }
  try {
    return open();
  } finally {
    asked?.destroy();
  }
}

/** Null: nobody has the directory. Rejects where it cannot be told. */
async function mayOpen(socket: string, file: GatedFile): Promise<Socket | null> {
  for (let asks = 0; asks < asksMax; asks++) {
    const answer = await ask(socket, file);
    if (answer !== 'ended') return answer;
  }
  throw new Error(
    'the process that has it does not let others read, as those before 2026-11-25: stop it first',
  );
}

function ask(socket: string, file: GatedFile): Promise<Socket | 'ended' | null> {
  return new Promise((resolve, reject) => {
    const connection = connect(socket, () => connection.write(`${file} ${ownMark()}`));
    connection.setTimeout(WAL_LIMITS.commitMsMax, () => {
      connection.destroy(new Error('the process that has it does not answer: stop it first'));
    });
    connection.once('data', () => resolve(connection));
    connection.once('error', (error: NodeJS.ErrnoException) => {
      if (isNobody(error)) resolve(null);
      else if (!['EPIPE', 'ECONNRESET'].includes(error.code ?? '')) reject(error);
    });
    // As the process that has it does; the next that is asked will be another, or none.
    connection.once('close', () => resolve('ended'));
  });
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

async function take(socket: string, asking: Set<Socket>): Promise<Server | null> {
  for (let tries = 0; tries < takesMax; tries++) {
    const server = await listen(socket, asking);
    if (server !== null) return server;
    const found = lstatSync(socket, { bigint: true, throwIfNoEntry: false });
    if (found === undefined) continue;
    if ((await isListenedOn(socket)) || !removed(socket, found)) break;
  }
  return null;
}

/** Null: there is something already. */
function listen(socket: string, asking: Set<Socket>): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((connection) => {
      asking.add(connection);
      connection.unref().once('close', () => asking.delete(connection));
      // Who has gone away asks no more, and 'close' follows.
      connection.on('error', () => {});
      connection.once('data', (asked) => letOpen(connection, asked.toString()));
    });
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

function letOpen(connection: Socket, asked: string): void {
  const [file = ''] = asked.split(' ', 1);
  if (!isGatedFile(file)) return void connection.destroy();
  let overdue: NodeJS.Timeout | undefined;
  const closed = closeGate(file, () => connection.destroyed);
  connection.once('close', () => {
    clearTimeout(overdue);
    void closed.then(() => openGate(file));
  });
  void closed.then(() => {
    if (connection.destroyed) return;
    overdue = setTimeout(() => end(asked.slice(file.length + 1)), WAL_LIMITS.openingMsMax).unref();
    connection.write(youMay);
  });
}

function end(mark: string): void {
  const pid = Number(aliveIn(mark));
  if (pid === 0 || pid === process.pid) return;
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It has ended by itself; or is another user's: commits wait for it until they fail.
    if (!['ESRCH', 'EPERM'].includes(Object(error).code)) throw error;
  }
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
      if (isNobody(error)) resolve(false);
      // As many wait for its holder already as may.
      else if (error.code === 'EAGAIN') resolve(true);
      else reject(error);
    });
  });
}

function isNobody({ code = '' }: NodeJS.ErrnoException): boolean {
  return ['ECONNREFUSED', 'ENOENT'].includes(code);
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
