// `node deploy/checker.ts` where it cannot tell: a person reads why, and a script sees it by the exit status.
import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { balanceFindings } from '../../deploy/checker.ts';

t.test('what cannot be checked is told in words, with status 2', async (t) => {
  const directory = t.testdir({ 'broken.jsonl': '{}\n{"account_id":\n', empty: {} });
  const sent = join(directory, 'sent.jsonl');
  const entry = { account_id: 'acc_1', secret_key: 'sk_live_1', path: '/v1/charges', key: 'k', body: {} };
  writeFileSync(sent, `${JSON.stringify({ ...entry, status: 201, reply: {} })}\n`);
  // Nobody listens there: the port is reserved.
  const away = ['--base-url', 'http://127.0.0.1:1', '--operator-url', 'http://127.0.0.1:1'];
  const cases: [string[], RegExp][] = [
    [[], /^$/],
    [['--journal', join(directory, 'none.jsonl')], /^Could not tell: ENOENT.*none\.jsonl/],
    [['--journal', join(directory, 'broken.jsonl')], /^Could not tell: line 2 of .*broken\.jsonl: /],
    [['--journal', sent, ...away], /^Could not tell: fetch failed: \S/],
    [['--data-dir', join(directory, 'empty')], /^Could not tell: .*empty holds no log\n$/],
    [['--wrong'], /^Could not tell: .*--wrong/],
  ];
  for (const [args, words] of cases) {
    const { status, stderr } = spawnSync(process.execPath, ['deploy/checker.ts', ...args], {
      encoding: 'utf8',
    });
    t.equal(status, 2, args.join(' '));
    t.match(stderr, words);
    t.notMatch(stderr, /^ +at /m, 'no stack');
  }
  t.notOk(existsSync(join(directory, 'empty', 'log')), 'and nothing is made where there was no log');
});

t.test('balances are held against the entries, also one that is not told at all', (t) => {
  const sums = new Map([
    ['UGX MERCHANT_AVAILABLE', 700n],
    ['UGX MERCHANT_PENDING', 20n],
    ['KES PROVIDER_FLOAT', -5n],
    ['KES MERCHANT_PENDING', 5n],
  ]);
  const [ugx, kes] = [
    { currency: 'UGX', available: '700', pending: '20' },
    { currency: 'KES', available: '0', pending: '5' },
  ];
  t.strictSame(balanceFindings(sums, [ugx, kes]), []);
  t.strictSame(balanceFindings(sums, [ugx]), ['there are entries in KES, and no balance']);
  t.strictSame(balanceFindings(sums, [{ ...ugx, available: '701' }, kes]), [
    'UGX is 701 + 20, its entries say 700 + 20',
  ]);
  t.strictSame(balanceFindings(sums, [{ ...ugx, pending: '0' }, kes]), [
    'UGX is 700 + 0, its entries say 700 + 20',
  ]);
  t.strictSame(balanceFindings(new Map(), [{ ...ugx, pending: '0' }]), [
    'UGX is 700 + 0, its entries say 0 + 0',
  ]);
  t.end();
});
