// The policy file and an account's own terms: what is taken, and that every mistake is named with its path.

import { strict as assert } from 'node:assert';
import t from 'tap';
import { DEFAULT_POLICY } from '../../../src/domain/default-policy.ts';
import { parseAccountTerms, parsePolicy, parsePolicyFile } from '../../../src/domain/policy-file.ts';

t.test('an empty file is the default policy', async (t) => {
  t.strictSame(parsePolicy({}, DEFAULT_POLICY), { type: 'valid', value: DEFAULT_POLICY });
  t.strictSame(parsePolicyFile('{}', DEFAULT_POLICY), DEFAULT_POLICY);
});

t.test('what is given replaces its row, and only that', async (t) => {
  const policy = parsePolicyFile(
    JSON.stringify({
      minimums: { UGX: '700' },
      approval_thresholds: { KES: 0 },
      fees: {
        CHARGE: { UGX: { fixed: '5', basis_points: 10, floor: null, cap: '90' } },
        PAYOUT: { KES: {} },
      },
      limits: {
        DEPOSIT: { GHS: { maximum: '100', daily: 200, monthly: null } },
        CHARGE: { UGX: {}, KES: { maximum: '100', daily: '200', monthly: '300' } },
      },
    }),
    DEFAULT_POLICY,
  );
  t.strictSame(policy.minimums, { ...DEFAULT_POLICY.minimums, UGX: 700 });
  t.strictSame(policy.approvalThresholds, { ...DEFAULT_POLICY.approvalThresholds, KES: 0 });
  t.strictSame(policy.fees.CHARGE, {
    ...DEFAULT_POLICY.fees.CHARGE,
    UGX: { fixed: 5, basisPoints: 10, floor: null, cap: 90 },
  });
  t.strictSame(policy.fees.PAYOUT.KES, { fixed: 0, basisPoints: 0, floor: null, cap: null });
  t.strictSame(policy.fees.PAYOUT.UGX, DEFAULT_POLICY.fees.PAYOUT.UGX);
  t.strictSame(policy.fees.WITHDRAWAL, {}, 'what payouts cost: it has no row of its own');
  const off = Number.MAX_SAFE_INTEGER;
  t.strictSame(policy.limits.DEPOSIT.GHS, { maximum: 100, daily: 200, monthly: off });
  t.strictSame(policy.limits.CHARGE.UGX, { maximum: off, daily: off, monthly: off });
  t.strictSame(policy.limits.CHARGE.KES, { maximum: 100, daily: 200, monthly: 300 });
  t.strictSame(policy.limits.PAYOUT, DEFAULT_POLICY.limits.PAYOUT);
  t.equal(policy.chargeExpiryMs, DEFAULT_POLICY.chargeExpiryMs);
});

t.test('mistakes are all reported, each with its path', async (t) => {
  const rows: [json: unknown, paths: string[]][] = [
    [null, ['']],
    [[], ['']],
    ['{}', ['']],
    [{ fee: {} }, ['fee']],
    [{ minimums: { UGX: '0', KES: null, USD: '1' } }, ['minimums.USD', 'minimums.UGX', 'minimums.KES']],
    [{ minimums: 5 }, ['minimums']],
    [{ minimums: { UGX: ['500'] } }, ['minimums.UGX']],
    [{ approval_thresholds: { GHS: null } }, ['approval_thresholds.GHS']],
    [
      { approval_thresholds: { GHS: '-1', USD: '1' } },
      ['approval_thresholds.USD', 'approval_thresholds.GHS'],
    ],
    [{ limits: { DEPOSIT: { KES: null } } }, ['limits.DEPOSIT.KES']],
    [{ fees: { DEPOSIT: {} } }, ['fees.DEPOSIT']],
    [{ fees: { CHARGE: { UGX: null } } }, ['fees.CHARGE.UGX']],
    [{ fees: { CHARGE: { UGX: { fixed: '1.5' } } } }, ['fees.CHARGE.UGX.fixed']],
    [{ fees: { CHARGE: { UGX: { fixed: -1 } } } }, ['fees.CHARGE.UGX.fixed']],
    [{ fees: { CHARGE: { UGX: { fixed: true } } } }, ['fees.CHARGE.UGX.fixed']],
    [{ fees: { PAYOUT: { UGX: { fixed: '1000000000001' } } } }, ['fees.PAYOUT.UGX.fixed']],
    [{ fees: { PAYOUT: { UGX: { cap: '9007199254740991' } } } }, ['fees.PAYOUT.UGX.cap']],
    [{ fees: { CHARGE: { UGX: { basis_points: 10_001 } } } }, ['fees.CHARGE.UGX.basis_points']],
    [{ fees: { CHARGE: { UGX: { basis_points: '250' } } } }, ['fees.CHARGE.UGX.basis_points']],
    [{ fees: { CHARGE: { UGX: { basis_points: 1.5 } } } }, ['fees.CHARGE.UGX.basis_points']],
    [{ fees: { CHARGE: { UGX: { basis_points: -1 } } } }, ['fees.CHARGE.UGX.basis_points']],
    [{ fees: { CHARGE: { UGX: { floor: '10', cap: '9' } } } }, ['fees.CHARGE.UGX.floor']],
    [{ fees: { CHARGE: { UGX: { basisPoints: 1 } } } }, ['fees.CHARGE.UGX.basisPoints']],
    [
      { limits: { CHARGE: { UGX: { daily: 'x' }, KES: [] } } },
      ['limits.CHARGE.UGX.daily', 'limits.CHARGE.KES'],
    ],
  ];
  for (const [json, paths] of rows) {
    const parsed = parsePolicy(json, DEFAULT_POLICY);
    const found = parsed.type === 'invalid' ? parsed.problems.map(({ path }) => path) : [];
    t.strictSame(found, paths, JSON.stringify(json));
  }
  const told: [text: string, message: string][] = [
    ['[]', 'the policy is an object with the fields minimums, fees, limits, approval_thresholds'],
    [
      '{"fee":1,"limits":[]}',
      'fee is not known; fields here are minimums, fees, limits, approval_thresholds; ' +
        'limits is an object with the fields CHARGE, PAYOUT, DEPOSIT, WITHDRAWAL',
    ],
    ['{"minimums":{"UGX":null}}', 'minimums.UGX has a value; leave it out for the default'],
    [
      '{"fees":{"CHARGE":{"UGX":{"floor":"10","cap":"9","basis_points":2.5}}}}',
      'fees.CHARGE.UGX.floor is not above the cap; ' +
        'fees.CHARGE.UGX.basis_points is a whole number from 0 to 10000',
    ],
  ];
  for (const [text, message] of told) {
    t.throws(() => parsePolicyFile(text, DEFAULT_POLICY), { message }, text);
  }
  t.throws(() => parsePolicyFile('{', DEFAULT_POLICY), SyntaxError);
});

