// What would not come back as it was sent is refused. Reading a body takes time in proportion to its length, whatever
// stands in it: anybody may send one, also without a key. The bodies here are far longer than the front takes, so that a
// reader that is not linear would not come to its end.

import fc from 'fast-check';
import t from 'tap';
import { MalformedBody, parseJson } from '../../src/http/json-body.ts';
import { leastCpuMs } from '../least-cpu.ts';
import { seedOf } from '../seed.ts';

const seed = seedOf(t);

const COUNT = 100_000;
const INEXACT = '9007199254740993';

function repeated(make: (index: number) => string): string {
  return Array.from({ length: COUNT }, (_, index) => make(index)).join(',');
}

t.test('numbers that no double holds, where they are not looked for', (t) => {
  for (const [what, text] of [
    ['in a list', `[${repeated(() => INEXACT)}]`],
    ['beside each other', `{${repeated((index) => `"k${index}":${INEXACT}`)}}`],
    ['deeper than metadata', `{"a":[[${repeated(() => INEXACT)}]],${repeated((index) => `"k${index}":{}`)}}`],
  ] as const) {
    t.equal(typeof parseJson(Buffer.from(text)), 'object', what);
  }
  t.end();
});

t.test('one of them in an object of the body is told, however many there are', (t) => {
  const text = `{"a":[${repeated(() => `[${INEXACT}]`)}],"metadata":{"order":${INEXACT}}}`;
  t.hasStrict(parseJson(Buffer.from(text)), { rejection: { param: 'metadata.order' } });
  t.end();
});

t.test('it is told by its names, as they are read', (t) => {
  for (const [text, param] of [
    [`{"a":{"b":{"c":1},"d":${INEXACT}}}`, 'a.d'],
    [`{"a":{"x":1},"b":{"y":[1],"\\u007a" : ${INEXACT}}}`, 'b.z'],
    [`{"a":{"":[{"b":${INEXACT}}],"c":-${INEXACT}}}`, 'a.c'],
    [`{"":{"a":${INEXACT}}}`, 'a'],
    [`{"a":{"b":1},"c":{"${INEXACT}":"${INEXACT}","null":1e-400}}`, 'c.null'],
  ] as const) {
    t.hasStrict(parseJson(Buffer.from(text)), { rejection: { param } }, text);
  }
  for (const text of [
    `[{"a":${INEXACT}}]`,
    `[[${INEXACT}]]`,
    `{"a":[${INEXACT},{"b":${INEXACT}}]}`,
    `{"a":{"b":[${INEXACT}]}}`,
    `{"a":{"b":1},"c":[${INEXACT}]}`,
    `{"a":{"${INEXACT}":"${INEXACT} \\" ${INEXACT}"},"b":${INEXACT}}`,
  ]) {
    t.notOk(parseJson(Buffer.from(text)) instanceof MalformedBody, text);
  }
  t.end();
});

function leastMs(text: string): number {
  const body = Buffer.from(text);
  return leastCpuMs(() => parseJson(body));
}

t.test('it makes thousands of short ones no dearer', (t) => {
  const short = `"a":[${'1,'.repeat(1_000_000)}1]`;
  const without = leastMs(`{${short}}`);
  const withOne = leastMs(`{${short},"b":${INEXACT}}`);
  t.ok(withOne < 8 * without, `${withOne} ms, ${without} ms without`);
  t.end();
});

t.test('text with escapes', (t) => {
  const text = `{${repeated((index) => `"k${index}":"\\u0041"`)},"last":"\\ud800"}`;
  t.hasStrict(parseJson(Buffer.from(text)), { rejection: { param: 'last' } });
  const deep = `${'{"a":'.repeat(20_000)}"\\ud800"${'}'.repeat(20_000)}`;
  t.hasStrict(parseJson(Buffer.from(deep)), { rejection: { param: 'a.a' } }, 'as deep as a schema goes');
  t.end();
});

