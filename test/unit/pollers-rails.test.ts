// What pollers promise about rails: bounded concurrency, a breaker, health, and that one rail's trouble is its own.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { Breaker } from '../../actors/pollers/breaker.ts';
import { NOTICES } from '../../actors/pollers/notice.ts';
import type { EnquiryResult, SubmitResult } from '../../src/rails/rail.ts';
import { LIMITS } from '../../src/limits.ts';
import { charge, payout } from './domain/scenario.ts';
import { ACCEPTED, BUSY, deferred, Driven, LOST } from './pollers-driven.ts';

const MINUTE = 60_000;
const AIRTEL = '+256702123456';

t.test('a rail gets no more calls at once than it may, and the next when one is answered', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.maxConcurrency = 3;
  const answers: ((result: SubmitResult) => void)[] = [];
  driven.mtn.onSubmit = () => {
    const { promise, resolve } = deferred<SubmitResult>();
    answers.push(resolve);
    return promise;
  };
  for (let i = 0; i < 10; i++) driven.accounts.create(charge());
  t.equal(answers.length, 3);
  t.hasStrict(driven.pollers.railHealth(), [{ id: 'mtn_ug', calling: 3, submitsWaiting: 7 }, {}]);
  answers[1]!(ACCEPTED);
  await driven.clock.advance(0);
  t.equal(answers.length, 4, 'in the same moment');
  for (let i = 0; i < 10; i++) {
    for (const answer of answers) answer(ACCEPTED);
    await driven.clock.advance(50);
  }
  t.equal(answers.length, 10);
  t.equal(driven.accounts.inFlight().filter(({ submitted }) => submitted).length, 10);
});

t.test('a rail that hangs slows no other', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.maxConcurrency = 5;
  driven.mtn.onSubmit = () => new Promise(() => {});
  for (let i = 0; i < 50; i++) driven.accounts.create(charge());
  for (let i = 0; i < 50; i++) {
    const { id } = driven.accounts.create(charge({ msisdn: AIRTEL }));
    t.ok(driven.accounts.transaction(id).submitted);
  }
  t.equal(driven.mtn.submits.length, 5);
  t.hasStrict(driven.pollers.railHealth(), [{ health: 'DEGRADED' }, { health: 'OPERATIONAL' }]);
});

t.test('submits go before enquiries, and enquiries still get their turn', async (t) => {
  const driven = await new Driven().start();
  const old = Array.from({ length: 5 }, () => driven.accounts.create(charge()));
  driven.mtn.maxConcurrency = 1;
  const order: string[] = [];
  const pending: (() => void)[] = [];
  const held = <Result>(what: string, result: Result): Promise<Result> => {
    order.push(what);
    const { promise, resolve } = deferred<Result>();
    pending.push(() => resolve(result));
    return promise;
  };
  driven.mtn.onSubmit = () => held<SubmitResult>('s', ACCEPTED);
  driven.mtn.onEnquire = () => held<EnquiryResult>('e', { type: 'pending', providerStatus: null });
  for (let i = 0; i < 12; i++) driven.accounts.create(charge());
  for (const transaction of old) driven.hint(transaction);
  for (let i = 0; i < 17; i++) {
    pending.shift()?.();
    await driven.clock.advance(0);
  }
  t.equal(order.join(''), 'sssssessssessseee', 'an enquiry after each four submits, then the rest');
});

t.test('enquiries that callbacks cause, and the last before an expiry, go before the others', async (t) => {
  const driven = await new Driven().start();
  const old = driven.accounts.create(charge());
  await driven.clock.advance(15 * MINUTE, 1_000);
  const all = Array.from({ length: 40 }, () => driven.accounts.create(charge()));
  driven.mtn.maxConcurrency = 1;
  const asked: string[] = [];
  let answer: (result: EnquiryResult) => void = () => {};
  driven.mtn.onEnquire = ({ id }) => {
    asked.push(id);
    const { promise, resolve } = deferred<EnquiryResult>();
    answer = resolve;
    return promise;
  };
  const askedNext = async (count: number): Promise<string[]> => {
    const before = asked.length;
    while (asked.length < before + count) {
      answer({ type: 'pending', providerStatus: null });
      await driven.clock.advance(0);
    }
    return asked.slice(before);
  };
  await driven.clock.advance(MINUTE, 500);
  t.hasStrict(driven.pollers.railHealth(), [{ enquiriesWaiting: 40 }, {}]);
  const called = all.find(({ id }) => !asked.includes(id))!;
  driven.hint(called);
  driven.hint(called);
  t.strictSame(await askedNext(1), [called.id], 'a callback brings it forward');
  t.notOk((await askedNext(10)).includes(called.id), 'once');

  await driven.clock.advance(14 * MINUTE, 1_000);
  // The second callback asks once more.
  t.strictSame(await askedNext(2), [called.id, old.id], 'one that is to expire');
  t.equal(driven.accounts.transaction(old.id).status, 'AWAITING_CUSTOMER');
  await askedNext(1);
  t.equal(driven.accounts.transaction(old.id).failureCode, 'expired', 'after its enquiry');
});

