// The second adding up of the money, on rows that were changed in one place each: whatever does not hold is told.
import t from 'tap';
import { encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import {
  chargeReleased,
  chargeReversed,
  chargeSettled,
  depositSettled,
  emptyBalances,
  held,
  type LedgerAccount,
  returned,
  settled as settledPayout,
} from '../../src/domain/ledger.ts';
import { money } from '../../src/domain/money.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { auditedText, auditLedger, type LedgerAudit, ledgerLines } from '../../src/log-tools/ledger-audit.ts';
import { accountResult, allResult, type Replayed } from '../../src/log-tools/replay-text.ts';
import { journalsProblem } from '../../src/log-tools/due-journals.ts';
import type { Row } from '../../wal/types.ts';

const AT = 1_772_357_400_000;

const common: Omit<Transaction, 'id' | 'type' | 'amount' | 'fee' | 'status' | 'journals'> = {
  accountId: 'acc_1',
  appId: null,
  requestedBy: null,
  currency: 'UGX',
  country: 'UG',
  network: 'MTN',
  msisdn: '256772000001' as Transaction['msisdn'],
  reference: 'r',
  description: null,
  narration: null,
  metadata: null,
  destination: null,
  provider: 'mtn_ug',
  expiresAt: null,
  approvalStatus: 'NOT_REQUIRED',
  failureCode: null,
  failureMessage: null,
  providerTransactionId: null,
  submitted: true,
  unsent: false,
  events: [{ status: 'INITIATED', source: 'API', providerStatus: null, message: null, at: AT }],
  answeredAt: null,
  releaseAt: null,
  released: false,
  sequence: 1,
};
const [paid, fee] = [money(50_000), money(1_000)];
const charge: Transaction = {
  ...common,
  id: 'chg_1',
  type: 'CHARGE',
  amount: paid,
  fee,
  status: 'SUCCESSFUL',
  released: true,
  journals: [chargeSettled(paid, fee, 'UGX', AT), chargeReleased(paid, fee, 'UGX', AT)],
};
const payout: Transaction = payoutOf(7_000);
const balances: Record<LedgerAccount, number> = {
  MERCHANT_PENDING: 0,
  MERCHANT_AVAILABLE: 41_500,
  FEES_REVENUE: 1_000,
  PROVIDER_FLOAT: 50_000,
  SETTLEMENT_CLEARING: 7_500,
};

/** Its fee is 500. */
function payoutOf(amount: number): Transaction {
  const [of, on] = [money(amount), money(500)];
  const journals = [held('PAYOUT', of, on, 'UGX', AT)];
  return {
    ...common,
    id: 'pyt_1',
    type: 'PAYOUT',
    amount: of,
    fee: on,
    status: 'PENDING_PROVIDER',
    journals,
  };
}

function audit(stated: Partial<Record<LedgerAccount, number>> | null, transactions: readonly Transaction[]) {
  const account = {
    id: 'acc_1',
    users: [],
    apps: [],
    wallets: [],
    balances: stated === null ? [] : [['UGX', { ...balances, ...stated }]],
    usage: [],
  };
  const rows: Row[] = transactions.map((one) => ({
    table: 'transaction',
    key: one.id,
    value: encodeTransaction(one),
  }));
  return auditLedger([{ table: 'account', key: 'acc_1', value: JSON.stringify(account) }, ...rows]);
}

t.test('a ledger that holds has no faults, and its totals', async (t) => {
  const { faults, faultCount, totals, ...counts } = audit({}, [charge, payout]);
  t.strictSame(faults, []);
  t.equal(faultCount, 0);
  t.strictSame(counts, { accounts: 1, transactions: 2, journals: 3 });
  const [[currency, amounts] = []] = totals;
  t.equal(currency, 'UGX');
  for (const [name, amount] of Object.entries(balances)) {
    t.equal(amounts?.[name as LedgerAccount], BigInt(amount), name);
  }
});

t.test('a row that cannot be read is told in words, without what stands in it', async (t) => {
  const row = encodeTransaction(charge);
  const told = (value: string): string | undefined =>
    auditLedger([{ table: 'transaction', key: charge.id, value }]).faults[0]?.problem;
  const at = row.indexOf('"256772000001"') + '"256772000001"'.length;
  const notJson = 'the row cannot be read: it is not JSON';
  t.equal(told(`${row.slice(0, at)}x${row.slice(at)}`), `${notJson}, from character ${at} on`);
  t.equal(told(`${row.slice(0, at + 1)}x${row.slice(at + 1)}`), notJson);
  const ofAnotherKind = 'the row cannot be read: a field of it is missing, or is of another kind';
  t.equal(told('null'), ofAnotherKind);
  t.equal(told(row.replace('"chg_1",0,', '"chg_1",8,')), ofAnotherKind, 'there are fewer types');
  for (const field of ['amount', 'fee']) {
    t.equal(told(encodeTransaction({ ...charge, [field]: 0.5 })), ofAnotherKind, `${field}: no amount`);
  }
});

t.test('so is the row of an account, and the rest is added up', (t) => {
  const damaged = { table: 'account', key: 'acc_0', value: '{' };
  const another = { table: 'usage', key: 'acc_1', value: 'x' };
  const row = { table: 'transaction', key: charge.id, value: encodeTransaction(charge) };
  const audited = auditLedger([damaged, another, row]);
  t.hasStrict(audited, { accounts: 1, transactions: 1, journals: 2, faultCount: 2 });
  t.equal(auditedText([audited, audit({}, [charge, payout])]), '2 accounts, 3 transactions, 5 journals');
  t.strictSame(ledgerLines([{ ...audited, group: 'accounts', partition: 3 }]), [
    'accounts/3 acc_0: the row cannot be read: it is not JSON, from character 1 on',
    'accounts/3 acc_1: transactions in UGX, but no balance in it',
  ]);
  t.end();
});

t.test('a journal whose debits are not its credits is told in words, too', (t) => {
  const row = encodeTransaction(charge);
  const from = row.lastIndexOf('49000');
  const value = `${row.slice(0, from)}49001${row.slice(from + 5)}`;
  t.strictSame(auditLedger([{ table: 'transaction', key: charge.id, value }]).faults, [
    {
      accountId: '',
      transactionId: charge.id,
      problem: 'the row cannot be read: debits equal credits in a journal',
    },
  ]);
  t.end();
});

t.test('a replay that finds faults in the ledger alone says where to go on', (t) => {
  const replayedOf = (audited: LedgerAudit): Replayed => ({
    work: [],
    faults: [],
    audits: [{ ...audited, group: 'accounts', partition: 3 }],
    verified: [],
    balances: [],
    records: 1,
    bytes: 1,
    durationMs: 1,
  });
  const next = 'Next: day 4 of deploy/README.md.';
  const [bad, good] = [audit(null, [charge]), audit({}, [charge, payout])].map(replayedOf);
  t.equal(allResult(bad!, false).sound, false);
  t.equal(allResult(bad!, false).lines.at(-1), next);
  t.equal(accountResult('acc_1', null, bad!, null).lines.at(-1), next);
  t.equal(allResult(good!, false).sound, true);
  t.notOk(allResult(good!, false).lines.includes(next));
  t.notOk(
    accountResult('acc_1', null, good!, null).lines.includes(next),
    'that it is not there is no damage',
  );
  t.end();
});

t.test('all faults are counted, and so many are told', (t) => {
  const rows = Array.from({ length: LIMITS.logToolDifferencesShownMax + 1 }, (_, i) => ({
    table: 'transaction',
    key: `chg_${i}`,
    value: '{',
  }));
  const audited = auditLedger(rows);
  const { faults, faultCount } = audited;
  t.equal(faultCount, rows.length);
  const lines = ledgerLines([{ ...audited, group: 'accounts', partition: 3 }]);
  t.strictSame(lines.slice(faults.length), ['accounts/3: 1 more faults in its ledger']);
  t.equal(faults.length, LIMITS.logToolDifferencesShownMax);
  t.end();
});

t.test('whichever bit of a row turns over, the rest is added up', async (t) => {
  for (const transaction of [charge, payout]) {
    const row = Buffer.from(encodeTransaction(transaction));
    const ended: number[] = [];
    for (let bit = 0; bit < row.length * 8; bit += 1) {
      const turned = Buffer.from(row);
      turned.writeUInt8(turned.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      try {
        const rows = [turned, row].map((value) => ({ key: transaction.id, value: value.toString() }));
        const { transactions } = auditLedger(rows.map((each) => ({ table: 'transaction', ...each })));
        if (transactions !== 2) ended.push(bit);
      } catch {
        ended.push(bit);
      }
    }
    t.strictSame(ended, []);
  }
});

t.test('what many accounts have together is told exactly, also beyond the safe integers', async (t) => {
  const most = Number.MAX_SAFE_INTEGER;
  const rows = ['acc_1', 'acc_2', 'acc_3'].map((id) => {
    const each = { ...emptyBalances(), PROVIDER_FLOAT: most, MERCHANT_AVAILABLE: most };
    const account = { id, users: [], apps: [], wallets: [], balances: [['UGX', each]], usage: [] };
    return { table: 'account', key: id, value: JSON.stringify(account) };
  });
  t.equal(auditLedger(rows).totals.get('UGX')?.PROVIDER_FLOAT, 3n * BigInt(most));
});

t.test('so is all that ever went through one account', async (t) => {
  const amount = money(6e15);
  const free = { ...charge, amount, fee: money(0) };
  const journals = [chargeSettled(amount, money(0), 'UGX', AT), chargeReleased(amount, money(0), 'UGX', AT)];
  const charges = ['chg_1', 'chg_2', 'chg_3'].map((id) => ({ ...free, id, journals }));
  const payouts = ['pyt_1', 'pyt_2', 'pyt_3'].map((id) => ({
    ...payout,
    id,
    amount: money(6e15 - 1),
    fee: money(0),
    status: 'SUCCESSFUL' as const,
    journals: [
      held('PAYOUT', money(6e15 - 1), money(0), 'UGX', AT),
      settledPayout('PAYOUT', money(6e15 - 1), money(0), 'UGX', AT),
    ],
  }));
  const left = { MERCHANT_AVAILABLE: 3, PROVIDER_FLOAT: 3, FEES_REVENUE: 0, SETTLEMENT_CLEARING: 0 };
  t.strictSame(audit(left, [...charges, ...payouts]).faults, []);
});

const inKes = { ...charge, journals: [chargeSettled(paid, fee, 'KES', AT), charge.journals[1]!] };
const short = { MERCHANT_AVAILABLE: -11_500, SETTLEMENT_CLEARING: 60_500 };
const settled = charge.journals[0]!;
const unreleased = { MERCHANT_PENDING: 49_000, MERCHANT_AVAILABLE: 0, SETTLEMENT_CLEARING: 0 };
const mirrored = [settled, chargeReversed(paid, fee, false, 'UGX', AT)];
const reversed: Transaction = {
  ...charge,
  id: 'chg_2',
  status: 'REVERSED',
  released: false,
  journals: mirrored,
};
const withdrawal: Transaction = {
  ...payout,
  type: 'WITHDRAWAL',
  journals: [held('WITHDRAWAL', money(7_000), money(500), 'UGX', AT)],
};
const cheaper = [chargeSettled(paid, money(900), 'UGX', AT), chargeReleased(paid, money(900), 'UGX', AT)];
const nothingYet = emptyBalances();

// [what was changed, stated balances, transactions, all faults]
const cases: [string, Partial<Record<LedgerAccount, number>> | null, Transaction[], RegExp[]][] = [
  [
    'two balances, by the same',
    { MERCHANT_AVAILABLE: 41_501, PROVIDER_FLOAT: 50_001 },
    [charge, payout],
    [
      /^MERCHANT_AVAILABLE is stated as 41501 UGX, its journals .* 41500$/,
      /^PROVIDER_FLOAT is stated as 50001/,
    ],
  ],
  [
    'one balance',
    { FEES_REVENUE: 999 },
    [charge, payout],
    [/^FEES_REVENUE is stated as 999/, /UGX sum to 1,/],
  ],
  ['a balance is gone', null, [charge, payout], [/^transactions in UGX, but no balance in it$/]],
  [
    'a hold whose payout is over',
    {},
    [charge, { ...payout, status: 'SUCCESSFUL' }],
    [
      /^it is SUCCESSFUL, for which its journals are PAYOUT_HELD, PAYOUT_SETTLED, and it has PAYOUT_HELD$/,
      /^SETTLEMENT_CLEARING is 7500 UGX, open holds are 0$/,
    ],
  ],
  [
    'a hold whose payout failed',
    {},
    [charge, { ...payout, status: 'FAILED' }],
    [
      /^it is FAILED, for which its journals are PAYOUT_HELD, PAYOUT_RETURNED, and it has PAYOUT_HELD$/,
      /^SETTLEMENT_CLEARING is 7500 UGX, open holds are 0$/,
    ],
  ],
  [
    'an open hold is less than was booked',
    {},
    [charge, { ...payout, fee: money(400) }],
    [
      /^PAYOUT_HELD does not move its amount and its fee as it should$/,
      /^SETTLEMENT_CLEARING is 7500 UGX, open holds are 7400$/,
    ],
  ],
  ['a journal in another currency', {}, [inKes, payout], [/^CHARGE_SETTLED is in KES$/]],
  [
    'more was paid out than there was',
    short,
    [charge, payoutOf(60_000)],
    [/^available is -11500 UGX, and nothing was reversed$/],
  ],
  ['the same, after a reversal', short, [charge, payoutOf(60_000), reversed], []],
  [
    'nothing is available, and all of it pending',
    unreleased,
    [{ ...charge, released: false, journals: [settled] }],
    [],
  ],
  ['a withdrawal holds as a payout does', {}, [charge, withdrawal], []],
  [
    'a charge that was paid and is in no journal, nor in a balance',
    nothingYet,
    [{ ...charge, journals: [] }],
    [/^it is SUCCESSFUL, for which its journals are CHARGE_SETTLED, CHARGE_RELEASED, and it has none$/],
  ],
  [
    'a payout of which nothing was held',
    nothingYet,
    [{ ...payout, status: 'SUCCESSFUL', journals: [] }],
    [/^it is SUCCESSFUL, for which its journals are PAYOUT_HELD, PAYOUT_SETTLED, and it has none$/],
  ],
  [
    'another fee was booked, and balances are of that',
    { MERCHANT_AVAILABLE: 49_100, FEES_REVENUE: 900, SETTLEMENT_CLEARING: 0 },
    [{ ...charge, journals: cheaper }],
    [/^CHARGE_SETTLED does not move its amount and its fee as it should$/],
  ],
  [
    'a failed deposit that was booked all the same',
    { MERCHANT_AVAILABLE: 50_000, FEES_REVENUE: 0, SETTLEMENT_CLEARING: 0 },
    [
      {
        ...charge,
        type: 'DEPOSIT',
        fee: money(0),
        status: 'FAILED',
        released: false,
        journals: [depositSettled(paid, 'UGX', AT)],
      },
    ],
    [/^it is FAILED, for which its journals are none, and it has DEPOSIT_SETTLED$/],
  ],
  [
    'a balance that is no amount',
    { FEES_REVENUE: 0.5 },
    [charge, payout],
    [/^FEES_REVENUE is stated as 0\.5 UGX, its journals add up to 1000$/],
  ],
];

for (const [what, stated, transactions, problems] of cases) {
  t.test(what, async (t) => {
    const { faults, faultCount } = audit(stated, transactions);
    t.equal(faultCount, problems.length);
    t.match(
      faults.map(({ problem }) => problem),
      problems,
    );
    t.ok(faults.every(({ accountId }) => accountId === 'acc_1'));
  });
}

t.test('what became of each is as it should be with its journals alone, each with its amounts', async (t) => {
  const zero = money(0);
  const topUp: Transaction = { ...charge, type: 'DEPOSIT', fee: zero, released: false };
  const cashOuts = (['PAYOUT', 'WITHDRAWAL'] as const).flatMap((type): Transaction[] => {
    const of = [type, money(7_000), money(500), 'UGX', AT] as const;
    const out = { ...payout, type };
    return [
      { ...out, status: 'INITIATED', journals: [held(...of)] },
      { ...out, status: 'SUCCESSFUL', journals: [held(...of), settledPayout(...of)] },
      { ...out, status: 'FAILED', journals: [held(...of), returned(...of)] },
    ];
  });
  const all: Transaction[] = [
    { ...charge, status: 'AWAITING_CUSTOMER', released: false, journals: [] },
    { ...charge, status: 'FAILED', released: false, journals: [] },
    { ...charge, released: false, journals: [settled] },
    charge,
    reversed,
    {
      ...charge,
      status: 'REVERSED',
      journals: [...charge.journals, chargeReversed(paid, fee, true, 'UGX', AT)],
    },
    // Its fee takes all of it: nothing is left to release.
    { ...charge, fee: paid, journals: [chargeSettled(paid, paid, 'UGX', AT)] },
    { ...topUp, status: 'FAILED', journals: [] },
    { ...topUp, journals: [depositSettled(paid, 'UGX', AT)] },
    ...cashOuts,
  ];
  for (const transaction of all) {
    const { type, status, journals } = transaction;
    t.equal(journalsProblem(transaction), null, `${type} ${status}`);
    for (const journal of journals) {
      // It balances all the same.
      const sides = ['DEBIT', 'CREDIT'].map((side) => journal.entries.find((entry) => entry.side === side));
      const entries = journal.entries.map((entry) =>
        sides.includes(entry) ? { ...entry, amount: money(entry.amount + 1) } : entry,
      );
      const changed = journals.map((each) => (each === journal ? { ...journal, entries } : each));
      t.equal(
        journalsProblem({ ...transaction, journals: changed }),
        `${journal.reason} does not move its amount and its fee as it should`,
        `${type} ${status}`,
      );
    }
  }
});

t.test('a line names what is known of whose money it is', async (t) => {
  const damaged = { table: 'transaction', key: 'chg_1', value: '{' };
  const lines = [auditLedger([damaged]), audit({}, [inKes, payout])].map((audited) =>
    ledgerLines([{ ...audited, group: 'accounts', partition: 3 }]),
  );
  t.strictSame(lines, [
    ['accounts/3 chg_1: the row cannot be read: it is not JSON, from character 1 on'],
    ['accounts/3 acc_1 chg_1: CHARGE_SETTLED is in KES'],
  ]);
});

t.test('rows under keys of others are told, and add nothing', async (t) => {
  const row = { table: 'transaction', key: 'chg_2', value: encodeTransaction(charge) };
  const { faults, journals } = auditLedger([row]);
  t.strictSame(faults, [
    { accountId: '', transactionId: 'chg_2', problem: 'the row cannot be read: it is that of chg_1' },
  ]);
  t.equal(journals, 0);
});
