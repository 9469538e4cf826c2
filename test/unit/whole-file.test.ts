// A file written whole is on the disk under its name when the call returns: what is written next may rely on it.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { traced, tracer } from '../tracer.ts';

t.test('its bytes are synced before it has its name, and its name before the call returns', traced, (t) => {
  const directory = t.testdir({ 'identity.json': 'before' });
  const file = join(directory, 'identity.json');
  const program = new URL('../../src/data-directory/whole-file.ts', import.meta.url).href;
  const write = `import { writeWholeFile } from '${program}'; writeWholeFile('${file}', 'after');`;
  const trace = join(directory, 'trace');
  // With the path of each file descriptor.
  const options = ['-f', '-y', '-o', trace, '-e', 'trace=fsync,fdatasync,rename'];
  const { status } = spawnSync(tracer, [...options, process.execPath, '--input-type=module', '-e', write]);
  t.equal(status, 0);
  t.equal(readFileSync(file, 'utf8'), 'after');
  const calls = readFileSync(trace, 'utf8')
    .split('\n')
    .filter((line) => line.includes(directory))
    .map((line) => line.replaceAll(directory, '').replace(/^\d+ +/, ''));
  t.match(calls, [
    /^f(data)?sync\(\d+<\/identity\.json\.new>\) += 0/,
    /^rename\("\/identity\.json\.new", "\/identity\.json"\) = 0/,
    /^fsync\(\d+<>\) += 0/,
  ]);
  t.equal(calls.length, 3);
  t.end();
});
