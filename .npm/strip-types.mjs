// Before a test run: strips the types of all our .ts files, for the processes of the run (`stripped-types.mjs`). What it has done
// before it does not do again, and of what no longer is it keeps nothing. For Node 22 with `--disable-warning=ExperimentalWarning`.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { strippedFolder, strippedName } from './stripped-types.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
mkdirSync(strippedFolder, { recursive: true });
// Not what another run is writing.
const left = new Set(readdirSync(strippedFolder).filter((name) => name.endsWith('.js')));
for (const folder of ['src', 'actors', 'wal', 'bench', 'deploy', 'test']) {
  for (const file of readdirSync(join(root, folder), { recursive: true })) {
    if (file.endsWith('.ts')) strip(join(root, folder, file));
  }
}
for (const name of left) rmSync(strippedFolder + name, { force: true });

function strip(file) {
  const source = readFileSync(file, 'utf8');
  const name = strippedName(source);
  if (left.delete(name)) return;
  // Whole or not there: another run may be loading it.
  const partial = `${strippedFolder + name}.${process.pid}`;
  writeFileSync(partial, stripTypeScriptTypes(source));
  renameSync(partial, strippedFolder + name);
}
