// Starts the peer: a PostgreSQL of its own in a temporary directory, on a unix socket, from Debian's package; its schema and
// accounts; and the Fastify server in front. Everything that makes a commit durable is on.

import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { childrenOf } from '../../deploy/stop-signal.ts';
import { hashApiKey, parseApiKey } from '../../src/http/api-key.ts';
import { linesOf } from '../load/work.ts';
import { startChild } from './child.ts';
import type { Server } from './server.ts';
import { startListening } from './start-listening.ts';

const PROGRAM = new URL('peer.ts', import.meta.url);
const SCHEMA = fileURLToPath(new URL('peer.sql', import.meta.url));
const READY_MS = 60_000;
/** Of the pool: enough for group commit to find company, few enough not to crowd two cores. */
const CONNECTIONS = 32;
const FUNDS = 1_000_000_000_000;

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '',
  synchronous_commit: 'on',
  fsync: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  max_wal_size: '8GB',
  checkpoint_timeout: '15min',
  wal_compression: 'on',
  max_connections: '64',
};

/** `directory`: on the disk that is measured; the caller removes it. */
export async function startPostgresPeer(directory: string, keysFile: string): Promise<Server> {
  const programs = findPrograms();
  const user = userToRunAs();
  const data = join(directory, 'postgres');
  mkdirSync(data, { mode: 0o700 });
  if (user !== null) openFor(user, data);
  const as = user ?? {};
  const made = spawnSync(
    join(programs, 'initdb'),
    ['-D', data, '-U', 'postgres', '--auth=trust', '--no-locale', '-E', 'UTF8', '--no-sync'],
    { ...as, encoding: 'utf8', cwd: '/' },
  );
  if (made.status !== 0) throw new Error(`initdb failed:\n${made.stdout}${made.stderr}`);

  const database = await startChild({
    command: join(programs, 'postgres'),
    args: [
      '-D',
      data,
      '-k',
      data,
      ...Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    env: process.env,
    cwd: '/',
    isReady: (line) => line.includes('database system is ready to accept connections'),
    readyMs: READY_MS,
    ...as,
  });
  try {
    load(programs, data, keysFile);
    const front = await startListening('fastify', PROGRAM, {
      socketDirectory: data,
      connections: CONNECTIONS,
    });
    return {
      ...front,
      name: 'Fastify and PostgreSQL',
      get processes() {
        const backends = childrenOf(database.pid).map((pid) => ({ name: 'postgres', pid }));
        return [...front.processes, { name: 'postgres', pid: database.pid }, ...backends];
      },
      async stop() {
        await front.stop();
        // Immediate: what it holds is thrown away.
        await database.end('SIGQUIT');
      },
    };
  } catch (error) {
    await database.end('SIGQUIT');
    throw error;
  }
}

/** Where initdb and postgres are: in the path, or where Debian puts them. */
function findPrograms(): string {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).toSorted((a, b) => Number(b) - Number(a)) : [];
  const places = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...versions.map((version) => join(debian, version, 'bin')),
  ];
  const found = places.find(
    (place) => existsSync(join(place, 'initdb')) && existsSync(join(place, 'postgres')),
  );
  if (found === undefined) throw new Error('PostgreSQL is not installed: apt-get install postgresql');
  return found;
}

interface User {
  readonly uid: number;
  readonly gid: number;
}

/** PostgreSQL refuses to run as root. Null: as us. */
function userToRunAs(): User | null {
  return process.getuid?.() === 0 ? userIn(readFileSync('/etc/passwd', 'utf8')) : null;
}

/** The one that PostgreSQL's package made, wherever it stands; without it, as where PostgreSQL was built by hand, nobody. */
export function userIn(passwd: string): User {
  const entries = passwd.split('\n').map((line) => line.split(':'));
  const named = (wanted: string): string[] | undefined => entries.find(([name]) => name === wanted);
  const entry = named('postgres') ?? named('nobody');
  if (entry === undefined) throw new Error('PostgreSQL cannot run as root, and there is no user "postgres"');
  return { uid: Number(entry[2]), gid: Number(entry[3]) };
}

/** Its own directory, and the way there through the two that the bench made. */
const TRAVERSABLE = 0o011;

function openFor({ uid, gid }: User, data: string): void {
  chownSync(data, uid, gid);
  // The outer one may be somebody's, such as /tmp: what else may be done in it stays as it is.
  for (const path of [dirname(data), dirname(dirname(data))]) {
    chmodSync(path, statSync(path).mode | TRAVERSABLE);
  }
}

function load(programs: string, data: string, keysFile: string): void {
  const rows = linesOf(keysFile).map(
    (key) => `('${parseApiKey(key)!.accountId}','${hashApiKey(key)}',true,true)`,
  );
  const accounts = join(dirname(data), 'accounts.sql');
  writeFileSync(
    accounts,
    `INSERT INTO accounts VALUES ${rows.join(',')};\n` +
      `INSERT INTO balances SELECT account_id, 'UGX', 0, ${FUNDS} FROM accounts;\nANALYZE;\n`,
  );
  const psql = [
    '-h',
    data,
    '-U',
    'postgres',
    '-q',
    '-v',
    'ON_ERROR_STOP=1',
    '-f',
    SCHEMA,
    '-f',
    accounts,
    'postgres',
  ];
  const inPlace = join(programs, 'psql');
  const result = spawnSync(existsSync(inPlace) ? inPlace : 'psql', psql, { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(`the peer's schema could not be made:\n${result.stderr}`);
}
