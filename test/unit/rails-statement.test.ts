// Statements: CSV as providers write it, and what a comparison with the ledger finds.
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import type { AccountCommand } from '../../src/domain/account-command.ts';
import type { AccountEvent, AccountRecord } from '../../src/domain/account-event.ts';
import { decodeRecord } from '../../src/domain/event-codec.ts';
import { evolve } from '../../src/domain/evolve.ts';
import { makeId } from '../../src/domain/id.ts';
import { MemoryState } from '../../src/domain/memory-state.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { referenceOf } from '../../src/rails/reference.ts';
import { readCsv, textOf } from '../../src/rails/statement-csv.ts';
import {
  compare,
  DEFAULT_COLUMNS,
  FloatMovements,
  type Period,
  periodOf,
  readStatement,
} from '../../src/rails/statement.ts';
import { charge, DAY, due, fundedMerchant, MINUTE, outcome, payout, withdrawal } from './domain/scenario.ts';

t.test('CSV with quotes, line breaks and other separators', async (t) => {
  const cells = (text: string) => [...readCsv(text)].map(({ line, fields }) => [line, ...fields.values()]);
  t.strictSame(cells('A,b\n1,2\n'), [[2, '1', '2']]);
  t.strictSame(cells('A;b\r\n"1;5";"say ""hi"""\r\n\r\n3;4'), [
    [2, '1;5', 'say "hi"'],
    [4, '3', '4'],
  ]);
  t.strictSame(cells('a\tb\n"two\nlines"\tx\ny\tz'), [
    [2, 'two\nlines', 'x'],
    [4, 'y', 'z'],
  ]);
  t.strictSame(
    cells('a;b\r1;"2\r3"\r\r4;5\r'),
    [
      [2, '1', '2\r3'],
      [5, '4', '5'],
    ],
    'Excel’s "CSV (Macintosh)": with all of it taken for headings, all that the ledger has would be missing',
  );
  t.strictSame(
    cells('a,b\n5" pipe,2\n"x"y",3\n'),
    [
      [2, '5" pipe', '2'],
      [3, 'xy"', '3'],
    ],
    'a quote within a cell is one of its characters',
  );
  t.strictSame(cells('a,b\n1,2\n, \n"",\n'), [[2, '1', '2']], 'Excel leaves empty rows behind the last');
  t.strictSame(
    [...readCsv('Amount, Currency ,Fee,currency\n5.00,KES,1.00,\n')].map(({ fields }) => [...fields]),
    [
      [
        ['amount', '5.00'],
        ['currency', 'KES'],
        ['fee', '1.00'],
      ],
    ],
    'of two with one heading the first counts',
  );
  t.throws(() => cells('a,b\n1\n'), /line 2: 1 columns, where the headings are 2/);
  t.throws(() => cells('a,b\n1,"2\n'), /line 2: a quote is not closed/);
  t.throws(() => cells(''), /empty/);
});

t.test(
  'a file is UTF-8, or UTF-16 where its byte order mark says so; the mark is no part of a heading',
  (t) => {
    const text = '\uFEFFName\tb\nMűller\t2\n';
    const utf16 = Buffer.from(text, 'utf16le');
    for (const bytes of [Buffer.from(text), Buffer.from(text.slice(1)), utf16, Buffer.from(utf16).swap16()]) {
      const [row] = readCsv(textOf(bytes));
      t.strictSame(
        [...row!.fields],
        [
          ['name', 'Műller'],
          ['b', '2'],
        ],
      );
    }
    t.end();
  },
);

