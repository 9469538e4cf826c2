// The accounts group in its partition at its bounds: what is full must empty again, no timer is lost, and a clock that is
// set back stops nobody.

import t from 'tap';
import { accountsGroup, AccountsPartition } from '../../actors/accounts/group.ts';
import { encodeAccount, encodeOpen, openKey, openOf } from '../../actors/accounts/rows.ts';
import { encodeTransaction } from '../../actors/accounts/transaction-row.ts';
import { pendingOf } from '../../actors/pollers/created.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import type { Reply } from '../../src/bus/bus.ts';
import type { AccountCommand, AccountQuery } from '../../src/domain/account-command.ts';
import type { AccountEvent, AccountRecord, TransactionCreated } from '../../src/domain/account-event.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { makeId } from '../../src/domain/id.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { LIMITS } from '../../src/limits.ts';
import type { Views } from '../../wal/types.ts';
import {
  ACCOUNT,
  appConnected,
  body as idBody,
  byOperator,
  charge,
  deposit,
  fundedMerchant,
  payout,
  FOR_EVER,
  MINUTE,
  outcome,
  START,
  submission,
  withdrawal,
} from './domain/scenario.ts';

const ANSWER_WAIT_MS = 5_000;
/** Soon enough to be kept in memory. */
const RELEASE_MS = LIMITS.timerHorizonMs.timer;
const NO_VIEWS: Views = { get: () => undefined, range: () => [] };

/** One partition with one live account, over a log that is durable when the test says so. */
function opened(terms: Partial<Policy> = {}) {
  const policy = {
    ...DEFAULT_POLICY,
    ...terms,
    providerAnswerWaitMs: ANSWER_WAIT_MS,
    chargeReleaseMs: RELEASE_MS,
    routes: { 'UG:MTN': 'mtn_ug' },
  };
  const group = accountsGroup(policy);
  const log = { appended: 0, durable: 0, append: () => ++log.appended };
  const state = { now: START, isPaused: false, onPublished: () => {} };
  const records: AccountRecord[] = [];
  const partition = new Partition<AccountCommand, AccountQuery, AccountRecord>({
    group,
    logic: group.open(0, NO_VIEWS, { sequence: 0, writesRows: false }),
    log,
    clock: () => state.now,
    deadlineClock: () => state.now,
    lastRecordAt: 0,
    observer: { decided: () => {} },
    writeFormat: () => 1,
    isPaused: () => state.isPaused,
    publish: (_first, published) => {
      records.push(...published);
      state.onPublished();
    },
  });
  const flush = (): void => {
    const first = log.durable + 1;
    const count = log.appended - log.durable;
    log.durable = log.appended;
    partition.committed(first, count);
    partition.answer();
  };
  const send = (message: AccountCommand | AccountQuery): Reply[] => {
    const replies: Reply[] = [];
    partition.send(message, (reply) => replies.push(reply));
    return replies;
  };
  const settings = {
    name: 'Shop',
    country: 'UG',
    live: true,
    payoutsEnabled: true,
    withdrawalsEnabled: true,
  };
  send({ ...byOperator, type: 'OpenAccount', ...settings } as AccountCommand);
  const {
    id: _,
    type: __,
    by: ___,
    ...app
  } = appConnected as Extract<AccountEvent, { type: 'AppConnected' }>;
  send({ ...byOperator, type: 'ConnectApp', ...app });
  flush();
  const createdIds = (): string[] => ofType('ChargeCreated').map(({ id }) => id);
  const ofType = <T extends AccountEvent['type']>(type: T): Extract<AccountEvent, { type: T }>[] =>
    records.flatMap(({ events }) => events).filter((event) => event.type === type) as never;
  let keys = 0;
  const create = (deadline = FOR_EVER): Reply[] =>
    send(charge({}, { deadline, idempotencyKey: `charge-${++keys}` }));
  const succeed = (transactionId: string): Reply[] => send(outcome(transactionId, 'SUCCESSFUL'));
  return { partition, state, send, create, succeed, flush, createdIds, ofType, records };
}

