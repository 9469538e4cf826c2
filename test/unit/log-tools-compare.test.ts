// What the log gives and what the checkpoint has, row by row: whatever differs is told, wherever it lies, and no number in full.
import t from 'tap';
import { encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { LIMITS } from '../../src/limits.ts';
import { compareRows } from '../../src/log-tools/compare.ts';
import type { Row } from '../../wal/types.ts';
import { ACCOUNT, charge, merchant, START } from './domain/scenario.ts';

const row = (key: string, value: string | null = '1', table = 'account'): Row => ({ table, key, value });
const never = (): boolean => false;
const keysOf = ({ differences }: ReturnType<typeof compareRows>) =>
  differences.map(({ table, key }) => `${table}/${key}`);

t.test('the same rows have no differences, and one hash', (t) => {
  const rows = [row('a'), row('b'), row('a', '2', 'usage')];
  const { tables, ...rest } = compareRows(rows, rows, never);
  t.strictSame(rest, { differenceCount: 0, differences: [] });
  t.strictSame(
    tables.map(({ table, rows: count, logHash, checkpointHash }) => [
      table,
      count,
      logHash === checkpointHash,
    ]),
    [
      ['account', 2, true],
      ['usage', 1, true],
    ],
  );
  t.end();
});

t.test('a row that one of them lacks is told, wherever it lies', (t) => {
  const all = [row('a'), row('b'), row('\uFF5E'), row('\u{1F600}'), row('a', '1', 'usage')];
  for (const [index, { table, key }] of all.entries()) {
    const others = all.filter((_, i) => i !== index);
    for (const [log, checkpoint] of [
      [all, others],
      [others, all],
    ] as const) {
      const compared = compareRows(log, checkpoint, never);
      t.strictSame(keysOf(compared), [`${table}/${key}`]);
      const [has, lacks] = log === all ? ['log', 'checkpoint'] : ['checkpoint', 'log'];
      t.strictSame(compared.differences[0]?.fields, [{ path: '', [has!]: 1, [lacks!]: undefined }]);
      const of = compared.tables.find((each) => each.table === table);
      t.not(of?.logHash, of?.checkpointHash);
      t.equal(of?.rows, all.filter((each) => each.table === table).length);
    }
  }
  t.equal(keysOf(compareRows([], all, never)).length, all.length);
  const oneKey = compareRows([row('a')], [row('a', '1', 'usage')], never);
  t.strictSame(keysOf(oneKey), ['account/a', 'usage/a'], 'of one key, in two tables');
  t.end();
});

t.test('a row that need not be there is no difference where only one has it, and counts nowhere', (t) => {
  const asked: unknown[] = [];
  const isNeedless = ({ key }: Row, of: string): boolean => {
    asked.push([key, of]);
    return key === 'b';
  };
  const both = [row('a'), row('c')];
  const more = [row('a'), row('b'), row('c')];
  const plain = compareRows(both, both, never);
  t.strictSame(compareRows(more, both, isNeedless), plain);
  t.strictSame(compareRows(both, more, isNeedless), plain);
  t.strictSame(asked, [
    ['b', 'log'],
    ['b', 'checkpoint'],
  ]);
  t.strictSame(keysOf(compareRows(more, [row('a'), row('b', '2'), row('c')], isNeedless)), ['account/b']);
  t.end();
});

t.test('only the fields that differ are told, by their paths, and numbers are masked', (t) => {
  const value = (balance: number, msisdn: string) =>
    JSON.stringify({
      id: 'acc_1',
      balances: [['UGX', { AVAILABLE: balance }]],
      wallets: [{ msisdn, at: 5 }],
    });
  const log = [row('acc_1', value(1, '256772000001')), row('acc_2', value(1, '256772000001'))];
  const { differences } = compareRows(log, [row('acc_1', value(2, '256772000002'))], never);
  t.strictSame(differences[0]?.fields, [
    { path: 'balances.0.1.AVAILABLE', log: 1, checkpoint: 2 },
    { path: 'wallets.0.msisdn', log: '25677****001', checkpoint: '25677****002' },
  ]);
  t.match(differences[1]?.fields, [{ path: '', log: { wallets: [{ msisdn: '25677****001', at: 5 }] } }]);

  const damaged = compareRows(
    [row('chg_1', '["chg_1","256772000001",1772357400000', 'transaction')],
    [row('chg_1', '["chg_1","256772000001"', 'transaction')],
    never,
  );
  t.strictSame(damaged.differences[0]?.fields, [
    { path: '', log: '["chg_1","25677****001",1772357400000', checkpoint: '["chg_1","25677****001"' },
  ]);
  t.end();
});

t.test('those of a transaction, by their names', (t) => {
  const scenario = merchant();
  const { id } = scenario.create(charge());
  const of = (changes: Partial<Transaction>): Row[] => [
    row(id, encodeTransaction({ ...scenario.transaction(id), ...changes }), 'transaction'),
  ];
  const { differences } = compareRows(of({}), of({ status: 'FAILED', released: true }), never);
  t.strictSame(differences[0]?.fields.map(({ path }) => path).toSorted(), ['released', 'status']);
  t.end();
});

t.test('rows that are written differently, and say the same, are shown as they are', (t) => {
  const { differences } = compareRows([row('a', '{"at":1}')], [row('a', '{ "at": 1}')], never);
  t.strictSame(differences[0]?.fields, [{ path: '', log: '{"at":1}', checkpoint: '{ "at": 1}' }]);
  t.end();
});

t.test('whichever bit of a row turns over, no number is told in full', (t) => {
  const scenario = merchant();
  const { id, msisdn } = scenario.create(charge());
  const shown: string[] = [];
  const account = JSON.stringify({ id: ACCOUNT, wallets: [{ msisdn, at: START }], at: START });
  for (const [table, key, value] of [
    ['account', ACCOUNT, account],
    ['transaction', id, encodeTransaction(scenario.transaction(id))],
  ] as const) {
    const bytes = Buffer.from(value);
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const turned = Buffer.from(bytes);
      turned[bit >> 3]! ^= 1 << (bit & 7);
      const { differences } = compareRows(
        [row(key, value, table)],
        [row(key, turned.toString(), table)],
        never,
      );
      const told = JSON.stringify(differences);
      if (told.includes(msisdn)) shown.push(`bit ${bit} of ${value}: ${told}`);
    }
  }
  t.strictSame(shown, []);
  t.end();
});

t.test('all differences are counted, and so many are told', (t) => {
  const rows = Array.from({ length: LIMITS.logToolDifferencesShownMax + 1 }, (_, i) => row(`k${1_000 + i}`));
  const { differenceCount, differences } = compareRows(rows, [], never);
  t.equal(differenceCount, rows.length);
  t.equal(differences.length, LIMITS.logToolDifferencesShownMax);
  t.end();
});
