// What operators read of reconciliation items: those of the newest transactions first, by pages. A page looks at a bounded number
// of rows, whatever has been resolved since the first one; where it finds little it may be short, with an id to go on from.

import type { ListReconciliation } from '../../src/domain/account-command.ts';
import { renderReconciliation } from '../../src/domain/render/account.ts';
import type { ReconciliationItem } from '../../src/domain/state.ts';
import { LIMITS } from '../../src/limits.ts';
import { LAST_KEY, type Views } from '../../wal/types.ts';
import type { Answered } from '../runtime/group.ts';
import { newestFirst } from '../runtime/newest-first.ts';
import { firstThatFit } from '../runtime/page.ts';
import { done } from './answers.ts';
import type { Memory } from './memory.ts';
import { decodeReconciliation } from './rows.ts';

export function listReconciliation(memory: Memory, views: Views, query: ListReconciliation): Answered {
  const { found, next } = newest(memory, views, query);
  const rows = firstThatFit(found, renderReconciliation);
  const end = rows.length < found.length ? found[rows.length - 1]!.id : next;
  const body = `{"object":"list","data":[${rows.join(',')}],"next":${JSON.stringify(end)}}`;
  return done(body, memory.sequence);
}

/** `next`: the last id that was looked at, null where there is no lower one. */
function newest(
  memory: Memory,
  views: Views,
  query: ListReconciliation,
): { found: ReconciliationItem[]; next: string | null } {
  const found: ReconciliationItem[] = [];
  let looked = 0;
  let last = '';
  for (const item of itemsBelow(memory, views, query.startingAfter ?? LAST_KEY)) {
    if (found.length === query.limit || looked === LIMITS.listRowsScannedMax) return { found, next: last };
    if (isWanted(item, query)) found.push(item);
    looked++;
    last = item.id;
  }
  return { found, next: null };
}

function isWanted(item: ReconciliationItem, { accountId, open }: ListReconciliation): boolean {
  return (accountId === '' || item.accountId === accountId) && (!open || item.resolvedAt === null);
}

/** Ids sort by the creation of the transactions that the items are about. */
function itemsBelow(memory: Memory, views: Views, before: string): Iterable<ReconciliationItem> {
  const fresh = [...memory.dirtyReconciliation()]
    .filter(({ id }) => id < before)
    .sort((a, b) => (a.id < b.id ? 1 : -1));
  const stored = checkpointed(views, before, new Set(fresh.map(({ id }) => id)));
  return newestFirst([fresh, stored], ({ id }) => id);
}

/** `fresh`: what is in memory is newer than its row. */
function* checkpointed(
  views: Views,
  before: string,
  fresh: ReadonlySet<string>,
): Generator<ReconciliationItem, void> {
  for (const { key, value } of views.range('reconciliation', { start: '', end: before, reverse: true })) {
    if (!fresh.has(key)) yield decodeReconciliation(value);
  }
}
