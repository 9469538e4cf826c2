// What a partition decides and answers does not depend on how far its checkpoint has got, nor on when it was opened: one whose
// state leaves memory for views at random moments, and that is opened again now and then, against the pure core over a state
// that holds everything, and against a partition that keeps everything in memory. All get the same random commands, and what
// falls due.

import { strict as assert } from 'node:assert';
import fc from 'fast-check';
import t from 'tap';
import type { AccountCommand, TransactionFilter } from '../../src/domain/account-command.ts';
import { COUNTRIES, CURRENCIES, NETWORKS } from '../../src/domain/country.ts';
import { APPROVAL_STATUSES, createdAt, STATUSES, TRANSACTION_TYPES } from '../../src/domain/transaction.ts';
import { LIMITS } from '../../src/limits.ts';
import {
  activateWallet,
  ADMIN,
  APP,
  appConnected,
  byOperator,
  charge,
  deposit,
  due,
  MEMBER,
  MINUTE,
  opened,
  outcome,
  OWNER,
  payout,
  settle,
  START,
  submission,
  WALLET,
  walletAdded,
  withdrawal,
} from '../unit/domain/scenario.ts';
import { CHECKPOINT_MS, HOUR, isCashOut, Run } from './checkpoint-run.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

const QUIET = `acc_${'Q'.repeat(24)}00`;
const ACCOUNTS = [`acc_${'A'.repeat(24)}00`, `acc_${'B'.repeat(24)}00`] as const;
const WALLETS = [
  { currency: 'UGX', msisdn: '+256772123456' },
  { currency: 'UGX', msisdn: '+256702123456' },
  { currency: 'KES', msisdn: '+254733123456' },
  { currency: 'GHS', msisdn: '+233242123456' },
] as const;

function openAccounts(run: Run): void {
  // One to which nothing ever happens again: it is there all the same.
  run.record(QUIET, [opened]);
  run.checkpoint();
  run.open();
  for (const accountId of ACCOUNTS) {
    run.record(accountId, [
      opened,
      appConnected,
      { type: 'UserAdded', id: OWNER, email: 'o@shop.example', role: 'OWNER', by: 'operator' },
      { type: 'UserAdded', id: MEMBER, email: 'm@shop.example', role: 'MEMBER', by: 'operator' },
      { type: 'UserAdded', id: ADMIN, email: 'a@shop.example', role: 'ADMIN', by: 'operator' },
      walletAdded,
      { type: 'WalletApproved', id: WALLET, activeAt: START, by: OWNER },
      { type: 'WalletActivated', id: WALLET },
    ]);
    for (const [n, { currency, msisdn }] of WALLETS.entries()) {
      const key = { accountId, idempotencyKey: `funding-${n}` };
      const { outcome: made } = run.send(deposit({ amount: '5000000', currency, msisdn }, key));
      assert(made.type === 'answer');
      run.send({ ...outcome(made.transactionId, 'SUCCESSFUL'), accountId });
    }
  }
}

/** In one record each, as they come. */
function createMany(run: Run, accountId: string, count: number): string[] {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const { record } = run.decide(charge({}, { accountId, idempotencyKey: `many-${n}` }));
    run.record(accountId, record!.events);
    ids.push((record!.events[0] as { id: string }).id);
  }
  return ids;
}

type Pick = (below: number) => number;