/** With money to pay out, and a way to. */
function funded(terms: Partial<Policy> = {}) {
  const { partition, state, send, create, succeed, flush, ofType, records } = opened(terms);
  send(deposit({ amount: '5000000' }, { idempotencyKey: 'deposit-1' }));
  flush();
  succeed(ofType('DepositCreated')[0]!.id);
  flush();
  let keys = 0;
  const pay = (): Reply => {
    const replies = send(payout({ amount: '1000' }, { idempotencyKey: `payout-${++keys}` }));
    flush();
    return replies[0]!;
  };
  return { partition, state, send, create, flush, pay, records };
}

void t.test('callers who wait may be as many as they may, and then their waiting ends', (t) => {
  const { partition, state, create, succeed, flush, createdIds } = opened();
  const replies: Reply[][] = [];
  while (partition.waiting < LIMITS.waitersMax) {
    replies.push(create());
    if (partition.depth >= LIMITS.mailboxMax || replies.length >= LIMITS.waitersMax) flush();
  }
  t.equal(replies.length, LIMITS.waitersMax);
  t.same(create(), [{ type: 'unavailable' }], 'one more would have no place');
  t.equal(createdIds().length, LIMITS.waitersMax, 'and nothing was created for it');
  succeed(createdIds()[0]!);
  flush();
  t.equal(replies[0]!.length, 1, 'an outcome is taken all the same, and ends a wait');
  state.now += ANSWER_WAIT_MS;
  for (let i = 0; i < 4 && partition.waiting > 0; i++) {
    state.now += ANSWER_WAIT_MS;
    partition.tick();
    flush();
  }
  t.equal(partition.waiting, 0, 'and so does time');
  t.ok(replies.every(([reply]) => reply?.type === 'done'));
  t.end();
});

// Refused, it would have counted against its account's rate, though nothing was made.
void t.test('a payout waits for no rail: it is taken, and counts, however many charges wait', (t) => {
  const { partition, create, flush, pay } = funded({ cashOutPerMinute: 2 });
  while (partition.waiting < LIMITS.waitersMax) {
    create();
    flush();
  }
  t.same(create(), [{ type: 'unavailable' }]);
  t.hasStrict([pay(), pay()], [{ type: 'done' }, { type: 'done' }]);
  t.hasStrict(pay(), { type: 'rejected', rejection: { code: 'rate_limit_exceeded' } });
  t.equal(partition.waiting, LIMITS.waitersMax, 'and takes no place');
  t.end();
});

void t.test('who waits for a rail is answered by its first word, whatever that is, and not later', (t) => {
  const words: ((id: string) => AccountCommand)[] = [
    (id) => submission(id),
    (id) => outcome(id, 'SUCCESSFUL'),
    (id) => outcome(id, 'FAILED'),
  ];
  for (const word of words) {
    // At once, as a rail within the process does, before who waits is looked after; or later.
    for (const isAtOnce of [true, false]) {
      const { state, create, send, flush, createdIds } = opened();
      const say = (): void => {
        state.onPublished = () => {};
        send(word(createdIds()[0]!));
      };
      const replies = create();
      if (isAtOnce) state.onPublished = say;
      flush();
      t.same(replies, []);
      if (!isAtOnce) say();
      t.same(replies, [], 'it could be taken back');
      flush();
      t.hasStrict(replies, [{ type: 'done' }]);
    }
  }
  t.end();
});

void t.test('whose wait is over is answered, also behind one whose answer the log has yet to take', (t) => {
  const { partition, state, create, flush } = opened();
  const replies = [create()];
  flush();
  state.now += ANSWER_WAIT_MS / 2;
  replies.push(create());
  flush();
  for (let n = 0; n < 2; n++) {
    state.now += ANSWER_WAIT_MS / 2;
    partition.tick();
  }
  flush();
  t.hasStrict(replies, [[{ type: 'done' }], [{ type: 'done' }]]);
  t.end();
});

void t.test('a timer that falls due while nothing is taken is not lost', (t) => {
  const { partition, state, create, succeed, flush, createdIds, ofType } = opened();
  create();
  flush();
  succeed(createdIds()[0]!);
  flush();
  state.now += RELEASE_MS;
  state.isPaused = true;
  partition.tick();
  flush();
  t.equal(ofType('ChargeReleased').length, 0, 'the views lag: nothing is decided');
  state.isPaused = false;
  partition.tick();
  flush();
  t.equal(ofType('ChargeReleased').length, 1, 'they have caught up: the money is released');
  t.end();
});

