// From what the accounts' log says to what merchants hear, through the real feed, feed reader, log, views, dispatcher and
// executor, against a naive model: endpoints that answer, refuse, hang or talk nonsense; crashes at any moment, also between a
// send and its record; partitions that move; time that passes or jumps, clocks that are set back; messages that are refused,
// late or answered to nobody; apps that change, replays by operators, retention, trims. `SEED=… RUNS=… STEPS=…` reruns or
// lengthens it.

import { strict as assert } from 'node:assert';
import t from 'tap';
import type { AccountCommand, CreateCommand } from '../../src/domain/account-command.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { money } from '../../src/domain/money.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { DELIVERY_STATUSES } from '../../src/domain/webhook-message.ts';
import { lengthOf, randomFrom, seedOf } from '../seed.ts';
import {
  byOperator,
  charge,
  DAY,
  deposit,
  FOR_EVER,
  MINUTE,
  outcome,
  payout,
  withdrawal,
} from '../unit/domain/scenario.ts';
import { MANNERS } from './webhooks-endpoints.ts';
import { World } from './webhooks-world.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const SEED = seedOf(t);
const RUNS = lengthOf(t, 'RUNS', 4);
const STEPS = lengthOf(t, 'STEPS', 200);

const HOUR = 60 * MINUTE;
const ACCOUNTS = ['A', 'B'].map((letter) => `acc_${letter.repeat(24)}00`);
const SCHEDULES = [[30, 120, 600, 1_800, 7_200, 21_600, 57_600], [1, 2, 4], [600, 600], [5]].map((waits) =>
  waits.map((seconds) => seconds * 1_000),
);

const hashOf = (app: string): string => app.padEnd(43, '-');

type Create = (
  input: { readonly amount: string },
  over: Pick<CreateCommand, 'accountId' | 'keyHash' | 'idempotencyKey' | 'requestHash'>,
) => AccountCommand;

class Choice {
  readonly random: () => number;
  #n = 0;

  constructor(random: () => number) {
    this.random = random;
  }

  below(n: number): number {
    return Math.floor(this.random() * n);
  }

  /** One time in `n`. */
  once(n: number): boolean {
    return this.below(n) === 0;
  }

  any<T>(values: readonly T[]): T | undefined {
    return values[this.below(values.length)];
  }

  of<T>(...values: readonly [T, ...T[]]): T {
    return values[this.below(values.length)]!;
  }

  policy(): Policy {
    return {
      ...DEFAULT_POLICY,
      routes: { 'UG:MTN': 'mtn_ug' },
      providerAnswerWaitMs: 0,
      walletCoolingOffMs: 0,
      cashOutPerMinute: 1_000_000,
      approvalThresholds: { ...DEFAULT_POLICY.approvalThresholds, UGX: money(600) },
      chargeExpiryMs: this.of(30 * MINUTE, 5 * MINUTE),
    };
  }

  url(app: string): string | null {
    return this.once(5) ? null : `https://shop.example/${this.#n++}?app=${app}&ü=1`;
  }

  connect(accountId: string): AccountCommand {
    const n = this.#n++;
    const app = { name: 'Shop', domain: 'shop.example', webhookUrl: null };
    const keys = { publishableKey: `pk_${n}`, secretKeyHash: hashOf(`${n}`), signingSecretSealed: `s_${n}` };
    return { ...byOperator, accountId, type: 'ConnectApp', ...app, ...keys };
  }

  command(world: World): AccountCommand {
    const { truth } = world;
    const accountId = this.any(ACCOUNTS)!;
    const by = { ...byOperator, accountId };
    const apps = [...truth.apps].filter(([, { account, removed }]) => account === accountId && !removed);
    const [appId = 'app_none', app] = this.any(apps) ?? [];
    const choice = this.below(100);
    if (choice < 3 && apps.length < 4) return this.connect(accountId);
    if (choice < 5) return { ...by, type: 'RemoveApp', appId };
    if (choice < 12) return { ...by, type: 'ChangeAppWebhook', appId, webhookUrl: this.url(appId) };
    if (choice < 17) {
      const input = {
        amount: '90000',
        currency: 'UGX',
        msisdn: '+256772123456',
        reference: 'top-up',
      } as const;
      return { ...by, type: 'CreateDashboardDeposit', input, by: truth.owners.get(accountId)! };
    }
    const own = [...truth.transactions].filter(([, { account }]) => account === accountId).map(([id]) => id);
    const transactionId = this.any(this.once(4) ? own : own.slice(-6)) ?? 'chg_none';
    if (choice < 55) {
      const result = this.of('SUCCESSFUL', 'SUCCESSFUL', 'SUCCESSFUL', 'SUCCESSFUL', 'FAILED', 'REVERSED');
      return { ...outcome(transactionId, result), accountId };
    }
    if (choice < 60) {
      return { ...by, type: 'RejectWithdrawal', transactionId, by: truth.owners.get(accountId)! };
    }
    const n = this.#n++;
    const keyHash = hashOf(app?.secret.slice(2) ?? 'none');
    const call = { accountId, keyHash, idempotencyKey: `key-${n}-000`, requestHash: `hash-${n}` };
    const amount = String(500 + this.below(300));
    if (choice < 66) return withdrawal({ amount, destination: truth.wallets.get(accountId)! }, call);
    return this.of<Create>(charge, charge, deposit, payout)({ amount }, call);
  }
}

