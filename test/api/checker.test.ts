// The checker: it finds nothing against a service that told the truth, and everything that would be a lie. Where it cannot tell,
// a person reads why, and a script sees it by the exit status.
import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import type { CouldNotTell } from '../../deploy/could-not-tell.ts';
import { balanceFindings, checkJournal, entryFindings } from '../../deploy/journal-check.ts';
import type { JournalEntry, Service } from '../../deploy/journal-check.ts';
import { readJournal } from '../../deploy/journal-file.ts';
import { checkReplicas } from '../../deploy/log-comparison.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { BATCHES_A_BREATH } from '../../wal/tools/priority.ts';
import type { Tip } from '../../wal/types.ts';
import { startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

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

t.test('a ledger that adds up and is not what its transactions say is not sound', async (t) => {
  // What no service of ours answers: money was collected, and no entry says so.
  const charge = {
    id: 'chg_1',
    type: 'CHARGE',
    status: 'SUCCESSFUL',
    amount: '500',
    net: '490',
    currency: 'UGX',
  };
  const answers: Record<string, object> = {
    '/v1/transactions?limit=100': {
      data: [{ ...charge, reference: 'order-1' }],
      has_more: false,
      next_cursor: null,
    },
    '/v1/transactions/chg_1': { transaction: charge, ledger: [] },
    '/v1/balances': { data: [] },
    '/operator/v1/accounts/acc_1/trial_balance': { data: [] },
  };
  const { journal, service } = await answering(t, (url) => answers[url] ?? {});
  const findings = await checkJournal(journal, service);
  t.match(findings, [/^chg_1: CHARGE is SUCCESSFUL, its entries say merchant 0, /]);
});

/** Of charges without a fee. */
function trialBalance(amount: number): object {
  const [told, none] = [String(amount), '0'];
  const others = { MERCHANT_AVAILABLE: none, FEES_REVENUE: none, SETTLEMENT_CLEARING: none };
  const accounts = { PROVIDER_FLOAT: told, MERCHANT_PENDING: told, ...others };
  return { currency: 'UGX', accounts, sum: '0' };
}

t.test('the trial balance is held against the entries, whatever sum it says it has', async (t) => {
  const charge = { id: 'chg_1', type: 'CHARGE', status: 'SUCCESSFUL', amount: '500', net: '500' };
  const transaction = { ...charge, currency: 'UGX', reference: 'order-1' };
  const entry = { amount: '500', currency: 'UGX', journal_id: 'jnl_1' };
  const ledger = [
    { ...entry, account: 'PROVIDER_FLOAT', side: 'DEBIT' },
    { ...entry, account: 'MERCHANT_PENDING', side: 'CREDIT' },
  ];
  const found = async (data: readonly object[]): Promise<string[]> => {
    const answers: Record<string, object> = {
      '/v1/transactions?limit=100': { data: [transaction], has_more: false, next_cursor: null },
      '/v1/transactions/chg_1': { transaction, ledger },
      '/v1/balances': { data: [{ currency: 'UGX', available: '0', pending: '500' }] },
      '/operator/v1/accounts/acc_1/trial_balance': { data },
    };
    const { journal, service } = await answering(t, (url) => answers[url] ?? {});
    return checkJournal(journal, service);
  };
  t.strictSame(await found([trialBalance(500)]), []);
  t.strictSame(await found([]), ['acc_1: there are entries in UGX, and no trial balance']);
  t.strictSame(await found([trialBalance(501)]), [
    'acc_1: the trial balance of UGX has MERCHANT_PENDING 501, its entries say 500',
    'acc_1: the trial balance of UGX has PROVIDER_FLOAT 501, its entries say 500',
  ]);
  t.strictSame(await found([{ ...trialBalance(500), sum: '1' }]), [
    'acc_1: the trial balance of UGX is off by 1',
  ]);
});

t.test('a create that was done twice is found, and a journal that does not balance', async (t) => {
  const charge = { id: 'chg_1', type: 'CHARGE', status: 'SUCCESSFUL', amount: '500', net: '500' };
  const transaction = { ...charge, currency: 'UGX', reference: 'order-1' };
  const both = [transaction, { ...transaction, id: 'chg_2' }];
  const side = { currency: 'UGX', journal_id: 'jnl_1' };
  const ledger = [
    { ...side, amount: '500', account: 'PROVIDER_FLOAT', side: 'DEBIT' },
    { ...side, amount: '501', account: 'MERCHANT_PENDING', side: 'CREDIT' },
  ];
  const { journal, service } = await answering(t, (url) => {
    if (url === '/v1/transactions?limit=100') return { data: both, has_more: false };
    if (url.startsWith('/v1/transactions/')) return { transaction: both[Number(url.at(-1)) - 1], ledger };
    if (url === '/v1/balances') return { data: [{ currency: 'UGX', available: '0', pending: '1000' }] };
    return { data: [trialBalance(1000)] };
  });
  const findings = await checkJournal(journal, service);
  for (const finding of [
    /^acc_1: order-1 \(key key-order\) exists 2 times$/,
    /^chg_1: journal jnl_1 is off by 1$/,
    /^chg_2: CHARGE is SUCCESSFUL, its entries say merchant 501, provider -500, /,
    /^acc_1: UGX is 0 \+ 1000, its entries say 0 \+ 1002$/,
  ]) {
    t.equal(findings.filter((each) => finding.test(each)).length, 1, String(finding));
  }
});

t.test('an account that changes while it is read is read again, and not called wrong', async (t) => {
  // Each balance is read one charge after the transactions; from the charge `last` on none is made.
  const changing = (last: number, wrongBy: number) => {
    let charges = 1;
    const charge = (number: number) => {
      const of = { id: `chg_${number}`, type: 'CHARGE', status: 'SUCCESSFUL' };
      return { ...of, amount: '500', net: '500', currency: 'UGX', reference: `order-${number}` };
    };
    const entry = { amount: '500', currency: 'UGX', journal_id: 'jnl_1' };
    const ledger = [
      { ...entry, account: 'PROVIDER_FLOAT', side: 'DEBIT' },
      { ...entry, account: 'MERCHANT_PENDING', side: 'CREDIT' },
    ];
    return (url: string): object => {
      if (url.includes('/trial_balance')) return { data: [trialBalance(500 * charges)] };
      const [, id] = /transactions\/chg_(\d+)$/.exec(url) ?? [];
      if (id !== undefined) return { transaction: charge(Number(id)), ledger };
      if (url === '/v1/balances') {
        charges = Math.min(charges + 1, last);
        const pending = String(500 * charges + wrongBy);
        return { data: [{ currency: 'UGX', available: '0', pending }] };
      }
      return { data: Array.from({ length: charges }, (_, index) => charge(index + 1)), has_more: false };
    };
  };
  const quiet = await answering(t, changing(4, 0));
  t.strictSame(await checkJournal(quiet.journal, quiet.service), []);
  const wrong = await answering(t, changing(4, 1));
  t.strictSame(
    await checkJournal(wrong.journal, wrong.service),
    ['acc_1: UGX is 0 + 2001, its entries say 0 + 2000'],
    'what stays wrong is told',
  );
  const busy = await answering(t, changing(1000, 0));
  await t.rejects(
    checkJournal(busy.journal, busy.service),
    /^acc_1: it changed each of 10 times while being read/,
  );
  const refused = {
    ...busy.journal[0]!,
    status: 400,
    body: { ...busy.journal[0]!.body, reference: 'order-2' },
  };
  await t.rejects(
    checkJournal([refused], busy.service),
    { message: /^acc_1: it changed /, findings: [/order-2 .* was refused with 400 and exists/] },
    'what was found is told all the same',
  );
});

t.test('a service that stands still is not waited for without end', async (t) => {
  const calls: string[] = [];
  const server = createServer(({ url = '' }, response) => {
    calls.push(url);
    // Of the first call the head alone, then nothing at all.
    if (calls.length === 1) response.write('{');
    if (calls.length > 2) response.writeHead(404).end('{}');
  });
  const { journal, service } = await serving(t, server);
  await t.rejects(checkJournal(journal, { ...service, answerMs: 100 }), {
    message: 'acc_1: GET /v1/transactions?limit=100 answers 404: {}',
  });
  t.equal(calls.length, 3);
});

t.test('all that is found is told, however much, and where something else cannot be looked at', async (t) => {
  const nothing = { data: [], has_more: false };
  const { journal, service } = await answering(t, () => nothing);
  const [lost] = journal as [JournalEntry];
  const all = Array.from({ length: 200_000 }, () => lost);
  t.equal((await checkJournal(all, service)).length, all.length);

  const directory = t.testdir({ 'sent.jsonl': JSON.stringify(lost) });
  const args = ['--journal', join(directory, 'sent.jsonl'), '--data-dir', join(directory, 'none')];
  const urls = ['--base-url', service.baseUrl, '--operator-url', service.operatorUrl];
  const ran = await promisify(execFile)(process.execPath, ['deploy/checker.ts', ...args, ...urls]).catch(
    (error: unknown) => error,
  );
  t.match(ran, {
    code: 1,
    stdout: /^1 creates checked\nFOUND acc_1: order-1 .* does not exist\nNot sound: 1 findings\.\n$/,
    stderr: /^Could not tell: .*none holds no log\n$/,
  });
});

/** A service that answers so, and the journal of a create that it acknowledged. */
async function answering(
  t: Test,
  answer: (url: string) => object,
): Promise<{ journal: JournalEntry[]; service: Service }> {
  return serving(
    t,
    createServer((request, response) => response.end(JSON.stringify(answer(request.url ?? '')))),
  );
}

async function serving(t: Test, server: Server): Promise<{ journal: JournalEntry[]; service: Service }> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.closeAllConnections());
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const body = { reference: 'order-1', amount: '500', currency: 'UGX' };
  const entry = { account_id: 'acc_1', secret_key: 'sk_live_1', path: '/v1/charges', key: 'key-order', body };
  return {
    journal: [{ ...entry, status: 201, reply: { id: 'chg_1' } }],
    service: { baseUrl: url, operatorUrl: url, operatorToken: '' },
  };
}