t.test('bytes that are no text', (t) => {
  for (const [bytes, says] of [
    [[0x1f, 0x8b, 0x08], /compressed/],
    [[0x1f, 0xff], /not valid UTF-8/],
    [[0xff, 0x8b], /not valid UTF-8/],
  ] as const) {
    t.match(parseJson(Buffer.from(bytes)), { rejection: { code: 'invalid_json', message: says } });
  }
  t.end();
});

// --- Names -----------------------------------------------------------------------------------------------------------

function repeatedIn(text: string): string | null {
  const value = parseJson(Buffer.from(text));
  if (!(value instanceof MalformedBody)) return null;
  const { message, param } = value.rejection;
  return message === `\`${param}\` is given more than once.` ? param : `another: ${message}`;
}

t.test('a name that stands twice in its object is refused, the first such', (t) => {
  for (const [text, param] of [
    ['{"amount":"1","amount":"2"}', 'amount'],
    ['{"amount":"1","amount":"1"}', 'amount'],
    ['{"amount" :"1","\\u0061mount"\n:"2"}', 'amount'],
    ['{"a":{"b":1},"a":1}', 'a'],
    ['{"metadata":{"a":1,"b":2,"a":3}}', 'metadata.a'],
    ['{"metadata":{"a":1},"x":1,"metadata":{"b":2}}', 'metadata'],
    ['{"a":[{"b":1},{"c":[{"d":1,"d":2}]}]}', 'a.c'],
    ['{"":1,"":2}', ''],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
    ['{"say":"{\\"say\\":1}","say":"\\\\"}', 'say'],
    ['[{"a":1,"a":2}]', 'a'],
    [`{"a":1,"a":2,"b":9007199254740993}`, 'a'],
    [`{${repeated((index) => `"k${index}":1`)},"k7":2}`, 'k7'],
    [`{"a":[${repeated(() => '{"k":"\\":"}')}],"b":1,"b":2}`, 'b'],
    [`${'{"a":'.repeat(20_000)}{"b":1,"b":2}${'}'.repeat(20_000)}`, 'a.a'],
  ] as const) {
    t.equal(repeatedIn(text), param, text.slice(0, 60));
  }
  t.end();
});

t.test('a name with many dots makes those within it no dearer', (t) => {
  const inner = `${repeated((index) => `"k${index}":1`)},"k0":1`;
  const within = (name: string): number => leastMs(`{"${name}":{${inner}}}`);
  const plain = within('a'.repeat(30_000));
  const dots = within('.'.repeat(30_000));
  t.ok(dots < 8 * plain, `${dots} ms, ${plain} ms without`);
  t.end();
});

t.test('one that stands once in each of several objects, or in text, is taken', (t) => {
  for (const text of [
    '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}',
    '{"a":"\\"a\\":1,\\"a\\":2","b":"a: \\": \\" :"}',
    '{"a":"\\\\","b":":","c":"\\\\\\":"}',
    '{"a" \t\r\n : 1}',
    '{"a":1,"A":2}',
    '"a:\\":"',
    '1',
    'null',
    '[]',
  ]) {
    t.equal(repeatedIn(text), null, text);
  }
  fc.assert(
    fc.property(fc.json({ depthSize: 'medium' }), (text) => repeatedIn(text) === null),
    { seed, numRuns: 2_000 },
  );
  t.end();
});

t.test('a million spaces before a colon', (t) => {
  const space = ' '.repeat(1_000_000);
  t.equal(repeatedIn(`{"a"${space}:1,"b":"${space}:","a":2}`), 'a');
  t.end();
});

// --- Numbers ---------------------------------------------------------------------------------------------------------

function isRefused(number: string, before = ''): boolean {
  const value = parseJson(Buffer.from(`{"metadata":{"a":${before}${number}}}`));
  if (!(value instanceof MalformedBody)) return false;
  const { code, param } = value.rejection;
  return code === 'validation_failed' && param === 'metadata.a';
}