t.test('a cell with a line break is told on one line, or it would look like another finding', async (t) => {
  const text = 'reference,amount\n"A1\r\nmissing  pyt_01",5\n';
  const lines = readStatement(text, DEFAULT_COLUMNS, 'Z');
  const { findings } = compare([], lines, { from: 0, to: 1, slackMs: 0 });
  t.hasStrict(findings, [{ kind: 'extra', reference: 'A1 missing  pyt_01' }]);
  const bad = 'reference,amount\nA1,"1,\n5"\n';
  t.throws(() => readStatement(bad, DEFAULT_COLUMNS, 'Z'), /line 2: "1, 5" is no amount/);
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

/** Added, and added again, as the ledger asks for it. */
function floatOf(
  railId: string,
  period: Period,
  records: readonly AccountRecord[],
  transactions: Iterable<Transaction> = [],
): FloatMovements {
  const ledger = new FloatMovements(railId, period);
  const read = (): void => {
    for (const transaction of transactions) ledger.addTransaction(transaction);
    for (const each of records) if (ledger.needs(each.at, each.at)) ledger.add(each);
  };
  read();
  ledger.readAgain();
  read();
  return ledger;
}

const HEADINGS = 'Time,Type,Reference,Amount,Currency';

t.test('each field is read from the column that was named for it', (t) => {
  const columns = { reference: 'ID', amount: 'Sum', currency: 'Money', time: 'On', type: 'Kind' };
  const text =
    'Time,Type,Reference,Amount,Currency,ID,Sum,Money,On,Kind\n,x,y,1,UGX,A1,5,KES,2026-07-01,Refund\n';
  t.hasStrict(readStatement(text, columns, 'Z'), [
    { reference: 'A1', amountText: '5', currency: 'KES', at: START, reversal: true },
  ]);
  const named = { ...columns, type: 'Type' };
  t.hasStrict(readStatement(text, named, 'Z'), [{ reference: 'A1', reversal: false }]);
  t.end();
});

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
  const succeeds = (transactionId: string, at: number): AccountRecord =>
    record(at, { type: 'TransactionSucceeded', id: transactionId });
  const ledger = floatOf('mtn_ke', period, [
    record(START - 9 * HOUR, created('ChargeCreated', paid, 1050), created('ChargeCreated', late, 700)),
    record(START, created('PayoutCreated', sent, 200), created('ChargeCreated', reversed, 300)),
    record(START, created('ChargeCreated', unpaid, 400), created('ChargeCreated', wrong, 500)),
    record(START, created('ChargeCreated', early, 800), created('ChargeCreated', other, 900, 'airtel_ke')),
    ...[paid, sent, reversed, unpaid, wrong, other].map((each) => succeeds(each, START + 1)),
    record(START + 2, { type: 'ChargeReversed', id: reversed }),
    succeeds(late, START + 24 * HOUR + 5_000),
    succeeds(early, START - 5_000),
  ]);
  t.strictSame(ledger.rails, ['airtel_ke', 'mtn_ke']);

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
    'Z',
  );
  const { matched, findings } = compare(ledger.movements, lines, period);
  t.equal(matched, 5, 'the one that settled just after midnight too');
  t.strictSame(
    findings.map(({ kind, transactionId, line: at, ledger: ours, statement, time }) => [
      kind,
      transactionId,
      at,
      ours,
      statement,
      Date.parse(time ?? '') - START,
    ]),
    [
      ['different', wrong, 6, '5.00 KES', '5.01 KES', 1],
      ['extra', unknown, 8, null, '9 KES', 60_000],
      ['extra', null, 9, null, '1000.00 KES', 0],
      ['missing', unpaid, null, '4.00 KES', null, 1],
    ],
  );
  t.strictSame(periodOf(lines), { from: START, to: START + 24 * HOUR });
});

t.test(
  'what was paid and taken back while the ledger has neither has moved nothing: both books agree',
  (t) => {
    const [failed, twice, unheard, other, once] = [1, 2, 3, 4, 5].map((number) => id('charge', number)) as [
      string,
      string,
      string,
      string,
      string,
    ];
    const period = { from: START, to: START + HOUR, slackMs: 0 };
    const ledger = floatOf('mtn_ke', period, [
      record(
        START,
        ...[failed, twice, unheard, other, once].map((each) => created('ChargeCreated', each, 500)),
      ),
      // The network took it back before it confirmed it (src/domain/decide/outcome.ts).
      record(START, { type: 'TransactionFailed', id: failed }),
      record(START + 1, { type: 'TransactionSucceeded', id: twice }),
      record(START + 1, { type: 'TransactionSucceeded', id: unheard }),
    ]);
    const rows = [
      line(failed, '-5', START + 2, 'reversal'),
      line(failed, '5.00', START + 1),
      line(twice, '5', START + 1),
      line(twice, '5', START + 2),
      line(twice, '5', START + 3, 'reversal'),
      line(unheard, '5', START + 1),
      line(unheard, '5', START + 2, 'reversal'),
      line(other, '5', START + 1),
      line(other, '4', START + 2, 'reversal'),
      line(once, '5', START + 1),
      line(once, '5', START + 2),
      line(once, '5', START + 3, 'reversal'),
    ];
    const lines = readStatement([HEADINGS, ...rows].join('\n'), DEFAULT_COLUMNS, 'Z');
    const { matched, findings } = compare(ledger.movements, lines, period);
    t.equal(matched, 2);
    t.strictSame(
      findings.map(({ kind, transactionId, statement }) => [kind, transactionId, statement]),
      [
        ['extra', unheard, '5 KES reversed'],
        ['extra', other, '5 KES'],
        ['extra', other, '4 KES reversed'],
        ['extra', once, '5 KES'],
      ],
    );
    t.end();
  },
);