t.test(
  'a rail that cannot take an enquiry a minute of each is asked less often, and again when it can',
  async (t) => {
    const driven = await new Driven().start();
    driven.mtn.maxConcurrency = 1;
    const ids = Array.from({ length: 30 }, () => driven.accounts.create(payout({ amount: '500' })).id);
    // Six a minute, where one a minute of each would be thirty.
    let answer: ((result: EnquiryResult) => void) | null = null;
    const pending: EnquiryResult = { type: 'pending', providerStatus: null };
    const stopAnswering = driven.clock.every(10_000, () => answer?.(pending));
    driven.mtn.onEnquire = () => {
      const { promise, resolve } = deferred<EnquiryResult>();
      answer = resolve;
      return promise;
    };
    await driven.clock.advance(30 * MINUTE, 500);
    const waiting: number[] = [];
    for (let minute = 0; minute < 20; minute++) {
      await driven.clock.advance(MINUTE, 500);
      waiting.push(driven.pollers.railHealth()[0]!.enquiriesWaiting);
    }
    t.ok(Math.max(...waiting) <= 15, `waiting in its queue: ${waiting.join(' ')}`);

    driven.mtn.onEnquire = () => pending;
    answer!(pending);
    stopAnswering();
    await driven.clock.advance(7 * MINUTE, 500);
    const asked = driven.mtn.enquiries.length;
    await driven.clock.advance(10 * MINUTE, 500);
    const each = (driven.mtn.enquiries.length - asked) / ids.length;
    t.ok(each >= 9 && each <= 12, `${each} of each in ten minutes`);
  },
);

t.test('the breaker opens on a rail that is down, and closes when it answers again', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  for (let i = 0; i < 200; i++) driven.accounts.create(payout({ amount: '500' }));
  t.equal(driven.mtn.submits.length, 20, 'after so many failures no more is tried');
  t.hasStrict(driven.pollers.railHealth(), [{ health: 'DOWN', breaker: 'open', lastFailure: '503' }, {}]);
  await driven.clock.advance(5 * MINUTE);
  const probes = driven.mtn.submits.length - 20;
  t.ok(probes >= 3 && probes < 30, `${probes} probes in five minutes for 200 transactions`);
  driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
  await driven.clock.advance(3 * MINUTE);
  t.equal(driven.accounts.inFlight().filter(({ submitted }) => submitted).length, 200);
  t.hasStrict(driven.pollers.railHealth(), [{ health: 'OPERATIONAL', breaker: 'closed' }, {}]);
});

t.test('a rail that is tried again gets one call at a time, and is not down meanwhile', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  for (let i = 0; i < 50; i++) driven.accounts.create(payout({ amount: '500' }));
  const answers: ((result: SubmitResult) => void)[] = [];
  driven.mtn.onSubmit = () => {
    const { promise, resolve } = deferred<SubmitResult>();
    answers.push(resolve);
    return promise;
  };
  const counts = { submits: 20, enquiries: 0, failures: 20, ourFaults: 0 };
  t.hasStrict(driven.pollers.railHealth(), [{ health: 'DOWN', ...counts }, {}]);
  await driven.clock.advance(3_000);
  for (const calls of [1, 2, 3]) {
    t.equal(answers.length, calls);
    t.hasStrict(driven.pollers.railHealth(), [{ health: 'DEGRADED', breaker: 'half_open', calling: 1 }, {}]);
    answers.at(-1)!(ACCEPTED);
    await driven.clock.advance(0);
  }
  t.ok(answers.length > 10, 'the third good answer lets all of them go');
});

