// Which delivery comes to be, what operators see of it, replay, cancellation, retention; and that all of it is the same
// whether it is in memory, checkpointed, or replayed from the log's text.

import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import fc from 'fast-check';
import { DELIVERY_STATUSES } from '../../src/domain/webhook-message.ts';
import { accountId, appId, delivered, DrivenWebhooks, failed } from './webhooks-driven.ts';
import { seedOf } from '../seed.ts';

const SEED = seedOf(t);

const URL_A = 'https://a.example.com/hook';
const URL_B = 'https://b.example.com/hook';

function twoApps(): DrivenWebhooks {
  const driven = new DrivenWebhooks({});
  driven.connect(appId(1), URL_A);
  driven.connect(appId(2), URL_B);
  driven.connect(appId(3), null);
  return driven;
}

/** As the timer does: one look for what is old, when it is due. */
function look(driven: DrivenWebhooks): void {
  driven.now = Math.max(driven.now, driven.logic.nextDue());
  for (const command of driven.logic.takeDue(driven.now)) driven.send(command);
}

void t.test('an event goes to each app that was offered and has a webhook URL, under one event id', (t) => {
  const driven = twoApps();
  const eventId = driven.takeEvent('SUCCESSFUL', [appId(1), appId(2), appId(3), appId(4)]);
  const due = driven.due();
  t.same(due.map((delivery) => delivery.appId).sort(), [appId(1), appId(2)]);
  t.same(new Set(due.map((delivery) => delivery.eventId)), new Set([eventId]));
  t.not(due[0]!.id, due[1]!.id);
  t.end();
});

void t.test('first attempts are handed out in the order of the log, those of one record too', (t) => {
  const driven = twoApps();
  const events = Array.from({ length: 20 }, () => driven.event('SUCCESSFUL', [appId(1), appId(2)]));
  driven.take([], events.slice(0, 10));
  driven.take([], events.slice(10));
  const again = driven.checkpointedAndReopened();
  const expected = events.flatMap(({ id }) => [id, id]);
  for (const side of [driven, driven.replayed(), again]) {
    t.same(
      side.due().map(({ eventId }) => eventId),
      expected,
    );
  }
  t.end();
});

void t.test('the URL counts as it was when the event happened', (t) => {
  const driven = twoApps();
  driven.changeUrl(appId(1), null);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  t.same(driven.due(), []);
  driven.checkpoint();
  const bodies = Array.from(driven.rows.keys()).filter((key) => key.startsWith('event'));
  t.same(bodies, [], 'what nobody hears is not kept: nothing would ever remove it');
  driven.changeUrl(appId(1), URL_B);
  t.same(driven.due(), [], 'saving a URL later sends nothing old');
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  t.equal(driven.due().length, 1);
  t.end();
});

void t.test('the same part of the feed handed over twice is taken once', (t) => {
  const driven = twoApps();
  const event = driven.event('SUCCESSFUL', [appId(1)]);
  const afterSequence = driven.logic.cursor;
  const command = {
    type: 'TakeEvents',
    deadline: Infinity,
    afterSequence,
    upstreamSequence: afterSequence + 1,
    endpoints: [],
    events: [event],
  } as const;
  const first = driven.send(command);
  t.same(driven.send(command), first, 'and answered the same');
  t.equal(driven.due().length, 1);
  t.equal(driven.replayed().logic.cursor, afterSequence + 1);
  t.end();
});

void t.test('body, event id and URL of an attempt: the bytes stay, the URL is the current one', (t) => {
  const driven = twoApps();
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const [delivery] = driven.due();
  const first = driven.logic.attemptOf(delivery!.id);
  driven.record(delivery!, failed, 0.5);
  driven.changeUrl(appId(1), URL_B);
  driven.checkpoint();
  const second = driven.logic.attemptOf(delivery!.id);
  if (typeof first === 'string' || typeof second === 'string') throw new Error('both can be sent');
  t.equal(second.body, first.body);
  t.equal(second.delivery.eventId, first.delivery.eventId);
  t.equal(first.endpoint.url, URL_A);
  t.equal(second.endpoint.url, URL_B);
  t.end();
});

