// Every number that misbehaves, over loopback, from the create call to its end: a real log, real views, the in-process
// bus and feed, and time that the test moves. What a merchant sees at once, and what it comes to.
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { Notice } from '../../actors/pollers/notice.ts';
import { request } from '../../src/bus/bus.ts';
import type { Message, Reply } from '../../src/bus/bus.ts';
import { LocalBus } from '../../src/bus/local-bus.ts';
import type { CollectInput, PendingTransaction } from '../../src/domain/account-command.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import { LoopbackRail } from '../../src/rails/loopback.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { Storage } from '../../src/storage/storage.ts';
import { DrivenClock } from '../unit/pollers-driven.ts';
import { transactionOf } from './rails-setup.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const APPROVE_AFTER_MS = 1_500;
const ANSWER_WAIT_MS = 3_000;
const KEY_HASH = 'kY3x'.repeat(10) + 'abc';
const START = 1_772_357_500_000;
const FOR_EVER = Number.MAX_SAFE_INTEGER;
const accountId = makeId('account', `${encodeTime(START)}${'0'.repeat(16)}`);

interface Shown {
  readonly id: string;
  readonly status: string;
  readonly failure_code: string | null;
}

class Service {
  readonly clock = new DrivenClock(START);
  readonly bus = new LocalBus({ accounts: 1, webhooks: 1, pollers: 1, platform: 1 });
  readonly notices: Notice[] = [];
  readonly storage: Storage;
  #rail: LoopbackRail;
  #pollers: PollerGroup;
  #stopTicking: () => void;
  #keys = 0;

  constructor(directory: string) {
    this.storage = new Storage({
      directory,
      policies: {
        accounts: {
          ...DEFAULT_POLICY,
          cashOutPerMinute: 1_000,
          providerAnswerWaitMs: ANSWER_WAIT_MS,
          routes: { 'UG:MTN': 'loopback' },
        },
        webhooks: { retryMs: [], retentionMs: 1 },
      },
      observer: new Metrics(),
      clock: () => this.clock.now(),
      onFailure: (error) => {
        throw error;
      },
      onFlush: () => {},
      onDamage: (_group, _partition, error) => {
        throw error;
      },
    });
    this.#rail = this.#newRail();
    this.#pollers = this.#newPollers();
    this.#stopTicking = this.clock.every(50, () => this.storage.tick());
  }

