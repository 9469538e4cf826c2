// One partition of accounts through the real runtime, log, views and checkpointer, against a naive model: random commands, time
// that passes or jumps, clocks that are set back, crashes that lose what was not durable, checkpoints, keys that are swept away,
// other policies. Every decision is the model's; who is told something is told it once, the same for ever, and of nothing
// that a crash could take back, reads included; what is read afterwards is what the model holds. `SEED=… RUNS=… STEPS=…` reruns or lengthens it.

import { strict as assert } from 'node:assert';
import { join } from 'node:path';
import t from 'tap';
import type { AccountsPartition } from '../../actors/accounts/group.ts';
import { CURRENCIES } from '../../src/domain/country.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import { STATUSES } from '../../src/domain/transaction.ts';
import { lengthOf, randomFrom, seedOf } from '../seed.ts';
import { byOperator, DAY, FOR_EVER, MINUTE } from '../unit/domain/scenario.ts';
import { Choice } from './partition-commands.ts';
import { balances, isCashOut, isFinal, transactionsOf } from './partition-model.ts';
import { World } from './partition-world.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const SEED = seedOf(t);
const RUNS = lengthOf(t, 'RUNS', 6);
const STEPS = lengthOf(t, 'STEPS', 300);

const HOUR = 60 * MINUTE;
const app = { name: 'Shop', domain: 'shop.example', webhookUrl: null, signingSecretSealed: 's' };
const ACCOUNTS = ['A', 'B'].map((letter) => `acc_${letter.repeat(24)}00`);

/** Two owners, of whom one approves what the other adds; those who may do less; an app; a wallet. */
function openAccounts(world: World): void {
  for (const accountId of ACCOUNTS) {
    const by = { ...byOperator, accountId };
    const settings = { live: true, payoutsEnabled: true, withdrawalsEnabled: true };
    world.send({ ...by, type: 'OpenAccount', name: 'Shop', country: 'UG', ...settings });
    for (const [n, role] of (['OWNER', 'OWNER', 'ADMIN', 'FINANCE', 'MEMBER'] as const).entries()) {
      world.send({ ...by, type: 'AddUser', email: `${n}@shop.example`, role });
    }
    world.send({ ...by, type: 'ConnectApp', ...app, publishableKey: 'first', secretKeyHash: 'first' });
    const [first, second] = world.model.accounts[accountId]!.users.map(({ id }) => id);
    const to = { label: 'Till', msisdn: '+256772123456', network: null, country: null } as const;
    world.send({ ...by, type: 'AddWallet', ...to, by: first! });
    const [wallet] = world.model.accounts[accountId]!.wallets;
    world.send({ ...by, type: 'ApproveWallet', walletId: wallet!.id, by: second! });
  }
}

/** A key that reads what an account has. */
function keyOf(world: World, accountId: string): string {
  const by = { ...byOperator, accountId };
  const { settings, apps } = world.model.accounts[accountId]!;
  if (!settings.live) world.send({ ...by, type: 'ChangeAccountSettings', changes: { live: true } });
  const connected = apps.find(({ isRemoved }) => !isRemoved);
  if (connected !== undefined) return connected.keyHash;
  const key = `another-${apps.length}`;
  world.send({ ...by, type: 'ConnectApp', ...app, publishableKey: key, secretKeyHash: key });
  return key;
}

/** What is told of a transaction, its history and its journals. */
async function compareTransaction(world: World, id: string): Promise<void> {
  const one = world.model.transactions.get(id)!;
  const { account: accountId, type, status, amount } = one;
  const call = { deadline: FOR_EVER, keyHash: keyOf(world, accountId), problem: null };
  const get = { type: 'GetTransaction', accountId, ...call, id } as const;
  const { transaction, events, ledger } = await world.ask({ ...get, view: 'detail', kind: null });
  const fee = status === 'SUCCESSFUL' || status === 'REVERSED' ? one.fee : 0;
  assert.deepEqual(
    [transaction.status, transaction.approval_status, transaction.amount, transaction.fee, transaction.net],
    [status, one.approval, amount, fee, isCashOut(type) ? amount + fee : amount - fee].map(String),
  );
  assert.equal(Date.parse(transaction.updated_at), one.updatedAt);
  assert.deepEqual(
    events.map((event: any) => event.status),
    one.statuses,
  );
  for (const event of events.filter((told: any) => !isFinal(told.status))) {
    const isApproval = one.approval === 'APPROVED' && event.status === 'PENDING_PROVIDER';
    assert.equal(event.source, isApproval || one.appId === null ? 'DASHBOARD' : 'API');
  }
  const sums: Record<string, number> = {};
  for (const entry of ledger) {
    const signed = entry.side === 'CREDIT' ? Number(entry.amount) : -Number(entry.amount);
    sums[entry.account] = (sums[entry.account] ?? 0) + signed;
  }
  for (const [name, sum] of Object.entries(balances([one]))) {
    assert.equal(sums[name] ?? 0, name === 'PROVIDER_FLOAT' ? 0 - sum : sum, `${name} of ${id}`);
  }
  const object = await world.ask({ ...get, view: 'object', kind: type });
  assert.equal(object.failure_code, one.failure);
}

