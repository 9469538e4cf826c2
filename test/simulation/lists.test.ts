// Lists against a naive model: any combination of filters, any page size, while transactions change and checkpoints move
// them from memory to the views.

import fc from 'fast-check';
import t from 'tap';
import type { AccountsPartition } from '../../actors/accounts/group.ts';
import { listPage, type Page } from '../../actors/accounts/listing.ts';
import { Memory } from '../../actors/accounts/memory.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import type { Message, Reply } from '../../src/bus/bus.ts';
import type { TransactionFilter } from '../../src/domain/account-command.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { timeOf } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import { Storage } from '../../src/storage/storage.ts';
import { seedOf } from '../seed.ts';
import { until } from '../until.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const SEED = seedOf(t);

const ACCOUNT = 'acc_01JD5Z00000000000000000000';
const OTHER = 'acc_01JD5Z00000000000000000001';
const HASH = 'h'.repeat(43);

/** What the model knows of a transaction. */
interface Known {
  readonly id: string;
  readonly type: 'CHARGE' | 'DEPOSIT';
  status: string;
  readonly country: 'UG' | 'KE' | 'GH';
  readonly network: 'MTN' | 'AIRTEL';
  readonly reference: string;
}

async function openStorage(directory: string) {
  const policy = {
    ...DEFAULT_POLICY,
    routes: { 'UG:MTN': 'a', 'UG:AIRTEL': 'b', 'KE:AIRTEL': 'c', 'GH:MTN': 'd', 'GH:AIRTEL': 'e' },
  } as const;
  const clock = { now: 1_700_000_000_000 };
  const storage = new Storage({
    directory,
    policies: { accounts: policy, webhooks: { retryMs: [], retentionMs: 0 } },
    observer: { decided: () => {} },
    clock: () => clock.now,
    onFailure: (error) => {
      throw error;
    },
    onFlush: () => {},
    onDamage: (_group, _partition, error) => {
      throw error;
    },
  });
  await storage.openPartition('accounts', 0, { epoch: 1, replica: null, onFenced: null });
  const send = (message: object): Promise<Reply> =>
    new Promise((resolve) => storage.inbox('accounts', 0)(message as Message, resolve));
  const ask = async (accountId: string, message: object): Promise<any> => {
    const reply = await send({
      accountId,
      deadline: Infinity,
      operator: 'o',
      keyHash: HASH,
      problem: null,
      ...message,
    });
    if (reply.type !== 'done') throw new Error(JSON.stringify(reply));
    return JSON.parse(reply.body);
  };
  return { storage, clock, ask };
}

type Ask = Awaited<ReturnType<typeof openStorage>>['ask'];

async function openAccount(ask: Ask, accountId: string): Promise<void> {
  await ask(accountId, {
    type: 'OpenAccount',
    name: 'Shop',
    country: 'UG',
    live: true,
    payoutsEnabled: true,
    withdrawalsEnabled: true,
  });
  await ask(accountId, {
    type: 'ConnectApp',
    name: 'App',
    domain: 'shop.ug',
    webhookUrl: null,
    publishableKey: 'pk',
    secretKeyHash: HASH,
    signingSecretSealed: 's',
  });
}

const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
const timeArbitrary = fc.integer({ min: 1_700_000_000_000, max: 1_700_000_006_000 });

/** Each filter is set a third of the time: some pages are full, some empty. */
const filterArbitrary: fc.Arbitrary<TransactionFilter> = fc.record({
  type: maybe(fc.constantFrom('CHARGE', 'CHARGE', 'DEPOSIT', 'PAYOUT')),
  status: maybe(fc.constantFrom('PENDING_PROVIDER', 'AWAITING_CUSTOMER', 'SUCCESSFUL', 'FAILED', 'REVERSED')),
  country: maybe(fc.constantFrom('UG', 'UG', 'KE', 'GH')),
  network: maybe(fc.constantFrom('MTN', 'AIRTEL')),
  currency: maybe(fc.constantFrom('UGX', 'KES', 'GHS')),
  reference: maybe(fc.constantFrom('r1', 'r2', 'r3', 'none')),
  createdAfter: maybe(timeArbitrary),
  createdBefore: maybe(timeArbitrary),
});

