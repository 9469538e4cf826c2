// The bench, wrongly asked: it says so at once, in words, with status 2, and measures nothing.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { parseCommand } from '../../bench/options.ts';
import { reportOf } from '../../bench/result.ts';

t.test('files that cannot be used are told before anything is measured', async (t) => {
  const directory = t.testdir({
    'broken.json': '{',
    'old.json': '{"format":0}',
    'null.json': 'null',
    'bare.json': '{"format":1}',
    'hollow.json': '{"format":1,"command":"","conditions":{"fsync":{"perSecond":1}},"scenarios":[null]}',
  });
  const names = ['none.json', 'broken.json', 'old.json', 'null.json', 'bare.json', 'hollow.json'];
  const [none, broken, old, empty, bare, hollow] = names.map((name) => join(directory, name));
  const cases: [string[], RegExp][] = [
    [['compare', none!, broken!], /ENOENT.*none\.json/],
    [['compare', broken!, none!], /broken\.json is no report: .*JSON/],
    [['compare', empty!, none!], /null\.json is no report: it has no format that is known here/],
    [['compare', bare!, none!], /bare\.json is no report: it has no command/],
    [['compare', hollow!, none!], /hollow\.json is no report: it has no scenarios with their repeats/],
    [['profile', broken!], /broken\.json is no CPU profile: .*JSON/],
    [['profile', old!], /old\.json is no CPU profile: /],
    [['compare', old!, old!], /old\.json is no report: it has no format/],
    [['profile', none!], /ENOENT.*none\.json/],
    [['bare', '--json', join(directory, 'nowhere', 'out.json')], /ENOENT.*nowhere/],
    [['bare', '--html', join(directory, 'nowhere', 'out.html')], /ENOENT.*nowhere/],
    [['bare', '--json', directory], /is a directory: the report is a file/],
    [['bare', '--html', directory], /is a directory: the report is a file/],
    [['bare', '--directory', broken!], /EEXIST.*broken\.json/],
    [
      ['bare', '--directory', '/proc/self'],
      /nothing can be measured in \/proc\/self: ENOENT.*see --directory/,
    ],
    [['bare', '--directory', '/proc/daftari-bench/data'], /--directory: ENOENT.*\/proc\/daftari-bench/],
    [['charges', '--side-by-side'], /--side-by-side takes --against/],
    [['lists', '--side-by-side', '--against', '.'], /lists is no load on one service/],
    [['compare', old!, old!, '--html', 'out.html'], /compare takes no --html/],
    [['profile', old!, '--repeats', '3'], /profile takes no --repeats/],
    [['reads', 'bare', '--peer', 'postgres'], /--peer: none of reads, bare is measured against one/],
    [
      ['payouts', '--side-by-side', '--against', '.', '--peer', 'postgres'],
      /--peer is not for --side-by-side/,
    ],
  ];
  for (const [args, words] of cases) {
    const child = spawnSync(process.execPath, ['bench/cli.ts', ...args], { encoding: 'utf8' });
    t.equal(child.status, 2, args.join(' '));
    t.match(child.stderr, words);
    t.match(child.stderr, /npm run bench -- --help says more\.\n$/);
    t.equal(child.stdout, '');
  }
});

t.test('numbers that nothing can be made of are told before anything is measured', async (t) => {
  const whole = ['repeats', 'connections', 'accounts', 'partitions', 'recovery-accounts', 'search'];
  const cases: [string[], RegExp][] = [
    ...whole.map((name): [string[], RegExp] => [[`--${name}`, '1.5'], new RegExp(`--${name} takes a whole`)]),
    [['--list-transactions', '1000,10.5'], /--list-transactions takes a whole number/],
    [['--list-transactions', '10000,1000'], /--list-transactions takes numbers that rise/],
    [['--list-transactions', '1000,1000'], /--list-transactions takes numbers that rise/],
    [['--list-transactions', '1000,'], /--list-transactions takes a positive number/],
    [['--seconds', '0'], /--seconds takes a positive number/],
  ];
  for (const [args, words] of cases) {
    t.throws(() => parseCommand(['bare', ...args]), words, args.join(' '));
  }
  t.hasStrict(parseCommand(['lists', '--list-transactions', '10,20,30', '--seconds', '0.5']), {
    options: { listTransactions: [10, 20, 30], seconds: 0.5 },
  });
});

t.test('a report that is damaged in one place is none', async (t) => {
  const figure = { name: 'peak', unit: '/s', value: 1, better: 'more' };
  const check = { what: 'ids exist', passed: true, detail: '' };
  const sound = { figures: [figure], loads: [], checks: [check], notes: [] };
  const saying = (repeat: object, more: object = {}): string =>
    JSON.stringify({
      format: 1,
      command: '',
      conditions: { fsync: { perSecond: 1 } },
      scenarios: [{ name: 'bare', repeats: [{ ...sound, ...repeat }] }],
      ...more,
    });
  t.equal(reportOf(saying({})).scenarios.length, 1);
  const damaged: [string, string][] = [
    ['value', saying({ figures: [{ ...figure, value: '1' }] })],
    ['unit', saying({ figures: [{ ...figure, unit: undefined }] })],
    ['better', saying({ figures: [{ ...figure, better: 'higher' }] })],
    ['checks', saying({ checks: [null] })],
    ['passed', saying({ checks: [{ ...check, passed: 'no' }] })],
    ['repeats', saying({}, { scenarios: [{ name: 'bare', repeats: [] }] })],
    ['failures', saying({}, { failures: [null] })],
  ];
  for (const [what, text] of damaged) t.throws(() => reportOf(text), /^it has no /, what);
});
