// What a tool makes is for its user alone, whatever its umask, also where others may look into the directory that it makes it in.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { until } from '../../until.ts';
import { next, tool, write } from './tool-logs.ts';

const cli = fileURLToPath(new URL('../../../wal/cli.ts', import.meta.url));

t.test(
  'nobody else can ask a restore to wait, or to end another process, nor read what it restores',
  async (t) => {
    const [data, from, to] = [next(), next(), next()];
    await write(data, 2);
    await tool('backup', '--data', data, '--to', from);
    // It waits for whoever writes to this, which nobody does.
    const segment = join(
      from,
      readdirSync(from).findLast((file) => file.endsWith('.gz'))!,
    );
    rmSync(segment);
    spawnSync('bash', ['-c', 'mkfifo "$0"', segment]);
    mkdirSync(to);
    chmodSync(to, 0o755);

    const umask = process.umask(0);
    const child = spawn(process.execPath, [cli, 'restore', '--from', from, '--to', to], { stdio: 'ignore' });
    process.umask(umask);
    const ended = once(child, 'exit');
    await until(() => existsSync(join(to, 'log', 'data.mdb')));
    const made = readdirSync(to, { recursive: true, encoding: 'utf8' });
    const open = made.filter((file) => (lstatSync(join(to, file)).mode & 0o077) !== 0);
    child.kill('SIGKILL');
    await ended;
    t.ok(made.includes('lock'));
    t.strictSame(open, []);
  },
);
