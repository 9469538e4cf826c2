// Transactions that only wait, as rows of bytes outside of the JavaScript heap. When a shop is busy hundreds of thousands wait for their
// payers. As objects, some ten each, a garbage collection would mark them all, and everybody would wait for that.
//
// A row is 12 numbers of 8 bytes, and 160 bytes of text: id, account, msisdn, reference and note, separated; longer text is
// kept as a string. Rows lie in blocks, and a block in which nothing is parked is given back.
//
// Invariants: what is taken out is in every field what was put in (but those that nothing parked has, see `isParkable`).

import { COUNTRIES, CURRENCIES, NETWORKS } from '../../src/domain/country.ts';
import { assert } from '../../src/domain/assert.ts';
import { TRANSACTION_TYPES } from '../../src/domain/transaction.ts';
import type { Port } from './rail-lane.ts';
import { PHASES, SUBMISSIONS, Watched } from './watched.ts';

const ROWS_OF_BLOCK = 512;
const TEXT_BYTES = 160;
const SEPARATOR = '\x01';
/** In place of the number of bytes: the text is too long for its place. */
const LONG = -1;

// The numbers of a row.
const AMOUNT = 0;
const CREATED_AT = 1;
const EXPIRES_AT = 2;
const ENQUIRED_AT = 3;
const GRACE_UNTIL = 4;
const LAST_UNTIL = 5;
const SUBMITS = 6;
const ENQUIRIES = 7;
const UNANSWERED = 8;
const TELLS = 9;
const CODES = 10;
const TEXT_LENGTH = 11;
const NUMBERS = 12;

// What is one of few, each in some bits of CODES.
const TYPE_SHIFT = 0;
const CURRENCY_SHIFT = 3;
const COUNTRY_SHIFT = 6;
const NETWORK_SHIFT = 9;
const PORT_SHIFT = 12;
const FEW = 0b111;
const PORT_MASK = 0b11_1111;
const HAS_NOTE = 1 << 18;
const ENQUIRES = 1 << 19;
const SUBMISSION_SHIFT = 20;
const SUBMISSION_MASK = 0b11;
const ACCEPTANCE_UNTOLD = 1 << 22;
const HINTED = 1 << 23;
const PHASE_SHIFT = 24;
const PHASE_MASK = 0b11;
const ALARMED = 1 << 26;
const REFUSALS_TOLD = 1 << 27;
const WAIT_TOLD = 1 << 28;
const FAILING = 1 << 29;
const UNSENT = 1 << 30;

interface Block {
  readonly numbers: Float64Array;
  readonly texts: Buffer;
  parked: number;
}

/** It waits for its next call. What waits for its account does not for long. */
export function isParkable({ state }: Watched): boolean {
  return state === 'waiting';
}

export class Parked {
  readonly #ports: readonly Port[];
  readonly #blocks: (Block | null)[] = [];
  /** Of the last block that was given back: the next one that is wanted. */
  #spare: Block | null = null;
  readonly #longTexts = new Map<number, string>();

  /** `ports`: all that a transaction can have. */
  constructor(ports: readonly Port[]) {
    assert(ports.length <= PORT_MASK + 1, 'a code has room for every port');
    this.#ports = ports;
  }

  /** Under `watched.number`; the object is not it any more. */
  put(watched: Watched): void {
    assert(isParkable(watched), 'what is parked only waits');
    const { number } = watched;
    const block = this.#blockFor(number);
    block.parked++;
    const { numbers } = block;
    const row = rowOf(number) * NUMBERS;
    numbers[row + AMOUNT] = watched.amount;
    numbers[row + CREATED_AT] = watched.createdAt;
    numbers[row + EXPIRES_AT] = watched.expiresAt ?? Number.NaN;
    numbers[row + ENQUIRED_AT] = watched.enquiredAt;
    numbers[row + GRACE_UNTIL] = watched.graceUntil;
    numbers[row + LAST_UNTIL] = watched.lastUntil;
    numbers[row + SUBMITS] = watched.submits;
    numbers[row + ENQUIRIES] = watched.enquiries;
    numbers[row + UNANSWERED] = watched.unanswered;
    numbers[row + TELLS] = watched.tells;
    numbers[row + CODES] = this.#codesOf(watched);
    numbers[row + TEXT_LENGTH] = this.#putText(number, block, textOf(watched));
    watched.state = 'parked';
  }

  /** Its id, where something is parked under this number. */
  idOf(number: number): string {
    const text = this.#textOf(number, this.#blockOf(number));
    return text.slice(0, text.indexOf(SEPARATOR));
  }

