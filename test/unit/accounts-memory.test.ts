// What the views lack is in memory, and what they have leaves it: more and more of it would stay otherwise, for ever.

import fc from 'fast-check';
import t from 'tap';
import { Memory } from '../../actors/accounts/memory.ts';
import { decodeTransaction, encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import type { IdempotencyEntry, ReconciliationItem } from '../../src/domain/state.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import type { Views } from '../../wal/types.ts';
import { collectGarbage } from '../garbage.ts';
import { seedOf } from '../seed.ts';
import { charge, merchant } from './domain/scenario.ts';

const SEED = seedOf(t);

const NOTHING: Views = { get: () => undefined, range: () => [] };
const IDS = 6;

t.test(
  'by any sequence of changes and checkpoints it holds what changed since, and nothing else',
  async () => {
    const anyStep = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({ what: fc.constant('change' as const), n: fc.nat({ max: IDS - 1 }) }),
      },
      { weight: 1, arbitrary: fc.record({ what: fc.constant('reached' as const), n: fc.nat({ max: 8 }) }) },
    );
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 80 }), (steps) => {
        const memory = new Memory(NOTHING, { sequence: 0, writesRows: false });
        const transactions = Array.from(
          { length: IDS },
          (_, n) => ({ id: `chg_${n}`, sequence: 0 }) as Transaction,
        );
        const items = transactions.map(({ id }) => ({ id }) as ReconciliationItem);
        /** Sequence of the last change, by number, and of each key. */
        const changed = new Map<number, number>();
        const keys: number[] = [];
        let sequence = 0;
        let reached = 0;
        for (const { what, n } of steps) {
          if (what === 'change') {
            memory.beginRecord(++sequence);
            transactions[n]!.sequence = sequence;
            memory.touchTransaction(transactions[n]!);
            memory.touchReconciliation(items[n]!);
            memory.putIdempotency('acc', String(sequence), {} as IdempotencyEntry);
            changed.set(n, sequence);
            keys.push(sequence);
          } else {
            reached = Math.max(reached, sequence - n);
            memory.evict(reached);
          }
          const isLacking = (id: string): boolean => (changed.get(Number(id.slice(4))) ?? 0) > reached;
          const wanted = transactions.map(({ id }) => id).filter(isLacking);
          const held = [...memory.dirtyTransactions()].map(({ id }) => id);
          if (held.toSorted().join() !== wanted.join()) return false;
          if ([...memory.dirtyReconciliation()].length !== wanted.length) return false;
          const isHeld = (id: string): boolean => memory.reconciliation(id) !== undefined;
          if (items.some(({ id }) => isHeld(id) !== isLacking(id))) return false;
          const isKeyHeld = (key: number): boolean => memory.idempotency('acc', String(key)) !== undefined;
          if (keys.some((key) => isKeyHeld(key) !== key > reached)) return false;
        }
        return true;
      }),
      { seed: SEED, numRuns: 500 },
    );
  },
);

t.test('an account is written again when it has changed, and not at every checkpoint', async (t) => {
  const memory = new Memory(NOTHING, { sequence: 0, writesRows: true });
  const account = merchant().account();
  const written = (): string[] => memory.takeRows().map(({ table }) => table);
  for (let sequence = 1; sequence < 5; sequence += 2) {
    memory.beginRecord(sequence);
    account.sequence = sequence;
    memory.touchAccount(account);
    memory.evict(sequence - 1);
    t.same(written(), ['account']);
    memory.evict(sequence);
    t.same(written(), []);
  }
});

t.test('what the views have reached nothing here holds on to, also of what was read from them', async (t) => {
  const row = encodeTransaction(merchant().create(charge()));
  const { id } = decodeTransaction(row);
  for (const writesRows of [true, false]) {
    const memory = new Memory({ ...NOTHING, get: () => row }, { sequence: 0, writesRows });
    const change = (sequence: number): WeakRef<Transaction> => {
      const transaction = memory.transaction(id)!;
      memory.beginRecord(sequence);
      memory.touchTransaction(transaction);
      transaction.sequence = sequence;
      return new WeakRef(transaction);
    };
    const changed = change(1);
    await collectGarbage();
    t.not(changed.deref(), undefined, 'until then');
    memory.evict(1);
    await collectGarbage();
    t.equal(changed.deref(), undefined, `writesRows: ${writesRows}`);
    t.equal(memory.sequence, 1, 'the memory is not gone itself');
  }
});
