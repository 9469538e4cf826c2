// The accounts group: the ledger. Hosts the pure core (src/domain: decide, evolve) over one partition's memory and views,
// and gives the runtime what it needs: timers, answers of creates, rows for the checkpoint.

import { doneReply, rejectedReply } from '../../src/bus/bus.ts';
import { decide } from '../../src/domain/decide/decide.ts';
import type { AccountCommand, AccountQuery } from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { assert } from '../../src/domain/assert.ts';
import { isOutcomeKnown } from '../../src/domain/decide/outcome.ts';
import { decodeRecord, encodeRecord, UnknownName } from '../../src/domain/event-codec.ts';
import { evolve } from '../../src/domain/evolve.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { renderAnswer } from '../../src/domain/render/render.ts';
import type { Context } from '../../src/domain/state.ts';
import { LAST_KEY, type Row, type Views } from '../../wal/types.ts';
import type {
  Answered,
  Decision,
  Group,
  OpenOptions,
  Outcome,
  PartitionLogic,
  Tick,
} from '../runtime/group.ts';
import { createdAt, isCashOut } from '../../src/domain/transaction.ts';
import { typeOfBucket } from '../../src/domain/transaction-filter.ts';
import { LIMITS } from '../../src/limits.ts';
import { Census } from './census.ts';
import { CashOutWindow, WINDOW_MS } from './cash-out-window.ts';
import { listPage } from './listing.ts';
import { Memory } from './memory.ts';
import { answerQuery } from './queries.ts';
import { decodeOpen, decodeReconciliation, idempotencyRetention, openOf, openOfWallet } from './rows.ts';
import { Timers } from './timers.ts';

export type AccountsGroup = Group<AccountCommand, AccountQuery, AccountRecord>;

const MESSAGES: AccountsGroup['messages'] = {
  CreateCharge: 'command',
  CreateDeposit: 'command',
  CreatePayout: 'command',
  CreateWithdrawal: 'command',
  BeginSubmission: 'command',
  RecordSubmission: 'command',
  RecordOutcome: 'command',
  RaiseReconciliation: 'command',
  NoteCallback: 'command',
  ExpireTransaction: 'command',
  FixAnswer: 'command',
  ReleaseCharge: 'command',
  ActivateWallet: 'command',
  OpenAccount: 'command',
  ChangeAccountSettings: 'command',
  AddUser: 'command',
  ChangeUserRole: 'command',
  RemoveUser: 'command',
  ConnectApp: 'command',
  ChangeAppWebhook: 'command',
  RemoveApp: 'command',
  AddWallet: 'command',
  ApproveWallet: 'command',
  RevokeWallet: 'command',
  ApproveWithdrawal: 'command',
  RejectWithdrawal: 'command',
  CreateDashboardDeposit: 'command',
  SettleCashOut: 'command',
  ResolveReconciliation: 'command',
  GetTransaction: 'query',
  ListTransactions: 'query',
  GetBalances: 'query',
  ListPayoutDestinations: 'query',
  GetAccount: 'query',
  GetTrialBalance: 'query',
  GetWebhookObject: 'query',
  GetWebhookEndpoint: 'query',
  ListPending: 'query',
  GetPending: 'query',
  ListExpired: 'query',
  ListReconciliation: 'query',
};

const VIEWS_FORMAT = 3;

export function accountsGroup(policy: Policy): AccountsGroup {
  return {
    name: 'accounts',
    messages: MESSAGES,
    answerWaitMs: policy.providerAnswerWaitMs,
    open: (_partition, views, options) => new AccountsPartition(policy, views, options),
    viewsFormat: VIEWS_FORMAT,
    retention: [idempotencyRetention],
    knows: isOutcomeKnown,
    encode: encodedOrNull,
    decode: decodeRecord,
  };
}

function encodedOrNull(record: AccountRecord): string | null {
  try {
    return encodeRecord(record);
  } catch (error) {
    if (error instanceof UnknownName) return null;
    throw error;
  }
}

export class AccountsPartition implements PartitionLogic<AccountCommand, AccountQuery, AccountRecord> {
  readonly #policy: Policy;
  readonly #views: Views;
  readonly #memory: Memory;
  readonly #cashOuts = new CashOutWindow();
  /** Null where the log is only followed; so is the census. */
  readonly #timers: Timers | null;
  readonly census: Census | null;

  constructor(policy: Policy, views: Views, options: OpenOptions) {
    this.#policy = policy;
    this.#views = views;
    this.#memory = new Memory(views, options);
    this.#timers = options.writesRows ? null : new Timers(views);
    this.census = options.writesRows ? null : this.#count(views);
  }

