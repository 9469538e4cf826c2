// `npm start` installs what is missing, on whatever machine a newcomer has; where it cannot, it says why. The registry is never
// asked here: npm is told to be offline, and what it says then shows how far it came.
import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { temporaryDirectory } from '../temporary-directory.ts';

const root = join(import.meta.dirname, '../..');

/** What `npm <command>` says in a clone where nothing is installed. */
function fresh(t: Test, command: string, settings: Readonly<Record<string, string>>): string {
  const clone = temporaryDirectory(t);
  for (const name of ['.npm', '.npmrc', 'package.json', 'package-lock.json']) {
    cpSync(join(root, name), join(clone, name), { recursive: true });
  }
  const own = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
  const env = {
    ...Object.fromEntries(own),
    npm_config_offline: 'true',
    npm_config_cache: join(clone, 'cache'),
    ...settings,
  };
  const { status, stderr } = spawnSync('npm', [command], { cwd: clone, env, encoding: 'utf8' });
  t.equal(status, 1, command);
  return stderr;
}

t.test('also where scripts before and after others are switched off', async (t) => {
  for (const command of ['start', 'test']) {
    const told = fresh(t, command, { npm_config_ignore_scripts: 'true' });
    t.match(
      told,
      /^Installing \(nothing is installed yet\): npm ci (?:.*\n)+Packages could not be installed/m,
      command,
    );
  }
});

t.test('also where npm has no directory to keep packages in, as without a home directory', async (t) => {
  const told = fresh(t, 'start', { npm_config_cache: '/dev/null/npm' });
  t.match(told, /^Installing .*: npm ci .* --cache .*daftari-npm-/m);
});

t.test('whatever is installed, and the Node that runs it, has its hash in the lock file', async (t) => {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { integrity?: string; hasInstallScript?: boolean }>;
  };
  const packages = Object.entries(lock.packages).filter(([path]) => path !== '');
  const without = packages.filter(([, { integrity }]) => integrity?.startsWith('sha512-') !== true);
  t.strictSame(without, []);
  const scripts = packages.filter(([, { hasInstallScript }]) => hasInstallScript === true);
  t.strictSame(
    scripts.map(([path]) => path),
    ['node_modules/lmdb', 'node_modules/msgpackr-extract'],
    'who looks for what was built for this machine, and fetches nothing where it is there',
  );
  const [, node] = /node_modules\/((?:[^/]+\/)?[^/]+)\/bin\/node$/.exec(process.execPath) ?? [];
  t.type(lock.packages[`node_modules/${node}`]?.integrity, 'string', process.execPath);
});