t.test('the entries of a transaction are held against its status, amount and net', (t) => {
  const entry = (account: string, amount: number, currency = 'UGX') => ({
    account: account as 'PROVIDER_FLOAT',
    side: amount < 0 ? ('DEBIT' as const) : ('CREDIT' as const),
    amount: String(Math.abs(amount)),
    currency,
    journal_id: 'jnl_1',
  });
  const settled = [entry('PROVIDER_FLOAT', -500), entry('MERCHANT_PENDING', 490), entry('FEES_REVENUE', 10)];
  const released = [entry('MERCHANT_PENDING', -490), entry('MERCHANT_AVAILABLE', 490)];
  const reversed = [
    entry('PROVIDER_FLOAT', 500),
    entry('MERCHANT_AVAILABLE', -490),
    entry('FEES_REVENUE', -10),
  ];
  const hold = [entry('MERCHANT_AVAILABLE', -510), entry('SETTLEMENT_CLEARING', 510)];
  const paid = [entry('SETTLEMENT_CLEARING', -510), entry('PROVIDER_FLOAT', 500), entry('FEES_REVENUE', 10)];
  const returned = [entry('MERCHANT_AVAILABLE', 510), entry('SETTLEMENT_CLEARING', -510)];
  const deposited = [entry('PROVIDER_FLOAT', -500), entry('MERCHANT_AVAILABLE', 500)];
  const found = (type: string, status: string, net: string, ledger: Parameters<typeof entryFindings>[1]) =>
    entryFindings({ id: 'x_1', type: type as 'CHARGE', status, amount: '500', net, currency: 'UGX' }, ledger);

  t.strictSame(found('CHARGE', 'SUCCESSFUL', '490', settled), []);
  t.strictSame(found('CHARGE', 'SUCCESSFUL', '490', [...settled, ...released]), []);
  t.strictSame(found('CHARGE', 'REVERSED', '490', [...settled, ...released, ...reversed]), []);
  t.strictSame(found('CHARGE', 'AWAITING_CUSTOMER', '500', []), []);
  t.strictSame(found('DEPOSIT', 'SUCCESSFUL', '500', deposited), []);
  t.strictSame(found('PAYOUT', 'PENDING_PROVIDER', '500', hold), []);
  t.strictSame(found('PAYOUT', 'SUCCESSFUL', '510', [...hold, ...paid]), []);
  t.strictSame(found('WITHDRAWAL', 'FAILED', '510', [...hold, ...returned]), []);

  t.strictSame(found('CHARGE', 'SUCCESSFUL', '490', []), [
    'x_1: CHARGE is SUCCESSFUL, its entries say merchant 0, provider 0, fees 0, held 0, and not ' +
      'merchant 490, provider -500, fees 10, held 0',
  ]);
  for (const [type, status, net, ledger] of [
    ['CHARGE', 'SUCCESSFUL', '490', [...settled, ...settled]],
    ['CHARGE', 'SUCCESSFUL', '480', settled],
    ['CHARGE', 'SUCCESSFUL', '490', [...settled, ...reversed]],
    ['CHARGE', 'REVERSED', '490', settled],
    ['CHARGE', 'FAILED', '500', settled],
    ['DEPOSIT', 'AWAITING_CUSTOMER', '500', deposited],
    ['PAYOUT', 'PENDING_PROVIDER', '500', []],
    ['PAYOUT', 'PENDING_PROVIDER', '500', [...hold, ...returned]],
    ['PAYOUT', 'SUCCESSFUL', '510', hold],
    ['PAYOUT', 'SUCCESSFUL', '510', [...hold, ...returned]],
    ['WITHDRAWAL', 'FAILED', '510', hold],
  ] as const) {
    t.equal(found(type, status, net, ledger).length, 1, `${type} ${status}`);
  }
  const elsewhere = settled.map(({ account, side, amount }) =>
    entry(account, (side === 'DEBIT' ? -1 : 1) * Number(amount), 'KES'),
  );
  t.strictSame(found('CHARGE', 'SUCCESSFUL', '490', elsewhere), ['x_1: not all entries are in UGX']);
  t.end();
});