  #count(views: Views): Census {
    const census = new Census();
    /** The last account with any in flight: their rows are together. */
    let holder = '';
    for (const { key, value } of views.range('open', { start: '', end: LAST_KEY })) {
      const { accountId, bucket } = decodeOpen(key, value);
      census.seed(bucket);
      if (accountId === holder || !isCashOut(typeOfBucket(bucket))) continue;
      holder = accountId;
      const account = this.#memory.account(holder);
      assert(account !== undefined, 'a transaction in flight is of an account');
      census.seedHeld(account);
    }
    for (const { value } of views.range('reconciliation', { start: '', end: LAST_KEY })) {
      census.seedItem(decodeReconciliation(value));
    }
    return census;
  }

  decide(command: AccountCommand, tick: Tick): Decision<AccountRecord> {
    const { accountId } = command;
    const isRateLimited = command.type === 'CreatePayout' || command.type === 'CreateWithdrawal';
    const lacksPast = isRateLimited && this.#cashOuts.lacksPast(accountId, tick.elapsedMs);
    if (lacksPast && this.#memory.account(accountId) !== undefined) {
      this.#cashOuts.recall(accountId, this.#cashOutsBefore(accountId, tick.now - tick.elapsedMs));
    }
    const context: Context = {
      now: tick.now,
      freshBody: tick.freshBody,
      policy: this.#policy,
      writeFormat: tick.writeFormat,
      cashOutsInWindow: isRateLimited ? this.#cashOuts.count(accountId, tick.elapsedMs) : 0,
      cashOutWindowFreesAt: isRateLimited ? this.#cashOutsFreeAt(accountId, tick) : 0,
      unknownReferencesLeft: command.type === 'RaiseReconciliation' ? this.#unknownReferencesLeft() : 0,
      appsMax: LIMITS.appsPerAccountMax,
      walletsMax: LIMITS.walletsPerAccountMax,
      accountListBytesMax: LIMITS.accountListBytesMax,
    };
    const decision = decide(this.#memory, command, context);
    if (decision.countsAsCashOut) this.#cashOuts.add(accountId, tick.elapsedMs);
    return {
      record: decision.record,
      outcome: outcomeOf(decision.outcome),
      answers: decision.record === null ? null : answeredBy(decision.record),
    };
  }

  #unknownReferencesLeft(): number {
    assert(this.census !== null, 'who decides counts');
    return LIMITS.unknownReferencesOpenMax - this.census.reconciliation('UNKNOWN_REFERENCE').open;
  }

  #cashOutsFreeAt(accountId: string, { now, elapsedMs }: Tick): number {
    const account = this.#memory.account(accountId);
    if (account === undefined) return now;
    const limit = account.settings.cashOutPerMinute ?? this.#policy.cashOutPerMinute;
    return now + this.#cashOuts.freesAt(accountId, elapsedMs, limit) - elapsedMs;
  }

  /** Times of the requests accepted in the minute before the partition was opened, from then on, ms, oldest first. Whatever else the
   *  account made in that minute is skipped, once. */
  #cashOutsBefore(accountId: string, openedAt: number): number[] {
    const minute = { createdAfter: openedAt - WINDOW_MS, createdBefore: openedAt };
    return (['PAYOUT', 'WITHDRAWAL'] as const)
      .flatMap((type) => {
        const filter = { ...minute, type };
        const bounds = { limit: LIMITS.cashOutsRecalledMax, charactersMax: Infinity, skippedMax: Infinity };
        const page = listPage(this.#memory, this.#views, accountId, filter, null, bounds);
        return page.transactions;
      })
      .map((transaction) => createdAt(transaction) - openedAt)
      .sort((a, b) => a - b);
  }

  evolve(record: AccountRecord, sequence: number): void {
    this.#memory.beginRecord(sequence);
    evolve(this.#memory, record, sequence);
    this.#timers?.follow(record);
    this.census?.follow(record, this.#memory);
  }

  query(query: AccountQuery, now: number): Answered {
    return answerQuery(this.#memory, this.#views, query, { policy: this.#policy, now });
  }

  answer(transactionId: string, replayed: boolean): Answered | null {
    const transaction = this.#memory.transaction(transactionId);
    assert(transaction !== undefined, 'a transaction that is waited for exists');
    if (transaction.answeredAt === null) return null;
    const body = renderAnswer(transaction);
    // A cash-out's answer is the state it was created in, and whoever asks has waited for that already.
    const isOfCreation = isCashOut(transaction.type);
    return { reply: { type: 'done', body, replayed }, sequence: isOfCreation ? 0 : transaction.sequence };
  }

  settleAnswer(transactionId: string): AccountCommand {
    const transaction = this.#memory.transaction(transactionId);
    assert(transaction !== undefined, 'a transaction that is waited for exists');
    return {
      type: 'FixAnswer',
      accountId: transaction.accountId,
      deadline: Number.MAX_SAFE_INTEGER,
      transactionId,
    };
  }

  nextDue(): number {
    return this.#timers?.nextDue() ?? Infinity;
  }

  takeDue(now: number, limit: number): AccountCommand[] {
    if (this.#timers === null) return [];
    return this.#timers.takeDue(now, limit, (kind, accountId, id) => {
      if (kind !== 'cooling') {
        const transaction = this.#memory.transaction(id);
        return transaction !== undefined && openOf(transaction)?.kind === kind;
      }
      const wallet = this.#memory.account(accountId)?.wallets.get(id);
      return wallet !== undefined && openOfWallet(accountId, wallet) !== null;
    });
  }

  takeRows(): Row[] {
    return this.#memory.takeRows();
  }

  evict(sequence: number): void {
    this.#memory.evict(sequence);
  }
}

function outcomeOf(outcome: ReturnType<typeof decide>['outcome']): Outcome {
  switch (outcome.type) {
    case 'rejected':
      return { type: 'reply', reply: rejectedReply(outcome.rejection) };
    case 'done':
      return { type: 'reply', reply: doneReply(outcome.body) };
    case 'answer':
      return { type: 'wait', key: outcome.transactionId, replayed: outcome.replayed };
  }
}

/** The transaction whose create answer these events may have fixed; a cash-out's is fixed where it is created. */
function answeredBy(record: AccountRecord): string | null {
  for (const event of record.events) {
    if (
      event.type === 'PayoutCreated' ||
      event.type === 'WithdrawalCreated' ||
      event.type === 'SubmissionAccepted' ||
      event.type === 'AnswerFixed' ||
      event.type === 'TransactionSucceeded' ||
      event.type === 'TransactionFailed'
    ) {
      return event.id;
    }
  }
  return null;
}
