// Ledger and webhooks of one process over a real log and real views, without HTTP in front: commands go in by the bus,
// deliveries come out over HTTPS. Restarts on the same data directory.

import { createHash } from 'node:crypto';
import { accountsGroup } from '../../actors/accounts/group.ts';
import { Checkpointer } from '../../actors/runtime/checkpointer.ts';
import type { CheckpointStore } from '../../actors/runtime/checkpointer.ts';
import type { Group } from '../../actors/runtime/group.ts';
import { LocalFeed, type LoggedBatch } from '../../actors/runtime/local-feed.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import { WebhookExecutor } from '../../actors/webhooks/executor.ts';
import { createWebhooksGroup } from '../../actors/webhooks/group.ts';
import type { WebhooksLogic } from '../../actors/webhooks/group.ts';
import { noMetrics } from '../no-metrics.ts';
import type { WebhookMetrics } from '../../actors/webhooks/metrics.ts';
import { Sender } from '../../actors/webhooks/sender.ts';
import { partitionOf, request } from '../../src/bus/bus.ts';
import type { Bus, GroupName, Message, Reply } from '../../src/bus/bus.ts';
import { LocalBus } from '../../src/bus/local-bus.ts';
import { readConfig } from '../../src/config.ts';
import type { AccountCommand } from '../../src/domain/account-command.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import type { DeliveryView, WebhookOperatorMessage } from '../../src/domain/webhook-message.ts';
import { LIMITS } from '../../src/limits.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { ViewStore } from '../../wal/views.ts';

type AnyGroup = Group<never, never, unknown>;
type AnyPartition = Partition<never, never, unknown>;

