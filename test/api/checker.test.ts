// The checker: it finds nothing against a service that told the truth, and everything that would be a lie. Where it cannot tell,
// a person reads why, and a script sees it by the exit status.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { checkJournal } from '../../deploy/journal-check.ts';
import type { JournalEntry } from '../../deploy/journal-check.ts';
import { readJournal } from '../../deploy/journal-file.ts';
import { startService } from './start.ts';

t.test('what cannot be checked is told in words, with status 2', async (t) => {
  const body = { reference: 'order-1', amount: '500', currency: 'UGX' };
  const entry = { account_id: 'acc_1', secret_key: 'sk_live_1', path: '/v1/charges', key: 'key-order', body };
  const line = JSON.stringify({ ...entry, status: 201, reply: { id: 'chg_1' } });
  const directory = t.testdir({
    'sent.jsonl': `${line}\n`,
    'broken.jsonl': `${line}\n{"account_id":\n`,
    // Held for refused, it would be sound that it does not exist.
    'text.jsonl': `${line}\n${JSON.stringify({ ...entry, status: '201', reply: { id: 'chg_2' } })}\n`,
    'no.jsonl': '\n',
    empty: {},
  });
  const sent = join(directory, 'sent.jsonl');
  // Nobody listens there: the port is reserved.
  const away = ['--base-url', 'http://127.0.0.1:1', '--operator-url', 'http://127.0.0.1:1'];
  const cases: [string[], RegExp][] = [
    [[], /^$/],
    [['--journal', join(directory, 'none.jsonl')], /^Could not tell: ENOENT.*none\.jsonl/],
    [['--journal', join(directory, 'broken.jsonl')], /^Could not tell: line 2 of .*broken\.jsonl: /],
    [
      ['--journal', join(directory, 'text.jsonl')],
      /^Could not tell: line 2 of .*text\.jsonl: status "201" is no answer to a create: 201, 400 to 599, or null /,
    ],
    [['--journal', join(directory, 'no.jsonl')], /^Could not tell: .*no\.jsonl has no creates\n$/],
    [['--journal', sent, ...away], /^Could not tell: acc_1: fetch failed: \S/],
    [['--data-dir', join(directory, 'empty')], /^Could not tell: .*empty holds no log\n$/],
    [['--journal', 'a', '--journal', sent], /^Could not tell: --journal is given more than once/],
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

t.test('a line of a journal that is no create is not passed over', (t) => {
  const body = { reference: 'order-1', amount: '500', currency: 'UGX' };
  const entry = { account_id: 'acc_1', secret_key: 'sk_live_1', path: '/v1/charges', key: 'key-order', body };
  const done = { ...entry, status: 201, reply: { id: 'chg_1' } };
  const read = (line: unknown): JournalEntry[] =>
    readJournal(join(t.testdir({ 'sent.jsonl': `${JSON.stringify(line)}\n` }), 'sent.jsonl'));
  for (const line of [
    done,
    { ...entry, status: null },
    { ...entry, status: 400, body: { reference: 'o' } },
  ]) {
    t.strictSame(read(line), [line]);
  }
  for (const [line, problem] of [
    [null, 'account_id is no text'],
    [{ ...done, secret_key: '' }, 'secret_key is no text'],
    [{ ...done, key: undefined }, 'key is no text'],
    [entry, 'status undefined is no answer'],
    [{ ...done, status: 0 }, 'status 0 is no answer'],
    [{ ...done, status: 200 }, 'status 200 is no answer'],
    [{ ...done, body: { ...body, amount: 500 } }, "the body's amount is no text"],
    [{ ...entry, status: 503, body: '{"reference":"order-1"}' }, "the body's reference is no text"],
    [{ ...done, reply: null }, 'the reply has no id'],
  ] as const) {
    t.throws(() => read(line), new RegExp(`^line 1 of .*sent\\.jsonl: ${problem}`));
  }
  t.end();
});

t.test('a service that told the truth is sound, and each lie is found', async (t) => {
  const service = await startService();
  t.teardown(() => service.stop());
  const { account_id, secret_key, base_url, operator_url, operator_token } = service.demo;
  const at = { baseUrl: base_url, operatorUrl: operator_url, operatorToken: operator_token };
  const journal: JournalEntry[] = [];
  const create = async (path: string, msisdn: string): Promise<void> => {
    const reference = `order-${journal.length}`;
    const body = { amount: '5000', currency: 'UGX', msisdn, reference };
    const { status, body: reply } = await service.merchant('POST', path, {
      body,
      idempotencyKey: `key-${reference}`,
    });
    journal.push({ account_id, secret_key, path, key: `key-${reference}`, body, status, reply });
  };
  await create('/v1/deposits', '+256772000068');
  await service.until(
    () => service.merchant('GET', '/v1/balances'),
    ({ body }) => body.data[0]?.available === '5000',
  );
  await create('/v1/charges', '+256772000068');
  await create('/v1/charges', '+256772000075');
  await create('/v1/payouts', '+256772000068');
  t.hasStrict(
    journal.map(({ status }) => status),
    [201, 201, 201, 400],
  );
  t.strictSame(await checkJournal(journal, at), []);
  // As the key of an app that was removed since.
  const [before, ...after] = journal as [JournalEntry];
  t.strictSame(await checkJournal([{ ...before, secret_key: 'sk_live_gone' }, ...after], at), []);

  const [deposit, charge, , payout] = journal as [JournalEntry, JournalEntry, JournalEntry, JournalEntry];
  const { reply } = charge;
  const lies: [JournalEntry, string][] = [
    [
      { ...deposit, body: { ...deposit.body, amount: '5001' } },
      'order-0 (key key-order-0) was acknowledged with another amount',
    ],
    [{ ...charge, status: 503 }, `order-1 (key key-order-1) was refused with 503 and exists as ${reply?.id}`],
    [
      { ...charge, reply: { id: 'chg_1' } },
      `order-1 (key key-order-1) was acknowledged as chg_1, is ${reply?.id}`,
    ],
    [{ ...payout, status: 201 }, 'order-3 (key key-order-3) was acknowledged and does not exist'],
  ];
  for (const [entry, finding] of lies) {
    t.strictSame(await checkJournal([entry], at), [`${account_id}: ${finding}`]);
  }
  t.strictSame(await checkJournal([{ ...charge, status: null, reply: null }], at), [], 'it may exist, once');
  const refused = { ...charge, status: 503, reply: null };
  t.strictSame(await checkJournal([refused, charge], at), [], 'sent again after a 503, it was done');
  t.strictSame(await checkJournal([charge, refused], at), []);
  t.strictSame(await checkJournal([refused, { ...refused, status: null }], at), [], 'or may have been');
  t.equal((await checkJournal([refused, { ...refused, status: 429 }], at)).length, 2, 'never taken');
  const otherUnderItsKey = { ...deposit, key: charge.key, status: 422, reply: null };
  t.equal((await checkJournal([charge, otherUnderItsKey], at)).length, 1, 'another create, under its key');
  await t.rejects(
    checkJournal([charge], { ...at, operatorToken: 'wrong' }),
    /^acc_\w+: its trial balance answers 401/,
  );
  const [lost, elsewhere] = [
    { ...payout, status: 201 },
    { ...charge, account_id: 'acc_1', secret_key: 'sk_live_1' },
  ];
  await t.rejects(
    checkJournal([elsewhere, lost], at),
    {
      message: /^acc_1: GET \S+ answers 401/,
      findings: [/order-3 .* was acknowledged and does not exist$/],
    },
    'an account whose key was revoked hides nothing of others',
  );
});
