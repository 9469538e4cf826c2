// Accounts and transactions as commands to the account actors. Each transaction takes the steps it takes in life: created,
// accepted by the rail, settled; the feed of committed records tells the ids, as it tells them to the pollers.
//
// Invariants: no record is made up, all come from `decide`; what is under way is bounded; a command that was refused for
// want of room is sent again, anything else that is refused is a bug here and ends the program.

import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { partitionOf, type Reply } from '../../src/bus/bus.ts';
import { readConfig, type Config } from '../../src/config.ts';
import type { AccountCommand, CreateCommand } from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import type { FailureCode } from '../../src/domain/transaction.ts';
import { hashApiKey, parseApiKey } from '../../src/http/api-key.ts';
import { createLog } from '../../src/observability/log.ts';
import { makeAppSecrets } from '../../src/operator/account-actions.ts';
import { freshId } from '../../src/operator/context.ts';
import { createSecrets, loadMasterKey, loadOperatorToken, type Secrets } from '../../src/secrets.ts';
import { LIMITS } from '../../src/limits.ts';
import { openDataDirectory, type DataDirectory } from '../../src/data-directory/data-directory.ts';
import { placesOf } from '../../src/data-directory/identity.ts';
import { openRails } from '../../src/wiring/rails.ts';
import { Storage } from '../../src/storage/storage.ts';
import { linesOf } from '../load/work.ts';
import type { HistoryJob } from './job.ts';
import { pause } from '../../src/pause.ts';

type OnProgress = (what: string, done: number, of: number) => void;

interface Merchant {
  readonly accountId: string;
  readonly keyHash: string;
}

/** Commands under way: below the mailbox of one partition, which may get them all. */
const OPEN_MAX = 6_000;
const AGAIN_MS = 20;
const PROGRESS_EVERY_MS = 1_000;
const CHECKPOINT_EVERY_MS = 500;
const DEPOSIT = '100000000';
const OPERATOR = 'bench';
const DEADLINE = Number.MAX_SAFE_INTEGER;

export class HistoryWriter {
  readonly #job: HistoryJob;
  readonly #onProgress: OnProgress;
  readonly #directory: DataDirectory;
  readonly #storage: Storage;
  readonly #secrets: Secrets;
  readonly #merchants: Merchant[] = [];
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #ids: string[] = [];
  readonly #numberOfAccount = new Map<string, number>();
  #open = 0;
  #resume: (() => void) | null = null;
  #settled = 0;
  #charges = 0;
  #lastProgressAt = 0;
  #outcomes = 0;

  static async open(job: HistoryJob, onProgress: OnProgress): Promise<HistoryWriter> {
    const config = readConfig({
      RAILS: 'loopback',
      PARTITIONS: String(job.partitions),
      DATA_DIR: job.dataDir,
    });
    const directory = await openDataDirectory(config, {
      onChange(shortage) {
        if (shortage !== null) throw new Error(shortage);
      },
      onError(error) {
        throw error;
      },
    });
    const secrets = createSecrets(loadMasterKey(config.dataDir, null));
    loadOperatorToken(config.dataDir, null);
    const storage = await openStorage(config, secrets);
    const writer = new HistoryWriter(job, onProgress, { directory, storage, secrets });
    for (let number = 0; number < job.partitions; number++) {
      const from = storage.log.tip('accounts', number).sequence;
      storage.feed.subscribe<AccountRecord>('accounts', number, from, ({ records }) => {
        for (const record of records) writer.#follow(record);
      });
    }
    return writer;
  }