  take(number: number): Watched {
    const block = this.#blockOf(number);
    const { numbers } = block;
    const row = rowOf(number) * NUMBERS;
    const codes = numbers[row + CODES]!;
    const port = this.#ports[(codes >> PORT_SHIFT) & PORT_MASK]!;
    const expiresAt = numbers[row + EXPIRES_AT]!;
    const texts = this.#textOf(number, block).split(SEPARATOR);
    const watched = new Watched(
      {
        id: texts[0]!,
        accountId: texts[1]!,
        type: TRANSACTION_TYPES[(codes >> TYPE_SHIFT) & FEW]!,
        amount: numbers[row + AMOUNT]!,
        currency: CURRENCIES[(codes >> CURRENCY_SHIFT) & FEW]!,
        country: COUNTRIES[(codes >> COUNTRY_SHIFT) & FEW]!,
        network: NETWORKS[(codes >> NETWORK_SHIFT) & FEW]!,
        msisdn: texts[2]!,
        provider: port.lane.rail.id,
        reference: texts[3]!,
        note: (codes & HAS_NOTE) === 0 ? null : texts.slice(4).join(SEPARATOR),
        createdAt: numbers[row + CREATED_AT]!,
        expiresAt: Number.isNaN(expiresAt) ? null : expiresAt,
        submitted: false,
        unsent: (codes & UNSENT) !== 0,
      },
      port,
    );
    watched.number = number;
    watched.phase = PHASES[(codes >> PHASE_SHIFT) & PHASE_MASK]!;
    watched.next = (codes & ENQUIRES) === 0 ? 'submit' : 'enquire';
    watched.submission = SUBMISSIONS[(codes >> SUBMISSION_SHIFT) & SUBMISSION_MASK]!;
    watched.acceptanceUntold = (codes & ACCEPTANCE_UNTOLD) !== 0;
    watched.hinted = (codes & HINTED) !== 0;
    watched.alarmed = (codes & ALARMED) !== 0;
    watched.refusalsTold = (codes & REFUSALS_TOLD) !== 0;
    watched.waitTold = (codes & WAIT_TOLD) !== 0;
    watched.failing = (codes & FAILING) !== 0;
    watched.submits = numbers[row + SUBMITS]!;
    watched.enquiries = numbers[row + ENQUIRIES]!;
    watched.unanswered = numbers[row + UNANSWERED]!;
    watched.lastUntil = numbers[row + LAST_UNTIL]!;
    watched.enquiredAt = numbers[row + ENQUIRED_AT]!;
    watched.graceUntil = numbers[row + GRACE_UNTIL]!;
    watched.tells = numbers[row + TELLS]!;
    this.#leave(number, block);
    return watched;
  }

  #codesOf(watched: Watched): number {
    const port = this.#ports.indexOf(watched.port);
    assert(port !== -1, 'what is parked has one of the ports');
    return (
      (TRANSACTION_TYPES.indexOf(watched.type) << TYPE_SHIFT) |
      (CURRENCIES.indexOf(watched.currency) << CURRENCY_SHIFT) |
      (COUNTRIES.indexOf(watched.country) << COUNTRY_SHIFT) |
      (NETWORKS.indexOf(watched.network) << NETWORK_SHIFT) |
      (port << PORT_SHIFT) |
      (PHASES.indexOf(watched.phase) << PHASE_SHIFT) |
      (SUBMISSIONS.indexOf(watched.submission) << SUBMISSION_SHIFT) |
      (watched.note === null ? 0 : HAS_NOTE) |
      (watched.next === 'submit' ? 0 : ENQUIRES) |
      (watched.unsent ? UNSENT : 0) |
      (watched.acceptanceUntold ? ACCEPTANCE_UNTOLD : 0) |
      (watched.hinted ? HINTED : 0) |
      (watched.alarmed ? ALARMED : 0) |
      (watched.refusalsTold ? REFUSALS_TOLD : 0) |
      (watched.waitTold ? WAIT_TOLD : 0) |
      (watched.failing ? FAILING : 0)
    );
  }

  /** Returns its length in bytes, or LONG. */
  #putText(number: number, { texts }: Block, text: string): number {
    // Three bytes a character at most: only what may be too long is measured.
    if (text.length * 3 > TEXT_BYTES && Buffer.byteLength(text) > TEXT_BYTES) {
      this.#longTexts.set(number, text);
      return LONG;
    }
    return texts.write(text, rowOf(number) * TEXT_BYTES);
  }

  #textOf(number: number, { numbers, texts }: Block): string {
    const length = numbers[rowOf(number) * NUMBERS + TEXT_LENGTH]!;
    if (length === LONG) return this.#longTexts.get(number)!;
    const start = rowOf(number) * TEXT_BYTES;
    return texts.toString('utf8', start, start + length);
  }

  #blockOf(number: number): Block {
    const block = this.#blocks[Math.floor(number / ROWS_OF_BLOCK)];
    assert(block !== undefined && block !== null, 'something is parked under the number');
    return block;
  }

  #blockFor(number: number): Block {
    const index = Math.floor(number / ROWS_OF_BLOCK);
    while (this.#blocks.length <= index) this.#blocks.push(null);
    const block = this.#blocks[index] ?? this.#spare ?? newBlock();
    if (block === this.#spare) this.#spare = null;
    this.#blocks[index] = block;
    return block;
  }

  #leave(number: number, block: Block): void {
    if (block.numbers[rowOf(number) * NUMBERS + TEXT_LENGTH] === LONG) this.#longTexts.delete(number);
    if (--block.parked > 0) return;
    this.#spare = block;
    this.#blocks[Math.floor(number / ROWS_OF_BLOCK)] = null;
  }
}

function rowOf(number: number): number {
  return number % ROWS_OF_BLOCK;
}

function textOf({ id, accountId, msisdn, reference, note }: Watched): string {
  const text = id + SEPARATOR + accountId + SEPARATOR + msisdn + SEPARATOR + reference;
  return note === null ? text : text + SEPARATOR + note;
}

function newBlock(): Block {
  return {
    numbers: new Float64Array(ROWS_OF_BLOCK * NUMBERS),
    texts: Buffer.allocUnsafeSlow(ROWS_OF_BLOCK * TEXT_BYTES),
    parked: 0,
  };
}