void t.test(
  "what expired while nothing was taken is the pollers' for a while: it may have been paid",
  (t) => {
    const chargeExpiryMs = 5 * MINUTE;
    const { partition, state, create, flush, ofType } = opened({ chargeExpiryMs });
    const failedBy = (now: number): number => {
      for (; state.now < now; state.now += MINUTE) {
        partition.tick();
        flush();
      }
      return ofType('TransactionFailed').length;
    };
    failedBy(START + 20 * MINUTE);
    create();
    flush();
    const expired = state.now + chargeExpiryMs;
    failedBy(expired);
    state.isPaused = true;
    failedBy(expired + 5 * MINUTE);
    state.isPaused = false;
    t.equal(failedBy(expired + 15 * MINUTE), 0);
    t.equal(failedBy(expired + 16 * MINUTE), 1);
    t.end();
  },
);

void t.test('when the clock is set back callers are served, and do not wait longer', (t) => {
  const { partition, state, create, flush } = opened();
  state.now += 60 * MINUTE;
  const before = create(state.now + LIMITS.commandDeadlineMs);
  flush();
  state.now -= 60 * MINUTE;
  const after = create(state.now + LIMITS.commandDeadlineMs);
  flush();
  t.same([before, after], [[], []], 'both were taken and wait for their rail');
  t.same(create(state.now - 1), [{ type: 'unavailable' }], 'a deadline that has passed has passed');
  partition.tick();
  state.now += ANSWER_WAIT_MS;
  partition.tick();
  flush();
  t.same([before[0]?.type, after[0]?.type], ['done', 'done']);
  t.end();
});

void t.test(
  'what is too late is unavailable, never rejected: pollers would let go of what they tell',
  (t) => {
    const { state, send, create, flush, createdIds } = opened();
    create();
    flush();
    const id = createdIds()[0]!;
    const deadline = state.now;
    // A millisecond passes between any two looks at the clock.
    let looks = 0;
    Object.defineProperty(state, 'now', { get: () => START + looks++ });
    const inTime = send(outcome(id, 'SUCCESSFUL', { deadline }));
    flush();
    t.equal(inTime[0]?.type, 'done');
    t.same(send(outcome(id, 'SUCCESSFUL', { deadline })), [{ type: 'unavailable' }]);
    t.end();
  },
);

void t.test('when the clock is set back a minute of cash-outs ends after a minute', (t) => {
  const { state, pay } = funded();
  state.now += 60 * MINUTE;
  t.equal(pay().type, 'done');
  state.now -= 60 * MINUTE;
  for (let made = 1; made < DEFAULT_POLICY.cashOutPerMinute; made++) pay();
  t.hasStrict(pay(), {
    type: 'rejected',
    rejection: { code: 'rate_limit_exceeded', retryAfterSeconds: 60 },
  });
  state.now += MINUTE;
  t.equal(pay().type, 'done');
  t.end();
});

void t.test('who comes back after Retry-After is let in, also where the rate was lowered meanwhile', (t) => {
  const { state, send, flush, pay } = funded();
  // One a second.
  for (let made = 0; made < 20; made++, state.now += 1_000) t.equal(pay().type, 'done');
  send({ ...byOperator, type: 'ChangeAccountSettings', changes: { cashOutPerMinute: 5 } });
  flush();
  const refused = pay();
  t.hasStrict(refused, { type: 'rejected', rejection: { code: 'rate_limit_exceeded' } });
  const { retryAfterSeconds } = (refused as Extract<Reply, { type: 'rejected' }>).rejection;
  state.now += (retryAfterSeconds! - 1) * 1_000;
  t.equal(pay().type, 'rejected', 'no sooner');
  state.now += 1_000;
  t.equal(pay().type, 'done');
  t.end();
});

