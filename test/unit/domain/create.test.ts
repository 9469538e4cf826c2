// Creating charges, deposits, payouts and withdrawals: every check in its place, and what is recorded when all pass.

import { strict as assert } from 'node:assert';
import t from 'tap';
import type { AccountSettings } from '../../../src/domain/account.ts';
import type { AccountEvent } from '../../../src/domain/account-event.ts';
import type { CreateCommand } from '../../../src/domain/account-command.ts';
import { type ErrorCode, rejection } from '../../../src/domain/error-code.ts';
import { money } from '../../../src/domain/money.ts';
import { renderAnswer } from '../../../src/domain/render/render.ts';
import { errorCodesOf } from '../../../src/http/openapi.ts';
import { merchantSurface } from '../../../src/http/routes.ts';
import {
  APP,
  appConnected,
  charge,
  DAY,
  deposit,
  fundedMerchant,
  KEY_HASH,
  merchant,
  MINUTE,
  outcome,
  payout,
  recorded,
  Scenario,
  SETTINGS,
  START,
  submission,
  thenRecorded,
  thenRefused,
  thenTold,
  WALLET,
  walletAdded,
  withdrawal,
} from './scenario.ts';

interface Wrong {
  settings: Partial<AccountSettings>;
  command: CreateCommand;
  cashOutsInWindow: number;
  /** Another request under the same key was answered before. */
  keyIsTaken: boolean;
}

type Mend = (wrong: Wrong) => void;
type Row = readonly [code: ErrorCode, param: string | null, mend: Mend];

const set =
  (over: object): Mend =>
  (wrong) => {
    wrong.command = { ...wrong.command, ...over } as CreateCommand;
  };
const input =
  (over: object): Mend =>
  (wrong) => {
    wrong.command = { ...wrong.command, input: { ...wrong.command.input, ...over } } as CreateCommand;
  };
const allow =
  (over: Partial<AccountSettings>): Mend =>
  (wrong) => {
    wrong.settings = { ...wrong.settings, ...over };
  };
const problem = (code: ErrorCode, param: string | null): Mend =>
  set({ problem: rejection(code, null, param) });

/** 1,000 was already deposited: `meeting`. */
const lowLimits = (daily: number, monthly: number): Partial<AccountSettings> => {
  const row = { maximum: money(100_000), daily: money(daily), monthly: money(monthly) };
  const deposits = { ...row, daily: money(daily + 1_000), monthly: money(monthly + 1_000) };
  return {
    limits: { 'CHARGE:UGX': row, 'DEPOSIT:UGX': deposits, 'PAYOUT:UGX': row, 'WITHDRAWAL:UGX': row },
  };
};

