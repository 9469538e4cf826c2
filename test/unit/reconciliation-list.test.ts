// Pages of reconciliation items against a plain list: some in memory, some in the views, some in both, some resolved.

import fc from 'fast-check';
import t from 'tap';
import { Memory } from '../../actors/accounts/memory.ts';
import { listReconciliation } from '../../actors/accounts/reconciliation-list.ts';
import { encodeReconciliation } from '../../actors/accounts/rows.ts';
import type { ReconciliationItem } from '../../src/domain/state.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

const START = 1_772_357_500_000;

function newItem(number: number, accountId: string, resolved: boolean): ReconciliationItem {
  return {
    id: `rec_${String(number).padStart(24, '0')}00`,
    accountId,
    kind: 'CONTRADICTION',
    transactionId: null,
    detail: 'Paid twice.',
    raisedAt: START + number,
    resolvedAt: resolved ? START + number + 1 : null,
    resolution: resolved ? 'Paid back.' : null,
    resolvedBy: resolved ? 'usr_1' : null,
  } as ReconciliationItem;
}

/** Rows in the order of their keys, as LMDB has them. */
function viewsOf(items: readonly ReconciliationItem[]): { views: Views; read: () => number } {
  let read = 0;
  const rows = items.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const views: Views = {
    get: () => undefined,
    *range(table, { start, end, reverse }) {
      if (table !== 'reconciliation' || reverse !== true) throw new Error('only this is read');
      for (const item of rows.toReversed()) {
        if (item.id < start || item.id >= end) continue;
        read++;
        yield { key: item.id, value: encodeReconciliation(item) };
      }
    },
  };
  return { views, read: () => read };
}

interface Page {
  readonly data: readonly { readonly id: string; readonly resolution: string | null }[];
  readonly next: string | null;
}

function page(
  memory: Memory,
  views: Views,
  query: { accountId: string; open: boolean; limit: number; startingAfter: string | null },
): Page {
  const { reply } = listReconciliation(memory, views, {
    type: 'ListReconciliation',
    deadline: Infinity,
    ...query,
  });
  if (reply.type !== 'done') throw new Error(reply.type);
  return JSON.parse(reply.body) as Page;
}

t.test('all pages together are what a list has, newest first, each item once', async (t) => {
  const anyItem = fc.record({
    number: fc.nat({ max: 40 }),
    account: fc.constantFrom('acc_1', 'acc_2'),
    where: fc.constantFrom('views', 'memory', 'both'),
    resolved: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.uniqueArray(anyItem, { selector: ({ number }) => number }),
      fc.constantFrom('', 'acc_1'),
      fc.boolean(),
      fc.integer({ min: 1, max: 7 }),
      (all, accountId, open, limit) => {
        // What is in both was resolved after the checkpoint.
        const stored = all.filter(({ where }) => where !== 'memory');
        const { views } = viewsOf(
          stored.map(({ number, account, where, resolved }) =>
            newItem(number, account, where === 'views' && resolved),
          ),
        );
        const memory = new Memory(views, { sequence: 1, writesRows: false });
        for (const { number, account, where, resolved } of all) {
          if (where !== 'views') memory.putReconciliation(newItem(number, account, resolved));
        }
        const expected = all
          .filter(({ account }) => accountId === '' || account === accountId)
          .filter(({ resolved }) => !open || !resolved)
          .sort((a, b) => b.number - a.number)
          .map(({ number, account, resolved }) => newItem(number, account, resolved));
        const told: Page['data'][number][] = [];
        for (let startingAfter: string | null = null; ;) {
          const { data, next } = page(memory, views, { accountId, open, limit, startingAfter });
          if (data.length > limit) return false;
          told.push(...data);
          if (next === null) break;
          startingAfter = next;
        }
        t.strictSame(
          told.map(({ id, resolution }) => [id, resolution]),
          expected.map(({ id, resolution }) => [id, resolution]),
        );
        return true;
      },
    ),
    { seed: SEED },
  );
});

t.test('a page looks at so many rows and no more, and says where to go on', async (t) => {
  const count = LIMITS.listRowsScannedMax + 10;
  const items = Array.from({ length: count }, (_, number) => newItem(number, 'acc_1', number > 0));
  const { views, read } = viewsOf(items);
  const memory = new Memory(views, { sequence: 1, writesRows: false });
  const query = { accountId: '', open: true, limit: 5, startingAfter: null };
  const first = page(memory, views, query);
  t.strictSame(first, { object: 'list', data: [], next: items[10]!.id });
  t.equal(read(), LIMITS.listRowsScannedMax + 1);
  const second = page(memory, views, { ...query, startingAfter: first.next });
  t.strictSame(
    second.data.map(({ id }) => id),
    [items[0]!.id],
  );
  t.equal(second.next, null);
});

t.test('a page ends early rather than outgrow the bus, and the next one goes on there', async (t) => {
  const detail = 'x'.repeat(LIMITS.listPageCharactersMax / 2 - 1_000);
  const items = Array.from({ length: 5 }, (_, number) => ({ ...newItem(number, 'acc_1', false), detail }));
  const { views } = viewsOf(items);
  const memory = new Memory(views, { sequence: 1, writesRows: false });
  const told: string[][] = [];
  for (let startingAfter: string | null = null; told.length === 0 || startingAfter !== null;) {
    const { data, next } = page(memory, views, { accountId: '', open: true, limit: 5, startingAfter });
    told.push(data.map(({ id }) => id));
    startingAfter = next;
  }
  const [a, b, c, d, e] = items.map(({ id }) => id);
  t.strictSame(told, [[e, d], [c, b], [a]]);
});

t.test('a page waits for what was raised, or resolved, to be durable', async (t) => {
  const { views } = viewsOf([newItem(1, 'acc_1', false)]);
  const memory = new Memory(views, { sequence: 5, writesRows: false });
  const query = { accountId: '', open: true, limit: 5, startingAfter: null, deadline: Infinity } as const;
  const waitsFor = (): number =>
    listReconciliation(memory, views, { ...query, type: 'ListReconciliation' }).sequence;
  memory.beginRecord(6);
  memory.putReconciliation(newItem(2, 'acc_2', false));
  t.equal(waitsFor(), 6);
  memory.beginRecord(7);
  memory.touchReconciliation(newItem(1, 'acc_1', true));
  t.equal(waitsFor(), 7, 'also for what it does not tell any more');
});