t.test('a number of which another value would come back is refused', (t) => {
  for (const number of [
    '9007199254740993',
    '-9007199254740993',
    '12345678901234567168',
    '12345678901234567890.5',
    '0.1234567890123456789',
    '0.1000000000000000055511151231257827',
    '1234567.8901234567891',
    '1.2345678901234567e10',
    '1e-400',
    '-1E-400',
    '1e-0000400',
    '1.23456e-320',
    '1e-999999999999999999999',
    '1e-999999999',
    `1${'0'.repeat(30)}1`,
  ]) {
    for (const before of ['', ' ', '\n\t']) t.ok(isRefused(number, before), JSON.stringify(before + number));
  }
  t.end();
});

t.test('one that comes back with its value is taken, however it is written', (t) => {
  for (const number of [
    '0.10',
    '1e2',
    '1.0',
    '-0',
    '-0.0000000000000000000',
    '0e999999999',
    '0e-999999999999999999999',
    '9007199254740992',
    '9007199254740992000e-3',
    '100000000000000000000000',
    '1E+0000000000000000000022',
    '0.30000000000000004',
    '0.1000000000000000000000000000',
    '1.7976931348623157e308',
    '5e-324',
    '0.000000000000000000000000000001',
    `1${'0'.repeat(400)}e-400`,
    `0.${'0'.repeat(400)}1e401`,
  ]) {
    t.notOk(isRefused(number), number);
  }
  t.end();
});

t.test('numbers of a million characters', (t) => {
  const zeros = '0'.repeat(1_000_000);
  for (const number of [
    `0.${zeros}1`,
    `0.1${zeros}1`,
    `1.${zeros}1${zeros}`,
    `1e-${zeros}400`,
    `1e-4${zeros}`,
  ]) {
    t.ok(isRefused(number), number.slice(0, 10));
  }
  for (const number of [`1.${zeros}`, `1e${zeros}`, `0e4${zeros}`]) {
    t.notOk(isRefused(number), number.slice(0, 10));
  }
  t.end();
});

/** The value of a number's text as a whole number of 10^-SCALE. */
const SCALE = 900;
function scaled(text: string): bigint {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  return BigInt(whole + fraction) * 10n ** BigInt(SCALE - fraction.length + Number(exponent));
}

const digits = (maxLength: number): fc.Arbitrary<string> =>
  fc
    .array(fc.constantFrom(0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9), { minLength: 1, maxLength })
    .map((list) => list.join(''));
const someNumber = fc
  .record({
    sign: fc.constantFrom('', '-'),
    whole: digits(24).map((text) => text.replace(/^0+(?=\d)/, '')),
    fraction: fc.option(digits(24), { nil: null }),
    exponent: fc.option(fc.oneof(fc.integer({ min: -25, max: 25 }), fc.integer({ min: -400, max: 280 })), {
      nil: null,
    }),
    written: fc.constantFrom('e', 'E', 'E00', 'e0000000000000000'),
  })
  .map(({ sign, whole, fraction, exponent, written }) => {
    const mantissa = `${sign}${whole}${fraction === null ? '' : `.${fraction}`}`;
    if (exponent === null) return mantissa;
    return `${mantissa}${written[0]}${exponent < 0 ? '-' : ''}${written.slice(1)}${Math.abs(exponent)}`;
  });

t.test('any number is refused exactly when its value is not that of what comes back', (t) => {
  const counts = { refused: 0, taken: 0 };
  fc.assert(
    fc.property(someNumber, (number) => {
      const isAnother = scaled(number) !== scaled(JSON.stringify(Number(number)));
      counts[isAnother ? 'refused' : 'taken'] += 1;
      return isRefused(number) === isAnother;
    }),
    { seed, numRuns: 20_000 },
  );
  t.ok(counts.refused > 1_000 && counts.taken > 1_000, JSON.stringify(counts));
  t.end();
});

t.test('every double comes back', (t) => {
  fc.assert(
    fc.property(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      (value) => !isRefused(JSON.stringify(value)),
    ),
    { seed, numRuns: 20_000 },
  );
  t.end();
});