const WALLETS = [
  { country: 'UG', network: 'MTN', currency: 'UGX', msisdn: '+256772123456' },
  { country: 'UG', network: 'AIRTEL', currency: 'UGX', msisdn: '+256702123456' },
  { country: 'KE', network: 'AIRTEL', currency: 'KES', msisdn: '+254733123456' },
  { country: 'GH', network: 'MTN', currency: 'GHS', msisdn: '+233242123456' },
] as const;

function matchesModel(known: Known, filter: TransactionFilter): boolean {
  const currency = WALLETS.find(({ country }) => country === known.country)!.currency;
  const at = timeOf(known.id);
  return (
    (filter.type ?? known.type) === known.type &&
    (filter.status ?? known.status) === known.status &&
    (filter.country ?? known.country) === known.country &&
    (filter.network ?? known.network) === known.network &&
    (filter.currency ?? currency) === currency &&
    (filter.reference ?? known.reference) === known.reference &&
    (filter.createdAfter ?? at) <= at &&
    (filter.createdBefore ?? at) >= at
  );
}

/** Ids, newest first. */
function listedOf(model: readonly Known[], filter: TransactionFilter): string[] {
  return model
    .filter((known) => matchesModel(known, filter))
    .map(({ id }) => id)
    .sort((a, b) => (a.slice(4) < b.slice(4) ? 1 : -1));
}