// Each row: a request with everything from here down wrong is refused with this code; then this is mended.
const beforeFieldRules: readonly Row[] = [
  ['service_unavailable', null, set({ deadline: START })],
  ['authentication_required', null, problem('secret_key_required', null)],
  // Any key of an account that is not live says so, the publishable one too.
  ['live_mode_not_enabled', null, allow({ live: true })],
  [
    'secret_key_required',
    null,
    (wrong) => {
      set({ keyHash: 'x'.repeat(43), problem: null })(wrong);
      allow({ live: false })(wrong);
    },
  ],
  ['invalid_api_key', null, set({ keyHash: KEY_HASH })],
  ['live_mode_not_enabled', null, allow({ live: true })],
  ['idempotency_key_required', null, problem('idempotency_key_invalid', null)],
  ['idempotency_key_invalid', null, set({ problem: null, idempotencyKey: 'key-of-another' })],
  [
    'idempotency_key_reused',
    null,
    (wrong) => {
      wrong.keyIsTaken = false;
      problem('validation_failed', 'reference')(wrong);
    },
  ],
];
const rate: readonly Row[] = [
  [
    'rate_limit_exceeded',
    null,
    (wrong) => {
      wrong.cashOutsInWindow = 59;
    },
  ],
];
const fieldRules: readonly Row[] = [
  ['validation_failed', 'reference', set({ problem: null })],
  ['validation_failed', 'amount', input({ amount: '200000' })],
];
const numberRules: readonly Row[] = [
  ['invalid_msisdn', 'msisdn', input({ msisdn: '+256799123456' })],
  ['currency_mismatch', 'currency', input({ currency: 'UGX' })],
  [
    'network_required',
    'network',
    input({ msisdn: '0732123456', country: 'KE', network: 'MTN', currency: 'KES' }),
  ],
  [
    'network_not_supported',
    'network',
    input({ msisdn: '0772123456', country: 'UG', network: 'MTN', currency: 'UGX' }),
  ],
];
const destinationRules: readonly Row[] = [
  ['destination_not_found', 'destination', input({ destination: WALLET })],
  ['destination_not_active', 'destination', input({ destination: 'active' })],
  ['currency_mismatch', 'currency', input({ currency: 'UGX' })],
];
const limits: readonly Row[] = [
  ['amount_above_maximum', 'amount', input({ amount: '0' })],
  ['amount_below_minimum', 'amount', input({ amount: '499' })],
  ['amount_below_minimum', 'amount', input({ amount: '90000' })],
  ['daily_limit_exceeded', 'amount', allow(lowLimits(90_000, 89_999))],
  ['monthly_limit_exceeded', 'amount', allow(lowLimits(90_000, 90_000))],
];

const ALL_WRONG = {
  deadline: START - 1,
  keyHash: null,
  problem: null,
  idempotencyKey: null,
};
const WRONG_INPUT = { amount: '05.0', currency: 'GHS', msisdn: '12345' } as const;

const PRECEDENCE: readonly [name: string, command: CreateCommand, rows: readonly Row[]][] = [
  [
    'CreateCharge',
    charge(WRONG_INPUT, ALL_WRONG),
    [...beforeFieldRules, ...fieldRules, ...numberRules, ...limits],
  ],
  [
    'CreateDeposit',
    deposit(WRONG_INPUT, ALL_WRONG),
    [...beforeFieldRules, ...fieldRules, ...numberRules, ...limits],
  ],
  [
    'CreatePayout',
    payout(WRONG_INPUT, ALL_WRONG),
    [
      ...beforeFieldRules,
      ...rate,
      ['payouts_not_enabled_live', null, allow({ payoutsEnabled: true })],
      ...fieldRules,
      ...numberRules,
      ...limits,
      ['insufficient_balance', null, input({ amount: '500' })],
    ],
  ],
  [
    'CreateWithdrawal',
    withdrawal({ amount: '05.0', currency: 'GHS', destination: 'wal_none' }, ALL_WRONG),
    [
      ...beforeFieldRules,
      ...rate,
      ['withdrawals_not_enabled_live', null, allow({ withdrawalsEnabled: true })],
      ...fieldRules,
      ...destinationRules,
      ...limits,
      ['insufficient_balance', null, input({ amount: '500' })],
    ],
  ],
];

const ACTIVE_WALLET = `wal_${WALLET.slice(4, -3)}900`;