  async start(): Promise<this> {
    await this.storage.openPartition('accounts', 0, { epoch: 1, replica: null, onFenced: null });
    this.bus.attach('accounts', 0, this.storage.inbox('accounts', 0));
    this.bus.attach('pollers', 0, (message, onReply) => this.#pollers.send(0, message, onReply));
    const operator = { accountId, deadline: FOR_EVER, operator: 'amina' };
    const on = { live: true, payoutsEnabled: true, withdrawalsEnabled: true };
    await this.ask({ ...operator, ...on, type: 'OpenAccount', name: 'Shop', country: 'UG' });
    const key = { publishableKey: 'pk_live_1', secretKeyHash: KEY_HASH, signingSecretSealed: 'sealed' };
    const app = { name: 'Shop', domain: 'shop.example', webhookUrl: null };
    await this.ask({ ...operator, ...app, ...key, type: 'ConnectApp' });
    await this.#pollers.start(0);
    return this;
  }

  /** The process of the pollers and of loopback dies and comes again. */
  async restartPollers(): Promise<void> {
    this.clock.killIntervals();
    await this.#pollers.lose(0);
    this.#stopTicking = this.clock.every(50, () => this.storage.tick());
    this.#rail = this.#newRail();
    this.#pollers = this.#newPollers();
    await this.#pollers.start(0);
  }

  /** Time passes in steps; after each, everything appended becomes durable. */
  async advance(ms: number, stepMs = 50): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      await this.clock.advance(Math.min(left, stepMs), stepMs);
      while (this.storage.log.outstanding > 0) await setImmediate();
      await setImmediate();
    }
  }

  ask(message: Message): Promise<Reply> {
    return request(this.bus, 'accounts', 0, message);
  }

  /** The answer of the create call; it may need time to pass. */
  async create(type: 'CreateCharge' | 'CreatePayout' | 'CreateDeposit', digits: number, amount = '1000') {
    const input: CollectInput = {
      amount,
      currency: 'UGX',
      msisdn: `+2567721234${digits}`,
      reference: `number-${digits}`,
    };
    return shown(
      await this.ask({
        type,
        accountId,
        deadline: FOR_EVER,
        keyHash: KEY_HASH,
        problem: null,
        idempotencyKey: `loopback-${++this.#keys}`,
        requestHash: 'r'.repeat(22),
        input,
      } as Message),
    );
  }

  async get(id: string): Promise<Shown> {
    const query = { accountId, deadline: FOR_EVER, keyHash: KEY_HASH, problem: null, id };
    return shown(await this.ask({ ...query, type: 'GetTransaction', view: 'object', kind: null }));
  }

  async body(
    type: 'GetTrialBalance' | 'ListPending' | 'ListReconciliation',
  ): Promise<Record<string, unknown>> {
    const message = { type, accountId, deadline: FOR_EVER, afterId: null, limit: 500, open: true };
    const reply = await this.ask(message as unknown as Message);
    if (reply.type !== 'done') throw new Error(JSON.stringify(reply));
    return JSON.parse(reply.body) as Record<string, unknown>;
  }

  hint(transactionId: string): Promise<Reply> {
    const message: Message = { type: 'Hint', accountId, transactionId, deadline: FOR_EVER } as Message;
    return request(this.bus, 'pollers', 0, message);
  }

  get following(): number {
    return this.#pollers.inFlight;
  }

  async stop(): Promise<void> {
    const stopping = this.#pollers.stop();
    await this.advance(1_000);
    await stopping;
    await this.#rail.close();
    this.#stopTicking();
    await this.storage.close();
  }

  #newRail(): LoopbackRail {
    return new LoopbackRail({
      id: 'loopback',
      approveAfterMs: APPROVE_AFTER_MS,
      clock: this.clock,
      onHint: (hint) => {
        const deadline = this.clock.now() + 1_000;
        this.bus.send('pollers', 0, { type: 'Hint', ...hint, deadline } as Message, () => {});
      },
    });
  }

  #newPollers(): PollerGroup {
    return new PollerGroup({
      bus: this.bus,
      feed: this.storage.feed,
      rails: [this.#rail],
      routes: { 'UG:MTN': 'loopback' },
      clock: this.clock,
      monotonic: () => this.clock.now(),
      deadlineClock: () => this.clock.now(),
      random: () => 0.5,
      onNotice: (notice) => this.notices.push(notice),
      onFault: (error) => {
        throw error;
      },
      onUnknownMessage: () => {},
    });
  }
}

function shown(reply: Reply): Shown {
  if (reply.type !== 'done') throw new Error(JSON.stringify(reply));
  return JSON.parse(reply.body) as Shown;
}

// [digits, status of the 201, what it has come to after 31 minutes]
type Row = readonly [digits: number, answer: string, end: string];

const CHARGES: readonly Row[] = [
  [50, 'AWAITING_CUSTOMER', 'FAILED unknown'],
  [51, 'AWAITING_CUSTOMER', 'FAILED customer_declined'],
  [52, 'AWAITING_CUSTOMER', 'FAILED expired'],
  [53, 'AWAITING_CUSTOMER', 'FAILED expired'],
  [54, 'AWAITING_CUSTOMER', 'SUCCESSFUL'],
  [55, 'AWAITING_CUSTOMER', 'FAILED wallet_not_found'],
  [56, 'AWAITING_CUSTOMER', 'FAILED provider_rejected'],
  [57, 'FAILED', 'FAILED provider_rejected'],
  [58, 'FAILED', 'FAILED provider_rejected'],
  [59, 'FAILED', 'FAILED provider_rejected'],
  [60, 'FAILED', 'FAILED provider_rejected'],
  [61, 'AWAITING_CUSTOMER', 'FAILED unknown'],
  [62, 'AWAITING_CUSTOMER', 'FAILED provider_unavailable'],
  [63, 'AWAITING_CUSTOMER', 'FAILED expired'],
  [64, 'AWAITING_CUSTOMER', 'FAILED insufficient_funds'],
  [65, 'AWAITING_CUSTOMER', 'FAILED expired'],
  [66, 'AWAITING_CUSTOMER', 'SUCCESSFUL'],
  [67, 'AWAITING_CUSTOMER', 'SUCCESSFUL'],
  [68, 'SUCCESSFUL', 'SUCCESSFUL'],
  [69, 'PENDING_PROVIDER', 'SUCCESSFUL'],
  [70, 'AWAITING_CUSTOMER', 'REVERSED'],
  [71, 'AWAITING_CUSTOMER', 'SUCCESSFUL'],
  [72, 'SUCCESSFUL', 'SUCCESSFUL'],
  [73, 'PENDING_PROVIDER', 'FAILED provider_unavailable'],
  [74, 'PENDING_PROVIDER', 'FAILED expired'],
  [75, 'AWAITING_CUSTOMER', 'FAILED wallet_inactive'],
  [76, 'AWAITING_CUSTOMER', 'FAILED customer_unreachable'],
  [77, 'AWAITING_CUSTOMER', 'SUCCESSFUL'],
  [10, 'AWAITING_CUSTOMER', 'SUCCESSFUL'],
];