t.test(
  'logs that have no batch in common are one chain only if one begins where the other was',
  async (t) => {
    const [whole, later] = [t.testdir({ whole: {}, later: {} })].flatMap((root) => [
      join(root, 'whole'),
      join(root, 'later'),
    ]);
    const open = (directory: string): WriteAheadLog =>
      WriteAheadLog.open({ directory, now: Date.now, onFailure: (error) => void t.fail(error.message) });
    const log = open(whole!);
    const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
    await partition.drained();
    partition.append('{}');
    await partition.drained();
    await log.close();
    const reader = LogReader.openReader({ directory: whole! });
    const tip = reader.tip('accounts', 0);
    await reader.close();

    const other = open(later!);
    await other.startAt('accounts', 0, tip);
    t.strictSame(await checkReplicas([whole!, later!]), []);
    await other.startAt('accounts', 0, { ...tip, hash: Buffer.alloc(32, 1) });
    await other.close();
    for (const directories of [
      [whole!, later!],
      [later!, whole!],
    ]) {
      t.strictSame(await checkReplicas(directories), [
        `accounts/0: batch ${tip.batch} differs between ${directories[0]} and ${directories[1]}`,
      ]);
    }
  },
);

t.test('logs are read in many turns: a service beside them is not held up', async (t) => {
  const directory = join(temporaryDirectory(t), 'long');
  const log = WriteAheadLog.open({
    directory,
    now: Date.now,
    onFailure: (error) => void t.fail(error.message),
  });
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
  for (let batches = 0; batches < 8 * BATCHES_A_BREATH; batches++) {
    partition.append('{}');
    await partition.drained();
  }
  await log.close();
  let turns = 0;
  const count = (): void => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  t.strictSame(await checkReplicas([directory]), []);
  clearImmediate(next);
  t.ok(turns >= 8, `${turns} turns`);
});