void t.test('every page of every filter combination is what a full scan would give', async (t) => {
  const directory = temporaryDirectory(t);
  const { storage, clock, ask } = await openStorage(directory);
  t.teardown(() => storage.close());
  for (const accountId of [ACCOUNT, OTHER]) await openAccount(ask, accountId);
  const model: Known[] = [];
  const everybody: Known[] = [];
  storage.feed.subscribe<AccountRecord>('accounts', 0, 0, ({ records }) => {
    for (const { accountId, events } of records) {
      for (const event of events) {
        follow(everybody, event);
        if (accountId === ACCOUNT) follow(model, event);
      }
    }
  });

  let created = 0;
  const random = fc.sample(fc.integer({ min: 0, max: 1_000_000 }), { seed: SEED, numRuns: 4_000 });
  const pick = (below: number): number => random.pop()! % below;
  const step = async (): Promise<void> => {
    clock.now += pick(20);
    const open = model.filter(({ status }) => status !== 'FAILED' && status !== 'REVERSED');
    const choice = pick(10);
    if (choice < 6 || open.length === 0) {
      const { currency, msisdn } = WALLETS[pick(WALLETS.length)]!;
      const input = { amount: '5000', currency, msisdn, reference: `r${1 + pick(3)}` };
      const type = pick(4) === 0 ? 'CreateDeposit' : 'CreateCharge';
      const accountId = pick(8) === 0 ? OTHER : ACCOUNT;
      created++;
      const requestHash = 'x'.repeat(22);
      // Not awaited: its answer comes with the outcome.
      void ask(accountId, { type, idempotencyKey: `key-${created}`, requestHash, input }).catch(() => {});
      return;
    }
    const { id, status } = open[pick(open.length)]!;
    const first = pick(2) === 0 ? 'SUCCESSFUL' : 'FAILED';
    const outcome = status === 'SUCCESSFUL' ? 'REVERSED' : first;
    if (choice < 8 && status === 'PENDING_PROVIDER') {
      await ask(ACCOUNT, { type: 'RecordSubmission', transactionId: id, providerStatus: null });
    } else {
      await ask(ACCOUNT, {
        type: 'RecordOutcome',
        transactionId: id,
        outcome,
        source: 'PROVIDER_POLL',
        failureCode: outcome === 'FAILED' ? 'unknown' : null,
        failureMessage: null,
        providerStatus: null,
        providerTransactionId: null,
        amount: null,
        currency: null,
      });
    }
  };

  const filters = fc.sample(filterArbitrary, { seed: SEED, numRuns: 240 });
  let compared = 0;
  for (let round = 0; round < 12; round++) {
    for (let i = 0; i < 50; i++) await step();
    if (pick(2) === 0) storage.checkpoint();
    // Reads that depend on everything so far make all of it durable, and so known to the models.
    for (const accountId of [ACCOUNT, OTHER]) await ask(accountId, { type: 'GetBalances' });
    // Some bounds are just when something was created.
    const exact = (at: number | undefined): number | undefined =>
      at === undefined || at % 2 === 0 ? at : timeOf(model[at % model.length]!.id);
    for (const { createdAfter, createdBefore, ...others } of filters.splice(0, 20)) {
      const bounds = { createdAfter: exact(createdAfter), createdBefore: exact(createdBefore) };
      const filter = { ...others, ...bounds } as TransactionFilter;
      const limit = 1 + pick(30);
      const expected = listedOf(model, filter);
      const listed: string[] = [];
      for (let startingAfter: string | null = null; ;) {
        const page: any = await ask(ACCOUNT, {
          type: 'ListTransactions',
          filter,
          view: 'transaction',
          limit,
          startingAfter,
        });
        listed.push(...page.data.map(({ id }: { id: string }) => id));
        t.equal(page.has_more, page.next_cursor !== null);
        if (page.data.length > limit) t.fail('a page is longer than its limit');
        if (page.next_cursor === null) break;
        startingAfter = page.next_cursor;
      }
      t.same(listed, expected, JSON.stringify(filter));
      compared += expected.length;
    }
  }

  storage.checkpoint();
  await until(() => storage.partition('accounts', 0)!.checkpointLag === 0);
  const views = storage.views.reader('accounts', 0);
  for (const [n, filter] of fc.sample(filterArbitrary, { seed: SEED, numRuns: 60 }).entries()) {
    const memory = new Memory(views, { sequence: 0, writesRows: false });
    for (const { id } of model) {
      if (id.charCodeAt(20) % 4 === n % 4) memory.touchTransaction(memory.transaction(id)!);
    }
    const bounds = { limit: 1 + pick(9), charactersMax: n % 2 === 0 ? 1 : Infinity, skippedMax: pick(3) };
    const listed: string[] = [];
    for (let after: string | null = null, pages = 0; pages === 0 || after !== null; pages++) {
      const page: Page = listPage(memory, views, ACCOUNT, filter, after, bounds);
      listed.push(...page.transactions.map(({ id }) => id));
      after = page.nextCursor;
      if (pages > model.length) throw new Error('a page goes no further');
    }
    t.same(listed, listedOf(model, filter), `${JSON.stringify(filter)} by pages that may look at little`);
  }

  const { census } = storage.partition('accounts', 0)!.logic as unknown as AccountsPartition;
  for (const status of ['INITIATED', 'PENDING_PROVIDER', 'AWAITING_CUSTOMER'] as const) {
    const open = everybody.filter((known) => known.status === status).length;
    t.equal(census!.open(status), open, `the census knows the ${status}`);
  }
  const entered = new Map<string, number>();
  for (const { type, status, count } of census!.entered()) entered.set(`${type} ${status}`, count);
  const passed = everybody.flatMap(({ type, status }) =>
    (status === 'REVERSED' ? ['SUCCESSFUL', 'REVERSED'] : [status]).map((one) => `${type} ${one}`),
  );
  for (const type of ['CHARGE', 'DEPOSIT']) {
    for (const status of ['SUCCESSFUL', 'FAILED', 'REVERSED']) {
      const name = `${type} ${status}`;
      const count = passed.filter((one) => one === name).length;
      t.equal(entered.get(name) ?? 0, count, `it counts what became ${name}`);
    }
    const created = everybody.filter((known) => known.type === type).length;
    t.equal(entered.get(`${type} PENDING_PROVIDER`), created, `and each new ${type}`);
  }
  t.ok(compared > 500, `${compared} rows compared`);
});