t.test('what a finding says, also of a statement without times and currencies', async (t) => {
  const reversed = id('charge', 1);
  const period = { from: START, to: START + 1, slackMs: 0 };
  const ledger = floatOf('mtn_ke', period, [
    record(START - HOUR, created('ChargeCreated', reversed, 300)),
    record(START, { type: 'ChargeReversed', id: reversed }),
  ]);
  const lines = readStatement('reference,amount,type\nFEE,5,refund\n', DEFAULT_COLUMNS, 'Z');
  t.equal(periodOf(lines), null);
  const nothing = {
    transactionId: null,
    reference: null,
    line: null,
    ledger: null,
    statement: null,
    time: null,
  };
  const time = new Date(START).toISOString();
  t.strictSame(compare(ledger.movements, lines, period).findings, [
    { ...nothing, kind: 'extra', reference: 'FEE', line: 2, statement: '5 reversed' },
    { ...nothing, kind: 'missing', transactionId: reversed, ledger: '3.00 KES reversed', time },
  ]);
});

t.test('what differs just outside the period is not reported: another period has it', async (t) => {
  const charges = [1, 2, 3, 4, 5].map((number) => id('charge', number));
  const [before, after, early, late, within] = charges as [string, string, string, string, string];
  const period = { from: START, to: START + HOUR, slackMs: HOUR };
  const at = {
    [before]: START - 9,
    [after]: START + HOUR,
    [early]: START - 9,
    [late]: START + HOUR,
    [within]: START,
  };
  const ledger = floatOf('mtn_ke', period, [
    record(START - 9 * HOUR, ...charges.map((each) => created('ChargeCreated', each, 500))),
    ...charges.map((each) => record(at[each]!, { type: 'TransactionSucceeded', id: each })),
  ]);
  const rows = [
    line(before, '5.01', START - 1),
    line(after, '5.01', START + HOUR),
    line(early, '5.01', START),
    line(late, '5.01', START + HOUR - 1),
    line(within, '5.01', START - 1),
  ];
  const lines = readStatement([HEADINGS, ...rows].join('\n'), DEFAULT_COLUMNS, 'Z');
  const { matched, findings } = compare(ledger.movements, lines, period);
  t.equal(matched, 0);
  t.strictSame(
    findings.map(({ kind, transactionId }) => [kind, transactionId]),
    [
      ['different', early],
      ['different', late],
      ['different', within],
    ],
    'of the others line and movement are outside',
  );
});

t.test('a currency is read however it is written, and one that is left out is not compared', async (t) => {
  const period = { from: START, to: START + HOUR, slackMs: 0 };
  const charges = [1, 2, 3].map((n) => id('charge', n));
  const ledger = floatOf(
    'mtn_ke',
    period,
    charges.map((each) =>
      record(START, created('ChargeCreated', each, 100), { type: 'TransactionSucceeded', id: each }),
    ),
  );
  const rows = charges.map((each, n) => line(each, '1', START).replace(/KES$/, ['kes', '', 'UGX'][n]!));
  const lines = readStatement([HEADINGS, ...rows].join('\n'), DEFAULT_COLUMNS, 'Z');
  const { matched, findings } = compare(ledger.movements, lines, period);
  t.equal(matched, 2);
  t.hasStrict(findings, [{ kind: 'different', transactionId: charges[2], statement: '1 UGX' }]);
});

t.test('what is kept is bounded by the period, not by what is in the log', async (t) => {
  const period = { from: START, to: START + HOUR, slackMs: 0 };
  const ledger = new FloatMovements('mtn_ke', period, 3);
  t.notOk(ledger.needs(START - 2, START - 1), 'settled before the period');
  t.ok(ledger.needs(START - 2, START));
  t.notOk(ledger.needs(START + HOUR, START + HOUR), 'settled after it');
  const settles = (number: number, at: number): void => {
    const transactionId = id('charge', number);
    ledger.add(record(at - 1, created('ChargeCreated', transactionId, 100)));
    ledger.add(record(at, { type: 'TransactionSucceeded', id: transactionId }));
  };
  for (let number = 1; number <= 9; number++) settles(number, START - 1);
  for (let number = 1; number <= 3; number++) settles(number, START);
  t.throws(() => settles(4, START), /over 3 movements; give a shorter period/);
  ledger.readAgain();
  t.ok(ledger.needs(START - 2, START - 1), 'created before the period');
  t.notOk(ledger.needs(START + HOUR, START + HOUR));
});