t.test('the alert about a rail that is down fires where all its calls time out', async (t) => {
  const alerts = readFileSync(join(import.meta.dirname, '../../deploy/prometheus/alerts.yaml'), 'utf8');
  const [, expression = '', forMinutes] =
    /alert: DaftariRailDown\n(?: *#.*\n)* *expr: (.*)\n *for: (\d+)m/.exec(alerts) ?? [];
  t.match(expression, /^min by \(rail\) \(.*daftari_rail_health.*\) == 0$/);
  const windowMs =
    Number(/min_over_time\(daftari_rail_health\[(\d+)m\]\)/.exec(expression)?.[1] ?? 0) * MINUTE;

  const driven = await new Driven().start();
  const timeOut = (): Promise<typeof LOST> => {
    const { promise, resolve } = deferred<typeof LOST>();
    const stop = driven.clock.every(LIMITS.railAnswerMs, () => {
      stop();
      resolve(LOST);
    });
    return promise;
  };
  driven.mtn.onSubmit = timeOut;
  driven.mtn.onEnquire = timeOut;
  /** As Prometheus would: since when the alert's condition has held, by rail. */
  const downAt = new Map<string, number>();
  const heldSince = new Map<string, number>();
  const fired = new Set<string>();
  for (let scrapes = 0; scrapes < 60; scrapes++) {
    for (let i = 0; i < 10; i++) {
      driven.accounts.create(charge({ amount: '500' }));
      driven.accounts.create(charge({ amount: '500', msisdn: AIRTEL }));
    }
    await driven.clock.advance(15_000, 100);
    const now = driven.clock.now();
    for (const { id, health } of driven.pollers.railHealth()) {
      if (health === 'DOWN') downAt.set(id, now);
      if (now - (downAt.get(id) ?? -Infinity) > windowMs) heldSince.delete(id);
      else if (!heldSince.has(id)) heldSince.set(id, now);
      if (now - (heldSince.get(id) ?? now) >= Number(forMinutes) * MINUTE) fired.add(id);
    }
  }
  t.strictSame([...fired], ['mtn_ug']);
});

t.test('of each notice an alert tells, but for what passes by itself', (t) => {
  const alerts = readFileSync(join(import.meta.dirname, '../../deploy/prometheus/alerts.yaml'), 'utf8');
  const [, alerted = ''] = /daftari_rail_notices_total\{what=~"(.*?)"\}/.exec(alerts) ?? [];
  // The first two by daftari_rail_our_faults_total and daftari_reconciliation_open.
  const others = ['our_fault', 'unknown_reference', 'follows_too_many'];
  t.strictSame([...alerted.split('|'), ...others].toSorted(), NOTICES.toSorted());
  t.end();
});

t.test('a rail that is seldom called is degraded while no call succeeds', async (t) => {
  const driven = await new Driven().start();
  const isWell = (): boolean => driven.pollers.railHealth()[0]?.health === 'OPERATIONAL';
  driven.mtn.onSubmit = () => LOST;
  driven.mtn.onEnquire = () => LOST;
  driven.accounts.create(payout({ amount: '500' }));
  await driven.clock.advance(10 * MINUTE, 1_000);
  t.ok(isWell(), 'one payment says nothing of it');
  for (let charges = 0; charges < 6; charges++) {
    driven.accounts.create(charge({ amount: '500' }));
    for (let i = 0; i < 40; i++) {
      await driven.clock.advance(15_000, 1_000);
      if (charges >= 2 && isWell()) t.fail(`after ${charges} charges and ${i} quarters of a minute`);
    }
  }
  driven.mtn.onSubmit = (transaction) => driven.provider.submit(transaction);
  driven.mtn.onEnquire = (transaction) => driven.provider.enquire(transaction);
  await driven.clock.advance(2 * MINUTE, 1_000);
  t.ok(isWell(), 'and as soon as one does, it is well');
});

t.test('and no longer than somebody calls it', (t) => {
  const breaker = new Breaker(() => 0);
  for (const at of [100_000, 300_000, 400_000]) fail(breaker, at);
  t.ok(breaker.isDegraded(519_999));
  t.notOk(breaker.isDegraded(520_000));
  succeed(breaker, 530_000);
  for (const at of [600_000, 800_000]) fail(breaker, at);
  t.notOk(breaker.isDegraded(850_000), 'a call succeeded in between');
  fail(breaker, 900_000);
  t.ok(breaker.isDegraded(900_000), 'as long after that, and as often');
  t.end();
});

t.test('charges behind an open breaker still expire in their time', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  for (let i = 0; i < 50; i++) driven.accounts.create(charge());
  await driven.clock.advance(30 * MINUTE + 1_000, 250);
  t.strictSame(driven.accounts.inFlight(), []);
  const codes = [...driven.accounts.scenario.state.transactions.values()]
    .filter(({ type }) => type === 'CHARGE')
    .map(({ failureCode }) => failureCode);
  t.strictSame(
    codes,
    Array.from({ length: 50 }, () => 'provider_unavailable'),
  );
});

