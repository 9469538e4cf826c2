// Whose turn it is: room for first attempts and retries, one attempt to a failing endpoint, pauses that hold up nobody
// else, under a driven clock.

import t from 'tap';
import { Dispatcher } from '../../actors/webhooks/dispatcher.ts';
import type { AttemptEnd, DispatchItem } from '../../actors/webhooks/dispatcher.ts';
import { LIMITS } from '../../src/limits.ts';

interface Started extends DispatchItem {
  readonly n: number;
}

/** A dispatcher whose attempts end when the test says so. `none`: the endpoint is not heard. */
class Driven {
  now = 1_000_000;
  readonly running = new Map<Started, (end: AttemptEnd | 'none') => void>();
  readonly started: Started[] = [];
  /** Of what was heard, what is not recorded yet. */
  readonly recording: (() => void)[] = [];
  /** What is heard is recorded at once. */
  records = true;
  /** Where what begins now goes. */
  url = 'https://shop.example.com/';
  readonly dispatcher = new Dispatcher<Started>(
    (item, { leadsTo, heard }) => {
      leadsTo(this.url);
      this.started.push(item);
      return new Promise((resolve) => {
        this.running.set(item, (end) => {
          if (end !== 'none') heard(end);
          if (this.records) resolve();
          else this.recording.push(resolve);
        });
      });
    },
    () => this.now,
  );
  #n = 0;