void t.test(
  'an app that was removed or lost its URL hears nothing more: its deliveries are cancelled',
  (t) => {
    const driven = twoApps();
    driven.takeEvent('SUCCESSFUL', [appId(1), appId(2)]);
    const [delivery] = driven.due().filter((each) => each.appId === appId(1));
    const cancel = { type: 'CancelDelivery', deadline: Infinity, deliveryId: delivery!.id } as const;
    driven.send(cancel);
    t.equal(driven.list({ status: 'CANCELLED' }).data.length, 0, 'not while it has a URL');
    driven.takeEvent('SUCCESSFUL', [appId(1)]);
    const [ended] = driven.due();
    driven.record(ended!, delivered, 0.5);
    driven.remove(appId(1));
    driven.send({ ...cancel, deliveryId: ended!.id });
    driven.send({ ...cancel, deliveryId: 'dlv_unknown' });
    t.equal(driven.list({ status: 'CANCELLED' }).data.length, 0, 'nor what has ended');
    t.equal(driven.logic.attemptOf(delivery!.id), 'cannot_hear');
    driven.send(cancel);
    t.equal(driven.list({ status: 'CANCELLED' }).data[0]!.id, delivery!.id);
    t.equal(driven.logic.attemptOf(delivery!.id), 'gone');
    const replay = {
      type: 'ReplayDelivery',
      deadline: Infinity,
      accountId: accountId(1),
      operator: 'amina',
    } as const;
    t.hasStrict(driven.send({ ...replay, deliveryId: delivery!.id }), {
      type: 'rejected',
      rejection: { code: 'conflict' },
    });
    t.end();
  },
);

void t.test('a replay starts a new round at once, keeps the event id and the history', (t) => {
  const driven = twoApps();
  const eventId = driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const [delivery] = driven.due();
  driven.record(delivery!, delivered, 0.5);
  const replay = { type: 'ReplayDelivery', deadline: Infinity, operator: 'amina' } as const;
  const command = { ...replay, accountId: accountId(1), deliveryId: delivery!.id };
  t.hasStrict(driven.send({ ...command, accountId: accountId(2) }), { rejection: { code: 'not_found' } });
  t.hasStrict(driven.send({ ...command, deliveryId: 'dlv_unknown' }), { rejection: { code: 'not_found' } });
  const reply = driven.send(command);
  t.hasStrict(JSON.parse(reply.type === 'done' ? reply.body : '{}'), {
    status: 'PENDING',
    event_id: eventId,
    url: URL_A,
  });
  const [again] = driven.due();
  t.hasStrict(again, { id: delivery!.id, eventId, round: 1, made: 0 });
  driven.record(delivery!, failed, 0.5);
  t.hasStrict(
    driven.list({}).data[0],
    { status: 'PENDING' },
    'the late end of an attempt before it changes no schedule',
  );
  driven.record(again!, failed, 0.5);
  t.hasStrict(driven.list({}).data[0], { status: 'RETRYING' });
  t.equal(driven.list({}).data[0]!.attempts.length, 3);
  t.end();
});

void t.test(
  'what came of an attempt counts once, and no more when its delivery has ended or is gone',
  (t) => {
    const driven = twoApps();
    driven.takeEvent('SUCCESSFUL', [appId(1)]);
    driven.takeEvent('SUCCESSFUL', [appId(2)]);
    const [tried, cancelled] = driven.due();
    driven.record(tried!, failed, 0.5);
    driven.remove(appId(2));
    driven.send({ type: 'CancelDelivery', deadline: Infinity, deliveryId: cancelled!.id });
    const records = driven.log.length;
    driven.record(tried!, failed, 0.5);
    driven.record(cancelled!, failed, 0.5);
    driven.record({ ...tried!, id: 'dlv_unknown' }, failed, 0.5);
    t.equal(driven.log.length, records);
    t.end();
  },
);