t.test('accepted charges whose rail dies expire in their time', async (t) => {
  const driven = await new Driven().start();
  for (let i = 0; i < 50; i++) driven.accounts.create(charge());
  driven.mtn.onEnquire = () => LOST;
  await driven.clock.advance(31 * MINUTE, 250);
  t.strictSame(driven.accounts.inFlight(), []);
});

t.test('a few numbers in trouble do not open the breaker', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = ({ msisdn }) => (msisdn.endsWith('73') ? BUSY : ACCEPTED);
  for (let i = 0; i < 100; i++) {
    driven.accounts.create(charge({ msisdn: i % 4 === 0 ? '+256772123473' : '+256772123400' }));
  }
  t.hasStrict(driven.pollers.railHealth(), [{ health: 'DEGRADED', breaker: 'closed' }, {}]);
  t.equal(driven.mtn.submits.length, 100);
});

t.test('numbers that were in trouble once, and were answered since, count like all others', async (t) => {
  const driven = await new Driven().start();
  const wasBusy = new Set<string>();
  driven.mtn.onSubmit = ({ id, msisdn }) => {
    if (!msisdn.endsWith('73') || wasBusy.has(id)) return ACCEPTED;
    wasBusy.add(id);
    return BUSY;
  };
  driven.mtn.onEnquire = ({ msisdn }) =>
    msisdn.endsWith('73') ? LOST : { type: 'pending', providerStatus: null };
  // One fewer than open a breaker.
  for (let i = 0; i < 19; i++) driven.accounts.create(charge({ msisdn: '+256772123473' }));
  for (let i = 0; i < 6; i++) driven.accounts.create(charge({ msisdn: '+256772123400' }));
  const breaker = () => driven.pollers.railHealth()[0]?.breaker;
  await driven.clock.advance(9_000);
  t.equal(breaker(), 'closed');
  t.equal(driven.accounts.inFlight().length, 25);
  let opened = false;
  for (let passed = 0; passed < 5_000; passed += 250) {
    await driven.clock.advance(250);
    opened ||= breaker() === 'open';
  }
  t.ok(opened, 'a failure after an answer is no repeat');
});

t.test(
  'a breaker: half of twenty opens it, each failed probe doubles its time, three good ones close it',
  async (t) => {
    const breaker = new Breaker(() => 0);
    let now = 100_000;
    succeed(breaker, now, 10);
    fail(breaker, now, 9);
    t.equal(breaker.state, 'closed');
    fail(breaker, now);
    t.equal(breaker.state, 'open');
    let openMs = 2_000;
    for (let i = 0; i < 8; i++) {
      t.notOk(breaker.allows(now + openMs - 1));
      now += openMs;
      t.ok(breaker.allows(now));
      const probe = breaker.started();
      t.notOk(breaker.allows(now), 'one probe at a time');
      breaker.failed(now, probe, false);
      openMs = Math.min(60_000, openMs * 2);
    }
    now += openMs;
    for (let i = 0; i < 3; i++) {
      t.ok(breaker.allows(now));
      succeed(breaker, now);
    }
    t.equal(breaker.state, 'closed');
    for (let i = 0; i < 19; i++) fail(breaker, now + i);
    t.equal(breaker.state, 'closed', 'it begins to count anew');
  },
);

t.test('a breaker half open counts good probes anew each time, and once closed opens briefly', async (t) => {
  const breaker = new Breaker(() => 0);
  let now = 100_000;
  const probe = (isGood: boolean): void => {
    t.ok(breaker.allows(now));
    if (isGood) succeed(breaker, now);
    else fail(breaker, now);
  };
  fail(breaker, now, 20);
  now += 2_000;
  for (const isGood of [true, true, false]) probe(isGood);
  t.equal(breaker.reopensAt, now + 4_000);
  now += 4_000;
  for (const isGood of [true, true]) probe(isGood);
  t.equal(breaker.state, 'half_open', 'the two from before do not count');
  t.ok(breaker.isDegraded(now + MINUTE), 'whatever was forgotten');
  probe(true);
  t.equal(breaker.state, 'closed');
  t.notOk(breaker.isDegraded(now));
  fail(breaker, now, 20);
  t.equal(breaker.reopensAt, now + 2_000);
});

