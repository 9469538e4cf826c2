// The schedule of attempts, row by row of the specification, under a driven clock.

import t from 'tap';
import { retryDelayMs } from '../../actors/webhooks/schedule.ts';
import { signatureOf } from '../../actors/webhooks/signature.ts';
import type { DeliveryView } from '../../src/domain/webhook-message.ts';
import { LIMITS } from '../../src/limits.ts';
import { accountId, appId, DEFAULT_RETRY_MS, DrivenWebhooks, failed, delivered } from './webhooks-driven.ts';

const ROWS: readonly (readonly [attempt: number, seconds: number])[] = [
  [1, 30],
  [2, 2 * 60],
  [3, 10 * 60],
  [4, 30 * 60],
  [5, 2 * 3600],
  [6, 6 * 3600],
  [7, 16 * 3600],
];

for (const [attempt, seconds] of ROWS) {
  void t.test(`after attempt ${attempt} the next is due in ${seconds} s, plus or minus 10 %`, (t) => {
    t.equal(retryDelayMs(DEFAULT_RETRY_MS, attempt, 0), seconds * 900);
    t.equal(retryDelayMs(DEFAULT_RETRY_MS, attempt, 0.5), seconds * 1000);
    const latest = retryDelayMs(DEFAULT_RETRY_MS, attempt, 1 - Number.EPSILON) ?? 0;
    t.ok(latest <= seconds * 1100, `${latest}`);
    t.end();
  });
}

void t.test('after attempt 8 there is none', (t) => {
  t.equal(retryDelayMs(DEFAULT_RETRY_MS, 8, 0.5), null);
  t.end();
});

void t.test(
  'a delivery that always fails is attempted 8 times, each when its row says, then dead-lettered',
  (t) => {
    const driven = new DrivenWebhooks({ retryMs: DEFAULT_RETRY_MS });
    driven.connect(appId(1), 'https://example.com/hook');
    driven.takeEvent('SUCCESSFUL', [appId(1)]);
    const attemptedAt: number[] = [];
    for (;;) {
      const due = driven.logic.nextAttemptAt();
      if (due === Infinity) break;
      if (attemptedAt.length > 0) {
        driven.now = due - 1;
        t.same(driven.logic.takeAttempts(driven.now, 10), [], 'not before it is due');
      }
      driven.now = due;
      const [delivery] = driven.logic.takeAttempts(driven.now, 10);
      t.ok(delivery !== undefined, `attempt ${attemptedAt.length + 1} is handed out`);
      attemptedAt.push(due);
      driven.record(delivery!, failed, 0.5);
      t.same(driven.logic.takeAttempts(driven.now, 10), [], 'once');
    }
    t.equal(attemptedAt.length, 8);
    const waits = attemptedAt.slice(1).map((at, i) => at - attemptedAt[i]!);
    t.same(waits, DEFAULT_RETRY_MS);
    const [view] = driven.list({}).data;
    t.equal(view!.status, 'DEAD_LETTERED');
    t.equal(view!.attempts.length, 8);
    t.equal(view!.next_attempt_at, null);
    t.end();
  },
);

void t.test('due times survive a restart, from the log alone and from a checkpoint', (t) => {
  const driven = new DrivenWebhooks({ retryMs: DEFAULT_RETRY_MS });
  driven.connect(appId(1), 'https://example.com/hook');
  driven.takeEvent('FAILED', [appId(1)]);
  driven.record(driven.due()[0]!, failed, 0.3);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const dueAt = driven.logic.nextAttemptAt();
  const retryAt = 1_000_000 + 28_800;
  for (const restarted of [driven.replayed(), driven.checkpointedAndReopened()]) {
    t.equal(restarted.logic.nextAttemptAt(), dueAt);
    t.equal(restarted.logic.takeAttempts(dueAt, 10).length, 1, 'the first attempt of the second event');
    t.equal(restarted.logic.nextAttemptAt(), retryAt, 'the retry of the first');
    t.same(restarted.logic.scheduled, { firsts: 0, retries: 1 });
  }
  t.end();
});

