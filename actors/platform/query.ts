// What the platform answers to reads. Lists are newest first and paged by key, so that a page costs the same however
// long the history is.

import { doneReply, rejectedReply, type Reply } from '../../src/bus/bus.ts';
import { rejection } from '../../src/domain/error-code.ts';
import { isId } from '../../src/domain/id.ts';
import type { IdKind } from '../../src/domain/id.ts';
import type { PlatformQuery, RegisteredAccount } from '../../src/domain/platform-message.ts';
import { PageText, renderList } from '../runtime/page.ts';
import type { AccountRow, AuditRow, PlatformState, TableName } from './state.ts';

export function answerQuery(state: PlatformState, query: PlatformQuery): Reply {
  switch (query.type) {
    case 'ListAccounts':
      return page(state, 'accounts', 'account', query, accountView);
    case 'GetAudit':
      return page(state, 'audit', 'audit', query, auditView);
    case 'ListUnopenedAccounts': {
      const ids = state.oldestKeys('unopened', query.limit);
      const data = ids.map((id) => registered(state.get('accounts', id) as AccountRow));
      return doneReply(JSON.stringify({ data }));
    }
  }
}

function page<Name extends TableName>(
  state: PlatformState,
  table: Name,
  kind: IdKind,
  { limit, startingAfter }: { readonly limit: number; readonly startingAfter: string | null },
  view: (row: NonNullable<ReturnType<typeof state.get<Name>>>) => { readonly id: string },
): Reply {
  if (startingAfter !== null && !isId(kind, startingAfter)) {
    return rejectedReply(rejection('invalid_cursor', null, 'starting_after'));
  }
  const page = new PageText();
  let last: string | null = null;
  for (const row of state.newest(table, startingAfter)) {
    const shown = view(row);
    // An audited body may be nearly as large as one can be sent.
    const fits = page.rows.length < limit && page.add(JSON.stringify(shown));
    if (!fits) return doneReply(renderList(page.rows, last));
    last = shown.id;
  }
  return doneReply(renderList(page.rows, null));
}

function accountView({ id, name, country, openedAt, createdAt }: AccountRow) {
  return { id, object: 'account', name, country, opened: openedAt !== null, created_at: iso(createdAt) };
}

function auditView(entry: AuditRow) {
  const { id, at, operator, action, target, body, outcome, status, code, objectId = null, endedAt } = entry;
  return {
    id,
    object: 'audit_entry',
    operator,
    action,
    target,
    body: body === null ? null : (JSON.parse(body) as unknown),
    outcome,
    status,
    code,
    object_id: objectId,
    created_at: iso(at),
    ended_at: endedAt === null ? null : iso(endedAt),
  };
}

function registered(row: AccountRow): RegisteredAccount {
  const { id, name, country, live, payoutsEnabled, withdrawalsEnabled, operator } = row;
  return { id, name, country, live, payoutsEnabled, withdrawalsEnabled, operator };
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