/** One random command: new, again, or about what there is. */
function next(run: Run, pick: Pick, n: number): AccountCommand {
  const accountId = ACCOUNTS[pick(2)]!;
  const transactions = [...run.state.transactions.values()].filter((one) => one.accountId === accountId);
  // Mostly one of the newest: it is not at rest yet.
  const back = pick(4) === 0 ? pick(transactions.length) : pick(Math.min(12, transactions.length));
  const { id: transactionId, status } = transactions[transactions.length - 1 - back]!;
  const choice = pick(26);
  if (choice < 9 || run.commands.length === 0) return create(accountId, pick, n);
  if (choice < 12) return { ...submission(transactionId), accountId };
  if (choice < 18) {
    const good = status === 'SUCCESSFUL' ? 'REVERSED' : 'SUCCESSFUL';
    const word = pick(4) === 0 ? 'FAILED' : good;
    return { ...outcome(transactionId, word, { amount: pick(9) === 0 ? 7 : null }), accountId };
  }
  const byMember = { ...byOperator, accountId, by: MEMBER };
  if (choice === 18 || choice === 19) {
    const type = choice === 18 ? 'ApproveWithdrawal' : 'RejectWithdrawal';
    const waiting = transactions.find((one) => one.status === 'INITIATED');
    return { ...byMember, type, transactionId: waiting?.id ?? transactionId };
  }
  if (choice === 20) return { ...due('FixAnswer', transactionId), accountId } as AccountCommand;
  if (choice === 21) {
    // Again; mostly soon, as a front does that lost the answer.
    const first = pick(4) === 0 ? 0 : Math.max(0, run.commands.length - 4);
    return run.commands[first + pick(run.commands.length - first)]!;
  }
  if (choice === 22) return ofAccount(run, accountId, pick, n);
  if (choice === 23) {
    const inFlight = transactions.findLast((one) => isCashOut(one) && one.status === 'PENDING_PROVIDER');
    return { ...settle(inFlight?.id ?? transactionId), accountId };
  }
  const items = [...run.state.reconciliations.values()].filter((item) => item.accountId === accountId);
  const reconciliationId = items[items.length - 1 - pick(3)]?.id ?? 'rec_none';
  const resolution = `Seen ${pick(2)}.`;
  return { ...byOperator, accountId, type: 'ResolveReconciliation', reconciliationId, resolution };
}

function create(accountId: string, pick: Pick, n: number): AccountCommand {
  const { currency, msisdn } = WALLETS[pick(WALLETS.length)]!;
  const fields = { amount: String(1_000 + pick(40) * 1_000), currency, reference: `order-${pick(3)}` };
  const over = { accountId, idempotencyKey: `key-${n}` };
  const type = pick(6);
  if (type < 3) return charge({ ...fields, msisdn }, over);
  if (type === 3) return deposit({ ...fields, msisdn }, over);
  if (type === 4) return payout({ ...fields, msisdn }, over);
  return withdrawal({ ...fields, currency: 'UGX' }, over);
}

function ofAccount(run: Run, accountId: string, pick: Pick, n: number): AccountCommand {
  const by = { ...byOperator, accountId };
  const wallets = [...(run.state.account(accountId)?.wallets.values() ?? [])];
  const { id: walletId } = wallets[pick(wallets.length)]!;
  const wallet = { network: null, country: null, by: ADMIN } as const;
  switch (pick(6)) {
    case 0:
      return { ...by, type: 'AddWallet', label: `Till ${n}`, msisdn: '0772000222', ...wallet };
    case 1:
    case 2:
      return { ...by, type: 'ApproveWallet', walletId, by: OWNER };
    case 3:
      return { ...activateWallet(walletId), accountId } as AccountCommand;
    case 4:
      return {
        ...by,
        type: 'ChangeAppWebhook',
        appId: APP,
        webhookUrl: pick(2) === 0 ? null : `https://${n}/`,
      };
    default:
      return {
        ...by,
        type: 'RaiseReconciliation',
        kind: 'CONTRADICTION',
        transactionId: null,
        detail: `${n}`,
      };
  }
}

const maybe = <T>(...values: T[]): fc.Arbitrary<T | undefined> =>
  fc.option(fc.constantFrom(...values), { nil: undefined, freq: 3 });
/** Times are those of transactions: bounds are inclusive. */
const filterArbitrary = (run: Run): fc.Arbitrary<TransactionFilter> => {
  const often = <T>(values: fc.Arbitrary<T | undefined>): fc.Arbitrary<T | undefined> =>
    fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: values });
  const time = maybe(...[...run.state.transactions.values()].map(createdAt));
  return fc.record({
    type: often(maybe(...TRANSACTION_TYPES)),
    status: often(maybe(...STATUSES)),
    approvalStatus: often(maybe(...APPROVAL_STATUSES)),
    country: often(maybe(...COUNTRIES)),
    network: often(maybe(...NETWORKS)),
    currency: often(maybe(...CURRENCIES)),
    reference: maybe('order-0', 'order-1', 'none', undefined, undefined),
    createdAfter: often(time),
    createdBefore: often(time),
  });
};