void t.test('operators see when the next attempt is and where it goes, and where the last one went', (t) => {
  const driven = new DrivenWebhooks({ retryMs: DEFAULT_RETRY_MS });
  driven.connect(appId(1), 'https://old.example.com/hook');
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const shown = (status: string, url: string | null, nextAt: number | null): void => {
    const next_attempt_at = nextAt === null ? null : new Date(nextAt).toISOString();
    t.hasStrict(driven.list({}).data, [{ status, url, next_attempt_at }]);
  };
  shown('PENDING', 'https://old.example.com/hook', driven.now);
  driven.record(driven.due()[0]!, failed, 0.5);
  driven.changeUrl(appId(1), 'https://new.example.com/hook');
  shown('RETRYING', 'https://new.example.com/hook', driven.now + 30_000);
  driven.now += 30_000;
  driven.record(driven.due()[0]!, delivered, 0.5);
  shown('DELIVERED', 'https://example.com/hook', null);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  driven.remove(appId(1));
  const [untried] = driven.due();
  driven.send({ type: 'CancelDelivery', deadline: Infinity, deliveryId: untried!.id });
  t.hasStrict(driven.list({ status: 'CANCELLED' }).data, [{ url: null, next_attempt_at: null }]);
  t.end();
});

void t.test('of a delivery that is sent again and again the newest attempts are kept', (t) => {
  const driven = new DrivenWebhooks({ retryMs: DEFAULT_RETRY_MS });
  driven.connect(appId(1), 'https://example.com/hook');
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const again = { accountId: accountId(1), deliveryId: driven.list({}).data[0]!.id, operator: 'amina' };
  const kept = LIMITS.webhookAttemptsKeptMax;
  for (let n = 0; n <= kept; n++) {
    driven.record(driven.due()[0]!, { ...delivered, excerpt: `answer ${n}` }, 0.5);
    driven.send({ type: 'ReplayDelivery', deadline: Infinity, ...again });
  }
  const excerpts = driven.list({}).data[0]!.attempts.map(({ excerpt }) => excerpt);
  t.same([excerpts.length, excerpts[0], excerpts.at(-1)], [kept, 'answer 1', `answer ${kept}`]);
  t.end();
});

void t.test('an attempt that is reported twice counts once, and one of no delivery changes nothing', (t) => {
  const driven = new DrivenWebhooks({ retryMs: DEFAULT_RETRY_MS });
  driven.connect(appId(1), 'https://example.com/hook');
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const [delivery] = driven.due();
  driven.record(delivery!, failed, 0.5);
  const told = driven.list({}).data;
  const records = driven.log.length;
  t.hasStrict(driven.record(delivery!, failed, 0.9), { type: 'done', body: '{}' });
  t.hasStrict(driven.record(delivery!, delivered, 0.5), { type: 'done', body: '{}' });
  t.hasStrict(driven.record({ ...delivery!, id: 'dlv_unknown' }, failed, 0.5), { type: 'done', body: '{}' });
  t.same(driven.list({}).data, told);
  t.equal(driven.log.length, records);
  t.end();
});

void t.test('a success ends it, late reports of the same attempt change nothing', (t) => {
  const driven = new DrivenWebhooks({});
  driven.connect(appId(1), 'https://example.com/hook');
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  const [delivery] = driven.due();
  driven.record(delivery!, delivered, 0.5);
  const before = driven.log.length;
  driven.record(delivery!, failed, 0.5);
  t.equal(driven.log.length, before);
  t.equal(driven.list({ status: 'DELIVERED' }).data.length, 1);
  t.end();
});

