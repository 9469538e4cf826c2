// Tests run without tap's recorder of files, and so do the processes that they start: as they would without tap.
import { spawnSync } from 'node:child_process';
import t from 'tap';

function startedWith(env?: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { stdout } = spawnSync(process.execPath, ['-p', 'JSON.stringify(process.env)'], {
    encoding: 'utf8',
    ...(env === undefined ? {} : { env }),
  });
  return JSON.parse(stdout) as NodeJS.ProcessEnv;
}

t.test(
  'a process that a test starts has the environment that it is given, and loads nothing else',
  async (t) => {
    t.strictSame(startedWith({ OWN: 'x' }), { OWN: 'x' });
    t.equal(
      startedWith()['NODE_OPTIONS'],
      `--import=${import.meta.resolve('../../.npm/stripped-types.mjs')}`,
    );
  },
);