const P = 'PENDING_PROVIDER';
const PAYOUTS: readonly Row[] = [
  [50, P, 'FAILED unknown'],
  [51, P, 'FAILED customer_declined'],
  [52, P, 'FAILED expired'],
  [53, P, 'PENDING_PROVIDER'],
  [54, P, 'SUCCESSFUL'],
  [55, P, 'FAILED provider_rejected'],
  [56, P, 'FAILED provider_rejected'],
  [57, P, 'FAILED wallet_not_found'],
  [58, P, 'FAILED provider_rejected'],
  [59, P, 'FAILED provider_rejected'],
  [60, P, 'FAILED provider_rejected'],
  [61, P, 'FAILED provider_rejected'],
  [62, P, 'FAILED unknown'],
  [63, P, 'FAILED provider_unavailable'],
  [64, P, 'FAILED wallet_limit_exceeded'],
  [65, P, 'PENDING_PROVIDER'],
  [66, P, 'SUCCESSFUL'],
  [67, P, 'SUCCESSFUL'],
  [68, P, 'SUCCESSFUL'],
  [69, P, 'SUCCESSFUL'],
  [70, P, 'SUCCESSFUL'],
  [71, P, 'SUCCESSFUL'],
  [72, P, 'SUCCESSFUL'],
  [73, P, 'PENDING_PROVIDER'],
  [74, P, 'PENDING_PROVIDER'],
  [75, P, 'FAILED wallet_inactive'],
  [76, P, 'FAILED customer_unreachable'],
  [77, P, 'SUCCESSFUL'],
];

t.test('every number, collecting and sending', async (t) => {
  const service = await new Service(temporaryDirectory(t)).start();
  const funding = service.create('CreateDeposit', 68, '1000000');
  await service.advance(200);
  t.equal((await funding).status, 'SUCCESSFUL');

  const charges = CHARGES.map(([digits]) => service.create('CreateCharge', digits));
  const payouts = PAYOUTS.map(([digits]) => service.create('CreatePayout', digits));
  await service.advance(5_000);
  const answered = async (rows: readonly Row[], creates: Promise<Shown>[]): Promise<Shown[]> => {
    const objects = await Promise.all(creates);
    t.strictSame(
      objects.map(({ status }, i) => [rows[i]![0], status]),
      rows.map(([digits, answer]) => [digits, answer]),
      'what the create calls answered',
    );
    return objects;
  };
  const chargeObjects = await answered(CHARGES, charges);
  const payoutObjects = await answered(PAYOUTS, payouts);

  // Far enough for everything that settles by itself, well before expiry.
  await service.advance(3 * 60_000, 250);
  await service.advance(28 * 60_000, 1_000);
  const ended = async (rows: readonly Row[], objects: readonly Shown[]): Promise<void> => {
    const now = await Promise.all(objects.map(({ id }) => service.get(id)));
    t.strictSame(
      now.map(({ status, failure_code }, i) => [
        rows[i]![0],
        [status, failure_code].filter(Boolean).join(' '),
      ]),
      rows.map(([digits, , end]) => [digits, end]),
      'what they came to',
    );
  };
  await ended(CHARGES, chargeObjects);
  await ended(PAYOUTS, payoutObjects);

  t.hasStrict(await service.body('GetTrialBalance'), { balanced: true });
  t.equal(
    ((await service.body('ListPending'))['data'] as unknown[]).length,
    4,
    '53, 65, 73 and 74 of the payouts',
  );
  t.equal(service.following, 4);
  t.strictSame((await service.body('ListReconciliation'))['data'], []);
  const told = (what: string): (string | null)[] =>
    service.notices.filter((notice) => notice.what === what).map(({ transactionId }) => transactionId);
  t.ok(told('our_fault').length > 0);
  const numberOf = new Map([
    ...chargeObjects.map(({ id }, i) => [id, CHARGES[i]![0]] as const),
    ...payoutObjects.map(({ id }, i) => [id, PAYOUTS[i]![0]] as const),
  ]);
  const neverTaken = told('never_accepted');
  t.strictSame(new Set(neverTaken.map((id) => numberOf.get(id!))), new Set([73]), 'always answered with 503');
  t.equal(new Set(neverTaken).size, neverTaken.length, 'each is told once');
  t.equal(service.notices.length, told('our_fault').length + neverTaken.length, 'nothing else');
  await service.stop();
});

