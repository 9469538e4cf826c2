// What the checker finds in a journal, of services that tell whatever a case asks for: each lie, and nothing else.
import { execFile } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { balanceFindings, checkJournal, entryFindings } from '../../deploy/journal-check.ts';
import type { JournalEntry, Service } from '../../deploy/journal-check.ts';

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

/** Of a charge of 500 without a fee; its journal balances if as much is credited. */
function entriesOf(credited: string): object[] {
  const entry = { amount: '500', currency: 'UGX', journal_id: 'jnl_1' };
  return [
    { ...entry, account: 'PROVIDER_FLOAT', side: 'DEBIT' },
    { ...entry, amount: credited, account: 'MERCHANT_PENDING', side: 'CREDIT' },
  ];
}

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
  const ledger = entriesOf('500');
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
  const ledger = entriesOf('501');
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
  const changing = (last: number, wrongBy: number, credited = '500') => {
    let charges = 1;
    const charge = (number: number) => {
      const of = { id: `chg_${number}`, type: 'CHARGE', status: 'SUCCESSFUL' };
      return { ...of, amount: '500', net: '500', currency: 'UGX', reference: `order-${number}` };
    };
    const ledger = entriesOf(credited);
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
  const unbalanced = await answering(t, changing(4, 0, '501'));
  const findings = await checkJournal(unbalanced.journal, unbalanced.service);
  t.equal(findings.filter((each) => each === 'chg_1: journal jnl_1 is off by 1').length, 1, 'and told once');
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

t.test('what is on its way is waited for, and every page of a list is read', async (t) => {
  const charge = { type: 'CHARGE', status: 'SUCCESSFUL', amount: '500', net: '500', currency: 'UGX' };
  const first = { ...charge, id: 'chg_1', reference: 'order-1' };
  const ledger = entriesOf('500');
  let looks = 0;
  const second = (): object => {
    return { ...charge, id: 'chg_2', reference: 'order-2', status: looks > 2 ? 'SUCCESSFUL' : 'PROCESSING' };
  };
  const { journal, service } = await answering(t, (url) => {
    if (url === '/v1/transactions?limit=100') {
      looks++;
      return { data: [first], has_more: true, next_cursor: 'of chg_1' };
    }
    if (url === '/v1/transactions?limit=100&starting_after=of%20chg_1') {
      return { data: [second()], has_more: false, next_cursor: null };
    }
    if (url === '/v1/transactions/chg_1') return { transaction: first, ledger };
    if (url === '/v1/transactions/chg_2') return { transaction: second(), ledger };
    if (url === '/v1/balances') return { data: [{ currency: 'UGX', available: '0', pending: '1000' }] };
    return { data: [trialBalance(1000)] };
  });
  const [one] = journal as [JournalEntry];
  const body = { ...one.body, reference: 'order-2' };
  const refused = { ...one, key: 'key-2', body, status: 400, reply: null };
  t.strictSame(await checkJournal([one, refused], service), [
    'acc_1: order-2 (key key-2) was refused with 400 and exists as chg_2',
  ]);
  t.ok(looks > 3, 'and once more for its entries');
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
