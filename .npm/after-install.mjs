// Runs after every `npm ci` and `npm install`: builds tap with the plugins that .taprc names.
//
// tap as published loads a TypeScript plugin that needs TypeScript's old compiler API; ours has none, because
// Node runs .ts itself. Without development packages (production) there is nothing to do.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const tap = join(root, 'node_modules/tap/dist/esm/run.mjs');

if (existsSync(tap)) {
  const { status } = spawnSync(process.execPath, [tap, 'build'], { cwd: root, stdio: ['ignore', 2, 2] });
  if (status !== 0) {
    console.error('tap could not be built with the plugins in .taprc; `npx tap build` shows why.');
    process.exit(1);
  }
}
