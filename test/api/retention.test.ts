// Idempotency keys are kept 30 days: until then a repetition is answered from the first time, afterwards it is new.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Message, Reply } from '../../src/bus/bus.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { LIMITS } from '../../src/limits.ts';
import { Storage } from '../../src/wiring/storage.ts';

const ACCOUNT = 'acc_01JD5Z00000000000000000000';

void t.test('an idempotency key is forgotten after 30 days and not before', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'daftari-retention-'));
  let now = 1_700_000_000_000;
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
  t.teardown(async () => {
    await storage.close();
    rmSync(directory, { recursive: true });
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
  const charge = () =>
    send({
      type: 'CreateCharge',
      idempotencyKey: 'the-same-key',
      requestHash: 'x'.repeat(22),
      input: { amount: '5000', currency: 'UGX', msisdn: '+256772000065', reference: 'r' },
    });
  const sweepAt = async (time: number): Promise<void> => {
    now = time;
    await storage.catchUpViews('accounts', 0);
    await storage.sweep();
  };

  const first = await charge();
  await sweepAt(1_700_000_000_000 + LIMITS.idempotencyRetentionMs - 60_000);
  const again = await charge();
  t.ok(again.replayed);
  t.equal(again.body, first.body);
  await sweepAt(1_700_000_000_000 + LIMITS.idempotencyRetentionMs + 60_000);
  const afterwards = await charge();
  t.notOk(afterwards.replayed);
  t.not(JSON.parse(afterwards.body).id, JSON.parse(first.body).id);
});
