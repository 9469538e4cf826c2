// Payments that the network takes back. It calls until it is answered 200; a front asks again where nobody answers it.

import type { OnReply } from '../../src/bus/bus.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Clock } from '../../src/rails/rail.ts';
import { type Provider, reversed } from '../unit/pollers-driven.ts';

interface World {
  readonly provider: Provider;
  readonly clock: Clock;
}

type Hint = (transaction: Transaction, onReply: OnReply) => void;

export class TakenBack {
  readonly #world: World;
  readonly #hint: Hint;
  /** What it still calls about, and when it was last told to a poller. */
  readonly #toldAt = new Map<Transaction, number>();

  constructor(world: World, hint: Hint) {
    this.#world = world;
    this.#hint = hint;
  }

  get size(): number {
    return this.#toldAt.size;
  }

  add(transaction: Transaction): void {
    this.#world.provider.settle(transaction, reversed());
    this.#toldAt.set(transaction, -Infinity);
  }

  call(): void {
    const now = this.#world.clock.now();
    for (const [transaction, toldAt] of this.#toldAt) {
      if (now - toldAt < LIMITS.commandDeadlineMs) continue;
      this.#toldAt.set(transaction, now);
      this.#hint(transaction, ({ type }) => {
        if (type === 'done') this.#toldAt.delete(transaction);
        else this.#toldAt.set(transaction, -Infinity);
      });
    }
  }

  /** The pollers that were told are dead. */
  callAgain(): void {
    for (const transaction of this.#toldAt.keys()) this.#toldAt.set(transaction, -Infinity);
  }
}