t.test('the same line twice: the second is extra', async (t) => {
  const period = { from: START, to: START + HOUR, slackMs: 0 };
  const twice = id('charge', 1);
  const ledger = floatOf('mtn_ke', period, [
    record(START, created('ChargeCreated', twice, 100), { type: 'TransactionSucceeded', id: twice }),
  ]);
  const lines = readStatement(
    [HEADINGS, line(twice, '1', START), line(twice, '1', START)].join('\n'),
    DEFAULT_COLUMNS,
    'Z',
  );
  const { matched, findings } = compare(ledger.movements, lines, period);
  t.equal(matched, 1);
  t.hasStrict(findings, [{ kind: 'extra', line: 3 }]);
});

t.test('money that went the other way, in a row that no word marks, is extra with its sign', async (t) => {
  const period = { from: START, to: START + HOUR, slackMs: 0 };
  const takenBack = id('charge', 1);
  const ledger = floatOf('mtn_ke', period, [
    record(START, created('ChargeCreated', takenBack, 100), { type: 'TransactionSucceeded', id: takenBack }),
  ]);
  const lines = readStatement(
    [HEADINGS, line(takenBack, '+1', START), line(takenBack, '-1', START)].join('\n'),
    DEFAULT_COLUMNS,
    'Z',
  );
  const { matched, findings } = compare(ledger.movements, lines, period);
  t.equal(matched, 1);
  t.hasStrict(findings, [{ kind: 'extra', line: 3, statement: '-1 KES' }]);
});

t.test(
  'wherever a log was trimmed, and however far its views are, the movements are those of the whole log',
  async (t) => {
    const scenario = fundedMerchant();
    const create = (command: AccountCommand): string => scenario.later(MINUTE).create(command).id;
    const ends = (transactionId: string, result: Parameters<typeof outcome>[1]): void => {
      scenario.later(MINUTE).when(outcome(transactionId, result));
    };
    let keys = 0;
    const fresh = () => ({ idempotencyKey: `key-${String((keys += 1)).padStart(8, '0')}` });
    const collected = [0, 1, 2, 3].map(() => create(charge({}, fresh())));
    const sent = [0, 1, 2].map(() => create(payout({}, fresh())));
    create(charge({ msisdn: '+256752123456', network: 'AIRTEL' }, fresh()));
    for (const transactionId of [collected[0]!, collected[1]!, collected[2]!, sent[0]!]) {
      ends(transactionId, 'SUCCESSFUL');
    }
    ends(sent[1]!, 'FAILED');
    ends(create(withdrawal({}, fresh())), 'SUCCESSFUL');
    scenario.later(DAY).when(due('ReleaseCharge', collected[0]!));
    ends(collected[0]!, 'REVERSED');
    ends(collected[1]!, 'REVERSED');
    const records = scenario.lines.map((text) => decodeRecord(text));

    const movementsOf = (trimmed: number, reached: number, period: Period): string[] => {
      const state = new MemoryState();
      records.slice(0, reached).forEach((each, index) => evolve(state, each, index + 1));
      const ledger = floatOf('mtn_ug', period, records.slice(trimmed), [...state.transactions.values()]);
      return [...ledger.movements].map((movement) => JSON.stringify(movement)).toSorted();
    };
    const always = { from: 0, to: Infinity, slackMs: 0 };
    t.equal(
      movementsOf(0, 0, always).length,
      8,
      'a deposit, three charges, two reversals, a payout and a withdrawal',
    );
    const lastHours = { from: records.at(-1)!.at - HOUR, to: Infinity, slackMs: 0 };
    t.equal(movementsOf(0, 0, lastHours).length, 2, 'the reversals');
    const before = { ...always, to: lastHours.from };
    t.equal(movementsOf(0, 0, before).length, 6, 'all but those');
    for (const period of [always, lastHours, before]) {
      const whole = movementsOf(0, 0, period);
      for (let trimmed = 1; trimmed <= records.length; trimmed += 1) {
        for (let reached = trimmed; reached <= records.length; reached += 1) {
          const found = movementsOf(trimmed, reached, period);
          if (!isDeepStrictEqual(found, whole)) {
            t.strictSame(found, whole, `${trimmed} trimmed, views at ${reached}`);
          }
        }
      }
    }
  },
);