/** The state that a wrong request meets: 1,000 available, two wallets of which one is active, a key in use. */
function meeting({ settings, command, cashOutsInWindow, keyIsTaken }: Wrong): Scenario {
  const scenario = new Scenario().given(
    { type: 'AccountOpened', name: 'Shop', country: 'UG', settings: { ...SETTINGS, live: true } },
    appConnected,
  );
  for (const id of [WALLET, ACTIVE_WALLET]) {
    scenario.given({
      type: 'WalletAdded',
      id,
      label: id,
      country: 'UG',
      network: 'MTN',
      msisdn: '256772000111',
      by: 'usr_1',
    });
  }
  scenario.given(
    { type: 'WalletApproved', id: ACTIVE_WALLET, activeAt: START, by: 'usr_1' },
    { type: 'WalletActivated', id: ACTIVE_WALLET },
  );
  const funding = scenario.create(deposit({ amount: '1000' }, { idempotencyKey: 'key-of-funding' }));
  scenario.when(outcome(funding.id, 'SUCCESSFUL'));
  scenario.when(outcome(funding.id, 'SUCCESSFUL'));
  if (keyIsTaken && command.idempotencyKey !== null) {
    scenario.create(charge({}, { idempotencyKey: command.idempotencyKey, requestHash: 'o'.repeat(22) }));
  }
  const off = { live: false, payoutsEnabled: false, withdrawalsEnabled: false };
  scenario.given({
    type: 'AccountSettingsChanged',
    settings: { ...SETTINGS, ...off, ...lowLimits(89_999, 89_999), ...settings },
    by: 'operator',
  });
  scenario.cashOutsInWindow = cashOutsInWindow;
  scenario.cashOutWindowFreesAt = START + 1_001;
  return scenario;
}

for (const [name, command, rows] of PRECEDENCE) {
  t.test(`${name}: refusals by descending precedence`, async (t) => {
    const wrong: Wrong = { settings: {}, command, cashOutsInWindow: 60, keyIsTaken: true };
    for (const [code, param, mend] of rows) {
      thenRefused(meeting(wrong).decide(aimed(wrong.command)), code, param);
      t.pass(param === null ? code : `${code} (${param})`);
      mend(wrong);
    }
    const decision = meeting(wrong).decide(aimed(wrong.command));
    thenRecorded(decision, (name.replace('Create', '') + 'Created') as AccountEvent['type']);
  });
}

t.test(
  'the document has these codes for each create, and no others than those of the front alone',
  async (t) => {
    const ofFront = ['invalid_json', 'body_too_large', 'unsupported_media_type'];
    for (const route of merchantSurface([]).routes) {
      if (route.type !== 'create') continue;
      const [, , rows] = PRECEDENCE.find(([name]) => name === route.creates)!;
      const codes = new Set<string>([...rows.map(([code]) => code), ...ofFront]);
      if (route.creates === 'CreateWithdrawal') codes.add('network_not_supported'); // a test of its own
      t.strictSame(new Set(errorCodesOf(route)), codes, route.creates);
    }
  },
);

function aimed(command: CreateCommand): CreateCommand {
  if (command.type !== 'CreateWithdrawal' || command.input?.destination !== 'active') return command;
  return { ...command, input: { ...command.input, destination: ACTIVE_WALLET } };
}

t.test('a refusal by rate says when to come back, and does not count against the rate', async (t) => {
  const scenario = fundedMerchant();
  scenario.cashOutsInWindow = 60;
  scenario.cashOutWindowFreesAt = START + 1_001;
  const decision = scenario.decide(payout());
  thenRefused(decision, 'rate_limit_exceeded');
  assert(decision.outcome.type === 'rejected');
  t.equal(decision.outcome.rejection.retryAfterSeconds, 2);
  t.equal(decision.countsAsCashOut, false);
  scenario.cashOutsInWindow = 59;
  t.equal(scenario.decide(payout()).countsAsCashOut, true);
  t.equal(scenario.decide(withdrawal()).countsAsCashOut, true);
  t.equal(scenario.decide(payout({ amount: 'x' })).countsAsCashOut, true, 'refused later: it counts');
  t.equal(scenario.decide(withdrawal({ amount: 'x' })).countsAsCashOut, true);
  t.equal(scenario.decide(charge()).countsAsCashOut, false);
});

