// Idempotency keys are kept 30 days, by the clock and by what was created since, and as long as what was created is not final: until
// then a repetition is answered from the first time, afterwards it is new.

import t, { type Test } from 'tap';
import type { Message, Reply } from '../../src/bus/bus.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { LIMITS } from '../../src/limits.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { Storage } from '../../src/storage/storage.ts';
import { walTools } from '../../wal/tools/all.ts';
import { ViewStore } from '../../wal/views.ts';
import { runTool } from '../unit/wal/run-tool.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const ACCOUNT = 'acc_01JD5Z00000000000000000000';
const START = 1_700_000_000_000;
const RETENTION_MS = LIMITS.idempotencyRetentionMs;
const DAY_MS = 86_400_000;

/** A live account, whose time is the test's. */
async function merchant(t: Test) {
  const directory = temporaryDirectory(t);
  let now = START;
  const storage = new Storage({
    directory,
    policies: {
      accounts: { ...DEFAULT_POLICY, providerAnswerWaitMs: 0, routes: { 'UG:MTN': 'mtn_ug' } },
      webhooks: { retryMs: [], retentionMs: 0 },
    },
    observer: { decided: () => {} },
    clock: () => now,
    onFlush: () => {},
    onDamage: (_group, _partition, error) => {
      throw error;
    },
    onFailure: (error) => {
      throw error;
    },
  });
  let closed: Promise<void> | null = null;
  const close = (): Promise<void> => (closed ??= storage.close());
  t.teardown(async () => {
    await close();
  });
  await storage.openPartition('accounts', 0, { epoch: 1, replica: null, onFenced: null });
  const ticking = setInterval(() => {
    now++;
    storage.tick();
  }, 5);
  t.teardown(() => clearInterval(ticking));
  const send = async (message: object): Promise<Extract<Reply, { type: 'done' }>> => {
    const reply = await new Promise<Reply>((resolve) => {
      const call = { accountId: ACCOUNT, deadline: Infinity, operator: 'o', keyHash: 'h', problem: null };
      storage.inbox('accounts', 0)({ ...call, ...message } as unknown as Message, resolve);
    });
    if (reply.type !== 'done') throw new Error(JSON.stringify(reply));
    return reply;
  };
  const may = { live: true, payoutsEnabled: true, withdrawalsEnabled: true };
  await send({ type: 'OpenAccount', name: 'Shop', country: 'UG', ...may });
  const key = { publishableKey: 'pk', secretKeyHash: 'h', signingSecretSealed: 's' };
  await send({ type: 'ConnectApp', name: 'App', domain: 'shop.ug', webhookUrl: null, ...key });
  const create = (type: string, input: object = {}, idempotencyKey = `the-same-key-${type}`) =>
    send({
      type,
      idempotencyKey,
      requestHash: 'x'.repeat(22),
      input: { amount: '5000', currency: 'UGX', msisdn: '+256772000065', reference: 'r', ...input },
    });
  const succeed = ({ body }: { body: string }) =>
    send({
      type: 'RecordOutcome',
      transactionId: JSON.parse(body).id,
      outcome: 'SUCCESSFUL',
      source: 'PROVIDER_POLL',
      failureCode: null,
      failureMessage: null,
      providerStatus: null,
      providerTransactionId: null,
      amount: null,
      currency: null,
    });
  /** One charge a day, from one day after the start to another. */
  const trade = async (first: number, last: number): Promise<void> => {
    for (let day = first; day <= last; day++) {
      now = START + day * DAY_MS;
      await create('CreateCharge', {}, `the-key-of-day-${day}`);
    }
  };
  const sweepAt = async (time: number): Promise<void> => {
    now = time;
    await storage.catchUpViews('accounts', 0);
    await storage.sweep();
  };
  return { create, succeed, trade, sweepAt, close, directory };
}

void t.test('an idempotency key is forgotten after 30 days and not before', async (t) => {
  const { create, succeed, trade, sweepAt } = await merchant(t);
  const first = await create('CreateCharge');
  await succeed(first);
  await trade(1, 30);
  await sweepAt(START + RETENTION_MS - 60_000);
  const again = await create('CreateCharge');
  t.ok(again.replayed);
  t.equal(again.body, first.body);
  await sweepAt(START + RETENTION_MS + 60_000);
  const afterwards = await create('CreateCharge');
  t.notOk(afterwards.replayed);
  t.not(JSON.parse(afterwards.body).id, JSON.parse(first.body).id);
});

void t.test(
  'a clock that is ahead makes nobody forget a key: so many days must have had creates',
  async (t) => {
    const { create, succeed, trade, sweepAt } = await merchant(t);
    await succeed(await create('CreateDeposit', { amount: '50000' }));
    const first = await create('CreatePayout');
    await succeed(first);
    const isKept = async (): Promise<boolean> => {
      const again = await create('CreatePayout');
      return again.replayed && again.body === first.body;
    };
    await sweepAt(START + 400 * DAY_MS);
    t.ok(await isKept(), 'a year later by the clock, and no create since');
    await trade(401, 429);
    await sweepAt(START + 429 * DAY_MS + 60_000);
    t.ok(await isKept(), 'with creates on 29 days');
    await trade(430, 430);
    await sweepAt(START + 430 * DAY_MS + 60_000);
    t.notOk(await isKept(), 'with creates on 30 days');
  },
);

void t.test('the key of a payout is kept for as long as its provider says nothing final of it', async (t) => {
  const { create, succeed, trade, sweepAt } = await merchant(t);
  await succeed(await create('CreateDeposit', { amount: '50000' }));
  const first = await create('CreatePayout');
  await trade(1, 31);
  for (const days of [31, 32, 90]) {
    await sweepAt(START + days * DAY_MS);
    const again = await create('CreatePayout');
    t.ok(again.replayed, `${days} days later nobody is paid a second time`);
    t.equal(again.body, first.body);
  }
  await succeed(first);
  await sweepAt(START + 91 * DAY_MS);
  t.notOk((await create('CreatePayout')).replayed, 'and not for ever');
});

void t.test('replay --verify misses the key of what is in flight, and no other that is old', async (t) => {
  const { create, succeed, trade, sweepAt, close, directory } = await merchant(t);
  await succeed(await create('CreateDeposit', { amount: '50000' }));
  const { body } = await create('CreatePayout');
  await trade(1, 31);
  await sweepAt(START + 31 * DAY_MS);
  await close();
  const verify = () => runTool([...walTools, ...logTools], 'replay', '--verify', '--data', directory);
  const swept = await verify();
  t.equal(swept.status, 0, swept.out);

  const views = ViewStore.open({ directory });
  const rows = [
    ...views.reader('accounts', 0).range('idempotency', { start: `${ACCOUNT}\x01the-same-key`, end: '~' }),
  ];
  t.equal(rows.length, 1, 'that of the deposit is gone');
  const { key } = rows[0]!;
  t.ok(rows[0]!.value.endsWith(JSON.parse(body).id));
  const position = views.position('accounts', 0)!;
  await views.commit('accounts', 0, position, [{ table: 'idempotency', key, value: null }]);
  await views.close();
  const lost = await verify();
  t.equal(lost.status, 1);
  t.match(lost.out, /idempotency .*the-same-key-CreatePayout/);
});