void t.test('all failed deliveries of an app since a time are replayed, and only those', (t) => {
  const driven = twoApps();
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  for (const delivery of driven.due()) driven.record(delivery, failed, 0.5);
  driven.now += 60_000;
  const since = driven.now;
  for (let i = 0; i < 5; i++) driven.takeEvent('SUCCESSFUL', [appId(1), appId(2)]);
  const due = driven.due().filter(({ createdAt }) => createdAt >= since);
  due.forEach((delivery, i) => driven.record(delivery, i < 2 ? delivered : failed, 0.5));
  const expected = due.slice(2).filter((delivery) => delivery.appId === appId(1)).length;
  const replay = {
    type: 'ReplayFailedDeliveries',
    deadline: Infinity,
    accountId: accountId(1),
    appId: appId(1),
    since,
    operator: 'amina',
  } as const;
  for (const side of [driven.replayed(), driven.checkpointedAndReopened()]) {
    for (const other of [{ accountId: accountId(2) }, { appId: appId(9) }]) {
      t.hasStrict(side.send({ ...replay, ...other }), { type: 'rejected', rejection: { code: 'not_found' } });
    }
    const reply = side.send(replay);
    t.same(JSON.parse(reply.type === 'done' ? reply.body : '{}'), { replayed: expected, has_more: false });
    t.equal(side.list({ status: 'PENDING', appId: appId(1) }).data.length, expected);
    const due = side.due().filter(({ round }) => round === 1);
    t.equal(new Set(due.map(({ id }) => id)).size, expected);
  }
  t.end();
});

