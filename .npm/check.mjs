// `npm run check`: every check on the tree, at once, and all that is wrong rather than the first of it.
import { exec } from 'node:child_process';
import { performance } from 'node:perf_hooks';

const checks = {
  format:
    'prettier --check --cache --cache-strategy content --log-level warn . || (echo "npm run format mends it."; exit 1)',
  lint: 'oxlint',
  types: 'tsc',
  tidy: 'tap --reporter=min test/tidy.test.ts',
  'dead code': 'knip --no-progress',
};

const results = await Promise.all(Object.entries(checks).map(([name, command]) => run(name, command)));
const failed = results.filter((result) => !result.passed);
for (const { name, output } of failed) console.error(`\n== ${name}\n${output.trim()}`);
console.error(
  failed.length === 0 ? 'All sound.' : `\nNot sound: ${failed.map(({ name }) => name).join(', ')}.`,
);
process.exitCode = failed.length === 0 ? 0 : 1;

function run(name, command) {
  const start = performance.now();
  return new Promise((resolve) => {
    exec(command, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      const seconds = ((performance.now() - start) / 1000).toFixed(1);
      console.error(`${error === null ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
      resolve({ name, passed: error === null, output: stdout + stderr });
    });
  });
}