t.test('Retry-After is whole seconds, never too few and at least one', async (t) => {
  const scenario = fundedMerchant({ cashOutPerMinute: 0 });
  const rows: [waitMs: number, seconds: number][] = [
    [0, 1],
    [1, 1],
    [1_000, 1],
    [1_001, 2],
    [60_000, 60],
  ];
  for (const [waitMs, seconds] of rows) {
    scenario.cashOutWindowFreesAt = START + waitMs;
    const { outcome: refused } = scenario.decide(payout());
    t.hasStrict(
      refused,
      { rejection: { code: 'rate_limit_exceeded', retryAfterSeconds: seconds } },
      `${waitMs}`,
    );
  }
});

t.test('an account may have its own rate', async () => {
  const scenario = fundedMerchant({ cashOutPerMinute: 100 });
  scenario.cashOutsInWindow = 99;
  thenRecorded(scenario.decide(payout()), 'PayoutCreated');
  scenario.cashOutsInWindow = 100;
  thenRefused(scenario.decide(payout()), 'rate_limit_exceeded');
});

t.test('the key of a removed app is unknown', async () => {
  const scenario = fundedMerchant();
  thenRecorded(scenario.decide(charge()), 'ChargeCreated');
  scenario.given({ type: 'AppRemoved', id: APP, by: 'operator' });
  thenRefused(scenario.decide(charge()), 'invalid_api_key');
});

t.test('a key on an account that does not exist is unknown', async () => {
  thenRefused(new Scenario().decide(charge()), 'invalid_api_key');
});

t.test('idempotency', async (t) => {
  const commands = [charge(), deposit(), payout(), withdrawal()];
  for (const command of commands) {
    t.test(`${command.type}: the same request again is a replay`, async (t) => {
      const scenario = fundedMerchant();
      const { id } = scenario.create(command);
      scenario.cashOutsInWindow = 60;
      const again = scenario.decide(command);
      t.strictSame(again, {
        record: null,
        outcome: { type: 'answer', transactionId: id, replayed: true },
        countsAsCashOut: false,
      });
      thenRefused(scenario.decide({ ...command, requestHash: 'z'.repeat(22) }), 'idempotency_key_reused');
      for (const other of commands) {
        if (other.type === command.type) continue;
        thenRefused(scenario.decide(other), 'idempotency_key_reused');
      }
    });
  }
  t.test('a refusal is not stored', async () => {
    const scenario = fundedMerchant();
    thenRefused(scenario.when(charge({ amount: '1' })), 'amount_below_minimum');
    thenRecorded(scenario.when(charge()), 'ChargeCreated');
  });
});

t.test('how a number is read', async (t) => {
  const rows: [msisdn: string, over: object, country: string, network: string, msisdnRead: string][] = [
    ['+256772123456', {}, 'UG', 'MTN', '256772123456'],
    ['0702123456', {}, 'UG', 'AIRTEL', '256702123456'],
    ['702123456', { country: 'UG' }, 'UG', 'AIRTEL', '256702123456'],
    ['0732123456', { country: 'KE', currency: 'KES' }, 'KE', 'AIRTEL', '254732123456'],
    ['+254 732-123-456', { country: 'UG', currency: 'KES' }, 'KE', 'AIRTEL', '254732123456'],
    ['00233241234567', { currency: 'GHS' }, 'GH', 'MTN', '233241234567'],
    ['0772123456', { network: 'AIRTEL' }, 'UG', 'AIRTEL', '256772123456'],
    ['0712123456', { network: 'MTN' }, 'UG', 'MTN', '256712123456'],
  ];
  for (const [msisdn, over, country, network, read] of rows) {
    const event = recorded(fundedMerchant().decide(charge({ msisdn, ...over })));
    t.hasStrict(event, { country, network, msisdn: read }, `${msisdn} ${JSON.stringify(over)}`);
  }
});

