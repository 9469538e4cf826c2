// Pages of what waits for a provider, or has expired, for pollers that begin: each looks at a bounded part of it, whatever lies between
// the transactions that it is about, and however long their rows are.

import t from 'tap';
import { getPending, listExpired, listPending } from '../../actors/accounts/for-pollers.ts';
import { Memory } from '../../actors/accounts/memory.ts';
import { encodeOpen, indexPrefix, openKey, openOf, SEPARATOR } from '../../actors/accounts/rows.ts';
import { encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import { bodyOf, encodeTime, PREFIX_OF_TYPE } from '../../src/domain/id.ts';
import { money } from '../../src/domain/money.ts';
import { bucketOf } from '../../src/domain/transaction-filter.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import { ACCOUNT, DAY } from './domain/scenario.ts';

const START = 1_772_357_500_000;

function withdrawal(number: number, changes: Partial<Transaction>): Transaction {
  const event = { source: 'API', providerStatus: null, message: null, at: START + number } as const;
  const waits = { approvalStatus: 'PENDING', status: 'INITIATED', metadata: null } as const;
  return {
    id: `wdl_${encodeTime(START + number)}${'0'.repeat(16)}`,
    type: 'WITHDRAWAL',
    accountId: ACCOUNT,
    appId: null,
    requestedBy: null,
    amount: money(1_000),
    currency: 'UGX',
    country: 'UG',
    network: 'MTN',
    msisdn: '256772123456',
    reference: 'r',
    description: null,
    narration: null,
    destination: 'wal_1',
    provider: 'mtn_ug',
    fee: money(0),
    expiresAt: null,
    failureCode: null,
    failureMessage: null,
    providerTransactionId: null,
    submitted: false,
    unsent: true,
    journals: [],
    answeredAt: 0,
    releaseAt: null,
    released: false,
    sequence: 1,
    ...waits,
    ...changes,
    events: [{ ...event, status: changes.status ?? 'INITIATED' }],
  };
}

const SENT = { approvalStatus: 'NOT_REQUIRED', status: 'PENDING_PROVIDER' } as const;

/** Rows as LMDB has them, and how many of those in flight were looked at. */
function viewsOf(transactions: readonly Transaction[]): { views: Views; looked: () => number } {
  let looked = 0;
  const rows = transactions.map((transaction) => ({
    key: openKey(ACCOUNT, transaction.id),
    value: encodeOpen(openOf(transaction)!),
  }));
  const texts = new Map(transactions.map((transaction) => [transaction.id, encodeTransaction(transaction)]));
  const views: Views = {
    get: (_table, id) => texts.get(id),
    *range(_table, { start }) {
      for (const row of rows) {
        if (row.key < start) continue;
        looked++;
        yield row;
      }
    },
  };
  return { views, looked: () => looked };
}

/** Rows as LMDB has them, of what is at rest. */
function viewsOfFinal(transactions: readonly Transaction[]): Views {
  const texts = new Map(transactions.map((transaction) => [transaction.id, encodeTransaction(transaction)]));
  const indexed = transactions.map((one) => indexPrefix(ACCOUNT, bucketOf(one)) + bodyOf(one.id)).sort();
  const buckets = new Set(indexed.map((key) => key.slice(0, key.lastIndexOf(SEPARATOR))));
  const rows = { bucket: [...buckets], index: indexed };
  return {
    get: (_table, id) => texts.get(id),
    *range(table, { start, end }) {
      for (const key of rows[table as 'bucket' | 'index']) {
        if (key >= start && key < end) yield { key, value: '' };
      }
    },
  };
}

interface Page {
  readonly data: readonly { readonly id: string }[];
  readonly next?: string | null;
}

function pageOf(memory: Memory, views: Views, afterId: string | null, mayBeShort?: true, limit = 3): Page {
  const query = { type: 'ListPending', accountId: '', deadline: Infinity, afterId, limit } as const;
  const { reply } = listPending(memory, views, mayBeShort ? { ...query, mayBeShort } : query);
  if (reply.type !== 'done') throw new Error(reply.type);
  return JSON.parse(reply.body) as Page;
}

/** Ids on each page. */
function pagesOf(transactions: readonly Transaction[], isFresh: (n: number) => boolean = () => false) {
  const { views, looked } = viewsOf(transactions.filter((_, n) => !isFresh(n)));
  const memory = new Memory(views, { sequence: 1, writesRows: false });
  for (const transaction of transactions.filter((_, n) => isFresh(n))) memory.putTransaction(transaction);
  const pages: string[][] = [];
  let lookedMax = 0;
  for (let afterId: string | null = null; pages.length === 0 || afterId !== null;) {
    const before = looked();
    const { data, next } = pageOf(memory, views, afterId, true);
    lookedMax = Math.max(lookedMax, looked() - before);
    pages.push(data.map(({ id }) => id));
    afterId = next!;
  }
  return { pages, lookedMax };
}

t.test('any number of withdrawals may wait for approval: a page ends behind so many', async (t) => {
  const waiting = 2 * LIMITS.listRowsScannedMax + 100;
  const all = Array.from({ length: waiting + 10 }, (_, n) => withdrawal(n, n < waiting ? {} : SENT));
  const sent = all.slice(waiting).map(({ id }) => id);
  const { pages, lookedMax } = pagesOf(all);
  t.equal(lookedMax, LIMITS.listRowsScannedMax);
  t.same(pages.flat(), sent);
  const { views } = viewsOf(all);
  const older = pageOf(new Memory(views, { sequence: 1, writesRows: false }), views, null);
  t.same(older, { sequence: 1, data: older.data }, 'who asks as older versions do is told of no next page');
  t.same(
    older.data.map(({ id }) => id),
    sent.slice(0, 3),
    'and has a full one',
  );
});

t.test('what is only in memory comes in its place, once', async (t) => {
  const waiting = LIMITS.listRowsScannedMax + 100;
  // Behind those that wait for approval, too, where a page ends before it gets to what is in memory.
  const isSent = (n: number): boolean => n % 10 < 2 && (n < 20 || n > waiting - 50);
  const all = Array.from({ length: waiting }, (_, n) => withdrawal(n, isSent(n) ? SENT : {}));
  const { pages } = pagesOf(all, (n) => isSent(n) && n % 10 === 1);
  const sent = all.filter(({ status }) => status === 'PENDING_PROVIDER').map(({ id }) => id);
  t.same(pages.flat(), sent);
});

t.test('what ended since its row was written is told no more, and fills no page', async (t) => {
  const all = Array.from({ length: 8 }, (_, n) => withdrawal(n, SENT));
  const { views, looked } = viewsOf(all);
  const memory = new Memory(views, { sequence: 1, writesRows: false });
  const ended = [1, 2, 6];
  for (const n of ended) memory.putTransaction(withdrawal(n, { ...SENT, status: 'FAILED' }));
  memory.putTransaction(all[4]!);
  const told: string[] = [];
  for (let afterId: string | null = null; told.length === 0 || afterId !== null;) {
    const before = looked();
    const { data, next } = pageOf(memory, views, afterId, true, 2);
    told.push(...data.map(({ id }) => id));
    afterId = next!;
    t.ok(looked() - before <= 4, 'two to tell, and two that ended, at most');
  }
  const sent = all.filter((_, n) => !ended.includes(n)).map(({ id }) => id);
  t.same(told, sent);
});

t.test('nobody is told to submit a withdrawal that waits for its approval', async (t) => {
  const waiting = withdrawal(1, {});
  for (const isFresh of [true, false]) {
    const { views } = viewsOf(isFresh ? [] : [waiting]);
    const memory = new Memory(views, { sequence: 1, writesRows: false });
    if (isFresh) memory.putTransaction(waiting);
    t.same(pageOf(memory, views, null, true).data, []);
    const one = { type: 'GetPending', accountId: ACCOUNT, transactionId: waiting.id } as const;
    const { reply } = getPending(memory, { ...one, deadline: Infinity });
    t.hasStrict(reply, { type: 'rejected', rejection: { code: 'transaction_not_found' } });
  }
});

t.test('a page reads no more of large metadata than it may, and the next one goes on there', async (t) => {
  const metadata = { ['k'.repeat(60_000)]: 1 };
  const all = Array.from({ length: 60 }, (_, n) => withdrawal(n, { ...SENT, metadata }));
  const { views } = viewsOf(all);
  const memory = new Memory(views, { sequence: 1, writesRows: false });
  const ids: string[] = [];
  let pages = 0;
  for (let afterId: string | null = null; pages === 0 || afterId !== null; pages++) {
    const before = memory.charactersRead;
    const page = pageOf(memory, views, afterId, true, 500);
    ids.push(...page.data.map(({ id }) => id));
    afterId = page.next!;
    const read = memory.charactersRead - before;
    t.ok(read < LIMITS.listCharactersReadMax + 70_000, `${read} were read`);
  }
  t.ok(pages > 1, `${pages} pages`);
  t.same(
    ids,
    all.map(({ id }) => id),
  );
});

t.test('nor does a page of what has expired, and the pages together are all of it', async (t) => {
  const metadata = { ['k'.repeat(60_000)]: 1 };
  const failed = { type: 'CHARGE', status: 'FAILED', failureCode: 'expired', metadata } as const;
  const all = Array.from({ length: 60 }, (_, n) => withdrawal(n, failed)).map(({ id, events, ...rest }) => ({
    ...rest,
    id: `chg_${bodyOf(id)}`,
    approvalStatus: 'NOT_REQUIRED' as const,
    events: events.map((event) => ({ ...event, source: 'SYSTEM' as const })),
  }));
  const views = viewsOfFinal(all);
  const memory = new Memory(views, { sequence: 1, writesRows: false });
  const query = { type: 'ListExpired', accountId: '', deadline: Infinity, expiredSince: 0 } as const;
  const ids: string[] = [];
  let pages = 0;
  for (let after: string | null = null; pages === 0 || after !== null; pages++) {
    const before = memory.charactersRead;
    const { reply } = listExpired(memory, views, { ...query, after, limit: 500 }, 1_800_000);
    if (reply.type !== 'done') throw new Error(reply.type);
    const page = JSON.parse(reply.body) as { data: { id: string }[]; next: string | null };
    ids.push(...page.data.map(({ id }) => id));
    after = page.next;
    const read = memory.charactersRead - before;
    t.ok(read < LIMITS.listCharactersReadMax + 70_000, `${read} were read`);
  }
  t.same(
    ids,
    all.map(({ id }) => id),
  );
});

t.test('what has expired is looked for as far back as it can have been made, by its type', async (t) => {
  const expiryMs = 1_800_000;
  const since = START + 40 * DAY;
  const ended = (type: 'CHARGE' | 'DEPOSIT' | 'PAYOUT', madeAt: number, endedAt = since): Transaction => {
    const isByOperator = type === 'PAYOUT';
    const { id, events, ...rest } = withdrawal(madeAt - START, {
      type,
      approvalStatus: 'NOT_REQUIRED',
      status: 'FAILED',
      failureCode: isByOperator ? 'provider_unavailable' : 'expired',
    });
    const failed = { ...events[0]!, at: endedAt, source: isByOperator ? 'DASHBOARD' : 'SYSTEM' } as const;
    return { ...rest, id: PREFIX_OF_TYPE[type] + bodyOf(id), events: [failed] };
  };
  const collected = since - expiryMs - LIMITS.pollerExpiredLateMs;
  const settled = since - LIMITS.pollerSettledLateMs;
  const told = [ended('CHARGE', collected), ended('DEPOSIT', collected), ended('PAYOUT', settled)];
  const views = viewsOfFinal([
    ...told,
    ended('CHARGE', collected - 1),
    ended('DEPOSIT', collected - 1),
    ended('PAYOUT', settled - 1),
    ended('CHARGE', since - 2, since - 1),
    ended('PAYOUT', since - 2, since - 1),
  ]);
  const memory = new Memory(views, { sequence: 1, writesRows: false });
  const query = { type: 'ListExpired', accountId: '', deadline: Infinity, after: null, limit: 500 } as const;
  const idsSince = (times: { readonly expiredSince: number; readonly settledSince?: number }): string[] => {
    const { reply } = listExpired(memory, views, { ...query, ...times }, expiryMs);
    if (reply.type !== 'done') throw new Error(reply.type);
    return (JSON.parse(reply.body) as Page).data.map(({ id }) => id).sort();
  };
  const ids = told.map(({ id }) => id);
  t.same(idsSince({ expiredSince: since }), ids.toSorted());
  t.same(idsSince({ expiredSince: since + 1, settledSince: since }), ids.slice(2), 'each by its own time');
});

t.test('of what ended that is asked about which its provider had, and did not end', async (t) => {
  const rows = [
    ['CHARGE', 'FAILED', 'NOT_REQUIRED', 'SYSTEM', 'expired', true],
    ['DEPOSIT', 'FAILED', 'NOT_REQUIRED', 'SYSTEM', 'expired', true],
    // It was never sent.
    ['CHARGE', 'FAILED', 'NOT_REQUIRED', 'SYSTEM', 'provider_unavailable', false],
    ['CHARGE', 'FAILED', 'NOT_REQUIRED', 'PROVIDER_POLL', 'expired', false],
    // Asked for from the dashboard, and refused at once.
    ['DEPOSIT', 'FAILED', 'NOT_REQUIRED', 'DASHBOARD', 'invalid_msisdn', false],
    ['PAYOUT', 'FAILED', 'NOT_REQUIRED', 'DASHBOARD', 'provider_rejected', true],
    ['PAYOUT', 'SUCCESSFUL', 'NOT_REQUIRED', 'DASHBOARD', null, false],
    ['PAYOUT', 'FAILED', 'NOT_REQUIRED', 'PROVIDER_CALLBACK', 'wallet_not_found', false],
    ['WITHDRAWAL', 'FAILED', 'APPROVED', 'DASHBOARD', 'provider_rejected', true],
    ['WITHDRAWAL', 'FAILED', 'REJECTED', 'DASHBOARD', 'approval_rejected', false],
    ['WITHDRAWAL', 'FAILED', 'APPROVED', 'SYSTEM', 'wallet_inactive', false],
  ] as const;
  const all = rows.map(([type, status, approvalStatus, source, failureCode], n) => {
    const { id, events, ...rest } = withdrawal(n, { type, status, approvalStatus, failureCode });
    return { ...rest, id: PREFIX_OF_TYPE[type] + bodyOf(id), events: [{ ...events[0]!, source }] };
  });
  const wanted = all.filter((_, n) => rows[n]![5]).map(({ id }) => id);
  const told = (views: Views, memory: Memory, limit: number): string[] => {
    const ids: string[] = [];
    const query = { type: 'ListExpired', accountId: '', deadline: Infinity, expiredSince: 1 } as const;
    let pages = 0;
    for (let after: string | null = null; pages === 0 || after !== null; pages++) {
      const { reply } = listExpired(memory, views, { ...query, after, limit }, 1_800_000);
      if (reply.type !== 'done' || pages > 100) throw new Error(`page ${pages}: ${reply.type}`);
      const page = JSON.parse(reply.body) as { data: { id: string }[]; next: string | null };
      if (page.data.length > limit) t.fail('a page is longer than its limit');
      ids.push(...page.data.map(({ id }) => id));
      after = page.next;
    }
    return ids.sort();
  };
  const views = viewsOfFinal(all);
  for (const limit of [1, 2, 500]) {
    t.same(told(views, new Memory(views, { sequence: 1, writesRows: false }), limit), wanted.toSorted());
  }
  for (const under of [viewsOfFinal([]), views]) {
    const memory = new Memory(under, { sequence: 1, writesRows: false });
    for (const transaction of all) memory.putTransaction(transaction);
    t.same(told(under, memory, 500), wanted.toSorted(), 'of what is in memory, each once');
  }
});