  private constructor(
    job: HistoryJob,
    onProgress: OnProgress,
    parts: { directory: DataDirectory; storage: Storage; secrets: Secrets },
  ) {
    this.#job = job;
    this.#onProgress = onProgress;
    this.#directory = parts.directory;
    this.#storage = parts.storage;
    this.#secrets = parts.secrets;
    this.#timers.push(
      setInterval(() => this.#storage.tick(), LIMITS.timerTickMs),
      setInterval(() => this.#storage.checkpoint(), CHECKPOINT_EVERY_MS),
    );
  }

  /** Those of the keys file, and as many new ones as are missing. */
  async openAccounts(): Promise<void> {
    const { keysFile, accounts } = this.#job;
    const known = existsSync(keysFile) ? linesOf(keysFile) : [];
    for (const key of known) this.#add(parseApiKey(key)!.accountId, key);
    const fresh: string[] = [];
    for (let number = known.length; number < accounts; number++) {
      const accountId = freshId('account');
      const { secretKey, publishableKey, signingSecret } = makeAppSecrets(accountId);
      this.#add(accountId, secretKey);
      fresh.push(secretKey);
      await this.#send(openAccount(accountId, `Bench ${number}`));
      await this.#send({
        type: 'ConnectApp',
        accountId,
        deadline: DEADLINE,
        name: 'Bench',
        domain: 'bench.test',
        webhookUrl: this.#job.webhookUrl?.replace('#', String(number)) ?? null,
        publishableKey,
        secretKeyHash: hashApiKey(secretKey),
        signingSecretSealed: this.#secrets.seal('signing-secret', signingSecret),
        operator: OPERATOR,
      });
      for (let n = 0; n < this.#job.deposits; n++) {
        await this.#send(create('CreateDeposit', this.#merchants[number]!, `fund-${n}`, DEPOSIT, 0));
      }
      this.#progress('accounts', number + 1, accounts);
    }
    await this.#untilQuiet();
    await this.#untilFollowed();
    if (fresh.length > 0) appendFileSync(keysFile, `${fresh.join('\n')}\n`);
  }

  async writeTransactions(): Promise<void> {
    const { transactions, historyAccounts, firstNumber, shape, idsFile } = this.#job;
    for (let number = firstNumber; number < firstNumber + transactions; number++) {
      const merchant = this.#merchants[number % historyAccounts]!;
      const type = shape === 'charges' ? 'CreateCharge' : typeOf(number);
      const amount = type === 'CreateDeposit' ? '5000' : '1000';
      await this.#send(create(type, merchant, `h-${number}`, amount, number));
      this.#progress('transactions', number - firstNumber, transactions);
    }
    await this.#untilQuiet();
    await this.#untilFollowed();
    if (idsFile !== null) writeFileSync(idsFile, `${this.#ids.join('\n')}\n`);
  }

  /** Resolves with the number of records in the log, when the views have reached its end. */
  async close(): Promise<number> {
    for (const timer of this.#timers) clearInterval(timer);
    let records = 0;
    for (const { group, log } of this.#storage.hosted()) if (group === 'accounts') records += log.durable;
    this.#onProgress('checkpoint', 0, 1);
    await this.#storage.close();
    await this.#directory.release();
    return records;
  }

  #add(accountId: string, key: string): void {
    this.#numberOfAccount.set(accountId, this.#merchants.length);
    this.#merchants.push({ accountId, keyHash: hashApiKey(key) });
  }

  /** Resolves at once, or when there is room for one more. */
  async #send(command: AccountCommand): Promise<void> {
    this.#put(command);
    if (this.#open < OPEN_MAX) return;
    await new Promise<void>((resolve) => {
      this.#resume = resolve;
    });
  }

  #put(command: AccountCommand): void {
    this.#open++;
    this.#hand(command);
  }

  #hand(command: AccountCommand): void {
    const partition = partitionOf(command.accountId, this.#job.partitions);
    this.#storage.inbox('accounts', partition)(command, (reply) => this.#answered(command, reply));
  }

  #answered(command: AccountCommand, reply: Reply): void {
    if (reply.type === 'unavailable') {
      setTimeout(() => this.#hand(command), AGAIN_MS);
      return;
    }
    if (reply.type !== 'done') throw new Error(`${command.type} was answered with ${JSON.stringify(reply)}`);
    this.#open--;
    if (command.type === 'RecordOutcome') this.#outcomes--;
    if (this.#open >= OPEN_MAX / 2 || this.#resume === null) return;
    const resume = this.#resume;
    this.#resume = null;
    resume();
  }

  /** Plays the pollers: what was created is accepted and settled. */
  #follow({ accountId, events }: AccountRecord): void {
    for (const event of events) {
      const isCharge = event.type === 'ChargeCreated';
      if (!isCharge && event.type !== 'DepositCreated' && event.type !== 'PayoutCreated') continue;
      const transactionId = event.id;
      this.#outcomes++;
      this.#settled++;
      const failed = isCharge && this.#job.shape === 'mixed' && this.#settled % 11 === 0;
      const common = {
        accountId,
        deadline: DEADLINE,
        transactionId,
        providerStatus: failed ? 'FAILED' : 'SUCCESSFUL',
      };
      this.#put({ ...common, type: 'RecordSubmission', providerStatus: 'PENDING' });
      this.#put({
        ...common,
        type: 'RecordOutcome',
        outcome: failed ? 'FAILED' : 'SUCCESSFUL',
        source: 'PROVIDER_CALLBACK',
        failureCode: failed ? ('insufficient_funds' satisfies FailureCode) : null,
        failureMessage: null,
        providerTransactionId: failed ? null : `BENCH${transactionId.slice(4)}`,
        amount: null,
        currency: null,
      });
      if (isCharge) this.#keepId(accountId, transactionId);
    }
  }

  /** Every so many-th charge, so that those kept are spread over the history. */
  #keepId(accountId: string, transactionId: string): void {
    const { idsFile, idsKept, transactions } = this.#job;
    if (idsFile === null) return;
    const every = Math.max(1, Math.floor((transactions * CHARGES) / idsKept));
    if (this.#charges++ % every !== 0) return;
    this.#ids.push(`${this.#numberOfAccount.get(accountId)} ${transactionId}`);
  }

  async #untilQuiet(): Promise<void> {
    while (this.#open > 0) await pause(AGAIN_MS);
  }

  /** The feed comes after the replies: until nothing it starts is under way either. */
  async #untilFollowed(): Promise<void> {
    for (let quiet = 0; quiet < 3;) {
      await pause(AGAIN_MS);
      quiet = this.#open === 0 && this.#outcomes === 0 ? quiet + 1 : 0;
    }
  }

  #progress(what: string, done: number, of: number): void {
    const now = performance.now();
    if (now - this.#lastProgressAt < PROGRESS_EVERY_MS) return;
    this.#lastProgressAt = now;
    this.#onProgress(what, done, of);
  }
}