void t.test('cash-outs of the minute before a restart count, whatever was made after them', (t) => {
  const scenario = fundedMerchant();
  const openedAt = START + 2 * MINUTE;
  // Of before that minute, and three of it: the second one's end is what is waited for.
  const paid = [-70_000, -50_000, -40_000, -20_000].map((ms, n) => {
    const create = n % 2 === 0 ? payout : withdrawal;
    return scenario.at(openedAt + ms).create(create({}, { idempotencyKey: `cash-out-${n}` })).id;
  });
  const rowOf = (id: string): string => encodeOpen(openOf(scenario.transaction(id))!);
  const rows = new Map(paid.map((id) => [openKey(ACCOUNT, id), rowOf(id)]));
  const charged = rowOf(scenario.create(charge()).id);
  for (let n = 0; n <= LIMITS.listRowsScannedMax; n++) {
    rows.set(openKey(ACCOUNT, makeId('charge', idBody(n, openedAt - 10_000))), charged);
  }
  const views: Views = {
    get: (table, key) => {
      if (table === 'account') return encodeAccount(scenario.account());
      return table === 'transaction' ? encodeTransaction(scenario.transaction(key)) : undefined;
    },
    *range(table, { start, end, reverse = false }) {
      if (table !== 'open') return;
      const keys = [...rows.keys()].filter((key) => key >= start && key < end).sort();
      for (const key of reverse ? keys.reverse() : keys) yield { key, value: rows.get(key)! };
    },
  };
  const policy = { ...scenario.policy, cashOutPerMinute: 2 };
  const partition = new AccountsPartition(policy, views, { sequence: 1, writesRows: false });
  const elapsedMs = 5_000;
  const now = openedAt + elapsedMs;
  const command = payout({}, { idempotencyKey: 'cash-out-5' });
  const { outcome } = partition.decide(command, {
    now,
    freshBody: idBody(1, now),
    elapsedMs,
    writeFormat: 1,
  });
  const rejection = { code: 'rate_limit_exceeded', retryAfterSeconds: 15 };
  t.hasStrict(outcome, { reply: { type: 'rejected', rejection } });
  t.end();
});

void t.test('of an event may hear who is still there, with or without a webhook URL by now', (t) => {
  const { send, create, succeed, flush, createdIds, ofType } = opened();
  create();
  flush();
  const [transactionId] = createdIds();
  succeed(transactionId!);
  flush();
  const { id: appId } = ofType('AppConnected')[0]!;
  const change = (message: object): void => {
    send({ ...byOperator, appId, ...message } as AccountCommand);
    flush();
  };
  const query = { type: 'GetWebhookObject', accountId: ACCOUNT, deadline: FOR_EVER } as const;
  const hears = (): object[] => {
    const [reply] = send({ ...query, transactionId: transactionId!, status: 'SUCCESSFUL' });
    if (reply?.type !== 'done') throw new Error(JSON.stringify(reply));
    return (JSON.parse(reply.body) as { apps: object[] }).apps;
  };
  change({ type: 'ChangeAppWebhook', webhookUrl: 'https://shop.test/a' });
  t.strictSame(hears(), [{ id: appId }]);
  change({ type: 'ChangeAppWebhook', webhookUrl: null });
  t.strictSame(hears(), [{ id: appId }], 'it may have had one when it happened: the webhooks know');
  const endpoint = { type: 'GetWebhookEndpoint', accountId: ACCOUNT, appId, deadline: FOR_EVER } as const;
  const { signingSecretSealed } = ofType('AppConnected')[0]!;
  t.hasStrict(send(endpoint), [{ type: 'done', body: JSON.stringify({ signingSecretSealed }) }]);
  change({ type: 'RemoveApp' });
  t.strictSame(hears(), []);
  t.hasStrict(send(endpoint), [{ type: 'rejected', rejection: { code: 'not_found' } }]);
  t.end();
});

void t.test('of an event hears no other than those who would after a crash', (t) => {
  const { send, create, succeed, flush, createdIds, ofType } = opened();
  create();
  flush();
  const transactionId = createdIds()[0]!;
  succeed(transactionId);
  flush();
  send({ ...byOperator, type: 'RemoveApp', appId: ofType('AppConnected')[0]!.id });
  const status = 'SUCCESSFUL';
  const query = { type: 'GetWebhookObject', accountId: ACCOUNT, transactionId, status } as const;
  const replies = send({ ...query, deadline: FOR_EVER });
  t.same(replies, [], 'the app may be there again, and would never hear of it');
  flush();
  t.match(replies, [{ type: 'done', body: /"apps":\[\]}$/ }]);
  t.end();
});

void t.test('what is final waits for no provider, and is told only to who asks for that', (t) => {
  const { send, create, succeed, flush, createdIds } = opened();
  create();
  flush();
  const transactionId = createdIds()[0]!;
  const query = { type: 'GetPending', accountId: ACCOUNT, transactionId, deadline: FOR_EVER } as const;
  const unknown = [{ type: 'rejected', rejection: { code: 'transaction_not_found' } }];
  t.hasStrict(send(query), [{ type: 'done' }]);
  t.match(send({ ...query, accountId: `${ACCOUNT.slice(0, -1)}1` }), unknown, 'of another account');
  succeed(transactionId);
  flush();
  t.match(send(query), unknown);
  t.hasStrict(send({ ...query, evenFinal: true }), [{ type: 'done' }]);
  t.end();
});

