// Time as text and as calendar: ISO 8601 in UTC with milliseconds out, ISO 8601 with any offset in, and the UTC day and
// month that limits are counted by. Arithmetic only: the pure core has no Date and no clock. Times are whole
// milliseconds since 1970; years 1970 to 9999.

import { assert } from './assert.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** 9999-12-31T23:59:59.999Z: the last time that four digits of year can say. */
const TIME_MAX = 253_402_300_799_999;

interface Civil {
  readonly year: number;
  /** 1 to 12. */
  readonly month: number;
  readonly day: number;
}

// Days and civil dates after Howard Hinnant, "chrono-compatible low-level date algorithms".
function civilOfDay(day: number): Civil {
  const shifted = day + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1_460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const marchMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    day: dayOfYear - Math.floor((153 * marchMonth + 2) / 5) + 1,
  };
}

function dayOfCivil(year: number, month: number, day: number): number {
  const marchYear = month <= 2 ? year - 1 : year;
  const era = Math.floor(marchYear / 400);
  const yearOfEra = marchYear - era * 400;
  const marchMonth = month > 2 ? month - 3 : month + 9;
  const dayOfYear = Math.floor((153 * marchMonth + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

function daysInMonth(year: number, month: number): number {
  if (month !== 2) return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
}

function two(value: number): string {
  return value < 10 ? `0${value}` : String(value);
}

/** Days since 1970 in UTC. */
export function dayOf(timeMs: number): number {
  return Math.floor(timeMs / DAY_MS);
}

/** `day`: as of `dayOf`. */
export function startOfDay(day: number): number {
  return day * DAY_MS;
}

// The last answers: times that follow one another mostly share their day and second.
let monthDay = -1;
let monthValue = 0;

/** year * 12 + month (0 to 11) in UTC. */
export function monthOf(timeMs: number): number {
  const day = dayOf(timeMs);
  if (day !== monthDay) {
    const { year, month } = civilOfDay(day);
    monthValue = year * 12 + month - 1;
    monthDay = day;
  }
  return monthValue;
}

let formattedDay = -1;
let formattedDayText = '';
let formattedSecond = -1;
let formattedSecondText = '';

/** "2026-03-01T09:30:00.000Z". */
export function formatTime(timeMs: number): string {
  const second = Math.floor(timeMs / SECOND_MS);
  if (second !== formattedSecond) {
    assert(timeMs >= 0 && timeMs <= TIME_MAX, 'a time is between 1970 and 9999');
    const day = Math.floor(second / 86_400);
    if (day !== formattedDay) {
      const civil = civilOfDay(day);
      formattedDayText = `${civil.year}-${two(civil.month)}-${two(civil.day)}T`;
      formattedDay = day;
    }
    const rest = second - day * 86_400;
    const hour = Math.floor(rest / 3_600);
    const minute = Math.floor((rest - hour * 3_600) / 60);
    formattedSecondText = `${formattedDayText}${two(hour)}:${two(minute)}:${two(rest % 60)}.`;
    formattedSecond = second;
  }
  const milliseconds = timeMs - second * SECOND_MS;
  if (milliseconds < 10) return `${formattedSecondText}00${milliseconds}Z`;
  if (milliseconds < 100) return `${formattedSecondText}0${milliseconds}Z`;
  return `${formattedSecondText}${milliseconds}Z`;
}

// A "+" that nobody percent-encoded arrives from a query as a space: taken as the "+" it was meant to be.
const DATE_TIME =
  /^(\d{4})-(\d{2})-(\d{2})(?:T(\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?(Z|[+ -]\d{2}(?::?\d{2})?)?)?$/i;

/**
 * Parses an ISO 8601 date or date-time. Without an offset it is UTC; a date alone is its midnight; digits beyond the
 * millisecond are cut. What is before 1970 is 1970, what is after 9999 its last millisecond: nothing of ours is beyond
 * them, and languages without a null say "no time" as 0001-01-01T00:00:00Z. Null when it is not one.
 */
export function parseTime(text: string): number | null {
  const match = DATE_TIME.exec(text);
  if (match === null) return null;
  const year = Number(match[1]);
  const month = Number(match[2]);
  const day = Number(match[3]);
  const hour = Number(match[4] ?? '0');
  const minute = Number(match[5] ?? '0');
  const second = Number(match[6] ?? '0');
  if (month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return null;
  if (hour > 23 || minute > 59 || second > 59) return null;
  const offset = offsetOf(match[8] ?? 'Z');
  if (offset === null) return null;
  const milliseconds = Number((match[7] ?? '').slice(0, 3).padEnd(3, '0'));
  const time =
    dayOfCivil(year, month, day) * DAY_MS +
    hour * HOUR_MS +
    minute * MINUTE_MS +
    second * SECOND_MS +
    milliseconds -
    offset;
  return Math.min(Math.max(time, 0), TIME_MAX);
}

const BELOW_MILLISECOND = /[.,]\d{3}\d*[1-9]/;

/** As parseTime, for what is not before the time: digits beyond the millisecond lead to the next one. */
export function parseLowerBound(text: string): number | null {
  const time = parseTime(text);
  return time !== null && BELOW_MILLISECOND.test(text) ? time + 1 : time;
}

const DATE_LENGTH = 'YYYY-MM-DD'.length;

/** As parseTime, for what is not after the time: a date alone is the whole day, to its last millisecond. */
export function parseUpperBound(text: string): number | null {
  const time = parseTime(text);
  return time !== null && text.length === DATE_LENGTH ? time + DAY_MS - 1 : time;
}

/** Milliseconds east of UTC. */
function offsetOf(text: string): number | null {
  if (text === 'Z' || text === 'z') return 0;
  const hours = Number(text.slice(1, 3));
  const minutes = text.length > 3 ? Number(text.slice(-2)) : 0;
  if (hours > 23 || minutes > 59) return null;
  const size = hours * HOUR_MS + minutes * MINUTE_MS;
  return text.startsWith('-') ? -size : size;
}