/** An owner, a wallet that is active, some money, and a first app. */
async function openAccounts(world: World, choice: Choice): Promise<void> {
  const { truth } = world;
  for (const accountId of ACCOUNTS) {
    const by = { ...byOperator, accountId };
    const settings = { live: true, payoutsEnabled: true, withdrawalsEnabled: true };
    world.command({ ...by, type: 'OpenAccount', name: 'Shop', country: 'UG', ...settings });
    world.command({ ...by, type: 'AddUser', email: 'amina@shop.example', role: 'OWNER' });
    world.command(choice.connect(accountId));
    await world.flushAll();
    const owner = truth.owners.get(accountId)!;
    const to = { label: 'Till', msisdn: '+256772123456', network: null, country: null } as const;
    world.command({ ...by, type: 'AddWallet', ...to, by: owner });
    await world.flushAll();
    world.command({ ...by, type: 'ApproveWallet', walletId: truth.wallets.get(accountId)!, by: owner });
    const input = {
      amount: '4000000',
      currency: 'UGX',
      msisdn: '+256772123456',
      reference: 'start',
    } as const;
    world.command({ ...by, type: 'CreateDashboardDeposit', input, by: owner });
    await world.flushAll();
  }
  for (const [id, { account }] of truth.transactions) {
    world.command({ ...outcome(id, 'SUCCESSFUL'), accountId: account });
  }
  for (const [appId, { account }] of truth.apps) {
    const url = `https://shop.example/?app=${appId}`;
    world.command({ ...byOperator, accountId: account, type: 'ChangeAppWebhook', appId, webhookUrl: url });
  }
  await world.pass(2_000);
}

async function replay(world: World, choice: Choice): Promise<void> {
  const operator = { ...byOperator, accountId: choice.any(ACCOUNTS)! };
  const [appId = 'app_none'] = choice.any([...world.truth.apps.keys()].map((id) => [id])) ?? [];
  const deliveries = [...world.model.deliveries.values()];
  const onTheirWay = world.endpoints.inFlight.map(({ delivery }) => world.model.deliveries.get(delivery)!);
  const waiting = deliveries.filter(({ nextAt }) => nextAt !== null);
  const one = choice.any(choice.of(deliveries, waiting, onTheirWay.length > 0 ? onTheirWay : waiting));
  if (choice.once(4)) {
    const since = choice.of(0, world.now - HOUR, world.now);
    await world.ask({ ...operator, type: 'ReplayFailedDeliveries', appId, since });
  } else {
    const accountId = choice.once(9) ? operator.accountId : (one?.account ?? operator.accountId);
    await world.ask({ ...operator, accountId, type: 'ReplayDelivery', deliveryId: one?.id ?? 'dlv_none' });
  }
}

/** What operators are shown is what the model holds: each list, page by page. */
async function compare(world: World, choice: Choice): Promise<void> {
  await world.still();
  const newestFirst = [...world.model.deliveries.values()].toSorted((a, b) => (a.id < b.id ? 1 : -1));
  const accountId = choice.any(ACCOUNTS)!;
  const appId = choice.of(null, choice.any([...world.truth.apps.keys()])!);
  for (const status of [null, ...DELIVERY_STATUSES]) {
    const wanted = newestFirst
      .filter((one) => one.account === accountId && (appId === null || one.app === appId))
      .filter((one) => status === null || one.status === status);
    const shown: object[] = [];
    const query = { type: 'ListDeliveries', accountId, appId, status, deadline: FOR_EVER } as const;
    for (let startingAfter: string | null = null; ;) {
      const reply = await world.ask({ ...query, limit: 1 + choice.below(40), startingAfter });
      assert(reply.type === 'done');
      const page = JSON.parse(reply.body) as {
        data: object[];
        has_more: boolean;
        next_cursor: string | null;
      };
      shown.push(...page.data);
      if (!page.has_more) break;
      startingAfter = page.next_cursor;
    }
    assert.deepEqual(
      shown,
      wanted.map((one) => world.view(one)),
    );
  }
  const one = choice.any(newestFirst);
  if (one === undefined) return;
  const get = {
    type: 'GetDelivery',
    accountId: one.account,
    deliveryId: one.id,
    deadline: FOR_EVER,
  } as const;
  const reply = await world.ask(get);
  assert(reply.type === 'done');
  assert.deepEqual(JSON.parse(reply.body), world.view(one));
}