t.test('a charge', async (t) => {
  const scenario = fundedMerchant();
  const command = charge({ description: 'Two books', metadata: { basket: 7, gift: null } });
  const decision = scenario.when(command);
  thenRecorded(decision, 'ChargeCreated');
  assert(decision.outcome.type === 'answer');
  const transaction = scenario.transaction(decision.outcome.transactionId);
  t.hasStrict(transaction, {
    type: 'CHARGE',
    appId: APP,
    requestedBy: null,
    amount: 50_000,
    fee: 1_250,
    provider: 'mtn_ug',
    description: 'Two books',
    metadata: { basket: 7, gift: null },
    expiresAt: START + 30 * MINUTE,
    status: 'PENDING_PROVIDER',
    approvalStatus: 'NOT_REQUIRED',
    answeredAt: null,
    submitted: false,
  });
  t.strictSame(
    transaction.events.map(({ status, source, at }) => [status, source, at]),
    [
      ['INITIATED', 'API', START],
      ['PENDING_PROVIDER', 'API', START],
    ],
  );
  t.strictSame(transaction.journals, []);
});

t.test('a charge never costs more than its amount', async (t) => {
  const fees = { 'CHARGE:UGX': { fixed: money(900), basisPoints: 0, floor: null, cap: null } };
  const scenario = fundedMerchant({ fees });
  const { id } = scenario.create(charge({ amount: '500' }));
  t.equal(scenario.transaction(id).fee, 500);
  scenario.when(outcome(id, 'SUCCESSFUL'));
  t.equal(scenario.balances().MERCHANT_PENDING, 0);
});

t.test('a payout holds amount and fee at once', async (t) => {
  const scenario = fundedMerchant();
  const { id, answeredAt } = scenario.create(payout({ amount: '1000000', narration: 'March' }));
  t.equal(answeredAt, 1, 'answered as created');
  const { journals, narration, fee, status } = scenario.transaction(id);
  t.equal(status, 'PENDING_PROVIDER');
  t.equal(narration, 'March');
  t.equal(fee, 10_000);
  t.hasStrict(journals, [
    {
      reason: 'PAYOUT_HELD',
      entries: [
        { account: 'MERCHANT_AVAILABLE', side: 'DEBIT', amount: 1_010_000 },
        { account: 'SETTLEMENT_CLEARING', side: 'CREDIT', amount: 1_010_000 },
      ],
    },
  ]);
  t.equal(scenario.balances().MERCHANT_AVAILABLE, 18_990_000);
  t.equal(scenario.balances().SETTLEMENT_CLEARING, 1_010_000);
});

t.test('two payouts never spend the same money', async (t) => {
  const scenario = fundedMerchant({ limits: {} });
  scenario.create(payout({ amount: '10000000' }));
  const rest = { idempotencyKey: 'key-00000002' };
  thenRefused(scenario.decide(payout({ amount: '9980001' }, rest)), 'insufficient_balance');
  thenRecorded(scenario.when(payout({ amount: '9980000' }, rest)), 'PayoutCreated');
  t.equal(scenario.balances().MERCHANT_AVAILABLE, 0);
});

t.test('of a currency that was never transacted in there is nothing to spend', async () => {
  const fees = { 'PAYOUT:GHS': { fixed: money(0), basisPoints: 0, floor: null, cap: null } };
  const scenario = merchant({ fees });
  scenario.policy = { ...scenario.policy, minimums: { ...scenario.policy.minimums, GHS: money(1) } };
  const least = payout({ amount: '1', currency: 'GHS', msisdn: '+233241234567' });
  thenRefused(scenario.decide(least), 'insufficient_balance');
});

t.test('a withdrawal to a wallet whose network is not served holds nothing', async () => {
  const scenario = fundedMerchant();
  scenario.policy = { ...scenario.policy, routes: { 'UG:AIRTEL': 'airtel_ug' } };
  thenRefused(scenario.decide(withdrawal()), 'network_not_supported', 'destination');
});

