// The merchants' endpoints of the simulation, in place of what sends to them: each answers in its way, or not, after its time.
// What is sent is compared with the model: only what was committed, only where the app's URL leads by then, only when it is
// due, and byte for byte the same each time.

import { strict as assert } from 'node:assert';
import type { SendRequest, SendResult } from '../../actors/webhooks/sender.ts';
import { LIMITS } from '../../src/limits.ts';
import { keyOf, type Model, type ModelDelivery, type Truth } from './webhooks-model.ts';

export const MANNERS = ['answers', 'stumbles', 'refuses', 'hangs', 'dawdles', 'garbles', 'closes'] as const;
export type Manner = (typeof MANNERS)[number];

/** One attempt that was sent. */
export interface Sent {
  readonly app: string;
  readonly url: string;
  readonly delivery: string;
  /** By the partition's time. */
  readonly at: number;
  readonly endsAt: number;
  readonly result: SendResult;
  readonly resolve: (result: SendResult) => void;
  hasEnded: boolean;
  /** A decision was made of what came of it. */
  isRecorded: boolean;
  /** The partition was somebody else's since. */
  isForgotten: boolean;
}

export interface Surroundings {
  readonly truth: Truth;
  readonly model: () => Model;
  /** The clock, and the partition's time. */
  readonly now: () => number;
  readonly partitionNow: () => number;
  /** No other process may have the partition. */
  readonly isHeld: () => boolean;
  /** Sequence of the accounts' log when the partition was hosted. */
  readonly hostedAt: () => number;
  readonly random: () => number;
}

export class Endpoints {
  readonly #around: Surroundings;
  /** Of URLs. Absent: it answers. */
  readonly manners = new Map<string, Manner>();
  /** Of this life, oldest first. */
  sent: Sent[] = [];
  /** First body of each event, in all lives. */
  readonly #bodies = new Map<string, string>();
  /** Event of each final status, in all lives. */
  readonly #events = new Map<string, string>();

  constructor(around: Surroundings) {
    this.#around = around;
  }

  get inFlight(): Sent[] {
    return this.sent.filter(({ hasEnded }) => !hasEnded);
  }

  send(request: SendRequest): Promise<SendResult> {
    const delivery = this.#check(request);
    const { now, partitionNow, random } = this.#around;
    const result = resultOf(this.manners.get(request.url) ?? 'answers', random);
    return new Promise((resolve) => {
      this.sent.push({
        app: delivery.app,
        url: request.url,
        delivery: delivery.id,
        at: partitionNow(),
        endsAt: now() + result.durationMs,
        result,
        resolve,
        hasEnded: false,
        isRecorded: false,
        isForgotten: false,
      });
    });
  }

  #check({ url, eventId, eventType, body, signingSecret }: SendRequest): ModelDelivery {
    const { truth, model, partitionNow, isHeld, hostedAt } = this.#around;
    assert(isHeld(), 'another process may send it');
    const app = new URL(url).searchParams.get('app')!;
    const { cursor, before, deliveries } = model();
    const delivery = [...deliveries.values()].find((one) => one.app === app && one.event === eventId);
    assert(delivery !== undefined, `${eventId} is for ${app}`);
    const what = `${delivery.id} of ${app}`;
    const urls = [cursor, before].map((sequence) => truth.urlAt(app, Math.max(sequence, hostedAt())));
    assert(urls.includes(url), `${what} goes where the app is`);
    assert.equal(signingSecret, truth.apps.get(app)!.secret);
    assert(delivery.nextAt !== null && delivery.nextAt <= partitionNow(), `${what} is due`);
    const others = this.inFlight.filter((one) => one.app === app);
    assert(others.length < LIMITS.webhookEndpointInFlightMax, `${app} is not flooded`);
    assert(
      !others.some((one) => one.delivery === delivery.id && !one.isForgotten),
      `${what} is sent once at a time`,
    );

    assert.equal(body, this.#bodies.get(eventId) ?? body, `${eventId} is the same each time`);
    this.#bodies.set(eventId, body);
    const event = JSON.parse(body) as any;
    const { id, status } = event.data.object;
    assert.deepEqual([event.id, event.type], [eventId, eventType]);
    const final = truth.finals.find((one) => one.transaction === id && one.status === status);
    assert(final !== undefined, `${id} was ${status}`);
    assert(final.hears.includes(app), `${app} is to hear of ${keyOf(final)}`);
    assert.equal(eventId, this.#events.get(keyOf(final)) ?? eventId, `${keyOf(final)} is one event`);
    this.#events.set(keyOf(final), eventId);
    return delivery;
  }

  /** What has had its time. */
  end(): void {
    const now = this.#around.now();
    for (const one of this.sent) {
      if (one.hasEnded || one.endsAt > now) continue;
      one.hasEnded = true;
      one.resolve(one.result);
    }
  }

  /** The partition moves: what comes of these is nobody's to record. */
  forget(): void {
    for (const one of this.sent) {
      one.isForgotten = true;
      one.isRecorded = true;
    }
  }

  /** When the next attempt ends; Infinity: none is in flight. */
  get nextAt(): number {
    return Math.min(...this.inFlight.map(({ endsAt }) => endsAt));
  }

  /** All attempts since the last success at this URL, if none was at another, have failed for so long, ms. */
  failingMs(app: string, url: string): number {
    const own = this.sent.filter((one) => one.app === app && one.hasEnded);
    const lastOther = own.findLastIndex((one) => one.result.error === null || one.url !== url);
    const failures = own.slice(lastOther + 1).map(({ endsAt }) => endsAt);
    return failures.length === 0 ? 0 : Math.max(...failures) - Math.min(...failures);
  }

  isHealthy(url: string): boolean {
    return (this.manners.get(url) ?? 'answers') === 'answers';
  }
}

function resultOf(manner: Manner, random: () => number): SendResult {
  const below = (n: number): number => Math.floor(random() * n);
  const status = (statusCode: number, durationMs = below(300)): SendResult => ({
    error: statusCode >= 200 && statusCode < 300 ? null : 'http_status',
    statusCode,
    durationMs,
    excerpt: ['', 'no', 'é\u0000"\\\n', '\u{1f600}'.repeat(9), 'x'.repeat(2_000)][below(5)]!,
  });
  switch (manner) {
    case 'answers':
      return status([200, 201, 202, 204, 299][below(5)]!);
    case 'stumbles':
      return status([200, 200, 500, 503, 301][below(5)]!, below(2_500));
    case 'refuses':
      return status([301, 302, 304, 400, 401, 404, 410, 429, 500, 502][below(10)]!);
    case 'hangs':
      return {
        error: 'timeout',
        statusCode: null,
        durationMs: LIMITS.webhookAttemptMs,
        excerpt: 'No answer.',
      };
    case 'dawdles':
      return status(below(6) === 0 ? 500 : 200, 900 + below(9_000));
    case 'garbles':
      return { error: 'invalid_response', statusCode: null, durationMs: below(20), excerpt: 'Parse Error' };
    case 'closes':
      return { error: 'connection_reset', statusCode: null, durationMs: 0, excerpt: null };
  }
}