  offer(endpointId: string, isFirst = true, count = 1): void {
    for (let i = 0; i < count; i++) {
      this.dispatcher.offer({ endpointId, isFirst, dueAt: this.now, n: this.#n++ });
    }
  }

  /** Ends every attempt in flight to the endpoint; resolves when that has been taken in. */
  end(endpointId: string, end: AttemptEnd | 'none'): Promise<void> {
    return this.endAll((id) => id === endpointId, end);
  }

  endAll(isMeant: (endpointId: string) => boolean, end: AttemptEnd | 'none'): Promise<void> {
    return this.endAllOf(({ endpointId }) => isMeant(endpointId), end);
  }

  /** Ends the oldest attempt in flight to the endpoint. */
  async endOne(endpointId: string, end: AttemptEnd | 'none'): Promise<void> {
    const oldest = Array.from(this.running.keys()).find((item) => item.endpointId === endpointId);
    await this.endAllOf((item) => item === oldest, end);
  }

  async endAllOf(isMeant: (item: Started) => boolean, end: AttemptEnd | 'none'): Promise<void> {
    for (const [item, resolve] of this.running) {
      if (!isMeant(item)) continue;
      this.running.delete(item);
      resolve(end);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }

  inFlight(endpointId: string): number {
    return Array.from(this.running.keys()).filter((item) => item.endpointId === endpointId).length;
  }

  wait(ms: number): void {
    this.now += ms;
    this.dispatcher.tick();
  }
}

void t.test(
  'eight attempts at once to an endpoint, one while it fails, one more with each success after',
  async (t) => {
    const driven = new Driven();
    driven.offer('a', true, 30);
    t.equal(driven.inFlight('a'), LIMITS.webhookEndpointInFlightBegin);
    await driven.end('a', 'failed');
    t.equal(driven.inFlight('a'), 1);
    t.equal(driven.dispatcher.endpointsFailing, 1);
    await driven.end('a', 'delivered');
    t.equal(driven.inFlight('a'), 2);
    t.equal(driven.dispatcher.endpointsFailing, 0);
    await driven.end('a', 'delivered');
    t.equal(driven.inFlight('a'), 4);
  },
);

void t.test(
  'who answers at once is not slow because that takes long to be recorded, and keeps its places till then',
  async (t) => {
    const begin = LIMITS.webhookEndpointInFlightBegin;
    const driven = new Driven();
    driven.records = false;
    driven.offer('a', true, 100);
    await driven.end('a', 'delivered');
    t.equal(driven.started.length, begin);
    driven.wait(LIMITS.webhookLateMs);
    t.strictSame(driven.dispatcher.inFlight, { firsts: begin, retries: 0, slow: 0 });
    const { answering, failing } = driven.dispatcher.oldestDueAt();
    t.strictSame(
      [driven.now - answering, failing],
      [LIMITS.webhookLateMs, Infinity],
      'what waits, waits for us',
    );
    for (const recorded of driven.recording.splice(0)) recorded();
    await new Promise((resolve) => setImmediate(resolve));
    t.equal(driven.started.length, begin + begin * 2, 'and one more for each answer');
  },
);

void t.test(
  'an endpoint that hangs gets nothing more until it answers, others are not held up',
  async (t) => {
    const driven = new Driven();
    driven.offer('hangs', true, 3);
    driven.wait(LIMITS.webhookSlowMs);
    driven.offer('hangs', true, 10);
    t.equal(driven.inFlight('hangs'), 3);
    t.same(
      driven.dispatcher.inFlight,
      { firsts: 0, retries: 0, slow: 3 },
      'and left the room of first attempts',
    );
    driven.offer('b');
    t.equal(driven.inFlight('b'), 1);
    await driven.end('hangs', 'delivered');
    t.equal(driven.inFlight('hangs'), LIMITS.webhookEndpointInFlightBegin);
  },
);

void t.test(
  'who answers at once gets more at once, up to a bound, and half as much after another end',
  async (t) => {
    const [begin, max] = [LIMITS.webhookEndpointInFlightBegin, LIMITS.webhookEndpointInFlightMax];
    const driven = new Driven();
    driven.offer('a', true, 1_000);
    for (let answered = 1; answered <= max; answered++) {
      await driven.endOne('a', 'delivered');
      t.equal(driven.inFlight('a'), Math.min(begin + answered, max));
    }
    for (const left of [max / 2, begin, begin]) {
      driven.wait(LIMITS.webhookLateMs);
      await driven.endOne('a', 'delivered');
      await driven.end('a', 'none');
      t.equal(driven.inFlight('a'), left, 'one came late');
    }
    for (let answered = 1; answered <= max; answered++) await driven.endOne('a', 'delivered');
    await driven.endOne('a', 'failed');
    await driven.end('a', 'none');
    t.equal(driven.inFlight('a'), 1);
    await driven.end('a', 'delivered');
    t.equal(driven.inFlight('a'), max / 2);
  },
);

void t.test(
  'who takes three seconds and always answers gets more at once, too: one more when all have answered',
  async (t) => {
    const [begin, max] = [LIMITS.webhookEndpointInFlightBegin, LIMITS.webhookEndpointInFlightMax];
    const driven = new Driven();
    driven.offer('a', true, 1_000);
    let least = Infinity;
    let mostMore = 0;
    for (let round = 0; round < 1.1 * (max - begin); round++) {
      const atOnce = driven.inFlight('a');
      driven.wait(LIMITS.webhookSlowMs);
      for (let answers = 0; answers < atOnce; answers++) {
        await driven.endOne('a', 'delivered');
        least = Math.min(least, driven.inFlight('a'));
      }
      mostMore = Math.max(mostMore, driven.inFlight('a') - atOnce);
    }
    t.equal(least, begin, 'it goes on while others are open for long');
    t.equal(mostMore, 1);
    t.equal(driven.inFlight('a'), max);
    driven.wait(LIMITS.webhookLateMs - 1);
    for (let answers = 0; answers < max; answers++) await driven.endOne('a', 'delivered');
    t.equal(driven.inFlight('a'), max, 'and not above the bound');
    driven.wait(LIMITS.webhookLateMs);
    for (let answers = 0; answers < max; answers++) await driven.endOne('a', 'delivered');
    t.equal(driven.inFlight('a'), begin, 'it had too much');
  },
);

void t.test('who has answered a few at a time has not shown that it takes many at once', async (t) => {
  for (const answerMs of [0, LIMITS.webhookSlowMs]) {
    const driven = new Driven();
    for (let n = 0; n < 1_000; n++) {
      driven.offer('a', true, LIMITS.webhookEndpointInFlightBegin / 2);
      driven.wait(answerMs);
      await driven.end('a', 'delivered');
    }
    driven.offer('a', true, 100);
    t.equal(driven.inFlight('a'), LIMITS.webhookEndpointInFlightBegin);
  }
});

void t.test('who works on one after the other gets as many as it answers in time', async (t) => {
  const driven = new Driven();
  const answerMs = LIMITS.webhookAttemptMs / 5;
  let [delivered, failed, freeAt] = [0, 0, driven.now];
  driven.offer('a', true, 1_000);
  const begun = new Map<Started, number>();
  for (const until = driven.now + 300_000; driven.now < until; driven.wait(LIMITS.timerTickMs)) {
    for (const item of driven.running.keys()) {
      if (!begun.has(item)) begun.set(item, driven.now);
    }
    const [oldest] = driven.running.keys();
    if (oldest === undefined) continue;
    const isLost = driven.now - begun.get(oldest)! >= LIMITS.webhookAttemptMs;
    const isDone = driven.now >= Math.max(freeAt, begun.get(oldest)!) + answerMs;
    if (!isLost && !isDone) continue;
    if (isDone) freeAt = driven.now;
    if (isDone) delivered++;
    else failed++;
    await driven.endAllOf((item) => item === oldest, isDone ? 'delivered' : 'failed');
  }
  t.ok(failed < delivered / 10, `${failed} failed, ${delivered} were delivered`);
});

void t.test('what goes to those known to be slow takes no room from others', async (t) => {
  const driven = new Driven();
  const [each, room] = [LIMITS.webhookEndpointInFlightBegin, LIMITS.webhookSlowInFlightMax / 2];
  const slow = Array.from({ length: room / each }, (_, n) => `slow${n}`);
  for (const id of slow) {
    driven.offer(id);
    driven.wait(LIMITS.webhookSlowMs);
    await driven.end(id, 'delivered');
    driven.offer(id, true, each + 1);
  }
  t.same(driven.dispatcher.inFlight, { firsts: 0, retries: 0, slow: room });
  driven.offer('turns out slow', true, each);
  driven.wait(LIMITS.webhookSlowMs);
  t.same(driven.dispatcher.inFlight, { firsts: 0, retries: 0, slow: room + each });
  await driven.end('turns out slow', 'delivered');
  driven.offer('turns out slow');
  t.equal(driven.inFlight('turns out slow'), 0, 'its turn comes after the others that wait');
  for (const id of slow) await driven.endOne(id, 'delivered');
  t.equal(driven.inFlight('turns out slow'), 1);
});

void t.test('what was learnt of one URL says nothing of how much another takes', async (t) => {
  const driven = new Driven();
  driven.offer('a', true, 100);
  for (let n = 0; n < 10; n++) await driven.endOne('a', 'delivered');
  t.equal(driven.inFlight('a'), LIMITS.webhookEndpointInFlightBegin + 10);
  driven.url = 'https://new.example.com/';
  await driven.end('a', 'none');
  t.equal(driven.inFlight('a'), LIMITS.webhookEndpointInFlightBegin);
  driven.wait(LIMITS.webhookSlowMs);
  await driven.endOne('a', 'delivered');
  driven.url = 'https://newer.example.com/';
  await driven.endOne('a', 'none');
  await driven.end('a', 'none');
  t.same(
    driven.dispatcher.inFlight,
    { firsts: LIMITS.webhookEndpointInFlightBegin, retries: 0, slow: 0 },
    'nor of how long',
  );
});

void t.test(
  'what is in flight to a URL that was left says nothing of the one that came after it',
  async (t) => {
    const driven = new Driven();
    driven.offer('a', true, 6);
    driven.wait(1);
    driven.url = 'https://new.example.com/';
    driven.offer('a');
    driven.wait(LIMITS.webhookSlowMs - 1);
    driven.offer('a', true, 100);
    t.equal(driven.inFlight('a'), 6 + LIMITS.webhookEndpointInFlightBegin, 'not that it hangs');
    for (let n = 0; n < 6; n++) await driven.endOne('a', 'failed');
    t.equal(driven.dispatcher.endpointsFailing, 0);
    t.equal(driven.inFlight('a'), LIMITS.webhookEndpointInFlightBegin);
  },
);

void t.test('one answer that takes long holds up nothing while others come at once', async (t) => {
  const driven = new Driven();
  driven.offer('a', true, LIMITS.webhookEndpointInFlightBegin);
  const slow = driven.started[0];
  const isOther = (item: Started): boolean => item !== slow;
  await driven.endAllOf(isOther, 'delivered');
  driven.wait(1);
  driven.offer('a');
  await driven.endAllOf(isOther, 'delivered');
  driven.wait(LIMITS.webhookSlowMs);
  driven.offer('a', true, 5);
  t.equal(driven.inFlight('a'), 6, 'what began after it was answered at once');
  driven.wait(LIMITS.webhookSlowMs);
  driven.offer('a', true, 5);
  t.equal(driven.inFlight('a'), 6, 'of what began since nothing was');
  await driven.endAllOf(isOther, 'delivered');
  t.equal(driven.inFlight('a'), 6, 'it was, if slowly');
});

void t.test(
  'retries fill their own room only: a first attempt to a healthy endpoint starts at once',
  async (t) => {
    const driven = new Driven();
    const room = LIMITS.webhookRetryInFlightMax;
    for (let i = 0; i <= room; i++) driven.offer(`r${i}`, false);
    t.equal(driven.started.length, room);
    driven.offer('healthy');
    t.equal(driven.started.at(-1)?.endpointId, 'healthy');
    await driven.end('r0', 'failed');
    t.equal(driven.started.at(-1)?.endpointId, `r${room}`, 'the one that waited is next');
  },
);

void t.test('first attempts to failing endpoints take the room of retries', async (t) => {
  const driven = new Driven();
  const room = LIMITS.webhookFirstInFlightMax;
  for (let n = 1; n < room; n++) driven.offer(`healthy${n}`);
  driven.offer('failing', true, 2);
  await driven.end('failing', 'failed');
  t.same(driven.dispatcher.inFlight, { firsts: room - 1, retries: 1, slow: 0 });
});

void t.test('who waits for room is served in turn, one attempt each', async (t) => {
  const driven = new Driven();
  const room = LIMITS.webhookFirstInFlightMax / LIMITS.webhookEndpointInFlightBegin;
  for (let i = 0; i < room; i++) driven.offer(`full${i}`, true, LIMITS.webhookEndpointInFlightBegin);
  driven.offer('long', true, 100);
  driven.offer('short', true, 1);
  t.equal(driven.inFlight('long') + driven.inFlight('short'), 0);
  await driven.end('full0', 'delivered');
  t.equal(driven.inFlight('short'), 1, 'the long queue of another is not in the way');
  t.equal(driven.inFlight('long'), LIMITS.webhookEndpointInFlightBegin - 1);
});

void t.test(
  'an endpoint that came after those that fill a room has its turn before they have a second',
  async (t) => {
    const eachMax = LIMITS.webhookEndpointInFlightBegin;
    for (const [isFirst, room] of [
      [true, LIMITS.webhookFirstInFlightMax],
      [false, LIMITS.webhookRetryInFlightMax],
    ] as const) {
      const driven = new Driven();
      for (let i = 0; i < room / eachMax; i++) driven.offer(`full${i}`, isFirst, eachMax * 3);
      driven.offer('late', isFirst, 2);
      driven.offer('later', isFirst);
      const served: string[] = [];
      for (let i = 0; i < 4; i++) {
        await driven.endOne('full0', 'delivered');
        served.push(driven.started.at(-1)!.endpointId);
      }
      t.same(served, ['late', 'later', 'full0', 'late'], isFirst ? 'of first attempts' : 'of retries');
    }
  },
);

void t.test(
  'a pause delays retries of the failing endpoint, not its first attempts, and takes no attempt',
  async (t) => {
    const driven = new Driven();
    for (let i = 0; i < 20; i++) {
      driven.offer('a', true);
      await driven.end('a', 'failed');
    }
    driven.offer('a', false);
    t.equal(driven.inFlight('a'), 0, 'paused');
    driven.offer('a', true);
    t.equal(driven.inFlight('a'), 1, 'a first attempt goes out');
    t.equal(driven.started.at(-1)?.isFirst, true);
    await driven.end('a', 'failed');
    driven.wait(LIMITS.webhookPauseMsMax - 1);
    t.equal(driven.inFlight('a'), 0);
    driven.wait(1);
    t.equal(driven.inFlight('a'), 1, 'the retry goes out when the pause is over');
    t.equal(driven.started.at(-1)?.isFirst, false);
  },
);

void t.test('a failing endpoint alternates between first attempts and retries', async (t) => {
  const driven = new Driven();
  driven.offer('a', true);
  await driven.end('a', 'failed');
  driven.offer('a', true, 3);
  driven.offer('a', false, 3);
  for (let i = 0; i < 5; i++) await driven.end('a', i % 2 === 0 ? 'failed' : 'none');
  t.same(
    driven.started.slice(1, 6).map(({ isFirst }) => isFirst),
    [true, false, true, false, true],
  );
});

void t.test('the fifth failure in a row begins to pause retries, each one twice as long', async (t) => {
  const driven = new Driven();
  const longestMs = 1_600;
  driven.dispatcher.limitPause(longestMs);
  driven.dispatcher.limitPause(LIMITS.webhookPauseMsMax);
  for (const pauseMs of [0, 0, 0, 0, 100, 200, 400, 800, 1_600, 1_600]) {
    driven.offer('a');
    await driven.end('a', 'failed');
    driven.offer('a', false);
    driven.wait(Math.max(0, pauseMs - 1));
    t.equal(driven.inFlight('a'), pauseMs === 0 ? 1 : 0);
    driven.wait(1);
    t.equal(driven.inFlight('a'), 1, `${pauseMs} ms`);
    await driven.end('a', 'none');
  }
});

void t.test('a pause that was prolonged holds up nobody else whose pause is over', async (t) => {
  const driven = new Driven();
  for (const id of ['a', 'b']) {
    for (let i = 0; i < 20; i++) {
      driven.offer(id);
      await driven.end(id, 'failed');
    }
    driven.offer(id, false);
  }
  driven.wait(LIMITS.webhookPauseMsMax - 1);
  driven.offer('a');
  await driven.end('a', 'failed');
  driven.wait(1);
  t.same([driven.inFlight('a'), driven.inFlight('b')], [0, 1]);
});

void t.test('a healthy endpoint hears first attempts before retries', async (t) => {
  const driven = new Driven();
  driven.offer('a', true, LIMITS.webhookEndpointInFlightBegin);
  driven.offer('a', false, 2);
  driven.now += 1_000;
  driven.offer('a', true, 2);
  t.equal(driven.dispatcher.oldestDueAt().answering, driven.now - 1_000, 'of both the oldest is told');
  for (let i = 0; i < 4; i++) await driven.endOne('a', 'none');
  t.equal(driven.dispatcher.oldestDueAt().answering, Infinity);
  driven.offer('a', true, 1);
  driven.now += 1_000;
  driven.offer('a', false, 1);
  t.equal(driven.dispatcher.oldestDueAt().answering, driven.now - 1_000);
  t.same(
    driven.started.slice(LIMITS.webhookEndpointInFlightBegin).map(({ isFirst }) => isFirst),
    [true, true, false, false],
  );
});

void t.test(
  'what waits for an endpoint that fails or hangs is told apart from what waits for us',
  async (t) => {
    const driven = new Driven();
    const deadAt = driven.now;
    driven.offer('dead', true, LIMITS.webhookEndpointInFlightBegin + 2);
    driven.wait(1);
    const hangsAt = driven.now;
    driven.offer('hangs', true, LIMITS.webhookEndpointInFlightBegin + 1);
    t.same(driven.dispatcher.oldestDueAt(), { answering: deadAt, failing: Infinity }, 'nobody knows yet');
    await driven.end('dead', 'failed');
    for (const ms of [LIMITS.webhookSlowMs, 0]) driven.wait(ms);
    driven.offer('well', true, LIMITS.webhookEndpointInFlightBegin + 1);
    t.same(driven.dispatcher.oldestDueAt(), { answering: driven.now, failing: deadAt });
    await driven.end('dead', 'failed');
    t.same(driven.dispatcher.oldestDueAt(), { answering: driven.now, failing: hangsAt });
    await driven.endOne('hangs', 'none');
    for (let times = 0; times < 2; times++) await driven.end('hangs', 'delivered');
    driven.offer('hangs', true, LIMITS.webhookEndpointInFlightBegin + 1);
    t.same(driven.dispatcher.oldestDueAt(), { answering: driven.now, failing: Infinity });
  },
);

void t.test(
  'what waits for an endpoint that always takes long is told apart, also between its attempts',
  async (t) => {
    const driven = new Driven();
    driven.offer('slow', true, 3 * LIMITS.webhookEndpointInFlightBegin);
    const dueAt = driven.now;
    driven.wait(LIMITS.webhookSlowMs);
    await driven.end('slow', 'delivered');
    t.equal(driven.inFlight('slow'), LIMITS.webhookEndpointInFlightBegin, 'and has its whole room again');
    t.same(driven.dispatcher.oldestDueAt(), { answering: Infinity, failing: dueAt });
    await driven.endOne('slow', 'delivered');
    t.same(
      driven.dispatcher.oldestDueAt(),
      { answering: dueAt, failing: Infinity },
      'it has answered at once',
    );
  },
);

void t.test('an attempt that sent nothing says nothing of the endpoint', async (t) => {
  const driven = new Driven();
  driven.offer('a', true, 9);
  await driven.end('a', 'none');
  t.equal(driven.dispatcher.endpointsFailing, 0);
});

void t.test('an endpoint that nothing goes to any more is not told as failing for ever', async (t) => {
  const driven = new Driven();
  driven.offer('gone');
  driven.offer('tried');
  await driven.endAll(() => true, 'failed');
  driven.wait(LIMITS.webhookFailingShownMs - 1);
  t.equal(driven.dispatcher.endpointsFailing, 2);
  driven.offer('tried', false);
  await driven.end('tried', 'failed');
  driven.wait(1);
  t.equal(driven.dispatcher.endpointsFailing, 1, 'the alert would go off whenever nothing is to be sent');
});

void t.test('a room full of endpoints that hang is free when they are noticed, up to a bound', async (t) => {
  const driven = new Driven();
  const [first, slow] = [LIMITS.webhookFirstInFlightMax, LIMITS.webhookSlowInFlightMax];
  for (let hanging = 0; hanging < slow + first; hanging++) {
    driven.offer(`hangs${hanging}`);
    if (hanging % first < first - 1) continue;
    driven.wait(LIMITS.webhookSlowMs - 1);
    t.equal(driven.dispatcher.inFlight.firsts, first);
    driven.wait(1);
  }
  t.same(driven.dispatcher.inFlight, { firsts: first, retries: 0, slow });
  driven.offer('waits');
  driven.wait(LIMITS.webhookSlowMs);
  t.equal(driven.inFlight('waits'), 0);
  await driven.end('hangs0', 'delivered');
  driven.wait(0);
  t.equal(driven.inFlight('waits'), 1);
  await driven.endAll(() => true, 'delivered');
  t.same(driven.dispatcher.inFlight, { firsts: 0, retries: 0, slow: 0 });
  t.same(driven.dispatcher.queued, { firsts: 0, retries: 0 });
});

void t.test('an attempt that has ended is never noticed as slow', async (t) => {
  const driven = new Driven();
  driven.offer('a');
  await driven.end('a', 'delivered');
  driven.wait(LIMITS.webhookSlowMs);
  driven.offer('a', true, 30);
  t.equal(driven.inFlight('a'), LIMITS.webhookEndpointInFlightBegin);
});

void t.test(
  'beyond so many endpoints the idle ones are forgotten, and nothing that one has to send',
  async (t) => {
    const driven = new Driven();
    driven.offer('failing');
    await driven.end('failing', 'failed');
    driven.offer('busy', true, 20);
    driven.offer('flying', true, LIMITS.webhookEndpointInFlightBegin);
    driven.offer('paused');
    for (let i = 0; i < 20; i++) {
      await driven.end('paused', 'failed');
      driven.offer('paused');
    }
    await driven.end('paused', 'failed');
    driven.offer('paused', false);
    t.equal(driven.dispatcher.endpointsFailing, 2);
    for (let i = 0; i < LIMITS.webhookEndpointsKnownMax; i++) {
      driven.offer(`idle${i}`);
      if (i % 500 === 499) await driven.endAll((id) => id.startsWith('idle'), 'delivered');
    }
    t.equal(driven.dispatcher.endpointsFailing, 1, 'one that failed and has nothing to send is forgotten');
    t.same(driven.dispatcher.queued, { firsts: 12, retries: 1 });
    driven.wait(LIMITS.webhookPauseMsMax);
    t.equal(driven.inFlight('paused'), 1);
    driven.offer('busy');
    driven.offer('flying');
    t.equal(driven.inFlight('flying'), LIMITS.webhookEndpointInFlightBegin);
    t.equal(driven.inFlight('busy'), LIMITS.webhookEndpointInFlightBegin, 'it is the same endpoint still');
    for (let i = 0; i < 3; i++) await driven.end('busy', 'delivered');
    t.equal(driven.started.filter(({ endpointId }) => endpointId === 'busy').length, 21);
  },
);

void t.test(
  'endpoints that always have something to send do not keep the idle ones from being forgotten',
  async (t) => {
    const driven = new Driven();
    for (let i = 0; i < 2_000; i++) driven.offer(`hangs${i}`, false);
    driven.offer('failing', true);
    await driven.end('failing', 'failed');
    t.equal(driven.dispatcher.endpointsFailing, 1);
    for (let i = 0; i < LIMITS.webhookEndpointsKnownMax; i++) {
      driven.offer(`idle${i}`);
      if (i % 500 === 499) await driven.endAll((id) => id.startsWith('idle'), 'delivered');
    }
    t.equal(driven.dispatcher.endpointsFailing, 0);
  },
);

void t.test('after stop nothing more starts', async (t) => {
  const driven = new Driven();
  driven.offer('a', true, 9);
  driven.dispatcher.stop();
  await driven.end('a', 'delivered');
  driven.offer('b');
  t.equal(driven.started.length, 8);
});