t.test('logs of which nothing is compared are not called one', async (t) => {
  const root = temporaryDirectory(t);
  const at = (name: string): string => join(root, name);
  const write = async (name: string, act: (log: WriteAheadLog) => Promise<void>): Promise<void> => {
    const onFailure = (error: Error): void => void t.fail(error.message);
    const log = WriteAheadLog.open({ directory: at(name), now: Date.now, onFailure });
    await act(log);
    await log.close();
  };
  const append = async (log: WriteAheadLog, epoch: number, records: readonly string[]): Promise<void> => {
    const partition = log.openPartition('accounts', 0, { epoch, replica: null, onDurable: () => {} });
    await partition.drained();
    for (const record of records) {
      partition.append(record);
      await partition.drained();
    }
  };
  const tipOf = async (name: string): Promise<Tip> => {
    const reader = LogReader.openReader({ directory: at(name) });
    const tip = reader.tip('accounts', 0);
    await reader.close();
    return tip;
  };
  await write('empty', () => Promise.resolve());
  await write('early', (log) => append(log, 1, ['{}']));
  cpSync(at('early'), at('whole'), { recursive: true });
  await write('whole', (log) => append(log, 2, ['{}', '{}']));
  const [early, whole] = [await tipOf('early'), await tipOf('whole')];
  const late = { ...whole, hash: Buffer.alloc(32, 1) };
  await write('late', (log) => log.startAt('accounts', 0, late));
  await write('middle', (log) => log.startAt('accounts', 0, early));

  const untold = async (
    names: readonly string[],
    why: string,
    findings: readonly string[] = [],
  ): Promise<void> => {
    const error = (await checkReplicas(names.map(at)).catch((thrown: unknown) => thrown)) as CouldNotTell;
    t.strictSame([error.message, error.findings], [why, findings], names.join(', '));
  };
  const nothingIn = `${at('empty')} holds a log with no partition in it`;
  await untold(['empty'], nothingIn);
  await untold(['early', 'empty'], nothingIn);
  const apart = (one: string, other: string): string =>
    `accounts/0: ${at(one)} and ${at(other)} have no batch in common, so nothing says that they are one log`;
  await untold(['early', 'late'], apart('early', 'late'));
  await untold(['late', 'early'], apart('late', 'early'));
  t.strictSame(await checkReplicas(['early', 'middle', 'whole'].map(at)), []);
  await untold(['early', 'early'], `${at('early')} is named twice`);
  await write('more', async (log) => {
    const partition = log.openPartition('accounts', 1, { epoch: 1, replica: null, onDurable: () => {} });
    await partition.drained();
  });
  const args = ['early', 'more'].flatMap((name) => ['--data-dir', at(name)]);
  const { stdout } = await promisify(execFile)(process.execPath, ['deploy/checker.ts', ...args]);
  t.strictSame(stdout.split('\n').slice(0, 2), [
    `In ${at('early')} alone, and compared with nothing: accounts/0`,
    `In ${at('more')} alone, and compared with nothing: accounts/1`,
  ]);
  // What was found is told all the same.
  await untold(['late', 'early', 'whole', 'empty'], nothingIn, [
    `accounts/0: batch ${whole.batch} differs between ${at('late')} and ${at('whole')}`,
  ]);
});

