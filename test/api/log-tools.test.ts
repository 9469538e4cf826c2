// The log tools that know the money, on logs that the real service wrote: what they say of now is what the service answers,
// what they say of then is what it answered then, and whatever is changed behind its back is found and shown.

import { cpSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { decodeTransaction, encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import { partitionOf } from '../../src/bus/bus.ts';
import { makeId } from '../../src/domain/id.ts';
import { money } from '../../src/domain/money.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { tipAt } from '../../wal/batch.ts';
import { openLogDatabase } from '../../wal/lmdb.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { walTools } from '../../wal/tools/all.ts';
import { ViewStore } from '../../wal/views.ts';
import { type Running, startService } from './start.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const root = temporaryDirectory(t);
const data = join(root, 'data');
const golden = join(import.meta.dirname, '..', 'golden', 'v1');
const PARTITIONS = 4;
let service: Running;

/** What the merchant was shown at a moment of rest. */
interface Moment {
  readonly atMs: number;
  readonly balances: unknown;
  readonly transactions: unknown;
}
interface ChapterJson {
  readonly group: string;
  readonly events: readonly { readonly type: string; readonly eventType?: string }[];
  readonly statuses: readonly { readonly status: string }[];
  readonly journals: readonly { readonly reason: string }[];
}

const moments: Moment[] = [];
const ids: string[] = [];

t.before(async () => {
  service = await startService({}, data);
  const wallet = { currency: 'UGX', country: 'UG', msisdn: '256772000001' };
  for (const [path, amount, msisdn] of [
    ['deposits', '900000', '256772000001'],
    ['charges', '50000', '256752000002'],
    ['payouts', '7000', '256772000003'],
    ['charges', '600', '256772000076'],
    ['payouts', '800', '256752000076'],
  ]) {
    const body = { ...wallet, amount, msisdn, reference: `r-${ids.length}` };
    const { body: made } = await service.merchant('POST', `/v1/${path}`, { body });
    ids.push(made.id);
    await service.until(
      () => service.merchant('GET', `/v1/${path}/${made.id}`),
      (answer) => ['SUCCESSFUL', 'FAILED'].includes(answer.body.status),
    );
    await rest();
  }
});
t.teardown(async () => {
  await service.stop();
});

/** A moment in which nothing happens: the records before it and after it have other times, by the service's own clock, which may
 *  be ahead of the wall's. What a provider says late of what is final is a record, too: then it was none, and the next is tried. */
async function rest(): Promise<void> {
  const log = LogReader.openReader({ directory: data });
  for (;;) {
    const { sequence, timeMs } = endOf(log);
    // The service's clock moves by one at least then, as slow as it may be.
    const later = performance.now() + 3;
    await service.until(
      async () => performance.now(),
      (now) => now > later,
    );
    const balances = (await service.merchant('GET', '/v1/balances')).body;
    const transactions = (await service.merchant('GET', '/v1/transactions?limit=100')).body.data;
    if (endOf(log).sequence !== sequence) continue;
    moments.push({ atMs: timeMs, balances, transactions });
    return log.close();
  }
}

function endOf(log: LogReader) {
  log.refresh();
  return log.tip('accounts', accountPartition());
}

function tool(name: string, ...args: string[]) {
  return runTool([...walTools, ...logTools], name, ...args);
}

async function toolJson(name: string, ...args: string[]) {
  const { status, out, err } = await tool(name, ...args, '--json');
  return { status, err, report: out === '' ? null : JSON.parse(out) };
}

/** A stopped copy: the service has closed it. */
let stopped = 0;
async function stoppedCopy(): Promise<string> {
  const copy = join(root, `copy-${(stopped += 1)}`);
  cpSync(await stoppedData(), copy, { recursive: true });
  return copy;
}

let rested: Promise<string> | null = null;
function stoppedData(): Promise<string> {
  rested ??= (async () => {
    const copy = join(root, 'stopped');
    await tool('backup', '--data', data, '--to', join(root, 'backup'));
    await tool('restore', '--from', join(root, 'backup'), '--to', copy);
    cpSync(join(data, 'daftari.json'), join(copy, 'daftari.json'));
    cpSync(join(data, 'master.key'), join(copy, 'master.key'));
    const again = await startService({}, copy);
    await again.stop();
    return copy;
  })();
  return rested;
}

const accountPartition = (): number => partitionOf(service.demo.account_id, PARTITIONS);

t.test('replay says of now what the live service answers', async (t) => {
  const { account_id } = service.demo;
  const { status, report } = await toolJson('replay', '--data', data);
  t.equal(status, 0);
  const trial = await service.operator('GET', `/operator/v1/accounts/${account_id}/trial_balance`);
  const { balances } = report.accounts.find(({ id }: { id: string }) => id === account_id);
  for (const [name, amount] of Object.entries(trial.body.data[0].accounts)) {
    t.equal(String(balances[name]), amount, name);
  }
  const account = await toolJson('replay', '--account', account_id, '--data', data);
  t.equal(account.status, 0);
  t.strictSame(account.report.transactions, moments.at(-1)?.transactions);
  const inspected = await toolJson('inspect', '--account', account_id, '--data', data);
  t.strictSame(inspected.report.transactions, moments.at(-1)?.transactions);
  t.strictSame(inspected.report.account.balances, account.report.account.balances);
});

t.test('replay --until says of then what the service answered then', async (t) => {
  const { account_id } = service.demo;
  for (const { atMs, balances, transactions } of moments) {
    const until = new Date(atMs).toISOString();
    const { status, report } = await toolJson(
      'replay',
      '--account',
      account_id,
      '--until',
      until,
      '--data',
      data,
    );
    t.equal(status, 0);
    t.strictSame(report.transactions, transactions, until);
    t.strictSame(
      { object: 'list', data: report.account.balances },
      { object: 'list', ...(balances as object) },
    );
    const bySequence = await toolJson(
      ...(['replay', '--account', account_id, '--until', String(report.upTo), '--data', data] as const),
    );
    t.strictSame(bySequence.report.transactions, transactions);
  }
  const before = await toolJson('replay', '--account', account_id, '--until', '2020-01-01', '--data', data);
  t.equal(before.status, 1);
  t.hasStrict(before.report, { found: false, upTo: 0 });
});

t.test('replay --verify finds the checkpoint of a live service to be what its log says', async (t) => {
  const log = LogReader.openReader({ directory: data });
  const views = ViewStore.open({ directory: data, readOnly: true });
  const { sequence } = log.tip('accounts', accountPartition());
  await service.until(
    async () => {
      views.refresh();
      return views.position('accounts', accountPartition())?.sequence;
    },
    (reached) => reached === sequence,
  );
  await views.close();
  await log.close();
  const { status, report, err } = await toolJson('replay', '--verify', '--data', data);
  t.equal(status, 0, err);
  t.strictSame([report.sound, report.faults], [true, []]);
  const ours = report.verified.find(
    (one: { group: string; partition: number }) =>
      one.group === 'accounts' && one.partition === accountPartition(),
  );
  t.hasStrict(ours, { differenceCount: 0 });
  for (const { table, logHash, checkpointHash } of ours.tables) t.equal(logHash, checkpointHash, table);
  t.match(
    (await tool('verify', '--data', data)).out,
    /sound: the ledger of the checkpoint, 1 accounts, 5 trans/,
  );
});

t.test('a checkpoint that was tampered with is shown with both sides', async (t) => {
  const partition = accountPartition();
  const { account_id } = service.demo;
  const [depositId = '', chargeId = '', payoutId = ''] = ids;
  const copy = await stoppedCopy();
  const views = ViewStore.open({ directory: copy });
  const reader = views.reader('accounts', partition);
  const position = views.position('accounts', partition);
  t.ok(position);
  const account = JSON.parse(reader.get('account', account_id) ?? '');
  const balances = account.balances[0][1];
  const held = balances.MERCHANT_AVAILABLE as number;
  balances.MERCHANT_AVAILABLE += 1_000_000;
  const payout = decodeTransaction(reader.get('transaction', payoutId) ?? '');
  await views.commit('accounts', partition, position!, [
    { table: 'account', key: account_id, value: JSON.stringify(account) },
    { table: 'transaction', key: chargeId, value: null },
    { table: 'transaction', key: payoutId, value: encodeTransaction({ ...payout, amount: money(9_000) }) },
    {
      table: 'transaction',
      key: `${depositId.slice(0, -4)}ZZ00`,
      value: reader.get('transaction', depositId) ?? '',
    },
  ]);
  await views.close();

  const { status, report } = await toolJson('replay', '--verify', '--data', copy);
  t.equal(status, 1);
  const { differences, differenceCount } = report.verified.find(
    (one: { group: string; partition: number }) => one.group === 'accounts' && one.partition === partition,
  );
  t.equal(differenceCount, 4);
  t.hasStrict(differences[0], {
    table: 'account',
    fields: [{ path: 'balances.0.1.MERCHANT_AVAILABLE', log: held, checkpoint: held + 1_000_000 }],
  });
  const of = (key: string) => differences.find((one: { key: string }) => one.key === key);
  t.hasStrict(of(chargeId), { fields: [{ path: '', log: { amount: 50_000 } }] });
  t.hasStrict(of(payoutId), { fields: [{ path: 'amount', log: 7_000, checkpoint: 9_000 }] });
  const shown = await tool('replay', '--verify', '--data', copy);
  t.match(shown.out, `the log says ${held}, the checkpoint ${held + 1_000_000}`);
  t.match(shown.out, /\nNext: day 4 of deploy\/README\.md\.\n$/);
  t.notMatch(shown.out, '256772000003');

  const audited = await tool('verify', '--data', copy);
  t.equal(audited.status, 1);
  t.match(audited.out, `MERCHANT_AVAILABLE is stated as ${held + 1_000_000} UGX, its journals add up to`);
  t.match(audited.out, /\nNext: day 4 of deploy\/README\.md\.\n$/);
  // The log is whole: the state rebuilt from it alone is, too.
  t.equal((await tool('replay', '--data', copy)).status, 0);
});

t.test('rows of a checkpoint that cannot be read are named by verify, and shown by replay', async (t) => {
  const partition = accountPartition();
  const { account_id } = service.demo;
  const copy = await stoppedCopy();
  const views = ViewStore.open({ directory: copy });
  const reader = views.reader('accounts', partition);
  const [transactionId = ''] = ids;
  for (const [table, key, accountId] of [
    ['account', account_id, account_id],
    ['transaction', transactionId, ''],
  ] as const) {
    const sound = reader.get(table, key) ?? '';
    for (const value of [sound.slice(0, -9), '{}', 'null', '[]']) {
      await views.commit('accounts', partition, views.position('accounts', partition)!, [
        { table, key, value },
      ]);
      const { status, report } = await toolJson('verify', '--data', copy);
      t.equal(status, 1);
      t.strictSame([report.sound, report.faults], [false, []]);
      t.match(
        report.ledger[0],
        { partition, accountId, problem: /the row cannot be read/ },
        `${table} ${value}`,
      );
      const shown = await tool('replay', '--verify', '--data', copy);
      t.match(shown, { status: 1, out: new RegExp(`accounts/${partition} ${table} ${key}:`) });
      t.notMatch(shown.out, /\b256\d{9}\b/);
    }
    const rows = [{ table, key, value: sound }];
    await views.commit('accounts', partition, views.position('accounts', partition)!, rows);
  }
  await views.close();
});

t.test(
  'verify names the record and the transaction whose bit turned over, whichever bit it is',
  async (t) => {
    const partition = accountPartition();
    const copy = await stoppedCopy();
    const log = LogReader.openReader({ directory: copy });
    const batches = [...log.read('accounts', partition, { fromSequence: 1 })].filter(
      ({ records }) => records.length > 0,
    );
    await log.close();
    for (const batch of [batches[0], batches[Math.floor(batches.length / 2)], batches.at(-1)]) {
      if (batch === undefined) continue;
      for (let tried = 0; tried < 12; tried += 1) {
        const bit = Math.floor((tried / 12) * batch.bytes.length * 8) + tried;
        const bytes = Buffer.from(batch.bytes);
        bytes[bit >> 3]! ^= 1 << (bit & 7);
        await write(copy, partition, batch.batch, bytes);
        const { status, report } = await toolJson('verify', '--data', copy);
        t.equal(status, 1, `bit ${bit}`);
        const [fault] = report.faults;
        t.hasStrict(fault, { group: 'accounts', partition, batch: batch.batch });
        const inPayload = bit >> 3 >= 64 && bit >> 3 < bytes.length - 36;
        if (!inPayload) continue;
        const before = batch.bytes.subarray(64, bit >> 3).toString('latin1');
        const sequence = batch.firstSequence + before.split('\n').length - 1;
        t.hasStrict(fault, { firstSequence: sequence, lastSequence: sequence });
        const told = ids.filter((id) =>
          batch.records[sequence - batch.firstSequence]?.includes(id.slice(4, 28)),
        );
        t.strictSame(fault.transactions, told);
      }
      await write(copy, partition, batch.batch, batch.bytes);
    }
    t.equal((await tool('verify', '--data', copy)).status, 0);
  },
);

t.test('records that are damaged beyond their names are passed over by verify', async (t) => {
  const partition = accountPartition();
  const copy = await stoppedCopy();
  const log = LogReader.openReader({ directory: copy });
  const taken = [...log.read('webhooks', partition, { fromSequence: 1 })].find(({ records }) =>
    records.some((line) => line.includes('EventsTaken')),
  );
  await log.close();
  const bytes = Buffer.from(taken!.bytes);
  bytes.write('"unread"', bytes.indexOf('"events"'));
  const database = openLogDatabase({ directory: copy });
  await database.put(['webhooks', partition, taken!.batch], bytes);
  await database.close();
  const { status, report } = await toolJson('verify', '--data', copy);
  t.hasStrict(report.faults[0], { group: 'webhooks', partition, batch: taken!.batch });
  t.strictSame([status, report.faults.length, report.faults[0].transactions], [1, 1, []]);
});

t.test('verify tells what a missing batch concerned, as far as the checkpoint knows', async (t) => {
  const partition = accountPartition();
  const copy = await stoppedCopy();
  const story = await toolJson('inspect', '--transaction', ids[2] ?? '', '--data', copy);
  const { batch, sequence } = story.report.chapters.findLast(
    (one: { group: string }) => one.group === 'accounts',
  );
  await write(copy, partition, batch, null);
  const { status, report } = await toolJson('verify', '--data', copy);
  t.equal(status, 1);
  t.hasStrict(report.faults[0], { batch, transactions: [ids[2]] });
  t.ok(report.faults[0].firstSequence <= sequence && report.faults[0].lastSequence >= sequence);

  const views = ViewStore.open({ directory: copy });
  await views.commit('accounts', partition, views.position('accounts', partition)!, [
    { table: 'transaction', key: ids[0]!, value: 'damaged, too' },
  ]);
  await views.close();
  t.hasStrict((await toolJson('verify', '--data', copy)).report.faults[0], { batch, transactions: [ids[2]] });
});

t.test('a partition that the log has lost altogether is told by the checkpoint', async (t) => {
  const partition = accountPartition();
  const copy = await stoppedCopy();
  const { report } = await toolJson('inspect', '--data', copy);
  const { tip } = report.partitions.find(
    (one: { group: string; partition: number }) => one.group === 'accounts' && one.partition === partition,
  );
  for (let batch = 1; batch <= tip.batch; batch += 1) await write(copy, partition, batch, null);
  const place = { group: 'accounts', partition };
  const only = ['--group', 'accounts', '--partition', `${partition}`, '--data', copy];
  const { status, report: verified } = await toolJson('verify', ...only);
  t.equal(status, 1);
  const lost = {
    ...place,
    batch: 1,
    sequence: 1,
    problem: /end of the log is lost/,
    explanation: /^lost: sequences 1 on/,
  };
  t.match(verified.faults, [lost]);
  t.same(verified.faults[0].transactions.toSorted(), ids.toSorted(), 'all that was in it');
  t.match(await toolJson('replay', '--verify', ...only), {
    status: 1,
    report: { faults: [{ ...place, batch: tip.batch, problem: /from one that went on further/ }] },
  });
});

t.test(
  'a transaction’s story has its records, journals, provider and webhooks in the order of time',
  async (t) => {
    const copy = join(root, 'golden');
    await tool('import', '--from', join(golden, 'log'), '--data', copy);
    const { default: lived } = await import(join(golden, 'lived.json'), { with: { type: 'json' } });
    const reversed = await toolJson('inspect', '--transaction', lived.reversedId, '--data', copy);
    t.equal(reversed.status, 0);
    const said = reversed.report.chapters.flatMap(({ group, events, statuses, journals }: ChapterJson) => [
      ...events.map(
        ({ type, eventType }) => `${group} ${type}${eventType === undefined ? '' : ` ${eventType}`}`,
      ),
      ...statuses.map(({ status }) => status),
      ...journals.map(({ reason }) => reason),
    ]);
    t.strictSame(
      said.filter((word: string) => !word.startsWith('webhooks')),
      [
        'accounts ChargeCreated',
        'INITIATED',
        'PENDING_PROVIDER',
        'accounts SubmissionAccepted',
        'AWAITING_CUSTOMER',
        'accounts TransactionSucceeded',
        'SUCCESSFUL',
        'CHARGE_SETTLED',
        'accounts ChargeReleased',
        'CHARGE_RELEASED',
        'accounts ChargeReversed',
        'REVERSED',
        'CHARGE_REVERSED',
      ],
    );
    t.ok(said.includes('webhooks EventTaken charge.reversed'));
    t.ok(said.includes('webhooks AttemptRecorded'));
    const states = await import(join(golden, 'state.json'), { with: { type: 'json' } });
    t.strictSame(reversed.report.detail, states.default.transactions[lived.reversedId].detail);

    const withdrawal = await tool('inspect', '--transaction', lived.withdrawalId, '--data', copy);
    t.match(withdrawal.out, /platform\/0 .*\n +AuditBegun: .*approve/);
    t.match(withdrawal.out, /WithdrawalApproved: by usr_/);
    t.match(withdrawal.out, /the provider said "SUCCESSFUL"/);
    t.match(withdrawal.out, /AuditEnded: outcome done/);
    t.notMatch(withdrawal.out, /2567\d{8}/);
    const expired = await tool('inspect', '--transaction', lived.expiredId, '--data', copy);
    t.match(expired.out, /ReconciliationRaised: kind SUCCESS_AFTER_FINAL/);
    t.match(expired.out, /ReconciliationResolved: .*Refunded by hand/);
    t.match(expired.out, /AuditBegun: .*\/resolve"?, [^]*AuditEnded: outcome done/, 'who asked for it');
    const unknown = await tool('inspect', '--transaction', 'chg_01M7XY99HM000FP4TS76ZW6X00', '--data', copy);
    t.equal(unknown.status, 1);
  },
);

t.test('batches are shown decoded, without full phone numbers unless they are asked for', async (t) => {
  const story = await toolJson('inspect', '--transaction', ids[1] ?? '', '--data', data);
  const { partition, batch } = story.report.chapters[0];
  const place = [
    '--group',
    'accounts',
    '--partition',
    String(partition),
    '--batch',
    String(batch),
    '--data',
    data,
  ];
  const decoded = await tool('inspect', ...place);
  t.match(decoded.out, '"type": "ChargeCreated"');
  t.notMatch(decoded.out, '256752000002');
  t.match((await tool('inspect', ...place, '--raw')).out, '256752000002');
});

t.test('replay and verify are wrongly asked', async (t) => {
  // A replay that begins fails there, with another status.
  const nowhere = join(root, 'nowhere');
  const cases: [string[], RegExp][] = [
    [['replay', '--verify', '--until', '5'], /neither --until nor --account/],
    [['replay', '--until', '5'], /a sequence is one of a partition/],
    [['replay', '--until', 'monday'], /such as/],
    [['replay', '--until', '1763768400'], /a sequence is one of a partition/],
    [['replay', '--group', 'accounts', '--partition', '0', '--until', '99999'], /ends at sequence/],
    [['inspect', '--transaction', 'chg_x'], /is not the id of a transaction/],
    [['inspect', '--account', 'chg_x'], /chg_x is not the id of an account/],
    [['inspect', '--group', 'accounts', '--partition', '0', '--batch', '0'], /--batch counts from 1/],
    [['inspect', '--group', 'accounts', '--partition', '0', '--sequence', '0'], /--sequence counts from 1/],
    [['inspect', '--raw', '--group', 'accounts', '--partition', '0', '--batch', '0'], /--batch counts/],
    // Before the log is replayed, not hours after.
    [['replay', '--account', 'chg_x', '--scratch', nowhere], /chg_x is not the id of an account/],
    [
      ['replay', '--account', service.demo.account_id, '--limit', 'x', '--scratch', nowhere],
      /--limit is a whole/,
    ],
  ];
  for (const [[name = '', ...args], message] of cases) {
    const { status, err } = await tool(name, ...args, '--data', data);
    t.equal(status, 2, args.join(' '));
    t.match(err, message);
  }
});

t.test('trim keeps what a webhook has not read', async (t) => {
  const partition = accountPartition();
  const copy = await stoppedCopy();
  const views = ViewStore.open({ directory: copy });
  await views.commit('webhooks', partition, views.position('webhooks', partition)!, [
    { table: 'cursor', key: 'upstream', value: '4' },
  ]);
  await views.close();
  await tool('archive', '--data', copy, '--to', join(root, 'archive'), '--before', '2999-01-01');
  const { status, out } = await tool('trim', '--data', copy, '--archive', join(root, 'archive'));
  t.equal(status, 0);
  t.match(out, new RegExp(`accounts/${partition} .*kept: from sequence 5, which is needed`));
  t.notMatch(out, /Cursors are not known/);

  // Of another log of webhooks, the views are made again from this one's beginning, and read as it did then.
  const other = ViewStore.open({ directory: copy });
  const position = other.position('webhooks', partition)!;
  await other.commit('webhooks', partition, { ...position, hash: Buffer.alloc(32, 1) }, []);
  await other.close();
  t.match(
    (await tool('trim', '--data', copy, '--archive', join(root, 'archive'))).out,
    new RegExp(`accounts/${partition} .*kept: from sequence 1, which is needed`),
  );
});

t.test('what is restored up to a record is served, webhooks too', async (t) => {
  const partition = accountPartition();
  const copy = await stoppedCopy();
  const from = join(root, 'backup-of-copy');
  t.equal((await tool('backup', '--data', copy, '--to', from)).status, 0);
  const views = ViewStore.open({ directory: copy, readOnly: true });
  const heard = Number(views.reader('webhooks', partition).get('cursor', 'upstream') ?? 0);
  await views.close();
  for (const sequence of [heard - 1, 1]) {
    const to = join(root, `up-to-${sequence}`);
    const at = ['--group', 'accounts', '--partition', `${partition}`, '--until-sequence', `${sequence}`];
    t.equal((await tool('restore', '--from', from, '--to', to, ...at)).status, 0);
    for (const file of ['daftari.json', 'master.key']) cpSync(join(copy, file), join(to, file));
    const restored = await startService({ DEMO: 'false', OPERATOR_TOKEN: 'operator-of-restored' }, to);
    const { status, text } = await restored.operator('GET', '/readyz');
    t.equal(status, 200, text);
    await restored.stop();
    t.equal((await tool('verify', '--data', to)).status, 0);
  }
});

t.test('damage at the end of a log is told with all that can still be told', async (t) => {
  const partition = accountPartition();
  const copy = await stoppedCopy();
  const before = (await toolJson('replay', '--data', copy)).report;
  const log = LogReader.openReader({ directory: copy });
  const { batch } = log.tip('accounts', partition);
  const { sequence } = tipAt(log.batch('accounts', partition, batch - 1));
  const bytes = Buffer.from(log.bytesOf('accounts', partition, batch)!);
  await log.close();
  bytes.writeUInt8(bytes.readUInt8(70) ^ 1, 70);
  await write(copy, partition, batch, bytes);

  const others = (places: { group: string; partition: number }[]): unknown =>
    places.filter((one) => one.group === 'accounts' && one.partition !== partition);
  const fault = { group: 'accounts', partition, batch, problem: /CRC32C/ };
  for (const args of [[], ['--verify']]) {
    const { status, report } = await toolJson('replay', '--data', copy, ...args);
    t.equal(status, 1);
    t.match(report.faults, [fault]);
    t.strictSame(others(report.partitions), others(before.partitions));
  }
  const account = await toolJson('replay', '--data', copy, '--account', service.demo.account_id);
  t.hasStrict(account, { status: 1, report: { found: true, upTo: sequence } });
  t.match(account.report.faults, [fault]);
  const shown = await tool('replay', '--data', copy, '--account', service.demo.account_id);
  t.match(shown.out, /\nNext: day 4 of deploy\/README\.md\.\n$/);
  // Not the live service's: what was started over the copy may have written more since.
  const sound = ['--data', await stoppedCopy(), '--account', service.demo.account_id] as const;
  const whole = await toolJson('replay', ...sound, '--until', `${sequence}`);
  t.equal(whole.status, 0, whole.err);
  t.strictSame(account.report.trialBalance, whole.report.trialBalance);
});

t.test(
  'a transaction’s story is told though other partitions are damaged where it is looked for',
  async (t) => {
    const copy = await stoppedCopy();
    for (let other = 0; other < PARTITIONS; other += 1) {
      if (other === accountPartition()) continue;
      await write(copy, other, 1, Buffer.alloc(200));
    }
    const [id] = ids;
    t.hasStrict(await toolJson('inspect', '--data', copy, '--transaction', id!), {
      status: 0,
      report: { found: true, partition: accountPartition() },
    });
    const unknown = makeId('charge', `${id!.slice(4, 14)}${'0'.repeat(16)}`);
    t.match(await tool('inspect', '--data', copy, '--transaction', unknown), {
      status: 1,
      err: /log corrupt/,
    });
  },
);

/** null removes the batch. */
async function write(
  directory: string,
  partition: number,
  batch: number,
  bytes: Buffer | null,
): Promise<void> {
  const database = openLogDatabase({ directory });
  if (bytes === null) await database.remove(['accounts', partition, batch]);
  else await database.put(['accounts', partition, batch], bytes);
  await database.close();
}