async function openStorage(config: Config, secrets: Secrets): Promise<Storage> {
  const log = createLog({ level: 'error', node: config.nodeName });
  const rails = await openRails({ config, log, secrets, clock: Date.now, onHint: () => {} });
  await rails.close();
  const storage = new Storage({
    directory: config.dataDir,
    policies: {
      // Years of one account are written in minutes.
      accounts: { ...config.policy, routes: rails.routes, cashOutPerMinute: Infinity },
      webhooks: { retryMs: config.webhookRetryMs, retentionMs: config.webhookRetentionMs },
    },
    observer: { decided: () => {} },
    clock: Date.now,
    onFlush: () => {},
    onFailure: (error) => {
      throw error;
    },
    onDamage: (_group, _partition, error) => {
      throw error;
    },
  });
  // All that a service has: it would take what is not there for lost.
  for (const { group, partition } of placesOf(config.partitions)) {
    const epoch = Math.max(1, storage.log.tip(group, partition).epoch);
    await storage.openPartition(group, partition, { epoch, replica: null, onFenced: null });
  }
  return storage;
}

function openAccount(accountId: string, name: string): AccountCommand {
  return {
    type: 'OpenAccount',
    accountId,
    deadline: DEADLINE,
    name,
    country: 'UG',
    live: true,
    payoutsEnabled: true,
    withdrawalsEnabled: true,
    operator: OPERATOR,
  };
}

/** Share of charges in a mixed history. */
const CHARGES = 0.8;

/** Of ten transactions: eight charges, a payout, a deposit. */
function typeOf(number: number): 'CreateCharge' | 'CreatePayout' | 'CreateDeposit' {
  const place = number % 10;
  if (place === 0) return 'CreateDeposit';
  return place === 9 ? 'CreatePayout' : 'CreateCharge';
}

const NUMBERS = 10_000;

function create(
  type: 'CreateCharge' | 'CreatePayout' | 'CreateDeposit',
  { accountId, keyHash }: Merchant,
  reference: string,
  amount: string,
  number: number,
): CreateCommand {
  const msisdn = `+25677200${String(number % NUMBERS).padStart(4, '0')}`;
  return {
    type,
    accountId,
    deadline: DEADLINE,
    keyHash,
    problem: null,
    idempotencyKey: `bench-${reference}`,
    requestHash: 'bench-history-request-',
    input: { amount, currency: 'UGX', msisdn, reference },
  };
}