t.test(
  'a log that ends with an epoch that nobody else has is of the chain, unless that has records',
  async (t) => {
    const root = temporaryDirectory(t);
    const [lost, went] = [join(root, 'lost'), join(root, 'went-on')];
    const write = async (directory: string, epoch: number, records: readonly string[]): Promise<void> => {
      const log = WriteAheadLog.open({
        directory,
        now: Date.now,
        onFailure: (error) => void t.fail(error.message),
      });
      const partition = log.openPartition('accounts', 0, { epoch, replica: null, onDurable: () => {} });
      await partition.drained();
      for (const record of records) partition.append(record);
      await partition.drained();
      await log.close();
    };
    await write(lost, 1, ['{}']);
    cpSync(lost, went, { recursive: true });
    await write(lost, 2, []);
    await write(went, 3, ['{}']);
    t.strictSame(await checkReplicas([lost, went]), []);
    t.strictSame(await checkReplicas([went, lost]), []);

    const acknowledged = join(root, 'acknowledged');
    cpSync(lost, acknowledged, { recursive: true });
    await write(acknowledged, 2, ['{}']);
    t.strictSame(await checkReplicas([went, acknowledged]), [
      `accounts/0: batch 3 differs between ${went} and ${acknowledged}`,
    ]);
  },
);
