// Statements: CSV as providers write it, and what a comparison with the ledger finds.
import t from 'tap';
import type { AccountEvent, AccountRecord } from '../../src/domain/account-event.ts';
import { makeId } from '../../src/domain/id.ts';
import { referenceOf } from '../../src/rails/reference.ts';
import { readCsv } from '../../src/rails/statement-csv.ts';
import {
  compare,
  DEFAULT_COLUMNS,
  FloatMovements,
  periodOf,
  readStatement,
} from '../../src/rails/statement.ts';

t.test('CSV with quotes, line breaks, other separators and a byte order mark', async (t) => {
  const cells = (text: string) => readCsv(text).map(({ line, fields }) => [line, ...fields.values()]);
  t.strictSame(cells('A,b\n1,2\n'), [[2, '1', '2']]);
  t.strictSame(cells('\uFEFFA;b\r\n"1;5";"say ""hi"""\r\n\r\n3;4'), [
    [2, '1;5', 'say "hi"'],
    [4, '3', '4'],
  ]);
  t.strictSame(cells('a\tb\n"two\nlines"\tx\ny\tz'), [
    [2, 'two\nlines', 'x'],
    [4, 'y', 'z'],
  ]);
  t.throws(() => readCsv('a,b\n1\n'), /line 2: 1 columns, where the headings are 2/);
  t.throws(() => readCsv('a,b\n1,"2\n'), /line 2: a quote is not closed/);
  t.throws(() => readCsv(''), /empty/);
});

const accountId = makeId('account', '01JB2XK7T0000ABCDEFGHJKM00');
const id = (kind: 'charge' | 'payout', number: number): string =>
  makeId(kind, `01JB2XK8Z3000${String(number).padStart(11, '0')}00`);
const START = Date.parse('2026-07-01T00:00:00Z');
const HOUR = 3_600_000;

function record(at: number, ...events: object[]): AccountRecord {
  return { accountId, at, events: events as AccountEvent[] };
}

function created(type: string, transactionId: string, amount: number, provider = 'mtn_ke'): object {
  return { type, id: transactionId, amount, currency: 'KES', provider };
}

function line(transactionId: string, amount: string, at: number, type = 'collect'): string {
  return `${new Date(at).toISOString()},${type},${referenceOf({ id: transactionId, accountId })},${amount},KES`;
}

const HEADINGS = 'Time,Type,Reference,Amount,Currency';

t.test('what agrees, what is missing, extra or different, and what is outside the period', async (t) => {
  const [paid, sent, reversed, unpaid, wrong, late, early, other, unknown] = [
    id('charge', 1),
    id('payout', 2),
    id('charge', 3),
    id('charge', 4),
    id('charge', 5),
    id('charge', 6),
    id('charge', 7),
    id('charge', 8),
    id('charge', 9),
  ] as const;
  const period = { from: START, to: START + 24 * HOUR, slackMs: HOUR };
  const ledger = new FloatMovements('mtn_ke', period);
  const succeeds = (transactionId: string, at: number): AccountRecord =>
    record(at, { type: 'TransactionSucceeded', id: transactionId });
  ledger.add(
    record(START - 9 * HOUR, created('ChargeCreated', paid, 1050), created('ChargeCreated', late, 700)),
  );
  ledger.add(record(START, created('PayoutCreated', sent, 200), created('ChargeCreated', reversed, 300)));
  ledger.add(record(START, created('ChargeCreated', unpaid, 400), created('ChargeCreated', wrong, 500)));
  ledger.add(
    record(START, created('ChargeCreated', early, 800), created('ChargeCreated', other, 900, 'airtel_ke')),
  );
  for (const transactionId of [paid, sent, reversed, unpaid, wrong, other]) {
    ledger.add(succeeds(transactionId, START + 1));
  }
  ledger.add(record(START + 2, { type: 'ChargeReversed', id: reversed }));
  ledger.add(succeeds(late, START + 24 * HOUR + 5_000));
  ledger.add(succeeds(early, START - 5_000));

  const lines = readStatement(
    [
      HEADINGS,
      line(paid, '10.50', START),
      line(sent, '-2', START),
      line(reversed, '3.00', START),
      line(reversed, '-3.00', START + 5, 'reversal'),
      line(wrong, '5.01', START),
      line(late, '7', START + 24 * HOUR - 1),
      line(unknown, '9', START + 60_000),
      `${new Date(START).toISOString()},fee,MONTHLY FEE,"1,000.00",KES`,
    ].join('\n'),
    DEFAULT_COLUMNS,
  );
  const { matched, findings } = compare(ledger.movements, lines, period);
  t.equal(matched, 5, 'the one that settled just after midnight too');
  t.strictSame(
    findings.map(({ kind, transactionId, line: at, ledger: ours, statement }) => [
      kind,
      transactionId,
      at,
      ours,
      statement,
    ]),
    [
      ['different', wrong, 6, '5.00 KES', '5.01 KES'],
      ['extra', unknown, 8, null, '9 KES'],
      ['extra', null, 9, null, '1000.00 KES'],
      ['missing', unpaid, null, '4.00 KES', null],
    ],
  );
  t.strictSame(periodOf(lines), { from: START, to: START + 24 * HOUR });
});

t.test('the same line twice: the second is extra', async (t) => {
  const period = { from: START, to: START + HOUR, slackMs: 0 };
  const ledger = new FloatMovements('mtn_ke', period);
  const twice = id('charge', 1);
  ledger.add(
    record(START, created('ChargeCreated', twice, 100), { type: 'TransactionSucceeded', id: twice }),
  );
  const lines = readStatement(
    [HEADINGS, line(twice, '1', START), line(twice, '1', START)].join('\n'),
    DEFAULT_COLUMNS,
  );
  const { matched, findings } = compare(ledger.movements, lines, period);
  t.equal(matched, 1);
  t.match(findings, [{ kind: 'extra', line: 3 }]);
});

t.test('a statement that cannot be read says where', async (t) => {
  t.throws(() => readStatement('reference\nx', DEFAULT_COLUMNS), /line 2: no column "amount"/);
  t.throws(
    () => readStatement('reference,amount,time\nx,1,yesterday', DEFAULT_COLUMNS),
    /line 2: "yesterday" is no time/,
  );
});
