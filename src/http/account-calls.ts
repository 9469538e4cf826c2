// The two hot paths: a create and a read on behalf of a merchant. The front reads, checks what can be checked without
// knowing the account, and sends one message to the account that the key names. What it found wrong travels as
// `problem`, the earliest in the order of checks, so that the order is decided in one place (src/domain/decide/decide.ts).

import { hash } from 'node:crypto';
import { partitionOf, type Bus, type OnReply, type Reply } from '../bus/bus.ts';
import type { CreateCommand, MerchantQuery } from '../domain/account-command.ts';
import { isRejection, rejection, type Rejection } from '../domain/error-code.ts';
import type { Call } from './call.ts';
import { callerOf, entered, leaves } from './caller.ts';
import { MalformedBody, parseJson } from './json-body.ts';
import type { ListLine } from './list-line.ts';
import type { CreateRoute, ReadRoute } from './route.ts';
import type { ParsedQuery, ValidateBody } from './validator.ts';

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
    if (isRejection(caller)) {
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
      const underWay = entered(caller, bytes, call);
      if (underWay === null) return;
      // The schema of `creates` has passed `input` (schemas.ts proves that the types agree).
      send(gate, command as CreateCommand, (reply) => {
        leaves(underWay, bytes);
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
  if (isRejection(caller)) {
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
    const underWay = entered(caller, 0, call);
    if (underWay === null) return;
    const answer = (reply: Reply): void => {
      leaves(underWay, 0);
      call.settle(reply, 200);
    };
    if (facts.route.isList !== true) return send(gate, message, answer);
    // A key without a hash is refused: all of an account's stand in one line.
    gate.lists.append(caller.keyHash ?? caller.accountId, (onDone) => {
      if (call.closed) {
        leaves(underWay, 0);
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

function idempotencyProblem(key: string): Rejection | null {
  if (key === '') return IDEMPOTENCY_KEY_REQUIRED;
  return IDEMPOTENCY_KEY.test(key) ? null : IDEMPOTENCY_KEY_INVALID;
}

/** SHA-256 of the body, base64url, its first 22 characters. */
export function requestHashOf(body: string | NodeJS.ArrayBufferView): string {
  return hash('sha256', body, 'base64url').slice(0, REQUEST_HASH_LENGTH);
}