t.test('of two fields of one name neither is lost without a word', async (t) => {
  const files: [text: string, path: string][] = [
    ['{"minimums":{"UGX":"600"},"fees":{},"minimums":{"KES":"2000"}}', 'minimums'],
    ['{"fees":{"CHARGE":{"UGX":{"fixed":1}},"CHARGE":{"KES":{"fixed":2}}}}', 'fees.CHARGE'],
    ['{"limits":{"PAYOUT":{"UGX":{"daily":1}, "U\\u0047X" :{"monthly":2}}}}', 'limits.PAYOUT.UGX'],
    ['{"fees":{"PAYOUT":{"GHS":{"cap":"1","cap":"10"}}}}', 'fees.PAYOUT.GHS.cap'],
  ];
  for (const [text, path] of files) {
    t.throws(
      () => parsePolicyFile(text, DEFAULT_POLICY),
      { message: `${path} is given more than once` },
      path,
    );
  }
  const repeated = '{"fees":{"CHARGE":{"UGX":{"fixed":1},"KES":{"fixed":1}},"PAYOUT":{"UGX":{"fixed":1}}}}';
  t.equal(parsePolicyFile(repeated, DEFAULT_POLICY).fees.CHARGE.KES.fixed, 1, 'in objects of their own');
});

t.test('terms at the edge of what they may be are taken, for every type that has them', async (t) => {
  const largest = 1_000_000_000_000;
  const rows: [json: object, fee: object][] = [
    [
      { floor: '9', cap: '9' },
      { floor: 9, cap: 9 },
    ],
    [
      { floor: 0, cap: largest },
      { floor: 0, cap: largest },
    ],
    [
      { floor: '1', basis_points: 10_000 },
      { floor: 1, basisPoints: 10_000 },
    ],
    [{ fixed: largest }, { fixed: largest }],
  ];
  const free = { fixed: 0, basisPoints: 0, floor: null, cap: null };
  for (const type of ['CHARGE', 'PAYOUT', 'WITHDRAWAL'] as const) {
    for (const [json, fee] of rows) {
      const parsed = parsePolicy({ fees: { [type]: { GHS: json } } }, DEFAULT_POLICY);
      assert(parsed.type === 'valid', JSON.stringify(parsed));
      t.strictSame(parsed.value.fees[type].GHS, { ...free, ...fee });
    }
  }
  t.equal(parsePolicyFile('{"minimums":{"UGX":"1"}}', DEFAULT_POLICY).minimums.UGX, 1);
  for (const type of ['CHARGE', 'PAYOUT', 'DEPOSIT', 'WITHDRAWAL'] as const) {
    const parsed = parsePolicy({ limits: { [type]: { KES: { maximum: 0 } } } }, DEFAULT_POLICY);
    assert(parsed.type === 'valid', JSON.stringify(parsed));
    t.equal(parsed.value.limits[type].KES.maximum, 0);
  }
});

t.test("an account's own terms: absent changes nothing, null drops", async (t) => {
  t.strictSame(parseAccountTerms({}), {
    type: 'valid',
    value: { approvalThresholds: {}, fees: {}, limits: {} },
  });
  t.strictSame(
    parseAccountTerms({
      approval_thresholds: { UGX: '0', KES: null },
      fees: { PAYOUT: { UGX: { basis_points: 1 }, GHS: null } },
      limits: { CHARGE: { KES: null } },
    }),
    {
      type: 'valid',
      value: {
        approvalThresholds: { UGX: 0, KES: null },
        fees: { 'PAYOUT:UGX': { fixed: 0, basisPoints: 1, floor: null, cap: null }, 'PAYOUT:GHS': null },
        limits: { 'CHARGE:KES': null },
      },
    },
  );
  const wrong = parseAccountTerms({
    approval_thresholds: { UGX: 'x' },
    fees: { REFUND: {} },
    limits: { CHARGE: { KES: { daily: 'x' } } },
  });
  const paths = wrong.type === 'invalid' ? wrong.problems.map(({ path }) => path) : [];
  t.strictSame(paths, ['approval_thresholds.UGX', 'fees.REFUND', 'limits.CHARGE.KES.daily']);
});