void t.test('a poller is told the same of a new transaction by its event and by its account', (t) => {
  const { send, flush, records } = funded();
  const rows = [
    [charge({ description: 'Books' }, { idempotencyKey: 'charge-1' }), 'Books'],
    [deposit({ description: 'Float' }, { idempotencyKey: 'deposit-2' }), 'Float'],
    [payout({ narration: 'Wages of May' }, { idempotencyKey: 'payout-1' }), 'Wages of May'],
    [payout({}, { idempotencyKey: 'payout-2' }), null],
  ] as const;
  for (const [create, note] of rows) {
    send(create);
    flush();
    const record = records.at(-1)!;
    const told = pendingOf(record.events[0] as TransactionCreated, record);
    t.equal(told.note, note, 'shown to the payer or the recipient');
    const query = {
      type: 'GetPending',
      accountId: ACCOUNT,
      transactionId: told.id,
      deadline: FOR_EVER,
    } as const;
    const [reply] = send(query);
    t.strictSame(reply?.type === 'done' && JSON.parse(reply.body), told);
  }
  t.end();
});

void t.test('nobody reads the log on from a record that a crash could take back', (t) => {
  const { send, flush } = opened();
  const query = { type: 'ListPending', accountId: '', afterId: null, limit: 10, deadline: FOR_EVER } as const;
  send({ ...byOperator, type: 'ChangeAccountSettings', changes: { live: false } });
  const replies = send(query);
  t.same(replies, [], 'another record may take its place: a payout that would be sent by nobody');
  flush();
  t.hasStrict(replies, [{ type: 'done', body: '{"sequence":3,"data":[]}' }]);
  t.end();
});

void t.test(
  'more that has just expired than a page holds is asked for again, but for what is heard of',
  (t) => {
    const { state, send, create, flush, createdIds } = opened();
    for (let n = 0; n < 3; n++) create();
    flush();
    const followedFrom = 5;
    state.now += DEFAULT_POLICY.chargeExpiryMs;
    for (const transactionId of createdIds()) {
      send({ type: 'ExpireTransaction', accountId: ACCOUNT, deadline: FOR_EVER, transactionId });
    }
    const query = {
      type: 'ListExpired',
      accountId: '',
      deadline: FOR_EVER,
      expiredSince: 0,
      after: null,
    } as const;
    const early = send({ ...query, limit: 3 });
    t.same(early, [], 'a crash could take it back');
    flush();
    t.hasStrict(early, [{ type: 'done' }]);
    const listed = (page: { limit: number; followedFrom?: number }): string[] =>
      send({ ...query, ...page }).map((reply) =>
        reply.type === 'done' ? String(JSON.parse(reply.body).data.length) : reply.type,
      );
    t.same(listed({ limit: 3 }), ['3']);
    t.same(listed({ limit: 2 }), ['unavailable'], 'nobody would look at the third');
    t.same(listed({ limit: 2, followedFrom: followedFrom + 2 }), ['2'], 'the third is heard of');
    t.same(listed({ limit: 2, followedFrom }), ['0']);
    t.end();
  },
);

void t.test('a refusal waits for what it is for to be durable, of a read too', (t) => {
  const { send, create, succeed, flush, createdIds, ofType } = opened();
  create();
  flush();
  const transactionId = createdIds()[0]!;
  const { secretKeyHash: keyHash, id: appId } = ofType('AppConnected')[0]!;
  const call = { accountId: ACCOUNT, deadline: FOR_EVER } as const;
  const check = (replies: Reply[], code: string): void => {
    t.same(replies, [], code);
    flush();
    t.hasStrict(replies, [{ type: 'rejected', rejection: { code } }]);
  };
  succeed(transactionId);
  check(send({ ...call, type: 'GetPending', transactionId }), 'transaction_not_found');
  send({ ...byOperator, type: 'ChangeAccountSettings', changes: { live: false } });
  check(send({ ...call, type: 'GetBalances', keyHash, problem: null }), 'live_mode_not_enabled');
  send({ ...byOperator, type: 'RemoveApp', appId });
  check(send({ ...call, type: 'GetBalances', keyHash, problem: null }), 'invalid_api_key');
  t.end();
});