t.test(
  'a rail that works is degraded from three failures on, where they are a tenth of its calls',
  async (t) => {
    for (const [good, bad, degraded] of [
      [0, 2, false],
      [0, 3, true],
      [27, 3, true],
      [28, 3, false],
      [100, 10, false],
      [100, 12, true],
    ] as const) {
      const breaker = new Breaker(() => 0);
      // In two windows: what the one before saw still counts.
      for (let i = 0; i < good; i++) succeed(breaker, 100_000);
      for (let i = 0; i < bad; i++) fail(breaker, i < bad - 1 ? 100_000 : 110_000);
      t.equal(breaker.isDegraded(110_000), degraded, `${bad} failures beside ${good}`);
    }
  },
);

t.test(
  'failed repeats open no breaker beside any success, and do not end a probing unless they come in a row',
  async (t) => {
    const breaker = new Breaker(() => 0);
    let now = 100_000;
    succeed(breaker, now);
    fail(breaker, now, 100, true);
    t.equal(breaker.state, 'closed');
    t.ok(breaker.isDegraded(now), 'they are failures nonetheless');
    fail(breaker, now, 18);
    t.equal(breaker.state, 'closed', 'nor are they of the calls that count');
    fail(breaker, now);
    t.equal(breaker.state, 'open');

    now += 2_000;
    for (const step of ['repeat', 'good', 'repeat', 'repeat', 'good'] as const) {
      t.ok(breaker.allows(now), step);
      if (step === 'good') succeed(breaker, now);
      else fail(breaker, now, 1, true);
    }
    t.equal(breaker.state, 'half_open');
    for (let i = 0; i < 3; i++) {
      t.ok(breaker.allows(now));
      fail(breaker, now, 1, true);
    }
    t.equal(breaker.state, 'open');
    t.equal(breaker.reopensAt, now + 4_000, 'a rail that is down fails all that it failed before');
    now += 4_000;
    for (let i = 0; i < 2; i++) {
      t.ok(breaker.allows(now));
      fail(breaker, now, 1, true);
    }
    t.equal(breaker.state, 'half_open', 'those before it opened are not counted again');
  },
);

t.test('a call of before a breaker opened, which is not made after all, ends no probe', (t) => {
  const breaker = new Breaker(() => 0);
  const before = breaker.started();
  fail(breaker, 100_000, 20);
  t.ok(breaker.allows(102_000));
  const probe = breaker.started();
  breaker.withheld(before);
  t.notOk(breaker.allows(102_000), 'one probe at a time');
  breaker.withheld(probe);
  t.ok(breaker.allows(102_000));
  t.end();
});

t.test('where nothing succeeds, repeats open a breaker too', async (t) => {
  const breaker = new Breaker(() => 0);
  fail(breaker, 100_000, 5);
  fail(breaker, 100_000, 14, true);
  t.equal(breaker.state, 'closed');
  fail(breaker, 100_000, 1, true);
  t.equal(breaker.state, 'open');
});

t.test('some payments that a provider stumbles over for ever slow nobody else', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = ({ msisdn }) => (msisdn.endsWith('73') ? BUSY : ACCEPTED);
  for (let i = 0; i < 8; i++) {
    driven.accounts.create(payout({ amount: '500', msisdn: '+256772123473' }));
  }
  for (let second = 0; second < 300; second += 3) {
    await driven.clock.advance(3_000, 500);
    const { id } = driven.accounts.create(charge());
    t.ok(driven.accounts.transaction(id).submitted, `${second} s`);
  }
  t.ok(
    driven.mtn.submits.filter(({ at }) => at > driven.clock.now() - MINUTE).length > 20,
    'they are tried on',
  );
});

t.test('a rail that was down is well again beside payments that it stumbles over for ever', async (t) => {
  const driven = await new Driven().start();
  driven.mtn.onSubmit = () => BUSY;
  for (let i = 0; i < 20; i++) {
    driven.accounts.create(payout({ amount: '500', msisdn: `+2567721234${i < 8 ? '73' : '00'}` }));
  }
  t.hasStrict(driven.pollers.railHealth(), [{ breaker: 'open' }, {}]);
  await driven.clock.advance(30_000, 500);
  driven.mtn.onSubmit = ({ msisdn }) => (msisdn.endsWith('73') ? BUSY : ACCEPTED);
  await driven.clock.advance(2 * MINUTE, 500);
  t.hasStrict(driven.pollers.railHealth(), [{ breaker: 'closed' }, {}]);
  t.equal(driven.accounts.inFlight().filter(({ submitted }) => submitted).length, 12);
});