t.test('loopback forgets at a restart: the same references again, and all ends well', async (t) => {
  const service = await new Service(temporaryDirectory(t)).start();
  const creates = [10, 65, 67, 51].map((digits) => service.create('CreateCharge', digits));
  await service.advance(500);
  const charges = await Promise.all(creates);
  await service.restartPollers();
  await service.advance(2 * 60_000, 250);
  const ends = await Promise.all(charges.map(({ id }) => service.get(id)));
  t.strictSame(
    ends.map(({ status }) => status),
    ['SUCCESSFUL', 'AWAITING_CUSTOMER', 'SUCCESSFUL', 'FAILED'],
  );
  t.hasStrict(await service.body('GetTrialBalance'), { balanced: true });
  await service.stop();
});

t.test(
  'a callback long after the end raises nothing; one about what never was is an item, once',
  async (t) => {
    const service = await new Service(temporaryDirectory(t)).start();
    const create = service.create('CreateCharge', 68);
    await service.advance(200);
    const { id } = await create;
    await service.restartPollers();
    await service.hint(id);
    await service.advance(10 * 60_000, 1_000);
    t.strictSame((await service.body('ListReconciliation'))['data'], []);
    t.equal((await service.get(id)).status, 'SUCCESSFUL');

    const never = makeId('charge', `${encodeTime(START)}${'1'.repeat(14)}00`);
    for (let i = 0; i < 3; i++) {
      t.hasStrict(await service.hint(never), { type: 'done' });
      await service.advance(500);
    }
    t.hasStrict((await service.body('ListReconciliation'))['data'], [
      { kind: 'UNKNOWN_REFERENCE', transaction_id: never },
    ]);
    t.equal(service.following, 0);
    await service.stop();
  },
);

t.test('loopback forgets the oldest of what is settled for good, and nothing that is not', async (t) => {
  const clock = new DrivenClock(START);
  const hinted: string[] = [];
  const onHint = ({ transactionId }: { readonly transactionId: string }): void => {
    hinted.push(transactionId);
  };
  const rail = new LoopbackRail({ id: 'loopback', approveAfterMs: APPROVE_AFTER_MS, clock, onHint });
  t.teardown(() => rail.close());
  const [delayed, reversed] = [transactionOf({ endsIn: 54 }), transactionOf({ endsIn: 70 })];
  const many = Array.from({ length: LIMITS.loopbackRememberedMax + 1 }, () => transactionOf());
  for (const one of [delayed, reversed, ...many]) void rail.submit(one);
  await clock.advance(APPROVE_AFTER_MS);
  t.strictSame(
    hinted,
    [reversed, ...many].map(({ id }) => id),
    'each once, in their order',
  );
  const said = (one: PendingTransaction) => rail.enquire(one).type;
  t.strictSame([many[0]!, many[1]!, many.at(-1)!].map(said), ['not_found', 'succeeded', 'succeeded']);
  t.strictSame([delayed, reversed].map(said), ['pending', 'succeeded']);
  await clock.advance(30_000);
  t.strictSame([delayed, reversed].map(said), ['succeeded', 'reversed']);
  t.strictSame(many.slice(1, 4).map(said), ['not_found', 'not_found', 'succeeded'], 'two more have ended');
  t.strictSame(hinted.slice(-2), [reversed.id, delayed.id]);
});

t.test('what has yet to be answered when loopback closes may have been sent', async (t) => {
  const clock = new DrivenClock(START);
  const rail = new LoopbackRail({ id: 'loopback', approveAfterMs: 1, clock, onHint: () => {} });
  const answer = rail.submit(transactionOf({ endsIn: 69 }));
  await rail.close();
  t.strictSame(await answer, { type: 'unknown', reason: 'loopback is closed' });
});
