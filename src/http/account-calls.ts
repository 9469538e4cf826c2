// The two hot paths: a create and a read on behalf of a merchant. The front reads, checks what can be checked without
// knowing the account, and sends one message to the account that the key names. What it found wrong travels as
// `problem`, the earliest in the order of checks, so that the order is decided in one place (src/domain/decide.ts).

import { partitionOf, type Bus, type OnReply, type Reply } from '../bus/bus.ts';
import type { CreateCommand, MerchantQuery } from '../domain/account-command.ts';
import { rejection, type Rejection } from '../domain/error-code.ts';
import { LIMITS } from '../limits.ts';
import { hash } from 'node:crypto';
import { hashApiKey, parseApiKey } from './api-key.ts';
import type { Call } from './call.ts';
import { MalformedBody, parseJson } from './json-body.ts';
import type { ListLine } from './list-line.ts';
import type { CreateRoute, ReadRoute } from './route.ts';
import type { ParsedQuery, ValidateBody } from './validator.ts';

const AUTHENTICATION_REQUIRED = rejection('authentication_required');
const INVALID_API_KEY = rejection('invalid_api_key');
const SECRET_KEY_REQUIRED = rejection('secret_key_required');
const IDEMPOTENCY_KEY_REQUIRED = rejection('idempotency_key_required');
const IDEMPOTENCY_KEY_INVALID = rejection(
  'idempotency_key_invalid',
  'The Idempotency-Key must be 8 to 255 printable ASCII characters.',
);
const IDEMPOTENCY_KEY = /^[\x20-\x7e]{8,255}$/;
const REQUEST_HASH_LENGTH = 22;

export interface AccountGate {
  readonly bus: Bus;
  readonly partitions: number;
  readonly lists: ListLine;
}

interface Caller {
  readonly accountId: string;
  readonly keyHash: string | null;
  readonly problem: Rejection | null;
  /** Requests of it that were begun and have no answer from their account yet, and the bytes of their bodies. By key, since nobody
   *  knows here whether it is good: who made one up for an account would take what is the account's. */
  underWay: number;
  bytesUnderWay: number;
}

/** What headers seen lately parse and hash to, by the header as nearly all write it: most of what a front may spare itself. It says
 *  nothing about whether a key is good: the account decides that, every time. */
const callers = new Map<string, Caller>();
/** How many of them there may be before the idle ones are forgotten: as many again as are left then, or all would be looked at for
 *  each new key while there are many under way. */
let callersMax: number = LIMITS.frontKeysKeptMax;

/** A rejection when no account can be read off the header: then nobody else can answer. */
function callerOf(authorization: string): Caller | Rejection {
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
  const idle = { underWay: 0, bytesUnderWay: 0 };
  if (!parsed.wellFormed) return { accountId, keyHash: null, problem: INVALID_API_KEY, ...idle };
  if (parsed.kind === 'publishable') {
    return { accountId, keyHash: null, problem: SECRET_KEY_REQUIRED, ...idle };
  }
  const caller = { accountId, keyHash: hashApiKey(key), problem: null, ...idle };
  if (callers.size >= callersMax) forgetIdle();
  callers.set(written, caller);
  return caller;
}

function forgetIdle(): void {
  for (const [authorization, { underWay }] of callers) if (underWay === 0) callers.delete(authorization);
  callersMax = Math.max(LIMITS.frontKeysKeptMax, callers.size * 2);
}

/** False, and refused: its key has as much under way as one may have. */
function enters(caller: Caller, bytes: number, call: Call): boolean {
  const { frontKeyRequestsMax, frontKeyBytesMax } = call.bounds;
  if (caller.underWay >= frontKeyRequestsMax || caller.bytesUnderWay >= frontKeyBytesMax) {
    call.refuseKeyFull(caller.accountId);
    return false;
  }
  caller.underWay++;
  caller.bytesUnderWay += bytes;
  return true;
}

function leaves(caller: Caller, bytes: number): void {
  caller.underWay--;
  caller.bytesUnderWay -= bytes;
}