t.test('failures of two windows open a breaker together', async (t) => {
  const breaker = new Breaker(() => 0);
  for (let i = 0; i < 10; i++) fail(breaker, 100_000);
  for (let i = 0; i < 9; i++) fail(breaker, 110_000);
  t.equal(breaker.state, 'closed');
  fail(breaker, 110_000);
  t.equal(breaker.state, 'open');
});

t.test('answers to calls from before it opened change nothing about a breaker', async (t) => {
  const breaker = new Breaker(() => 0);
  const before = breaker.started();
  fail(breaker, 100_000, 20);
  for (let i = 0; i < 100; i++) breaker.failed(101_999, before, false);
  for (let i = 0; i < 3; i++) breaker.succeeded(101_999, before);
  t.notOk(breaker.allows(101_999));
  t.ok(breaker.allows(102_000));
  const probe = breaker.started();
  breaker.failed(102_000, before, false);
  breaker.succeeded(102_000, before);
  t.equal(breaker.state, 'half_open', 'they are of a rail as it was');
  t.notOk(breaker.allows(102_000), 'the one probe is still in the air');
  breaker.succeeded(102_000, probe);
  succeed(breaker, 102_000, 2);
  t.equal(breaker.state, 'closed');
  for (let i = 0; i < 100; i++) breaker.failed(102_001, before, false);
  t.equal(breaker.state, 'closed', 'nor when it is well again');
});

t.test(
  'a rail that was down is told as degraded while it is tried, and not when nobody calls it any more',
  async (t) => {
    const breaker = new Breaker(() => 0);
    fail(breaker, 100_000, 20);
    const { reopensAt } = breaker;
    t.ok(breaker.isDegraded(reopensAt + 119_999), 'it may be tried in a minute');
    t.notOk(breaker.isDegraded(reopensAt + 120_000), 'nobody knows how it is');
    let now = reopensAt + 3_600_000;
    t.ok(breaker.allows(now));
    const probe = breaker.started();
    t.ok(breaker.isDegraded(now + 240_000), 'whoever waits for its answer does');
    now += 240_000;
    breaker.failed(now, probe, false);
    t.ok(breaker.isDegraded(now + 120_000));
    t.notOk(breaker.isDegraded(breaker.reopensAt + 120_000));
    now += 3_600_000;
    t.ok(breaker.allows(now));
    succeed(breaker, now);
    t.equal(breaker.state, 'half_open');
    t.notOk(breaker.isDegraded(now), 'the last that was heard of it is good');
  },
);

t.test('old failures are forgotten', async (t) => {
  const breaker = new Breaker(() => 0);
  for (let i = 0; i < 19; i++) fail(breaker, 100_000);
  t.ok(breaker.isDegraded(100_001));
  t.notOk(breaker.isDegraded(130_000));
  fail(breaker, 130_000);
  t.equal(breaker.state, 'closed');
});

t.test('more callbacks about what it does not follow than it may look into are refused', async (t) => {
  const driven = await new Driven().start();
  driven.accounts.intercept = ({ type }) => (type === 'GetPending' ? { type: 'unavailable' } : null);
  const id = (n: number) => `chg_01JB2XK8Z${String(n).padStart(15, '0')}00`;
  for (let n = 0; n < LIMITS.pollerLateMax; n++) driven.hint({ id: id(n) });
  t.hasStrict(driven.hint({ id: id(LIMITS.pollerLateMax) }), { type: 'unavailable' });
  await driven.clock.advance(5 * MINUTE, 500);
  t.hasStrict(driven.hint({ id: id(LIMITS.pollerLateMax) }), { type: 'unavailable' }, 'none is given up');
  driven.accounts.intercept = () => null;
  await driven.clock.advance(2 * MINUTE, 500);
  t.equal(driven.accounts.reconciliation().length, LIMITS.pollerLateMax, 'each is looked into in the end');
  t.equal(driven.hint({ id: id(LIMITS.pollerLateMax) }), undefined, 'there is room again');
});

function succeed(breaker: Breaker, now: number, times = 1): void {
  for (let i = 0; i < times; i++) breaker.succeeded(now, breaker.started());
}

function fail(breaker: Breaker, now: number, times = 1, isRepeat = false): void {
  for (let i = 0; i < times; i++) breaker.failed(now, breaker.started(), isRepeat);
}
