// Child of webhooks.test.ts: a ledger with webhooks that makes its charges (again, after a restart: with the same
// idempotency keys), delivers, and kills itself at a step when told to. Says "done" when every delivery has ended.

import { accountIdOf, WebhookService } from '../api/webhooks-service.ts';

export interface CrashTask {
  readonly directory: string;
  readonly ca: string;
  readonly url: string;
  readonly charges: number;
  /** Kill at the `at`-th time this step is reached; null: never. */
  readonly step: string | null;
  readonly at: number;
}

process.once('message', (task: CrashTask) => void run(task));

async function run({ directory, ca, url, charges, step, at }: CrashTask): Promise<void> {
  let reached = 0;
  const service = await WebhookService.start({
    directory,
    ca,
    retryMs: [30, 30, 30, 30, 30, 30, 30],
    onStep: (now) => {
      if (now === step && ++reached === at) process.kill(process.pid, 'SIGKILL');
    },
  });
  const account = accountIdOf(1);
  if (!(await hasAccount(service, account))) await service.merchant(account, 'sk', url);
  for (let i = 0; i < charges; i++) {
    await service.charge(account, 'sk', `order-${i}-0000`, i % 3 === 0 ? 'FAILED' : 'SUCCESSFUL');
    if (i === charges >> 1) await service.checkpoint();
  }
  for (;;) {
    const deliveries = await service.deliveries(account);
    if (deliveries.length === charges && deliveries.every(({ status }) => status === 'DELIVERED')) break;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  process.send?.('done');
}

async function hasAccount(service: WebhookService, accountId: string): Promise<boolean> {
  const reply = await service.ask('accounts', accountId, {
    type: 'GetAccount',
    accountId,
    deadline: Date.now() + 15_000,
  });
  return reply.type === 'done' && (JSON.parse(reply.body) as { apps: unknown[] }).apps.length > 0;
}