/** Null: there is no bearer token. The scheme's name is case-insensitive (RFC 9110, 11.1). */
export function bearerOf(authorization: string): string | null {
  if (authorization.startsWith('Bearer ')) return authorization.slice(7).trim() || null;
  return /^bearer +(\S.*)$/i.exec(authorization)?.[1] ?? null;
}

function idempotencyProblem(key: string): Rejection | null {
  if (key === '') return IDEMPOTENCY_KEY_REQUIRED;
  return IDEMPOTENCY_KEY.test(key) ? null : IDEMPOTENCY_KEY_INVALID;
}

export function requestHashOf(body: string | NodeJS.ArrayBufferView): string {
  return hash('sha256', body, 'base64url').slice(0, REQUEST_HASH_LENGTH);
}

export interface CreateCallFacts {
  readonly route: CreateRoute;
  readonly validate: ValidateBody;
}

export function create(
  gate: AccountGate,
  facts: CreateCallFacts,
  call: Call,
  authorization: string,
  idempotencyKey: string,
): void {
  const caller = callerOf(authorization);
  call.receive((body) => {
    if ('code' in caller) {
      call.refuse(caller);
      return;
    }
    const deadline = call.wait();
    const parsed = parseJson(body);
    const malformed = parsed instanceof MalformedBody;
    const problem =
      caller.problem ??
      idempotencyProblem(idempotencyKey) ??
      (malformed ? parsed.rejection : facts.validate(parsed));
    const command = {
      type: facts.route.creates,
      accountId: caller.accountId,
      deadline,
      keyHash: caller.keyHash,
      problem,
      idempotencyKey: idempotencyKey === '' ? null : idempotencyKey,
      requestHash: requestHashOf(body),
      input: problem === null ? parsed : null,
    };
    const bytes = body.byteLength;
    call.begin(() => {
      if (!enters(caller, bytes, call)) return;
      // The schema of `creates` has passed `input` (schemas.ts proves that the types agree).
      send(gate, command as CreateCommand, (reply) => {
        leaves(caller, bytes);
        call.settle(reply, 201);
      });
    });
  });
}

export interface ReadCallFacts {
  readonly route: ReadRoute;
  readonly idPattern: RegExp | null;
  readonly idNotFound: Rejection | null;
  readonly parseQuery: ((raw: string) => ParsedQuery) | null;
}

const NO_QUERY: ParsedQuery = { values: {}, problem: null };

/** `id`: the path's parameter, "" where there is none. */
export function read(
  gate: AccountGate,
  facts: ReadCallFacts,
  call: Call,
  authorization: string,
  id: string,
  rawQuery: string,
): void {
  const caller = callerOf(authorization);
  if ('code' in caller) {
    call.refuse(caller);
    return;
  }
  const deadline = call.wait();
  const query = facts.parseQuery === null ? NO_QUERY : facts.parseQuery(rawQuery);
  const known = facts.idPattern === null || facts.idPattern.test(id);
  const message = facts.route.message({
    accountId: caller.accountId,
    deadline,
    keyHash: caller.keyHash,
    problem: caller.problem ?? query.problem ?? (known ? null : facts.idNotFound),
    id: known ? id : '',
    query: query.values,
  });
  call.begin(() => {
    if (!enters(caller, 0, call)) return;
    const answer = (reply: Reply): void => {
      leaves(caller, 0);
      call.settle(reply, 200);
    };
    if (facts.route.isList !== true) return send(gate, message, answer);
    // A key without a hash is refused: all of an account's stand in one line.
    gate.lists.append(caller.keyHash ?? caller.accountId, (onDone) => {
      if (call.closed) {
        leaves(caller, 0);
        onDone();
        return;
      }
      send(gate, message, (reply) => {
        answer(reply);
        onDone();
      });
    });
  });
}

function send(gate: AccountGate, message: CreateCommand | MerchantQuery, onReply: OnReply): void {
  gate.bus.send('accounts', partitionOf(message.accountId, gate.partitions), message, onReply);
}
