// Installs what is missing before an npm script runs, so that `npm start` and `npm test` work in a fresh clone. Not as a script
// `prestart`: npm runs none of these for those who have `ignore-scripts` set.
//
// Runs on any Node from 20, before `node_modules` exists: only built-ins, plain JavaScript.
// It compares what package-lock.json asks for with what npm says it installed, never file times: a checkout
// changes times without changing contents. Nothing to do costs some tens of milliseconds.
//
//   node .npm/ensure-installed.mjs            what the service needs (development packages stay if present)
//   node .npm/ensure-installed.mjs --dev      also what the tests and checks need
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const withDev = process.argv.includes('--dev');

const reason = whatIsMissing();
if (reason !== undefined) install(reason);

function whatIsMissing() {
  const wanted = packagesOf('package-lock.json');
  const installed = packagesOf('node_modules/.package-lock.json');
  if (wanted === undefined) return fail('package-lock.json is missing or damaged; restore it from git.');
  if (installed === undefined) return 'nothing is installed yet';

  for (const [path, entry] of Object.entries(wanted)) {
    const { version, dev, devOptional, optional } = entry;
    // Optional packages are those of other platforms; npm leaves them out.
    if (path === '' || (optional && !isNodeOfHere(path, entry)) || devOptional || (dev && !withDev)) continue;
    if (installed[path]?.version !== version) return `${nameOf(path)} ${version} is missing`;
  }
  if (!existsSync(join(root, 'node_modules/.bin/node'))) return 'Node 22 is missing';
  return undefined;
}

/** The Node that everything runs on: a package for each platform, so that the lock file has its hash. The one named `node` would have
 *  its install script fetch the same, past that hash. */
function isNodeOfHere(path, { os, cpu }) {
  const isNode = /^node_modules\/node-(?:bin-)?(?:darwin|linux)-/.test(path);
  return isNode && [os].flat().includes(process.platform) && [cpu].flat().includes(process.arch);
}

function nameOf(path) {
  return path.replace(/^.*node_modules\//, '');
}

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(join(root, file), 'utf8')).packages;
  } catch {
    return undefined;
  }
}

function install(why) {
  // A tree that has development packages keeps them; `npm ci` removes everything first.
  const installed = Object.values(packagesOf('node_modules/.package-lock.json') ?? {});
  const omitDev = !withDev && !installed.some((entry) => entry.dev === true);
  const cache = isCacheUsable() ? undefined : mkdtempSync(join(tmpdir(), 'daftari-npm-'));
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  if (omitDev) args.push('--omit=dev');
  if (cache !== undefined) args.push('--cache', cache);
  console.error(`Installing (${why}): npm ${args.join(' ')}`);

  // The npm that runs us, on the Node that it runs on: ours is among what is replaced.
  const { npm_execpath: npm, npm_node_execpath: node = process.execPath } = process.env;
  const options = { cwd: root, stdio: ['ignore', 2, 2] };
  const result = npm ? spawnSync(node, [npm, ...args], options) : spawnSync('npm', args, options);
  if (cache !== undefined) rmSync(cache, { recursive: true, force: true });
  if (result.error) fail(`npm could not be run: ${result.error.message}`);
  if (result.status !== 0) fail('Packages could not be installed: npm says why above.');

  const still = whatIsMissing();
  if (still !== undefined) {
    fail(
      `Installed, but ${still}. Node comes as an optional package, for Linux and macOS on x64 and arm64: run ` +
        '`npm ci --include=optional` once.',
    );
  }
}

/** npm's is below a home directory, which a user of a container may not have, or not be let write: npm fails over that. */
function isCacheUsable() {
  let path = process.env.npm_config_cache;
  if (path === undefined) return true;
  while (!existsSync(path)) path = dirname(path);
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
