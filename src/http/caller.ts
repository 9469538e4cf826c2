// Who calls, as far as a front can tell from the key, and the share of the front that each key may use at once.

import { rejection, type Rejection } from '../domain/error-code.ts';
import { LIMITS } from '../limits.ts';
import { hashApiKey, parseApiKey, type ParsedApiKey } from './api-key.ts';
import type { Call } from './call.ts';

const AUTHENTICATION_REQUIRED = rejection('authentication_required');
const INVALID_API_KEY = rejection('invalid_api_key');
const SECRET_KEY_REQUIRED = rejection('secret_key_required');

export interface Caller {
  /** By which it is remembered. */
  readonly name: string;
  readonly accountId: string;
  readonly keyHash: string | null;
  readonly problem: Rejection | null;
  /** Requests that were begun and that the account has not answered yet, and the bytes of their bodies. Counted by key, not by
   *  account: a front cannot know whether a key is good, and one that somebody made up must not use up the account's share. */
  underWay: number;
  bytesUnderWay: number;
}

/** What the headers seen lately parse and hash to, by the header in its usual form, or by what it is refused for. It says nothing
 *  about whether a key is good: the account decides that, every time. */
const callers = new Map<string, Caller>();
/** With so many of them the idle ones are forgotten. It is then set to twice what is left: otherwise, with many under way, each new
 *  key would look through all of them. */
let callersMax: number = LIMITS.frontKeysKeptMax;

/** A rejection when no account can be read off the header: then nobody else can answer. */
export function callerOf(authorization: string): Caller | Rejection {
  const known = callers.get(authorization);
  if (known !== undefined) return known;
  const key = bearerOf(authorization);
  if (key === null) return AUTHENTICATION_REQUIRED;
  // Otherwise a key would have a share for each way to write its header.
  const written = `Bearer ${key}`;
  const same = callers.get(written);
  if (same !== undefined) return same;
  const parsed = parseApiKey(key);
  if (parsed === null) return INVALID_API_KEY;
  const { accountId } = parsed;
  const problem = problemOf(parsed);
  if (problem !== null) return refusedCaller(accountId, problem);
  return remember(callerAs(written, accountId, hashApiKey(key), null));
}

function problemOf({ wellFormed, kind }: ParsedApiKey): Rejection | null {
  if (!wellFormed) return INVALID_API_KEY;
  return kind === 'publishable' ? SECRET_KEY_REQUIRED : null;
}

/** All keys of an account that are refused alike are one: there is no end to them. No header begins with a blank. */
function refusedCaller(accountId: string, problem: Rejection): Caller {
  const name = ` ${problem.code} ${accountId}`;
  return callers.get(name) ?? remember(callerAs(name, accountId, null, problem));
}

function callerAs(
  name: string,
  accountId: string,
  keyHash: string | null,
  problem: Rejection | null,
): Caller {
  return { name, accountId, keyHash, problem, underWay: 0, bytesUnderWay: 0 };
}

function remember(caller: Caller): Caller {
  if (callers.size >= callersMax) forgetIdle();
  callers.set(caller.name, caller);
  return caller;
}

function forgetIdle(): void {
  for (const [authorization, { underWay }] of callers) if (underWay === 0) callers.delete(authorization);
  callersMax = Math.max(LIMITS.frontKeysKeptMax, callers.size * 2);
}

/** Who is to leave; null, and refused: its key has as much under way as one may have. `known`: as its header was read, which may have been
 *  forgotten while its body came. Counted there, what was begun since would be counted apart. */
export function entered(known: Caller, bytes: number, call: Call): Caller | null {
  const caller = callers.get(known.name) ?? remember(known);
  const { frontKeyRequestsMax, frontKeyBytesMax } = call.bounds;
  if (caller.underWay >= frontKeyRequestsMax || caller.bytesUnderWay >= frontKeyBytesMax) {
    call.refuseKeyFull(caller.accountId);
    return null;
  }
  caller.underWay++;
  caller.bytesUnderWay += bytes;
  return caller;
}

export function leaves(caller: Caller, bytes: number): void {
  caller.underWay--;
  caller.bytesUnderWay -= bytes;
}

/** Null: there is no bearer token. The scheme's name is case-insensitive (RFC 9110, 11.1). */
export function bearerOf(authorization: string): string | null {
  return /^bearer +(\S.*)$/i.exec(authorization)?.[1] ?? null;
}