t.test('what a rail has no credentials for is not created, and what it has them for is', async () => {
  const ways = [
    ['collect', [charge(), deposit()], [payout(), withdrawal()], 'payout'],
    ['send', [payout(), withdrawal()], [charge(), deposit()], 'charge'],
  ] as const;
  for (const [way, carried, refused, named] of ways) {
    for (const command of [...carried, ...refused]) {
      const scenario = fundedMerchant();
      scenario.policy = { ...scenario.policy, oneWay: { 'UG:MTN': way, 'UG:AIRTEL': way } };
      const param = command.type === 'CreateWithdrawal' ? 'destination' : 'network';
      const decision = scenario.decide(command);
      if ((carried as readonly CreateCommand[]).includes(command)) t.not(decision.record, null, command.type);
      else thenRefused(decision, 'network_not_supported', param);
    }
    const scenario = fundedMerchant();
    scenario.policy = { ...scenario.policy, oneWay: { 'UG:MTN': way } };
    thenTold(scenario.decide(refused[0]), `MTN in UG is not served for a ${named}.`);
    const elsewhere = charge({ amount: '5000', currency: 'KES', msisdn: '+254732000111' });
    t.not(scenario.decide(elsewhere).record, null, 'another rail goes on as before');
  }
});

t.test('an amount with more decimals than its rail takes is not created, whatever moves it', async () => {
  const kenyan = { currency: 'KES', msisdn: '+254732000111' } as const;
  for (const [decimals, least, refused] of [
    [0, '1100', '1110'],
    [1, '1110', '1101'],
    [2, '1101', null],
  ] as const) {
    for (const make of [charge, deposit, payout]) {
      const scenario = fundedMerchant();
      const { policy } = scenario;
      scenario.policy = { ...policy, amountDecimals: { 'KE:AIRTEL': decimals, 'UG:MTN': 0 } };
      t.not(scenario.decide(make({ ...kenyan, amount: least })).record, null, least);
      if (refused === null) continue;
      thenRefused(scenario.decide(make({ ...kenyan, amount: refused })), 'validation_failed', 'amount');
    }
  }
  const scenario = fundedMerchant();
  scenario.policy = { ...scenario.policy, amountDecimals: { 'UG:MTN': 0 } };
  t.not(scenario.decide(withdrawal({ amount: '5001' })).record, null, 'shillings of Uganda have none');
});

t.test('a refusal says what would have been right', async () => {
  const kenyan = { currency: 'KES', msisdn: '+254732000111' } as const;
  const rows: [CreateCommand, string][] = [
    [charge({ amount: '5,000' }), 'amount is a whole number of minor units, as a string of digits.'],
    [charge({ amount: '499' }), 'The minimum is 500 UGX in minor units.'],
    [payout({ ...kenyan, amount: '999' }), 'The minimum is 1000 KES in minor units.'],
    [payout({ amount: '10000001' }), 'The maximum is 10000000 UGX in minor units.'],
    [charge({ currency: 'KES' }), 'The wallet is in UG, whose currency is UGX.'],
    [withdrawal({ currency: 'GHS' }), 'The wallet is in UG, whose currency is UGX.'],
    [deposit({ ...kenyan, network: 'MTN' }), 'MTN in KE is not served.'],
  ];
  for (const [command, message] of rows) thenTold(fundedMerchant().decide(command), message);
  const fresh = merchant().given(walletAdded);
  thenTold(fresh.decide(withdrawal()), 'The payout wallet is PENDING_APPROVAL.');
  const hasty = fundedMerchant({ cashOutPerMinute: 2 });
  hasty.cashOutsInWindow = 2;
  thenTold(hasty.decide(payout()), 'At most 2 payouts and withdrawals a minute.');
});