t.test(
  "a statement's times without a zone are in the one that is given, never in the machine's",
  async (t) => {
    const machine = process.env['TZ'];
    t.teardown(() => {
      if (machine === undefined) delete process.env['TZ'];
      else process.env['TZ'] = machine;
    });
    const CASES: readonly (readonly [text: string, zone: string, time: string])[] = [
      ['2026-07-31', 'Z', '2026-07-31T00:00:00.000Z'],
      ['2026-07-31', '+03:00', '2026-07-30T21:00:00.000Z'],
      ['2026-07-31 10:00', 'Z', '2026-07-31T10:00:00.000Z'],
      ['2026-07-31T10:00:05.25', '+03:00', '2026-07-31T07:00:05.250Z'],
      ['2026-07-31 10:00:05+0100', '+03:00', '2026-07-31T09:00:05.000Z'],
      ['2026-07-31t10:00z', '+03:00', '2026-07-31T10:00:00.000Z'],
      ['2026-07-31 10:00:05.123+01', '+03:00', '2026-07-31T09:00:05.123Z'],
      ['2026-07-31 10:00:05 UTC', '+03:00', '2026-07-31T10:00:05.000Z'],
      ['2026-07-31 10:00 gmt', '+03:00', '2026-07-31T10:00:00.000Z'],
      ['2026/07/31 10:00', '+03:00', '2026-07-31T07:00:00.000Z'],
      ['31 Jul 2026 10:00:05', 'Z', '2026-07-31T10:00:05.000Z'],
      ['31-Jul-2026', '+03:00', '2026-07-30T21:00:00.000Z'],
      ['July 31, 2026 10:00 PM', '-01:00', '2026-07-31T23:00:00.000Z'],
      ['31 Jul 2026 10:00 +0300', 'Z', '2026-07-31T07:00:00.000Z'],
      ['31 Jul 2026 10:00 GMT', '+03:00', '2026-07-31T10:00:00.000Z'],
    ];
    for (const zoneOfMachine of ['UTC', 'Africa/Nairobi', 'America/New_York']) {
      process.env['TZ'] = zoneOfMachine;
      for (const [text, zone, time] of CASES) {
        const [read] = readStatement(`reference;amount;time\nx;1;${text}`, DEFAULT_COLUMNS, zone);
        t.equal(new Date(read!.at!).toISOString(), time, `${text} ${zone} on a machine in ${zoneOfMachine}`);
      }
    }
    for (const text of ['01/07/2026', '1/7/26', '01.07.2026 10:00', '31-07-2026']) {
      t.throws(
        () => readStatement(`reference,amount,time\nx,1,${text}`, DEFAULT_COLUMNS, 'Z'),
        /line 2: ".*" may name the day or the month first; write it as 2026-07-31/,
      );
    }
  },
);

t.test('a statement of days alone is one of whole days', async (t) => {
  const [first, evening, part] = [id('charge', 1), id('charge', 2), id('charge', 3)];
  const settled = [
    { of: first, at: Date.parse('2026-07-30T21:00:00Z') },
    { of: evening, at: Date.parse('2026-08-01T20:59:59Z') },
    { of: part, at: Date.parse('2026-07-31T07:00:00Z') },
  ];
  const records = settled.map(({ of, at }) =>
    record(at, created('ChargeCreated', of, 100), { type: 'TransactionSucceeded', id: of }),
  );
  const text = [
    'reference,amount,currency,time',
    `${referenceOf({ id: first, accountId })},1.00,KES,2026-07-31`,
    `${referenceOf({ id: part, accountId })},1.00,KES,31 Jul 2026`,
    `${referenceOf({ id: evening, accountId })},1.00,KES,2026-08-01`,
  ].join('\n');
  const lines = readStatement(text, DEFAULT_COLUMNS, '+03:00');
  const own = periodOf(lines);
  t.strictSame(own, { from: Date.parse('2026-07-30T21:00Z'), to: Date.parse('2026-08-01T21:00Z') });
  const compareIn = (from: number, to: number) => {
    const period = { from, to, slackMs: 0 };
    return compare(floatOf('mtn_ke', period, records).movements, lines, period);
  };
  t.strictSame(compareIn(own!.from, own!.to), { matched: 3, findings: [] });
  const fromNoon = Date.parse('2026-07-31T09:00:00Z');
  t.strictSame(compareIn(fromNoon, own!.to), { matched: 1, findings: [] }, 'of half a day none is extra');
});