function changeManners(world: World, choice: Choice): void {
  for (const [app] of world.truth.apps) {
    const url = world.truth.urlAt(app, world.truth.sequence);
    if (url !== null && choice.once(3)) world.endpoints.manners.set(url, choice.of('answers', ...MANNERS));
  }
}

/** What fails, hangs or is paused goes on while time passes. */
async function goOn(world: World, choice: Choice): Promise<void> {
  if (choice.once(3)) await world.accounts.flush(choice.below(world.accounts.undurable + 1));
  if (choice.once(3)) await world.webhooks.flush(choice.below(world.webhooks.undurable + 1));
  if (choice.once(2)) await world.settle();
  if (choice.once(2)) world.tick();
  if (choice.once(3)) world.now += choice.below(3_000);
  if (choice.once(4)) await world.pass(choice.of(100, 5_000, 40_000));
}

async function move(
  world: World,
  choice: Choice,
  group: 'accounts' | 'webhooks',
  isLost: boolean,
): Promise<void> {
  const meanwhile = Array.from({ length: choice.below(20) }, () => choice.command(world));
  await world.move(group, isLost, choice.of(0, 5_000, 2 * MINUTE), meanwhile);
}

/** Another process may have the webhooks partition for a while, and has it after all, or had not. */
async function notHeld(world: World, choice: Choice): Promise<void> {
  world.isHeld = false;
  for (let times = choice.below(4); times > 0; times--) {
    world.command(choice.command(world));
    await world.pass(choice.of(0, 700, 3_000));
  }
  if (choice.once(2)) await move(world, choice, 'webhooks', true);
  world.isHeld = true;
}

async function step(world: World, choice: Choice, setsClockBack: boolean): Promise<void> {
  for (let times = choice.once(4) ? 1 + choice.below(12) : 1; times > 0; times--) {
    world.command(choice.command(world));
  }
  if (choice.once(12)) changeManners(world, choice);
  world.isPaused = { accounts: choice.once(15), webhooks: choice.once(15) };
  await goOn(world, choice);
  world.isPaused = { accounts: false, webhooks: false };
  if (choice.once(world.endpoints.inFlight.length > 0 ? 2 : 8)) await replay(world, choice);
  if (choice.once(12)) await world.webhooks.checkpoint(choice.of(0.3, 0.7, 1));
  if (choice.once(12)) await world.accounts.checkpoint(choice.of(0.3, 0.7, 1));
  if (choice.once(20)) await world.trim();
  if (choice.once(25)) await world.pass(choice.of(MINUTE, 12 * MINUTE, 40 * MINUTE));
  if (choice.once(80)) await world.pass(3 * HOUR);
  if (choice.once(25)) await world.calm();
  if (choice.once(30)) await notHeld(world, choice);
  if (choice.once(25)) await move(world, choice, choice.of('accounts', 'webhooks'), choice.once(2));
  if (choice.once(20)) {
    world.isKeyWrong = world.mayLoseKey && choice.once(3);
    const back = choice.of(0, 0, 10_000, HOUR);
    const later = choice.of(2, 1_000, 2 * HOUR, 3 * DAY, 40 * DAY);
    await world.restart(!choice.once(4), setsClockBack ? choice.of(0, later - back) : later);
    if (choice.once(2)) await compare(world, choice);
  }
  if (choice.once(15)) await compare(world, choice);
}

for (let seed = SEED; seed < SEED + RUNS; seed++) {
  t.test(`whatever happens, everybody hears of it: SEED=${seed} RUNS=1 STEPS=${STEPS}`, async (t) => {
    const choice = new Choice(randomFrom(seed));
    const retryMs = choice.any(SCHEDULES)!;
    const world = new World({
      directory: temporaryDirectory(t),
      now: Date.UTC(2026, choice.below(12), 27, choice.below(24)),
      accounts: choice.policy(),
      webhooks: { retryMs, retentionMs: choice.of(2, 32) * DAY },
      queuedMax: choice.of(3, 1_000_000),
      random: choice.random,
    });
    world.mayLoseKey = choice.once(2);
    t.teardown(world.install());
    await world.open();
    t.teardown(() => world.close());
    await openAccounts(world, choice);
    world.fault = () => (choice.once(15) ? choice.of('refused', 'answer lost', 'late') : 'none');
    for (let n = 0; n < STEPS; n++) await step(world, choice, seed % 2 === 1);

    world.isKeyWrong = false;
    await world.restart(true, 0);
    await world.calm();
    world.endpoints.manners.clear();
    world.fault = () => 'none';
    await world.pass(DAY);
    await world.calm();
    await compare(world, choice);
    for (const { id, nextAt, status } of world.model.deliveries.values()) {
      assert.equal(nextAt, null, `${id} is ${status}`);
    }
    await world.restart(true, DAY);
    await compare(world, choice);
    const said = Object.entries({ ...world.seen, finals: world.truth.finals.length });
    t.comment(said.map(([what, count]) => `${count} ${what}`).join(', '));
    t.ok(world.truth.finals.length > STEPS / 10, 'much happened');
  });
}
