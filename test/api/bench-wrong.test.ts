// The bench, wrongly asked: it says so at once, in words, with status 2, and measures nothing.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';

t.test('files that cannot be used are told before anything is measured', async (t) => {
  const directory = t.testdir({ 'broken.json': '{', 'old.json': '{"format":0}' });
  const [none, broken, old] = ['none.json', 'broken.json', 'old.json'].map((name) => join(directory, name));
  const cases: [string[], RegExp][] = [
    [['compare', none!, broken!], /ENOENT.*none\.json/],
    [['compare', broken!, none!], /JSON/],
    [['compare', old!, old!], /no report of a format/],
    [['profile', none!], /ENOENT.*none\.json/],
    [['bare', '--json', join(directory, 'nowhere', 'out.json')], /ENOENT.*nowhere/],
    [['bare', '--html', join(directory, 'nowhere', 'out.html')], /ENOENT.*nowhere/],
    [['bare', '--directory', broken!], /EEXIST.*broken\.json/],
    [['charges', '--side-by-side'], /--side-by-side takes --against/],
    [['lists', '--side-by-side', '--against', '.'], /lists is no load on one service/],
  ];
  for (const [args, words] of cases) {
    const child = spawnSync(process.execPath, ['bench/cli.ts', ...args], { encoding: 'utf8' });
    t.equal(child.status, 2, args.join(' '));
    t.match(child.stderr, words);
    t.match(child.stderr, /npm run bench -- --help says more\.\n$/);
    t.equal(child.stdout, '');
  }
});