t.test('a statement that cannot be read says where', async (t) => {
  t.throws(() => readStatement('reference\nx', DEFAULT_COLUMNS, 'Z'), /line 2: no column "amount"/);
  t.throws(() => readStatement('amount\n5', DEFAULT_COLUMNS, 'Z'), /line 2: no column "reference"/);
  // What stands above the headings is taken for them.
  const titled = 'Merchant Statement\nNovember\nreference,amount\nx,5';
  t.throws(
    () => readStatement(titled, DEFAULT_COLUMNS, 'Z'),
    /no column "reference"; the first row has: merchant statement$/,
  );
  for (const field of ['currency', 'time', 'type'] as const) {
    const text = 'reference,amount,currency,time,type\nx,5,UGX,2026-07-31,collect';
    const columns = { ...DEFAULT_COLUMNS, [field]: 'Typo' };
    t.throws(() => readStatement(text, columns, 'Z'), /line 2: no column "Typo"/, `${field} is not compared`);
  }
  t.hasStrict(readStatement('reference,amount,time\nx,5,', DEFAULT_COLUMNS, 'Z'), [
    { at: null, reversal: false },
  ]);
  t.throws(
    () => readStatement('reference,amount,time\nx,1,yesterday', DEFAULT_COLUMNS, 'Z'),
    /line 2: "yesterday" is no time/,
  );
  for (const day of [
    '2026-02-31',
    '2026/02/29 10:00',
    '31 Apr 2026',
    '31-Jun-2026 10:00',
    'February 29, 2026',
  ]) {
    t.throws(
      () => readStatement(`reference;amount;time\nx;1;${day}`, DEFAULT_COLUMNS, '+03:00'),
      new RegExp(`line 2: "${day}" is no time`),
      'no such day',
    );
  }
  const inTwoWays = ['10,50', '0,500', '1,0000', '1.000,50', '1000,500', '-10,5'];
  // Each would be a difference, and there would be as many as lines.
  const unreadable = [
    'UGX 5000',
    '5000 UGX',
    'USh5,000',
    '5 000',
    "5'000",
    '(5000)',
    '5000-',
    '5000.',
    '5e3',
  ];
  for (const amount of [...inTwoWays, ...unreadable]) {
    t.throws(
      () => readStatement(`reference;amount\nx;${amount}`, DEFAULT_COLUMNS, 'Z'),
      { message: `line 2: "${amount}" is no amount; write it as 10.50 or 1,000.50` },
      amount,
    );
  }
  const amounts = ['1,000.50', '-12,345,678', '+1,000', '5000.00', ''].map((amount) => `x;${amount}`);
  t.strictSame(
    readStatement(['reference;amount', ...amounts].join('\n'), DEFAULT_COLUMNS, 'Z').map(
      ({ amountText }) => amountText,
    ),
    ['1000.50', '-12345678', '+1000', '5000.00', ''],
  );
});

t.test('a dash where a statement has no amount is as good as nothing', async (t) => {
  for (const dash of ['', '-', '–', '—', '−']) {
    const text = `reference,debit,credit\nx,${dash},5.00`;
    const [line] = readStatement(text, { ...DEFAULT_COLUMNS, amount: 'debit' }, 'Z');
    t.equal(line?.amountText, '', `"${dash}"`);
  }
  for (const dashes of ['--', '- -', '-+']) {
    t.throws(() => readStatement(`reference,amount\nx,${dashes}`, DEFAULT_COLUMNS, 'Z'), /is no amount/);
  }
});

t.test('of two columns of amounts a line has one', async (t) => {
  const [both, none] = ['5.00,7.00', ',-'].map((amounts) => () => {
    const text = `reference,debit,credit\nx,${amounts}`;
    return readStatement(text, { ...DEFAULT_COLUMNS, amount: 'debit', otherAmount: 'credit' }, 'Z');
  });
  t.throws(both!, { message: 'line 2: an amount in "debit", and one in "credit"' });
  t.hasStrict(none!(), [{ amountText: '' }]);
});