export interface ServiceOptions {
  readonly directory: string;
  /** Authority that vouches for the receivers. */
  readonly ca: string;
  readonly partitions?: number;
  readonly clock?: () => number;
  readonly retryMs?: readonly number[];
  readonly metrics?: WebhookMetrics;
  readonly attemptMs?: number;
  readonly queuedMax?: number;
  readonly openSecret?: (sealed: string) => string;
  /** False: nothing is read or sent before `deliver`. */
  readonly delivers?: boolean;
  /** Called before and after each message to a partition and around each attempt: `TakeEvents before`, `send after`, … */
  readonly onStep?: (step: string) => void;
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url');
export const SIGNING_SECRET = 'whsec_test_of_the_whole_way';

interface Opened {
  readonly name: GroupName;
  readonly number: number;
  readonly partition: AnyPartition;
  readonly durable: () => number;
}

export class WebhookService {
  readonly bus: LocalBus;
  readonly executor: WebhookExecutor;
  readonly #options: Required<ServiceOptions>;
  readonly #log: WriteAheadLog;
  readonly #views: ViewStore;
  readonly #feed: LocalFeed;
  readonly #groups: readonly AnyGroup[];
  readonly #checkpointer: Checkpointer;
  readonly #opened: Opened[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(given: ServiceOptions) {
    const options = {
      partitions: 1,
      clock: Date.now,
      retryMs: readConfig({}).webhookRetryMs,
      metrics: noMetrics,
      attemptMs: LIMITS.webhookAttemptMs,
      queuedMax: LIMITS.webhookQueuedMax,
      delivers: true,
      openSecret: (sealed: string) => sealed,
      onStep: () => {},
      ...given,
    };
    this.#options = options;
    const { directory, partitions, clock } = options;
    this.#groups = [
      accountsGroup({ ...DEFAULT_POLICY, providerAnswerWaitMs: 1, routes: { 'UG:MTN': 'mtn_ug' } }),
      createWebhooksGroup({ retryMs: options.retryMs, retentionMs: 30 * 86_400_000 }),
    ] as unknown as AnyGroup[];
    this.#log = WriteAheadLog.open({ directory, now: clock, onFailure: fail, onFlush: () => {} });
    this.#views = ViewStore.open({ directory });
    const read = (name: string, number: number, { batch }: { readonly batch: number }) =>
      this.#log.read(name, number, { afterBatch: batch });
    this.#checkpointer = new Checkpointer(this.#groups, { read }, this.#views as CheckpointStore);
    this.#feed = new LocalFeed((name, number, after) => this.#readLog(name, number, after));
    this.bus = new LocalBus({ accounts: partitions, webhooks: partitions, pollers: partitions, platform: 1 });
    this.executor = new WebhookExecutor({
      bus: this.#watchedBus(),
      feed: this.#feed,
      sender: new Sender({
        guard: { allowPrivate: true, ports: [] },
        clock,
        ca: options.ca,
        attemptMs: options.attemptMs,
      }),
      openSecret: (sealed) => {
        options.onStep('send before');
        return options.openSecret(sealed);
      },
      clock,
      random: () => 0.5,
      queuedMax: options.queuedMax,
      metrics: {
        ...options.metrics,
        attempted: (...attempt) => {
          options.onStep('send after');
          options.metrics.attempted(...attempt);
        },
      },
    });
  }

  #watchedBus(): Bus {
    const { onStep } = this.#options;
    return {
      partitions: (group) => this.bus.partitions(group),
      send: (group, partition, message, onReply) => {
        onStep(`${message.type} before`);
        this.bus.send(group, partition, message, (reply) => {
          onStep(`${message.type} after`);
          onReply(reply);
        });
      },
    };
  }

  static async start(options: ServiceOptions): Promise<WebhookService> {
    const service = new WebhookService(options);
    await service.#open();
    return service;
  }

  async #open(): Promise<void> {
    for (const name of ['accounts', 'webhooks'] as const) {
      for (const number of Array(this.#options.partitions).keys()) await this.#openPartition(name, number);
    }
    if (this.#options.delivers) this.deliver();
    this.#timer = setInterval(() => {
      for (const { partition } of this.#opened) partition.tick();
    }, LIMITS.timerTickMs);
  }

  deliver(): void {
    for (const { name, number, partition } of this.#opened) {
      if (name !== 'webhooks') continue;
      const logic = partition.logic as unknown as WebhooksLogic;
      this.executor.host(number, logic, { clock: () => partition.now() });
    }
  }

  logics(): { readonly number: number; readonly logic: WebhooksLogic }[] {
    return this.#opened
      .filter(({ name }) => name === 'webhooks')
      .map(({ number, partition }) => ({ number, logic: partition.logic as unknown as WebhooksLogic }));
  }

  async #openPartition(name: GroupName, number: number): Promise<void> {
    const group = this.#groups.find((each) => each.name === name)!;
    const tip = this.#log.tip(name, number);
    if (tip.sequence > (this.#views.position(name, number)?.sequence ?? 0)) {
      await this.#checkpointer.advance(name, number, tip.sequence, () => {});
    }
    this.#views.refresh();
    const log = this.#log.openPartition(name, number, {
      epoch: 1,
      replica: null,
      onCommitted: (batch) => partition.committed(batch.firstSequence, batch.records.length),
      onDurable: () => partition.answer(),
    });
    const partition: AnyPartition = new Partition({
      group,
      logic: group.open(number, this.#views.reader(name, number), {
        sequence: tip.sequence,
        writesRows: false,
      }),
      log,
      clock: this.#options.clock,
      deadlineClock: this.#options.clock,
      lastRecordAt: tip.timeMs,
      observer: { decided: () => {} },
      writeFormat: () => 1,
      isPaused: () => false,
      publish: (firstSequence, records) => this.#feed.publish(name, number, { firstSequence, records }),
    });
    this.bus.attach(name, number, (message, onReply) => partition.send(message as never, onReply));
    this.#opened.push({ name, number, partition, durable: () => log.durable });
  }

  *#readLog(name: GroupName, number: number, after: number): Generator<LoggedBatch, void, undefined> {
    const group = this.#groups.find((each) => each.name === name)!;
    this.#log.refresh();
    for (const batch of this.#log.read(name, number, { fromSequence: after + 1 })) {
      const skip = Math.max(0, after + 1 - batch.firstSequence);
      const lines = batch.records.slice(skip);
      if (lines.length === 0) continue;
      yield { firstSequence: batch.firstSequence + skip, lines, decode: (line) => group.decode(line) };
    }
  }

  async checkpoint(): Promise<void> {
    for (const { name, number, partition, durable } of this.#opened) {
      if (durable() === (this.#views.position(name, number)?.sequence ?? 0)) continue;
      this.#log.refresh();
      await this.#checkpointer.advance(name, number, durable(), (sequence) => {
        this.#views.refresh();
        partition.checkpointed(sequence);
      });
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.executor.close(500);
    await Promise.all(this.#opened.map(({ partition }) => partition.drain()));
    await this.#log.close();
    await this.#views.close();
  }

  ask(group: GroupName, accountId: string, message: Message): Promise<Reply> {
    return request(this.bus, group, partitionOf(accountId, this.#options.partitions), message);
  }

  async command(command: WithoutDeadline<AccountCommand>): Promise<string> {
    const deadline = this.#options.clock() + 15_000;
    const reply = await this.ask('accounts', command.accountId, { ...command, deadline } as AccountCommand);
    if (reply.type !== 'done') throw new Error(`${command.type}: ${JSON.stringify(reply)}`);
    return reply.body;
  }

  /** Opens the account and connects an app with a webhook URL; returns the app's id. */
  async merchant(accountId: string, secretKey: string, webhookUrl: string | null): Promise<string> {
    await this.command({
      type: 'OpenAccount',
      accountId,
      operator: 'amina',
      name: 'Shop',
      country: 'UG',
      live: true,
      payoutsEnabled: true,
      withdrawalsEnabled: true,
    });
    return this.app(accountId, secretKey, webhookUrl);
  }

  async app(accountId: string, secretKey: string, webhookUrl: string | null): Promise<string> {
    const body = await this.command({
      type: 'ConnectApp',
      accountId,
      operator: 'amina',
      name: 'App',
      domain: 'shop.example.com',
      webhookUrl,
      publishableKey: `pk_${secretKey}`,
      secretKeyHash: hashOf(secretKey),
      signingSecretSealed: SIGNING_SECRET,
    });
    return (JSON.parse(body) as { id: string }).id;
  }

  /** A charge that ends as `outcome`; returns its id. */
  async charge(
    accountId: string,
    secretKey: string,
    key: string,
    outcome: 'SUCCESSFUL' | 'FAILED',
  ): Promise<string> {
    const id = await this.#createCharge(accountId, secretKey, key);
    await this.outcome(accountId, id, outcome);
    return id;
  }

  async #createCharge(accountId: string, secretKey: string, key: string): Promise<string> {
    const body = await this.command({
      type: 'CreateCharge',
      accountId,
      keyHash: hashOf(secretKey),
      problem: null,
      idempotencyKey: key,
      requestHash: 'r'.repeat(22),
      input: { amount: '50000', currency: 'UGX', msisdn: '256772123456', reference: key },
    });
    return (JSON.parse(body) as { id: string }).id;
  }

  async outcome(
    accountId: string,
    transactionId: string,
    outcome: 'SUCCESSFUL' | 'FAILED' | 'REVERSED',
  ): Promise<void> {
    await this.command({
      type: 'RecordOutcome',
      accountId,
      transactionId,
      outcome,
      source: 'PROVIDER_CALLBACK',
      failureCode: outcome === 'FAILED' ? 'customer_declined' : null,
      failureMessage: null,
      providerStatus: outcome,
      providerTransactionId: null,
      amount: null,
      currency: null,
    });
  }

  async deliveries(accountId: string): Promise<readonly DeliveryView[]> {
    const filter = { appId: null, status: null, limit: 100, startingAfter: null };
    const list: WithoutDeadline<WebhookOperatorMessage> = { type: 'ListDeliveries', accountId, ...filter };
    return (JSON.parse(await this.webhooks(list)) as { data: DeliveryView[] }).data;
  }

  async webhooks(message: WithoutDeadline<WebhookOperatorMessage>): Promise<string> {
    const deadline = this.#options.clock() + 15_000;
    const reply = await this.ask('webhooks', message.accountId, { ...message, deadline } as Message);
    if (reply.type !== 'done') throw new Error(JSON.stringify(reply));
    return reply.body;
  }
}

type WithoutDeadline<Messages> = Messages extends Messages ? Omit<Messages, 'deadline'> : never;

export function accountIdOf(n: number): string {
  return makeId('account', `${encodeTime(n)}${'0'.repeat(16)}`);
}

function fail(error: Error): never {
  throw error;
}