void t.test('a list waits for all that it tells to be durable, whichever of it changed last', (t) => {
  const { send, create, flush, createdIds, ofType } = opened();
  for (let n = 0; n < 2; n++) create();
  flush();
  const { secretKeyHash: keyHash } = ofType('AppConnected')[0]!;
  const call = { accountId: ACCOUNT, deadline: FOR_EVER, keyHash, problem: null } as const;
  const page = { filter: {}, view: 'object', limit: 10, startingAfter: null } as const;
  for (const transactionId of createdIds()) {
    send(submission(transactionId));
    const replies = send({ ...call, ...page, type: 'ListTransactions' });
    // Also for what it leaves out: a crash could put that on the page again.
    const filter = { status: 'PENDING_PROVIDER' } as const;
    const without = send({ ...call, ...page, filter, type: 'ListTransactions' });
    t.same([...replies, ...without], []);
    flush();
    t.hasStrict([...replies, ...without], [{ type: 'done' }, { type: 'done' }]);
  }
  t.end();
});

void t.test('a page ends early rather than outgrow the bus, and goes on where it ended', (t) => {
  const { send, flush, createdIds } = opened();
  const metadata = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, '€'.repeat(512)]));
  for (let i = 0; i < 100; i++) {
    send(charge({ metadata, reference: `order-${i}` }, { idempotencyKey: `large-charge-${i}` }));
  }
  flush();
  const { secretKeyHash: keyHash } = appConnected as Extract<AccountEvent, { type: 'AppConnected' }>;
  const call = { accountId: ACCOUNT, deadline: FOR_EVER, keyHash, problem: null, limit: 100 } as const;
  for (const view of ['object', 'transaction'] as const) {
    const listed: string[] = [];
    let pages = 0;
    for (let startingAfter: string | null = null, hasMore = true; hasMore; pages++) {
      const [reply] = send({ ...call, type: 'ListTransactions', filter: {}, view, startingAfter });
      if (reply?.type !== 'done') throw new Error(JSON.stringify(reply));
      t.ok(Buffer.byteLength(reply.body) < LIMITS.busReplyBytesMax, `${Buffer.byteLength(reply.body)} bytes`);
      const page = JSON.parse(reply.body) as {
        data: { id: string }[];
        has_more: boolean;
        next_cursor: string | null;
      };
      listed.push(...page.data.map(({ id }) => id));
      t.equal(page.next_cursor, page.has_more ? listed.at(-1) : null);
      ({ has_more: hasMore, next_cursor: startingAfter } = page);
    }
    t.same(listed, createdIds().toReversed());
    t.ok(pages > 3 && pages < 10, `${pages} pages: each as long as it may be`);
  }
  t.end();
});

void t.test('a drain ends when the log is lost meanwhile', async (t) => {
  const { partition, create } = opened();
  const replies = create();
  const drained = partition.drain();
  partition.abandon();
  await drained;
  t.same(replies, [{ type: 'unknown' }]);
});

t.test('callbacks about nothing of their account wait for operators up to a bound', async (t) => {
  const { send, flush, ofType } = opened();
  const raise = (): Reply[] =>
    send({
      type: 'RaiseReconciliation',
      accountId: ACCOUNT,
      deadline: FOR_EVER,
      kind: 'UNKNOWN_REFERENCE',
      transactionId: null,
      detail: 'A callback without a transaction.',
    });
  const refused = { type: 'rejected', rejection: { code: 'conflict' } };
  const kept: Reply[] = [];
  for (let raised = 0; raised < LIMITS.unknownReferencesOpenMax; raised++) {
    const replies = raise();
    flush();
    kept.push(...replies);
  }
  t.equal(kept.filter(({ type }) => type === 'done').length, LIMITS.unknownReferencesOpenMax);
  t.hasStrict(raise(), [refused]);
  const reconciliationId = ofType('ReconciliationRaised')[0]!.id;
  send({ ...byOperator, type: 'ResolveReconciliation', reconciliationId, resolution: 'Not ours.' });
  flush();
  const replies = [raise(), raise()];
  flush();
  t.hasStrict(replies, [[{ type: 'done' }], [refused]], 'one more, and no more than that');
});
