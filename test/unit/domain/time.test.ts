// Time as text and calendar, against the language's own Date.

import fc from 'fast-check';
import t from 'tap';
import {
  dayOf,
  formatTime,
  monthOf,
  parseLowerBound,
  parseTime,
  parseUpperBound,
} from '../../../src/domain/time.ts';
import { seedOf } from '../../seed.ts';

const seed = seedOf(t);

const LAST = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const time = fc.oneof(fc.integer({ min: 0, max: LAST }), fc.integer({ min: 1.7e12, max: 1.9e12 }));

t.test('formats, reads back and counts as Date does', async (t) => {
  fc.assert(
    fc.property(fc.array(time, { minLength: 1 }), (times) => {
      for (const ms of times) {
        const date = new Date(ms);
        t.equal(formatTime(ms), date.toISOString());
        t.equal(parseTime(date.toISOString()), ms);
        t.equal(monthOf(ms), date.getUTCFullYear() * 12 + date.getUTCMonth());
        t.equal(dayOf(ms), Math.floor(ms / 86_400_000));
      }
    }),
    { seed, numRuns: 500 },
  );
});

t.test('edges', async (t) => {
  for (const text of [
    '1970-01-01T00:00:00.000Z',
    '1999-12-31T23:59:59.999Z',
    '2000-02-29T00:00:00.009Z',
    '2000-03-01T00:00:00.000Z',
    '2024-02-29T12:00:00.090Z',
    '2100-03-01T00:00:00.900Z',
    '9999-12-31T23:59:59.999Z',
  ]) {
    t.equal(formatTime(Date.parse(text)), text);
  }
  t.throws(() => formatTime(-1), /between 1970 and 9999/);
  t.throws(() => formatTime(LAST + 1), /between 1970 and 9999/);
});

t.test('what is read', async (t) => {
  const at = (text: string): number => Date.parse(text);
  const rows: [text: string, expected: number | null][] = [
    ['2026-03-01', at('2026-03-01T00:00:00Z')],
    ['2026-03-01T09:30', at('2026-03-01T09:30:00Z')],
    ['2026-03-01T09:30:15', at('2026-03-01T09:30:15Z')],
    ['2026-03-01T09:30:15Z', at('2026-03-01T09:30:15Z')],
    ['2026-03-01T09:30:15.5Z', at('2026-03-01T09:30:15.500Z')],
    ['2026-03-01T09:30:15,25Z', at('2026-03-01T09:30:15.250Z')],
    ['2026-03-01T09:30:15.123999Z', at('2026-03-01T09:30:15.123Z')],
    ['2026-03-01T09:30:15.123999999999Z', at('2026-03-01T09:30:15.123Z')],
    ['2026-03-01t09:30:15z', at('2026-03-01T09:30:15Z')],
    ['2026-03-01T09:30:15+03:00', at('2026-03-01T06:30:15Z')],
    ['2026-03-01T09:30:15+0300', at('2026-03-01T06:30:15Z')],
    ['2026-03-01T09:30:15+03', at('2026-03-01T06:30:15Z')],
    ['2026-03-01T09:30:15 03:00', at('2026-03-01T06:30:15Z')],
    ['2026-03-01T22:30:15-05:30', at('2026-03-02T04:00:15Z')],
    ['1970-01-01', 0],
    ['1970-01-01T00:00:00+03:00', 0],
    ['1969-12-31T23:59:59Z', 0],
    ['0001-01-01T00:00:00Z', 0],
    ['0000-01-01', 0],
    ['9999-12-31T23:59:59-01:00', LAST],
    ['9999-12-31T23:59:59.999999Z', LAST],
    ['', null],
    ['now', null],
    ['1772357400000', null],
    ['2026-3-1', null],
    ['2026-13-01', null],
    ['2026-00-01', null],
    ['2026-01-32', null],
    ['2026-04-31', null],
    ['2026-06-31', null],
    ['2026-09-31', null],
    ['2026-11-31', null],
    ['2026-02-29', null],
    ['2024-02-30', null],
    ['2100-02-29', null],
    ['2000-02-29', at('2000-02-29T00:00:00Z')],
    ['2026-03-00', null],
    ['2026-03-01T24:00:00Z', null],
    ['2026-03-01T09:60:00Z', null],
    ['2026-03-01T09:30:60Z', null],
    ['2026-03-01T09:30:15+23:59', at('2026-02-28T09:31:15Z')],
    ['2026-03-01T09:30:15+24:00', null],
    ['2026-03-01T09:30:15+03:60', null],
    ['2026-03-01 09:30:15Z', null],
    ['2026-03-01T09:30:15Z ', null],
  ];
  for (const [text, expected] of rows) t.equal(parseTime(text), expected, JSON.stringify(text));
});

t.test('the first millisecond that is not before a time', async (t) => {
  const rows: [text: string, expected: string | null][] = [
    ['2026-03-01T09:30:15.123Z', '2026-03-01T09:30:15.123Z'],
    ['2026-03-01T09:30:15.123000Z', '2026-03-01T09:30:15.123Z'],
    ['2026-03-01T09:30:15.123001Z', '2026-03-01T09:30:15.124Z'],
    ['2026-03-01T09:30:15,999999999+00:00', '2026-03-01T09:30:16.000Z'],
    ['2026-03-01T09:30:15.1Z', '2026-03-01T09:30:15.100Z'],
    ['2026-03-01T09:30:15.123000000001Z', '2026-03-01T09:30:15.124Z'],
    ['2026-03-01', '2026-03-01T00:00:00.000Z'],
    ['2026-02-29T09:30:15.1234Z', null],
    ['now', null],
  ];
  for (const [text, expected] of rows) {
    t.equal(parseLowerBound(text), expected === null ? null : Date.parse(expected), text);
  }
});

t.test('the last millisecond that is not after a time: of a date alone, the last of its day', async (t) => {
  const rows: [text: string, expected: string | null][] = [
    ['2026-03-01T09:30:15.123Z', '2026-03-01T09:30:15.123Z'],
    ['2026-03-01T09:30:15.123999Z', '2026-03-01T09:30:15.123Z'],
    ['2026-03-01T00:00', '2026-03-01T00:00:00.000Z'],
    ['2026-03-01', '2026-03-01T23:59:59.999Z'],
    ['1970-01-01', '1970-01-01T23:59:59.999Z'],
    ['9999-12-31', '9999-12-31T23:59:59.999Z'],
    ['2026-02-29', null],
    ['now', null],
  ];
  for (const [text, expected] of rows) {
    t.equal(parseUpperBound(text), expected === null ? null : Date.parse(expected), text);
  }
});
