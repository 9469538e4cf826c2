// What no service on these parts can be faster than: HTTP by uWebSockets.js, and each create in the real log before its
// answer, with nothing between: no domain, no balances, no rails, no views, no metrics. A program of its own, as the bare handler.
//
//   node floor.ts '{"postBody":"…","directory":"…","partitions":16,"records":2}'     prints its port when it listens
//
// `records`: 1: created; 2: then accepted by a rail that answers at once, as what a charge is answered with says it is.

import { hash } from 'node:crypto';
import { App } from 'uWebSockets.js';
import { partitionOf } from '../../src/bus/bus.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import { listen } from './listen.ts';
import type { FloorOptions } from './start-floor.ts';

/** As long as the service's; every answer of it carries one. */
const REQUEST_ID = 'req_00000000000000000000000000';
/** Keys remembered: what the service keeps in memory between two checkpoints is less. */
const KEYS_MAX = 50_000;

interface Waiting {
  readonly sequence: number;
  readonly act: () => void;
}

const { postBody, directory, partitions, records } = JSON.parse(process.argv[2]!) as FloorOptions;

class Floor {
  readonly #log = WriteAheadLog.open({
    directory,
    now: Date.now,
    onFailure: (error) => {
      throw error;
    },
  });
  readonly #partitions: PartitionLog[] = [];
  /** Of each partition, in the order of their records. */
  readonly #waiting: Waiting[][] = [];
  #idsByKey = new Map<string, string>();
  /** As it was when it was full. */
  #idsByOlderKey = new Map<string, string>();
  #created = 0;

  constructor() {
    for (let number = 0; number < partitions; number++) {
      this.#waiting.push([]);
      const onDurable = (): void => this.#answer(number);
      this.#partitions.push(
        this.#log.openPartition('accounts', number, { epoch: 1, replica: null, onDurable }),
      );
    }
  }

  /** False: it is no create. `answer` is called when it is durable, with all that its answer says. */
  create(authorization: string, key: string, body: string, answer: () => void): boolean {
    const { amount, currency, msisdn, reference } = JSON.parse(body) as Record<string, unknown>;
    if (typeof amount !== 'string' || !/^[1-9]\d{0,15}$/.test(amount)) return false;
    if (typeof msisdn !== 'string' || !/^\+\d{8,15}$/.test(msisdn) || key === '') return false;
    const place = authorization + key;
    if (this.#idsByKey.has(place) || this.#idsByOlderKey.has(place)) return false;
    const id = `chg_${String(++this.#created).padStart(26, '0')}`;
    this.#remember(place, id);
    const number = partitionOf(authorization, partitions);
    const at = Date.now();
    const requestHash = hash('sha256', body, 'base64url').slice(0, 22);
    const accountId = authorization.slice(-30);
    const created = {
      type: 'ChargeCreated',
      at,
      accountId,
      id,
      key,
      requestHash,
      amount,
      currency,
      msisdn,
      reference,
    };
    const accepted = (): void => {
      this.#append(number, { type: 'SubmissionAccepted', at: Date.now(), accountId, id }, answer);
    };
    this.#append(number, created, records === 1 ? answer : accepted);
    return true;
  }

  close(): Promise<void> {
    return this.#log.close();
  }

  #append(number: number, record: object, act: () => void): void {
    const sequence = this.#partitions[number]!.append(JSON.stringify(record));
    this.#waiting[number]!.push({ sequence, act });
  }

  #answer(number: number): void {
    const { durable } = this.#partitions[number]!;
    const waiting = this.#waiting[number]!;
    const beyond = waiting.findIndex(({ sequence }) => sequence > durable);
    for (const { act } of waiting.splice(0, beyond === -1 ? waiting.length : beyond)) act();
  }

  #remember(place: string, id: string): void {
    this.#idsByKey.set(place, id);
    if (this.#idsByKey.size < KEYS_MAX) return;
    this.#idsByOlderKey = this.#idsByKey;
    this.#idsByKey = new Map();
  }
}

const floor = new Floor();
const app = App();

app.post('/*', (response, request) => {
  const authorization = request.getHeader('authorization');
  const key = request.getHeader('idempotency-key');
  let isGone = false;
  response.onAborted(() => {
    isGone = true;
  });
  const answer = (status: string): void => {
    if (isGone) return;
    response.cork(() => {
      response
        .writeStatus(status)
        .writeHeader('Content-Type', 'application/json')
        .writeHeader('Request-Id', REQUEST_ID)
        .end(postBody);
    });
  };
  const pieces: Buffer[] = [];
  response.onData((chunk, isLast) => {
    // The chunk is only valid now.
    if (!isLast) {
      pieces.push(Buffer.from(Buffer.from(chunk)));
      return;
    }
    const last = Buffer.from(chunk);
    const body = pieces.length === 0 ? last.toString() : Buffer.concat([...pieces, last]).toString();
    const isTaken = floor.create(authorization, key, body, () => answer('201 Created'));
    if (!isTaken) answer('422 Unprocessable Entity');
  });
});

listen(app, () => floor.close());