void t.test(
  'an attempt that was under way when its delivery was sent again is shown, and changes nothing else',
  (t) => {
    const driven = new DrivenWebhooks({ retryMs: DEFAULT_RETRY_MS });
    driven.connect(appId(1), 'https://example.com/hook');
    driven.takeEvent('SUCCESSFUL', [appId(1)]);
    driven.record(driven.due()[0]!, failed, 0.5);
    driven.now += 30_000;
    const [underWay] = driven.due();
    const again = { accountId: accountId(1), deliveryId: underWay!.id, operator: 'amina' };
    driven.send({ type: 'ReplayDelivery', deadline: Infinity, ...again });
    driven.record(driven.due()[0]!, delivered, 0.5);
    driven.record(underWay!, failed, 0.5);
    const [{ status, next_attempt_at, attempts }] = driven.list({}).data as [DeliveryView];
    t.same([status, next_attempt_at], ['DELIVERED', null]);
    t.same(
      attempts.map(({ status_code }) => status_code),
      [500, 200, 500],
    );
    t.equal(driven.logic.nextAttemptAt(), Infinity);
    t.end();
  },
);

void t.test(
  'after an outage of ours first attempts come first, and many overdue retries of one app hold up no other’s',
  (t) => {
    const driven = new DrivenWebhooks({});
    const [long, short] = [appId(1), appId(2)];
    for (const app of [long, short]) driven.connect(app, 'https://example.com/hook');
    const fail = (): void => {
      for (const delivery of driven.due()) driven.record(delivery, failed, 0.5);
    };
    for (let i = 0; i < 2_000; i++) driven.takeEvent('SUCCESSFUL', [long]);
    fail();
    driven.now += 1;
    driven.takeEvent('SUCCESSFUL', [short]);
    fail();
    driven.now += 3_600_000;
    for (let i = 0; i < 100; i++) driven.takeEvent('SUCCESSFUL', [long]);
    const made = driven.due().map((delivery) => [delivery.appId, delivery.made]);
    t.same(made.slice(0, 100), Array(100).fill([long, 0]));
    t.same(made.slice(100, 2_100), Array(2_000).fill([long, 1]));
    t.same(
      made.slice(2_100),
      [[short, 1]],
      'at once: it waits for nobody but in the queue of its own endpoint',
    );
    t.end();
  },
);

void t.test('the signature is the one of the specification', (t) => {
  // Computed with openssl: printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test
  t.equal(
    signatureOf('whsec_test', 1_700_000_000, Buffer.from('{"id":"evt_1"}')),
    't=1700000000,v1=c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925',
  );
  t.end();
});

const HOUR = 3_600_000;
const RETRY_MS = 30_000;

/** A delivery is due, and the machine's clock has yet to be set back. */
function heard(): DrivenWebhooks {
  const driven = new DrivenWebhooks({ retryMs: [RETRY_MS] });
  driven.now = 10 * HOUR;
  driven.connect(appId(1), 'https://shop.test');
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  return driven;
}

void t.test('a first attempt does not wait for a clock that was set back, and none is due twice', (t) => {
  const driven = heard();
  driven.now -= HOUR;
  t.equal(driven.due().length, 1);
  t.equal(driven.due().length, 0);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  t.equal(driven.due().length, 1, 'nor does one that came after');
  t.end();
});

void t.test(
  'nor does it where the partition is opened from its log or its views on a clock that is behind',
  (t) => {
    for (const reopen of ['replayed', 'checkpointedAndReopened'] as const) {
      const driven = heard();
      driven.now -= HOUR;
      t.equal(driven[reopen]().due().length, 1, reopen);
    }
    t.end();
  },
);

void t.test(
  'when the clock is set back a retry is due when its wait has passed, a little late at most',
  (t) => {
    const driven = heard();
    const [first] = driven.due();
    driven.now -= HOUR;
    driven.record(first!, failed, 0.5);
    driven.now += RETRY_MS * 0.9;
    t.equal(driven.due().length, 0, 'not before');
    driven.now += RETRY_MS * 0.2;
    const [retry] = driven.due();
    t.ok(retry);
    driven.record(retry!, delivered, 0.5);
    t.hasStrict(driven.list({}).data, [{ status: 'DELIVERED' }]);
    t.end();
  },
);