t.test('every answer is the same wherever the checkpoint is, and whenever it was opened', async (t) => {
  const run = new Run();
  openAccounts(run);
  const random = fc.sample(fc.nat(1_000_000), { seed: SEED, numRuns: 20_000 });
  const pick: Pick = (below) => random.pop()! % below;
  let listed = 0;
  for (let n = 0; n < 500; n++) {
    const command = next(run, pick, n);
    if ('requestHash' in command) run.commands.push(command);
    run.send(command);
    if (pick(4) === 0) run.send(command);
    run.pass(pick(4) === 0 ? pick(CHECKPOINT_MS) : pick(3));
    if (pick(12) === 0) {
      run.checkpointPart(pick(5) / 4);
      run.compareObjects(12);
    }
    if (pick(40) === 0) run.open();
    if (n % 50 === 0) {
      run.compareObjects();
      run.compareRebuilt(1 + pick(100));
    }
    if (n % 2 !== 0) continue;
    const accountId = ACCOUNTS[pick(2)]!;
    const [filter] = fc.sample(filterArbitrary(run), { seed: SEED + n, numRuns: 1 });
    listed += run.list(accountId, filter!, 1 + pick(20)).length;
  }
  run.compareObjects();
  t.ok(listed > 500, `${listed} rows listed`);
  t.ok(run.expiredPages > 10, `${run.expiredPages} times more than a page had expired`);
  const { transactions, reconciliations } = run.state;
  const verdicts = new Set([...transactions.values()].map(({ approvalStatus }) => approvalStatus));
  t.ok(verdicts.has('APPROVED') && verdicts.has('REJECTED'), [...verdicts].join(', '));
  t.ok(reconciliations.size > 5, `${transactions.size} transactions, ${reconciliations.size} items`);

  run.open();
  for (let passed = 0; passed < 3 * HOUR; passed += MINUTE) run.pass(MINUTE);
  run.compareObjects();
  for (const portion of [1, Infinity]) run.compareRebuilt(portion);
  for (const { balances } of run.state.accounts.values()) {
    for (const { MERCHANT_PENDING } of balances.values()) t.equal(MERCHANT_PENDING, 0, 'all is released');
  }
});

t.test('a page that would look at too many rows ends there, and the next one goes on', async (t) => {
  const run = new Run();
  openAccounts(run);
  const [accountId] = ACCOUNTS;
  const ids = createMany(run, accountId, LIMITS.listRowsScannedMax + 10);
  const rare = ids[3]!;
  run.send({ ...submission(rare), accountId });
  run.checkpoint();
  const filters: TransactionFilter[] = [
    { status: 'AWAITING_CUSTOMER' },
    { status: 'AWAITING_CUSTOMER', reference: 'order-1' },
  ];
  for (const filter of filters) {
    const first = run.page(accountId, filter, null);
    t.strictSame(first.ids, [], 'nothing yet');
    const looked = ids.length - ids.indexOf(first.next!);
    t.equal(looked, LIMITS.listRowsScannedMax + 1, 'as many as may be looked at');
    t.strictSame(run.page(accountId, filter, first.next), { ids: [rare], next: null });
  }
});

t.test('what the views do not yet know is on its page, also where a page ends', async (t) => {
  const run = new Run();
  openAccounts(run);
  const [accountId] = ACCOUNTS;
  const ids = createMany(run, accountId, LIMITS.listRowsScannedMax + 10);
  run.checkpoint();
  const filters: TransactionFilter[] = [
    { status: 'AWAITING_CUSTOMER' },
    { status: 'AWAITING_CUSTOMER', reference: 'order-1' },
  ];
  const newest = ids.at(-1)!;
  const end = run.page(accountId, filters[0]!, null).next!;
  run.send({ ...submission(newest), accountId });
  for (const filter of filters) {
    t.strictSame(run.page(accountId, filter, null), { ids: [newest], next: end }, 'goes on from the end');
  }
  run.send({ ...submission(end), accountId });
  for (const filter of filters) {
    t.strictSame(run.page(accountId, filter, null), { ids: [newest, end], next: end }, 'the end is on it');
    t.strictSame(run.page(accountId, filter, end), { ids: [], next: null });
  }
});
