// Loaded before all else into each process of a test run: takes our .ts files without their types from where `strip-types.mjs` put
// them, instead of having Node strip them again. A run starts some thousand processes, and stripping was a third of a service's start
// and most of a log tool's. It goes by what is in a file: what has changed since is left to Node, as everything is outside of tests.
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

const ours = new URL('../', import.meta.url).href;
const theirs = new URL('../node_modules/', import.meta.url).href;

/** Of this version of Node: another's stripper may not agree. */
export const strippedFolder = fileURLToPath(new URL(`.cache/stripped-types/${process.version}/`, theirs));

/** The name in `strippedFolder` for a file that reads `source`. */
export function strippedName(source) {
  return `${hash('sha256', source)}.js`;
}

registerHooks({
  load(url, context, nextLoad) {
    const source = isOurTypeScript(url) ? strippedOf(fileURLToPath(url)) : null;
    return source === null ? nextLoad(url, context) : { format: 'module', source, shortCircuit: true };
  },
});

function isOurTypeScript(url) {
  return url.startsWith(ours) && url.endsWith('.ts') && !url.startsWith(theirs);
}

function strippedOf(file) {
  try {
    return readFileSync(strippedFolder + strippedName(readFileSync(file)));
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw error;
  }
}
