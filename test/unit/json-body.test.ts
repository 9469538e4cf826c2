// Reading a body takes time in proportion to its length, whatever stands in it: anybody may send one, also without a key.
// The bodies here are far longer than the front takes, so that a reader that is not linear would not come to its end.

import t from 'tap';
import { parseJson } from '../../src/http/json-body.ts';

const COUNT = 100_000;
const INEXACT = '9007199254740993';

function repeated(make: (index: number) => string): string {
  return Array.from({ length: COUNT }, (_, index) => make(index)).join(',');
}

t.test('integers that no double holds, where they are not looked for', (t) => {
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

t.test('text with escapes', (t) => {
  const text = `{${repeated((index) => `"k${index}":"\\u0041"`)},"last":"\\ud800"}`;
  t.hasStrict(parseJson(Buffer.from(text)), { rejection: { param: 'last' } });
  t.end();
});
