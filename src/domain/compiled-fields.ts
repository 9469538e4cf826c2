// Writes and reads the fields of one type of object by code made for that type. Each place in that code sees one shape and one kind
// of field, so V8 can optimise it; a loop over all types would see all of them. Every record is written once and read at least
// twice, and a recovery does little else: reading the fields of one takes 0.5 µs, and took 1.2 in a loop.
//
// Nothing but names and numbers of our own goes into the code.

import { assert } from './assert.ts';

/** From a value to JSON and back. `at`: the record's time. */
export interface Field<T> {
  encode(value: T, at: number): unknown;
  decode(json: unknown, at: number): T;
}

export interface CompiledFields<T> {
  /** `code`, then the fields in their order, up to the last that is not null. */
  readonly encode: (value: T, at: number) => unknown[];
  /** `json`: as `encode` gives it. */
  readonly decode: (json: readonly unknown[], at: number) => T;
}

const IDENTIFIER = /^[A-Za-z]\w*$/;

/** `T`: an object with `type` and the fields, none of them undefined. */
export function compileFields<T extends { readonly type: string }>(
  type: T['type'],
  code: number,
  fields: Readonly<Record<string, Field<unknown>>>,
): CompiledFields<T> {
  const names = Object.keys(fields);
  assert(
    [type, ...names].every((name) => IDENTIFIER.test(name)),
    'names are identifiers',
  );
  assert(Number.isSafeInteger(code), 'a code is an integer');
  const encoded = names.map((name, i) => `f${i}.encode(present(value.${name}), at)`);
  const decoded = names.map((name, i) => `${name}: f${i}.decode(json[${i + 1}], at)`);
  // oxlint-disable-next-line no-implied-eval -- making code is what this is for
  const make = new Function(
    'present',
    'trimmed',
    ...names.map((_, i) => `f${i}`),
    `'use strict';
    return {
      encode: (value, at) => trimmed([${[code, ...encoded].join(', ')}]),
      decode: (json, at) => ({ ${[`type: '${type}'`, ...decoded].join(', ')} }),
    };`,
  );
  return make(present, trimmed, ...Object.values(fields)) as CompiledFields<T>;
}

function present<V>(value: V): V {
  assert(value !== undefined, 'an object has all its fields');
  return value;
}

function trimmed(json: unknown[]): unknown[] {
  let { length } = json;
  while (json[length - 1] === null) length--;
  json.length = length;
  return json;
}