async function compare(world: World, ids: readonly string[]): Promise<void> {
  await world.flushAll();
  const { onCommitted } = world;
  world.onCommitted = () => {};
  await compareAll(world, ids);
  world.onCommitted = onCommitted;
}

async function compareAll(world: World, ids: readonly string[]): Promise<void> {
  for (const id of ids) await compareTransaction(world, id);
  const { model } = world;
  const all = [...model.transactions.values()];
  for (const accountId of ACCOUNTS) {
    const { data, balanced } = await world.ask({ type: 'GetTrialBalance', accountId, deadline: FOR_EVER });
    assert(balanced);
    for (const currency of CURRENCIES) {
      const own = transactionsOf(model, accountId, currency);
      const row = data.find((one: any) => one.currency === currency);
      assert.equal(row !== undefined, own.length > 0);
      const sums = Object.entries(balances(own)).map(([name, sum]) => [name, String(sum)]);
      if (row !== undefined) assert.deepEqual(row.accounts, Object.fromEntries(sums), currency);
    }
  }
  const list = { type: 'ListPending', accountId: '', deadline: FOR_EVER, afterId: null } as const;
  const pending = (await world.ask({ ...list, limit: 10_000 })).data.map(({ id }: any) => id);
  const awaited = all.filter(({ status }) => status === 'PENDING_PROVIDER' || status === 'AWAITING_CUSTOMER');
  assert.deepEqual(pending.toSorted(), awaited.map(({ id }) => id).toSorted());
  const { census } = world.partition.logic as AccountsPartition;
  for (const status of STATUSES.filter((one) => !isFinal(one))) {
    assert.equal(census!.open(status as any), all.filter((one) => one.status === status).length, status);
  }
}

async function step(world: World, choice: Choice, setsClockBack: boolean): Promise<void> {
  const pace = (): number => 1_000 + choice.below(59_000);
  world.isPaused = choice.once(20);
  for (let times = choice.once(4) ? 1 + choice.below(8) : 1; times > 0; times--) {
    world.send(choice.command(world.model), choice.once(60));
    if (choice.once(2)) world.read(choice.query(world.model));
  }
  world.isPaused = false;
  if (choice.once(3)) await world.flushAll();
  else if (choice.once(2)) await world.flush(choice.below(world.undurable + 1));
  if (choice.once(3)) world.now += choice.below(3_000);
  if (choice.once(15)) await world.tick();
  if (choice.once(10)) await world.checkpoint(choice.of(0.3, 0.7, 1));
  if (choice.once(25)) await world.pass(choice.of(1_000, 70_000, 10 * MINUTE, 40 * MINUTE), pace);
  if (choice.once(150)) await world.pass(DAY + choice.below(DAY), pace);
  if (choice.once(30)) {
    const back = choice.of(0, 10_000, HOUR, 26 * HOUR);
    const later = choice.of(2, 1_000, 20_000, 2 * HOUR, 3 * DAY, 40 * DAY);
    const policy = choice.once(2) ? choice.policy() : world.policy;
    for (let times = choice.below(9); times > 0; times--) world.send(choice.command(world.model));
    await world.restart(!choice.once(4), setsClockBack ? choice.of(0, later - back) : later + 2, policy);
    await compare(world, [...world.model.transactions.keys()].slice(-15));
  }
  if (choice.once(100)) world.writeFormat = Math.min(world.writeFormat + 1, RECORD_FORMATS.newest);
  if (choice.once(40)) await world.sweep();
  if (choice.once(15)) await compare(world, [...world.model.transactions.keys()].slice(-15));
}

for (let seed = SEED; seed < SEED + RUNS; seed++) {
  t.test(
    `whatever happens, the partition is what the model is: SEED=${seed} RUNS=1 STEPS=${STEPS}`,
    async (t) => {
      const setsClockBack = seed % 2 === 1;
      const random = randomFrom(seed);
      const choice = new Choice(random, !setsClockBack);
      const start = Date.UTC(2026, choice.of(0, 1, 10, 11), 26 + choice.below(6), choice.below(24));
      const { newest } = RECORD_FORMATS;
      const directory = temporaryDirectory(t);
      const world = new World(directory, start, choice.policy(), choice.of(newest, 1 + choice.below(newest)));
      await world.open();
      t.teardown(() => world.close());
      openAccounts(world);
      await world.flushAll();
      world.onCommitted = () => {
        if (choice.once(3)) world.send(choice.command(world.model));
      };
      for (let n = 0; n < STEPS; n++) await step(world, choice, setsClockBack);
      await world.pass(40 * MINUTE, () => MINUTE);
      await compare(world, [...world.model.transactions.keys()]);
      await world.restart(true, DAY, choice.policy());
      await compare(world, [...world.model.transactions.keys()]);
      await world.verify(join(directory, 'from-the-log'));
      const { transactions, items } = world.model;
      const { lost, swept, replayed, readEarly } = world.seen;
      t.comment(
        `${transactions.size} transactions, ${items.size} items, ${lost} records lost, ${swept} keys swept, ${replayed} replays, ${readEarly} reads answered before all was durable`,
      );
      t.ok(transactions.size > STEPS / 10, 'much happened');
    },
  );
}