// Nothing else tells a merchant its limits, nor what a payout will cost: who asks for more than a whole day's would wait for the next one.
t.test('a refusal by a limit or by the balance says what is left', async () => {
  const limited = merchant(lowLimits(20_000, 25_000));
  limited.create(charge({ amount: '12000' }));
  const again = { idempotencyKey: 'key-00000002' };
  for (const amount of ['8001', '20001']) {
    thenTold(
      limited.decide(charge({ amount }, again)),
      'At most 20000 UGX in minor units a UTC day; 8000 are left.',
    );
  }
  const month = 'At most 25000 UGX in minor units a UTC month; 13000 are left.';
  thenTold(limited.later(DAY).decide(charge({ amount: '13001' }, again)), month);
  limited.given({
    type: 'AccountSettingsChanged',
    settings: { ...SETTINGS, ...lowLimits(9_000, 9_000) },
    by: 'amina',
  });
  const lowered = 'At most 9000 UGX in minor units a UTC month; 0 are left.';
  thenTold(limited.decide(charge({ amount: '1000' }, again)), lowered);

  const short = 'Amount and fee are 20010000 UGX in minor units; 20000000 are available.';
  const funded = fundedMerchant();
  thenTold(funded.decide(withdrawal({ amount: '20000000' })), short);
  thenTold(merchant().decide(payout()), 'Amount and fee are 50500 UGX in minor units; 0 are available.');
});

t.test('a withdrawal keeps what it was sent with', async (t) => {
  const over = { narration: 'Sweep', metadata: { till: 4 }, reference: 'sweep-1' };
  t.hasStrict(fundedMerchant().create(withdrawal(over)), { ...over, description: null, requestedBy: null });
});

t.test('a withdrawal needs approval strictly above the threshold', async (t) => {
  const rows: [amount: string, thresholds: object, status: string, approval: string][] = [
    ['5000000', {}, 'PENDING_PROVIDER', 'NOT_REQUIRED'],
    ['5000001', {}, 'INITIATED', 'PENDING'],
    ['10000', { UGX: 9_999 }, 'INITIATED', 'PENDING'],
    ['10000', { UGX: 10_000 }, 'PENDING_PROVIDER', 'NOT_REQUIRED'],
  ];
  for (const [amount, approvalThresholds, status, approvalStatus] of rows) {
    const scenario = fundedMerchant({ approvalThresholds });
    const { id } = scenario.create(withdrawal({ amount }));
    const transaction = scenario.transaction(id);
    t.hasStrict(transaction, { status, approvalStatus, destination: WALLET }, `${amount}: ${approvalStatus}`);
    t.hasStrict(JSON.parse(renderAnswer(transaction)), { status, approval_status: approvalStatus });
    t.equal(scenario.balances().SETTLEMENT_CLEARING, transaction.amount + transaction.fee, 'held at once');
  }
});

t.test('the create answer of a charge is fixed by what comes first', async (t) => {
  const rows: [name: string, first: (id: string) => Parameters<Scenario['when']>[0], status: string][] = [
    ['the rail accepts', (id) => submission(id), 'AWAITING_CUSTOMER'],
    ['settled at once', (id) => outcome(id, 'SUCCESSFUL'), 'SUCCESSFUL'],
    ['refused outright', (id) => outcome(id, 'FAILED', { failureCode: 'provider_rejected' }), 'FAILED'],
    [
      'no answer in time',
      (transactionId) => ({ ...outcome(transactionId, 'FAILED'), type: 'FixAnswer' }) as never,
      'PENDING_PROVIDER',
    ],
  ];
  for (const [name, first, status] of rows) {
    const scenario = fundedMerchant();
    const { id } = scenario.create(charge());
    scenario.later(1_000).when(first(id));
    const transaction = scenario.transaction(id);
    const answer = renderAnswer(transaction);
    t.hasStrict(JSON.parse(answer), { status, fee: status === 'SUCCESSFUL' ? '1250' : '0' }, name);
    scenario.later(1_000).when(submission(id));
    scenario.later(1_000).when(outcome(id, 'SUCCESSFUL'));
    scenario.later(1_000).when(outcome(id, 'REVERSED'));
    t.equal(renderAnswer(transaction), answer, `${name}: byte for byte for ever`);
  }
});