function follow(model: Known[], event: AccountRecord['events'][number]): void {
  const set = (id: string, status: string): void => {
    model.find((known) => known.id === id)!.status = status;
  };
  if (event.type === 'ChargeCreated' || event.type === 'DepositCreated') {
    const { id, country, network, reference } = event;
    const type = event.type === 'ChargeCreated' ? 'CHARGE' : 'DEPOSIT';
    model.push({ id, type, status: 'PENDING_PROVIDER', country, network, reference });
  } else if (event.type === 'SubmissionAccepted') set(event.id, 'AWAITING_CUSTOMER');
  else if (event.type === 'TransactionSucceeded') set(event.id, 'SUCCESSFUL');
  else if (event.type === 'TransactionFailed') set(event.id, 'FAILED');
  else if (event.type === 'ChargeReversed') set(event.id, 'REVERSED');
}

void t.test('a page reads no more of large metadata than it may, and goes on behind it', async (t) => {
  const directory = temporaryDirectory(t);
  const { storage, ask } = await openStorage(directory);
  t.teardown(() => storage.close());
  await openAccount(ask, ACCOUNT);
  const metadata = { ['k'.repeat(50_000)]: 1 };
  const count = (4 * LIMITS.listCharactersReadMax) / 50_000;
  for (let n = 0; n < count; n++) {
    const { currency, msisdn } = WALLETS[0];
    const input = { amount: '5000', currency, msisdn, reference: 'r1', metadata };
    const requestHash = 'x'.repeat(22);
    // Not awaited: its answer waits for a provider.
    void ask(ACCOUNT, { type: 'CreateCharge', idempotencyKey: `key-${n}`, requestHash, input }).catch(
      () => {},
    );
  }
  await ask(ACCOUNT, { type: 'GetBalances' });
  storage.checkpoint();
  await until(() => storage.partition('accounts', 0)!.checkpointLag === 0);
  const pages = async (filter: TransactionFilter): Promise<string[][]> => {
    const found: string[][] = [];
    for (let startingAfter: string | null = null; found.length === 0 || startingAfter !== null;) {
      const query = { type: 'ListTransactions', filter, view: 'transaction', limit: 100, startingAfter };
      const page: any = await ask(ACCOUNT, query);
      found.push(page.data.map(({ id }: { id: string }) => id));
      startingAfter = page.next_cursor;
    }
    return found;
  };
  const skipped = await pages({ reference: 'r1', status: 'FAILED' });
  t.same(skipped.flat(), []);
  // Four times what one may read, and it reads to the end of a row.
  t.ok(skipped.length === 4 || skipped.length === 5, `${skipped.length} pages that skip all they read`);
  for (const filter of [{}, { reference: 'r1' }]) {
    const ids = (await pages(filter)).flat();
    t.ok(ids.length >= count && new Set(ids).size === ids.length, 'all of them, each once');
    const views = storage.views.reader('accounts', 0);
    const memory = new Memory(views, { sequence: 0, writesRows: false });
    const bounds = { limit: 100, charactersMax: 1, skippedMax: 0 };
    const { transactions, nextCursor } = listPage(memory, views, ACCOUNT, filter, null, bounds);
    t.same([transactions.map(({ id }) => id), nextCursor], [[ids[0]], ids[0]], 'it has one, however long');
    const few = { limit: 100, charactersMax: Infinity, skippedMax: 2 };
    const none = listPage(memory, views, ACCOUNT, { ...filter, type: 'PAYOUT' }, null, few);
    t.same([none.transactions, none.nextCursor], [[], ids[2]], 'it skips so many, and ends at the next');
  }
});