void t.test(
  'one message replays so many deliveries, and says that there are more; without a URL none',
  (t) => {
    const driven = twoApps();
    const atOnce = LIMITS.webhookReplaysPerMessageMax;
    for (let i = 0; i <= atOnce; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
    for (const delivery of driven.due()) driven.record(delivery, failed, 0.5);
    const type = 'ReplayFailedDeliveries';
    const app = { accountId: accountId(1), appId: appId(1) };
    const replay = { type, deadline: Infinity, ...app, since: 0, operator: 'amina' } as const;
    const replies = [driven.send(replay), driven.send(replay)];
    const logged = driven.log.length;
    replies.push(driven.send(replay));
    t.same(
      replies.map((reply) => JSON.parse(reply.type === 'done' ? reply.body : '{}')),
      [
        { replayed: atOnce, has_more: true },
        { replayed: 1, has_more: false },
        { replayed: 0, has_more: false },
      ],
    );
    t.equal(driven.log.length, logged, 'a replay of none leaves no record');
    driven.changeUrl(appId(1), null);
    t.hasStrict(driven.send(replay), { type: 'rejected', rejection: { code: 'conflict' } });
    t.end();
  },
);

void t.test('whoever goes on while there are more sends all of it again, also if it fails at once', (t) => {
  const driven = new DrivenWebhooks({ retryMs: [60_000] });
  driven.connect(appId(1), URL_A);
  for (let i = 0; i <= LIMITS.webhookReplaysPerMessageMax; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const failAll = (made: number) => driven.due().map((each) => driven.record({ ...each, made }, failed, 0.5));
  failAll(0);
  driven.now += 70_000;
  failAll(1);
  const app = { accountId: accountId(1), appId: appId(1), operator: 'amina' };
  for (const side of [driven.replayed(), driven.checkpointedAndReopened()]) {
    for (let call = 0; call < 2; call++) {
      side.send({ type: 'ReplayFailedDeliveries', deadline: Infinity, ...app, since: 0 });
      for (const delivery of side.due()) side.record(delivery, failed, 0.5);
    }
    t.same(side.list({ status: 'DEAD_LETTERED' }).data, []);
  }
  t.end();
});

void t.test('a delivery is shown to its own account only', (t) => {
  const driven = twoApps();
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const [delivery] = driven.due();
  const get = { type: 'GetDelivery', deadline: Infinity, deliveryId: delivery!.id } as const;
  const of = (account: number, changes = {}) =>
    driven.logic.query({ ...get, accountId: accountId(account), ...changes }).reply;
  const shown = of(1);
  t.hasStrict(JSON.parse(shown.type === 'done' ? shown.body : '{}'), { id: delivery!.id, status: 'PENDING' });
  t.hasStrict(of(2), { type: 'rejected', rejection: { code: 'not_found' } });
  t.hasStrict(of(1, { deliveryId: 'dlv_unknown' }), { type: 'rejected', rejection: { code: 'not_found' } });
  t.same(driven.list({ accountId: accountId(2) }).data, []);
  t.end();
});

void t.test('nothing is removed before its time, and no more at once than a record may name', (t) => {
  const driven = new DrivenWebhooks({ retentionMs: 3_600_000 });
  driven.connect(appId(1), URL_A);
  const atOnce = LIMITS.webhookRemovalsPerRecordMax;
  for (let i = 0; i <= atOnce; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
  for (const delivery of driven.due()) driven.record(delivery, delivered, 0.5);
  driven.checkpoint();
  const left = (): number => {
    look(driven);
    driven.checkpoint();
    return driven.listAll({}).length;
  };
  driven.now += 3_590_000;
  t.equal(left(), atOnce + 1);
  driven.now += 20_000;
  t.equal(left(), 1);
  t.equal(left(), 0);
  t.end();
});

void t.test('of rows that are long with what their endpoint answered, one look reads fewer', (t) => {
  const driven = new DrivenWebhooks({ retentionMs: 3_600_000 });
  driven.connect(appId(1), URL_A);
  for (let i = 0; i < 25; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const excerpt = 'x'.repeat(LIMITS.webhookCharactersLookedMax / 10);
  for (const delivery of driven.due()) driven.record(delivery, { ...delivered, excerpt }, 0.5);
  driven.checkpoint();
  driven.now += 3_700_000;
  const removed: number[] = [];
  while (driven.logic.nextDue() <= driven.now) {
    for (const command of driven.logic.takeDue(driven.now)) {
      if (command.type === 'RemoveOldDeliveries') removed.push(command.deliveryIds.length);
      driven.send(command);
    }
    driven.now += LIMITS.webhookRetentionPauseMs;
  }
  t.same(removed, [10, 10, 5]);
  t.end();
});

void t.test('what is old is removed to the end, also where the views lag and much of it waits', (t) => {
  const driven = new DrivenWebhooks({ retentionMs: 3_600_000 });
  driven.connect(appId(1), URL_A);
  const take = (count: number): void => {
    const perRecord = LIMITS.webhookDeliveriesPerRecordMax;
    for (let left = count; left > 0; left -= perRecord) {
      const length = Math.min(left, perRecord);
      driven.take(
        [],
        Array.from({ length }, () => driven.event('SUCCESSFUL', [appId(1)])),
      );
    }
  };
  // An endpoint that hangs leaves as many as one look passes over; those behind have ended.
  take(LIMITS.webhookRowsScannedMax + 1);
  const waiting = driven.due().length;
  const ended = LIMITS.webhookRemovalsPerRecordMax * 2 + 1;
  take(ended);
  for (const delivery of driven.due()) driven.record(delivery, delivered, 0.5);
  driven.checkpoint();
  driven.now += 3_700_000;
  let looks = 0;
  for (; driven.logic.nextDue() <= driven.now && looks < 100; looks++) {
    look(driven);
    driven.now += LIMITS.webhookRetentionPauseMs;
  }
  t.equal(looks, 4, 'then it waits for the next hour');
  driven.checkpoint();
  const left = Array.from(driven.rows.keys()).filter((key) => key.startsWith('delivery'));
  t.equal(left.length, waiting, 'all that waits, and nothing else');
  t.ok(driven.list({ status: 'DELIVERED' }).has_more, 'a page looks at as many, too');
  t.same(driven.listAll({ status: 'DELIVERED' }), []);
  driven.now += LIMITS.webhookRetentionEveryMs;
  t.ok(driven.logic.nextDue() <= driven.now);
  t.end();
});

void t.test('what has ended is removed after its retention with its body, what waits is not', (t) => {
  const driven = new DrivenWebhooks({ retentionMs: 3_600_000 });
  driven.connect(appId(1), URL_A);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const [ended] = driven.due();
  driven.record(ended!, delivered, 0.5);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  driven.record(driven.due()[0]!, failed, 0.5);
  driven.checkpoint();
  driven.now += 3_700_000;
  for (const command of driven.logic.takeDue(driven.now)) driven.send(command);
  t.equal(driven.list({}).data.length, 1);
  t.equal(driven.list({}).data[0]!.status, 'RETRYING');
  driven.checkpoint();
  t.equal(
    Array.from(driven.rows.values()).filter((value) => value.includes(ended!.eventId)).length,
    0,
    'no row left',
  );
  t.equal(Array.from(driven.rows.keys()).filter((key) => key.includes(ended!.id)).length, 0, 'no index left');
  driven.record(driven.due()[0]!, delivered, 0.5);
  driven.checkpoint();
  driven.now += LIMITS.webhookRetentionEveryMs;
  const removal = driven.logic.takeDue(driven.now);
  t.equal(removal.length, 1);
  const { id: deliveryId, account_id: account } = driven.list({}).data[0]!;
  const replay = { type: 'ReplayDelivery', accountId: account, deliveryId, operator: 'amina' } as const;
  driven.send({ ...replay, deadline: Infinity });
  const logged = driven.log.length;
  for (const command of removal) driven.send(command);
  t.equal(driven.list({}).data[0]?.status, 'PENDING', 'nor what was sent again once it was found to be old');
  t.equal(driven.log.length, logged, 'a removal of none leaves no record');
  t.end();
});

void t.test('a checkpoint knows how far the feed is read, and what waits no more', (t) => {
  const driven = twoApps();
  driven.takeEvent('SUCCESSFUL', [appId(1), appId(2)]);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  driven.checkpoint();
  const [ended, retried] = driven.due();
  driven.record(ended!, delivered, 0.5);
  driven.record(retried!, failed, 0.5);
  const again = driven.checkpointedAndReopened();
  t.equal(again.logic.cursor, driven.logic.cursor);
  t.same(again.logic.scheduled, { firsts: 2, retries: 1 });
  t.end();
});

void t.test('what is newer than the checkpoint stays in memory, and a read says what it tells of', (t) => {
  const driven = twoApps();
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  driven.checkpoint();
  driven.record(driven.due()[0]!, delivered, 0.5);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const sequence = driven.log.length;
  driven.logic.evict(sequence - 1);
  t.equal(driven.due().length, 1);
  t.equal(driven.list({}).data.length, 2, 'also what is of the account of one that left');
  const query = { accountId: accountId(1), appId: null, status: null, limit: 10, startingAfter: null };
  t.equal(driven.logic.query({ type: 'ListDeliveries', deadline: Infinity, ...query }).sequence, sequence);
  t.end();
});

void t.test('the body of an event stays as long as one of its deliveries', (t) => {
  const driven = new DrivenWebhooks({ retentionMs: 3_600_000 });
  driven.connect(appId(1), URL_A);
  driven.connect(appId(2), URL_B);
  driven.takeEvent('SUCCESSFUL', [appId(1), appId(2)]);
  const [ended, waits] = driven.due();
  driven.record(ended!, delivered, 0.5);
  driven.record(waits!, failed, 0.5);
  driven.checkpoint();
  driven.now += 3_600_001;
  look(driven);
  t.same(
    driven.list({}).data.map(({ id }) => id),
    [waits!.id],
  );
  for (const side of [driven, driven.replayed(), driven.checkpointedAndReopened()]) {
    t.match(side.logic.attemptOf(waits!.id), { body: /evt_/ });
  }
  driven.record({ ...waits!, made: 1 }, delivered, 0.5);
  look(driven);
  driven.checkpoint();
  t.same(
    Array.from(driven.rows.keys()).filter((key) => key.startsWith('event')),
    [],
    'and no longer',
  );
  t.end();
});

void t.test('finished deliveries leave memory with the checkpoint', (t) => {
  const driven = twoApps();
  for (let i = 0; i < 10; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
  for (const delivery of driven.due()) driven.record(delivery, delivered, 0.5);
  driven.checkpoint();
  t.equal(driven.list({}).data.length, 10, 'read from the views');
  driven.rows.clear();
  t.equal(driven.list({}).data.length, 0, 'nothing was in memory');
  t.end();
});

/** Rows that note in `read` which deliveries are read. */
function countedRows(read: string[]): Map<string, string> {
  return new (class extends Map<string, string> {
    override get(key: string): string | undefined {
      if (key.startsWith('delivery\0')) read.push(key);
      return super.get(key);
    }
  })();
}

void t.test('a page ends early rather than outgrow the bus, and goes on where it ended', (t) => {
  const wordy = { ...failed, excerpt: 'x'.repeat(2_000) };
  const read: string[] = [];
  const driven = new DrivenWebhooks({ retryMs: [1_000, 1_000, 1_000] }, [], countedRows(read));
  driven.connect(appId(1), URL_A);
  for (let i = 0; i < 100; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
  for (const delivery of driven.due()) driven.record(delivery, wordy, 0.5);
  driven.now += 5_000;
  for (const delivery of driven.due()) driven.record(delivery, wordy, 0.5);
  const page = driven.list({ limit: 100 });
  t.ok(page.has_more);
  t.ok(JSON.stringify(page).length < LIMITS.listPageCharactersMax + 1024);
  t.equal(new Set(driven.listAll({ limit: 100 })).size, 100);
  driven.checkpoint();
  read.length = 0;
  t.same(driven.list({ limit: 100 }), page);
  t.ok(read.length <= page.data.length + 1, `${read.length} read for ${page.data.length}`);
  t.end();
});

void t.test('a page is made into text once', (t) => {
  const driven = twoApps();
  for (let i = 0; i < 10; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
  let characters = 0;
  const { stringify } = JSON;
  t.intercept(JSON, 'stringify', {
    value: (value: unknown) => {
      const text = stringify(value);
      characters += text.length;
      return text;
    },
  });
  const page = driven.list({ limit: 10 });
  const made = characters;
  t.equal(page.data.length, 10);
  t.ok(made <= JSON.stringify(page).length, `${made} characters`);
  t.end();
});

void t.test('a list reads no checkpointed delivery that it does not show', (t) => {
  const read: string[] = [];
  const driven = new DrivenWebhooks({ retryMs: [] }, [], countedRows(read));
  driven.connect(appId(1), URL_A);
  for (let i = 0; i < 20; i++) driven.takeEvent('SUCCESSFUL', [appId(1)]);
  driven.due().forEach((delivery, i) => driven.record(delivery, i % 5 === 0 ? delivered : failed, 0.5));
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  driven.checkpoint();
  const counts = DELIVERY_STATUSES.map((status) => {
    read.length = 0;
    const { length } = driven.list({ status }).data;
    return [status, length, read.length];
  });
  t.same(counts, [
    ['PENDING', 1, 1],
    ['RETRYING', 0, 0],
    ['DELIVERED', 4, 4],
    ['DEAD_LETTERED', 16, 16],
    ['CANCELLED', 0, 0],
  ]);
  t.equal(driven.list({ status: 'DELIVERED', appId: appId(1), limit: 2 }).data.length, 2);
  t.end();
});

void t.test('lists are the same in memory, checkpointed, half of each, and replayed', (t) => {
  const step = fc.record({
    act: fc.constantFrom('take', 'take', 'deliver', 'fail', 'replay', 'checkpoint', 'url', 'remove'),
    app: fc.integer({ min: 1, max: 3 }),
    limit: fc.integer({ min: 1, max: 4 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const driven = new DrivenWebhooks({ retryMs: [1_000, 1_000] });
      for (const app of [1, 2, 3]) driven.connect(appId(app), URL_A);
      for (const { act, app } of steps) play(driven, act, appId(app));
      const sides = [driven, driven.replayed(), driven.checkpointedAndReopened()];
      for (const status of [null, ...DELIVERY_STATUSES]) {
        for (const app of [null, appId(1), appId(2)]) {
          const filter = { status, appId: app, limit: 1 + (steps.length % 3) };
          const [expected, ...others] = sides.map((side) => JSON.stringify(side.listAll(filter)));
          if (others.some((other) => other !== expected)) return false;
          if (expected !== JSON.stringify(oracle(sides[1]!, filter))) return false;
        }
      }
      return true;
    }),
    { seed: SEED, numRuns: 60 },
  );
  t.end();
});

function play(driven: DrivenWebhooks, act: string, app: string): void {
  driven.now += 700;
  if (act === 'take') driven.takeEvent('SUCCESSFUL', [app, appId(1)]);
  else if (act === 'checkpoint') driven.checkpoint();
  else if (act === 'url') driven.changeUrl(app, URL_B);
  else if (act === 'remove') driven.remove(app);
  else if (act === 'replay') {
    const [first] = driven.list({ appId: app }).data;
    const replay = {
      type: 'ReplayDelivery',
      deadline: Infinity,
      accountId: accountId(1),
      operator: 'amina',
    } as const;
    if (first !== undefined) driven.send({ ...replay, deliveryId: first.id });
  } else {
    for (const delivery of driven.due()) {
      if (driven.logic.attemptOf(delivery.id) === 'cannot_hear') {
        driven.send({ type: 'CancelDelivery', deadline: Infinity, deliveryId: delivery.id });
      } else {
        driven.record(delivery, act === 'deliver' ? delivered : failed, 0.5);
      }
    }
  }
}

/** Every delivery there is, newest first, filtered by hand. */
function oracle(driven: DrivenWebhooks, filter: { status: string | null; appId: string | null }): string[] {
  return driven
    .list({ limit: 1_000 })
    .data.filter(({ status }) => filter.status === null || status === filter.status)
    .filter(({ app_id }) => filter.appId === null || app_id === filter.appId)
    .map(({ id }) => id)
    .sort()
    .reverse();
}
