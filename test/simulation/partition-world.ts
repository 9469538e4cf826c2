// One partition of accounts as the service runs it (runtime, memory, log, views, checkpointer) on a clock and a disk that are
// driven from outside: what is appended is durable when `flush` says so, and a crash loses the rest. Every decision is compared
// with the model where it is made, and every reply with its decision.

import { strict as assert } from 'node:assert';
import { type AccountsPartition, accountsGroup } from '../../actors/accounts/group.ts';
import { idempotencyKey, idempotencyRetention, isEmptyBucket } from '../../actors/accounts/rows.ts';
import { Checkpointer } from '../../actors/runtime/checkpointer.ts';
import type { Decision } from '../../actors/runtime/group.ts';
import { Partition } from '../../actors/runtime/partition.ts';
import type { Reply } from '../../src/bus/bus.ts';
import type { AccountCommand, AccountQuery } from '../../src/domain/account-command.ts';
import type { AccountRecord } from '../../src/domain/account-event.ts';
import { decodeRecord } from '../../src/domain/event-codec.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { dayOf } from '../../src/domain/time.ts';
import { compareRows } from '../../src/log-tools/compare.ts';
import { auditLedger } from '../../src/log-tools/ledger-audit.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import type { PartitionLog } from '../../wal/partition-log.ts';
import type { Row, Views } from '../../wal/types.ts';
import { ViewStore } from '../../wal/views.ts';
import { DAY, MINUTE } from '../unit/domain/scenario.ts';
import { apply } from './partition-applied.ts';
import {
  balances,
  emptyModel,
  expected,
  isCashOut,
  isFinal,
  isToBeReleased,
  type Model,
  type ModelTransaction,
} from './partition-model.ts';

const GROUP = 'accounts';
/** How long a caller waits at the most: for the rail, and for the next tick. */
const ANSWER_MS = 70_000;
/** How long after its time the partition itself expires what no poller has, and how long after it was opened. */
const EXPIRY_GRACE_MS = MINUTE;
const RETURN_GRACE_MS = 12 * MINUTE;
const CHECKPOINT_MS = 4 * MINUTE;
/** Fewer than the service's, so that a run has so many. */
const KEPT_DAYS = 3;
const LETS_NOBODY_IN: ReadonlySet<string> = new Set(['invalid_api_key', 'live_mode_not_enabled']);
const NO_VIEWS: Views = { get: () => undefined, range: () => [] };

type Command = AccountCommand;
type Runtime = Partition<Command, AccountQuery, AccountRecord>;

/** Appended and not yet durable. */
interface Appended {
  readonly line: string;
  readonly record: AccountRecord;
  readonly created: ModelTransaction | undefined;
}

interface Caller {
  /** By the clock. */
  readonly since: number;
  readonly command: Command;
  reply: Reply | null;
}

/** Pages of what has expired come in the order of the views. */
function said(query: AccountQuery, reply: Reply): unknown {
  if (query.type !== 'ListExpired' || reply.type !== 'done') return reply;
  return JSON.parse(reply.body).data.toSorted((a: { id: string }, b: { id: string }) =>
    a.id < b.id ? -1 : 1,
  );
}

export class World {
  /** The clock. It may be set back while the partition is closed. */
  now: number;
  policy: Policy;
  /** Only ever raised. */
  writeFormat: number;
  isPaused = false;
  /** Of all that was appended. */
  model: Model = emptyModel();
  partition!: Runtime;
  /** Sent as soon as records are durable, before anybody is answered. */
  onCommitted: () => void = () => {};
  /** What was lost in crashes, removed by retention, and answered again in the same bytes. */
  readonly seen = { lost: 0, swept: 0, replayed: 0, readEarly: 0 };
  /** Of what is durable. */
  #durable: Model = emptyModel();
  /** The same, as the partition would have it after a crash now. */
  #left!: AccountsPartition;
  readonly #directory: string;
  readonly #log = { appended: 0, durable: 0, append: (line: string) => this.#append(line) };
  #tail: Appended[] = [];
  #created: ModelTransaction | undefined;
  #onDecided: ((decision: Decision<AccountRecord>) => void) | null = null;
  /** First answer of each transaction. */
  readonly #answers = new Map<string, string>();
  #callers: Caller[] = [];
  #cashOuts = new Map<string, number[]>();
  #wal!: WriteAheadLog;
  #views!: ViewStore;
  #file!: PartitionLog;
  #checkpointer!: Checkpointer;
  #epoch = 0;
  #lastAt = 0;
  #openedAt = 0;
  #checkpointedAt = 0;

  constructor(directory: string, now: number, policy: Policy, writeFormat: number) {
    this.#directory = directory;
    this.now = now;
    this.policy = policy;
    this.writeFormat = writeFormat;
  }

  async open(): Promise<void> {
    const clock = (): number => this.now;
    const directory = this.#directory;
    const group = accountsGroup(this.policy);
    this.#wal = WriteAheadLog.open({ directory, now: clock, onFailure: assert.ifError });
    this.#views = ViewStore.open({ directory });
    const { sequence } = this.#wal.tip(GROUP, 0);
    assert.equal(sequence, this.#log.durable, 'all that was durable is there, and nothing else');
    const read = (_: string, partition: number, { batch }: { batch: number }) =>
      this.#wal.read(GROUP, partition, { afterBatch: batch });
    const retention = [{ ...idempotencyRetention, keptMs: KEPT_DAYS * DAY }];
    this.#checkpointer = new Checkpointer([{ ...group, retention } as never], { read }, this.#views);
    this.#log.appended = sequence;
    await this.#advance(sequence, () => {});
    const logic = group.open(0, this.#views.reader(GROUP, 0), { sequence, writesRows: false });
    this.#watch(logic as AccountsPartition);
    this.partition = new Partition({
      group,
      logic,
      log: this.#log,
      clock,
      deadlineClock: clock,
      lastRecordAt: this.#lastAt,
      observer: { decided: () => {} },
      writeFormat: () => this.writeFormat,
      isPaused: () => this.isPaused,
      publish: () => {},
    });
    this.#file = this.#wal.openPartition(GROUP, 0, {
      epoch: ++this.#epoch,
      replica: null,
      now: () => this.partition.now(),
      onDurable: () => {},
    });
    this.#left = group.open(0, NO_VIEWS, { sequence: 0, writesRows: true }) as AccountsPartition;
    for (const { firstSequence, records } of this.#wal.read(GROUP, 0, { fromSequence: 1 })) {
      for (const [n, line] of records.entries()) this.#left.evolve(decodeRecord(line), firstSequence + n);
    }
    this.#openedAt = this.#checkpointedAt = this.partition.now();
    this.#cashOuts = new Map();
    for (const { account, type, appId, createdAt } of this.model.transactions.values()) {
      if (!isCashOut(type) || appId === null || createdAt < this.now - MINUTE) continue;
      this.#cashOuts.set(account, [...(this.#cashOuts.get(account) ?? []), createdAt]);
    }
  }

  async close(): Promise<void> {
    await this.#wal.close();
    await this.#views.close();
  }

  /** Compares each decision with what the model says to the same command at the same time. */
  #watch(logic: AccountsPartition): void {
    const decide = logic.decide.bind(logic);
    logic.decide = (command, tick) => {
      const { policy, writeFormat } = this;
      const at = { now: tick.now, policy, writeFormat, cashOuts: this.#cashOuts };
      const wanted = expected(this.model, command, at);
      const decision = decide(command, tick);
      const { record, outcome } = decision;
      const said = `${JSON.stringify(command)} at ${tick.now}: ${JSON.stringify([wanted, decision])}`;
      const got = record?.events.map(({ type }) => type) ?? [];
      if (!('events' in wanted)) assert.deepEqual(got, [], said);
      else if (wanted.events === null) assert(got.length === 0 || got[0] === 'AnswerFixed', said);
      else assert.deepEqual(got, wanted.events, said);
      const [event] = record?.events ?? [];
      const source = event !== undefined && 'source' in event ? event.source : null;
      if ('source' in wanted) assert.equal(source, wanted.source, said);
      if ('replay' in wanted) {
        assert.deepEqual(outcome, { type: 'wait', key: wanted.replay, replayed: true }, said);
      } else if ('code' in wanted) {
        assert(outcome.type === 'reply' && outcome.reply.type === 'rejected', said);
        assert.equal(outcome.reply.rejection.code, wanted.code, said);
      } else {
        assert(outcome.type === 'wait' ? !outcome.replayed : outcome.reply.type === 'done', said);
      }
      this.#created = 'created' in wanted ? wanted.created : undefined;
      this.#onDecided?.(decision);
      this.#onDecided = null;
      return decision;
    };
  }

  #append(line: string): number {
    const appended = { line, record: decodeRecord(line), created: this.#created };
    apply(this.model, appended.record, this.policy, appended.created);
    this.#tail.push(appended);
    return ++this.#log.appended;
  }

  /** What is `late` is dropped undecided. */
  send(command: Command, isLate = false): void {
    const caller: Caller = { since: this.now, command, reply: null };
    let decision: Decision<AccountRecord> | undefined;
    this.#onDecided = (made) => {
      decision = made;
    };
    this.partition.send(isLate ? { ...command, deadline: 0 } : command, (reply) => {
      assert.equal(caller.reply, null, `${JSON.stringify(command)} is answered once`);
      caller.reply = reply;
      // Lost in a crash: nobody is told anything.
      if (reply.type === 'unknown') return;
      if (decision === undefined) assert.equal(reply.type, 'unavailable');
      else if (decision.outcome.type === 'reply') assert.equal(reply, decision.outcome.reply);
      else this.#checkAnswer(reply, decision.outcome);
    });
    this.#onDecided = null;
    assert.equal(decision === undefined, isLate || this.isPaused, `${JSON.stringify(command)} is decided`);
    if (caller.reply === null) this.#callers.push(caller);
  }

  /** The answer of a create call, the same for ever; never before the transaction is durable. */
  #checkAnswer(reply: Reply, { key, replayed }: { key: string; replayed: boolean }): void {
    assert(reply.type === 'done', JSON.stringify(reply));
    assert.equal(reply.replayed, replayed);
    assert.equal((JSON.parse(reply.body) as { id: string }).id, key);
    assert(this.#durable.transactions.has(key), `${key} is durable`);
    const before = this.#answers.get(key);
    if (before !== undefined) this.seen.replayed++;
    assert.equal(reply.body, before ?? reply.body, 'byte for byte');
    this.#answers.set(key, reply.body);
  }

  /** The oldest `count` of what is not durable now is. */
  async flush(count = this.#tail.length): Promise<void> {
    if (count === 0) return;
    const batch = this.#tail.splice(0, count);
    for (const { line } of batch) this.#file.append(line);
    await this.#file.drained();
    const first = this.#log.durable + 1;
    for (const [n, { record, created }] of batch.entries()) {
      apply(this.#durable, record, this.policy, created);
      this.#left.evolve(record, first + n);
    }
    this.#lastAt = batch.at(-1)!.record.at;
    this.#log.durable += count;
    this.partition.committed(first, count);
    this.onCommitted();
    this.partition.answer();
  }

  get undurable(): number {
    return this.#tail.length;
  }

  async flushAll(): Promise<void> {
    while (this.#tail.length > 0) await this.flush();
  }

  /** `part` of what the views lag behind. */
  async checkpoint(part: number): Promise<void> {
    const reached = this.#views.position(GROUP, 0)?.sequence ?? 0;
    const upTo = reached + Math.ceil((this.#log.durable - reached) * part);
    await this.#advance(upTo, (sequence) => this.partition.checkpointed(sequence));
    if (part === 1) this.#checkpointedAt = this.partition.now();
  }

  async #advance(upTo: number, onReached: (sequence: number) => void): Promise<void> {
    await this.#checkpointer.advance(GROUP, 0, upTo, (sequence) => {
      this.#views.refresh();
      onReached(sequence);
    });
  }

  /** Ends the process, at once or in order, and starts it again, `later` by the clock, with another policy. */
  async restart(isCrash: boolean, later: number, policy: Policy): Promise<void> {
    if (isCrash) {
      this.seen.lost += this.#tail.length;
      this.#tail = [];
      this.partition.abandon();
      this.model = structuredClone(this.#durable);
    } else {
      await this.flushAll();
      await this.partition.drain();
      await this.flushAll();
    }
    for (const { command, reply } of this.#callers) {
      assert(reply !== null, `${JSON.stringify(command)} is told`);
    }
    this.#callers = [];
    await this.close();
    this.now += later;
    this.policy = policy;
    await this.open();
    await this.tick();
  }

  /** Until nothing is due. */
  async tick(): Promise<void> {
    for (let rounds = 0; rounds === 0 || this.partition.logic.nextDue() <= this.partition.now(); rounds++) {
      assert(rounds < 200, 'what is due comes to an end');
      this.partition.tick();
      await this.flushAll();
    }
  }

  /** Time in which nobody sends anything: what falls due happens. */
  async pass(ms: number, step: () => number): Promise<void> {
    const until = this.now + ms;
    while (this.now < until) {
      this.now = Math.min(until, this.now + step());
      if (this.partition.now() - this.#checkpointedAt >= CHECKPOINT_MS) await this.checkpoint(1);
      await this.tick();
    }
    const now = this.partition.now();
    const isOpenedLongAgo = now - this.#openedAt >= RETURN_GRACE_MS;
    for (const one of this.model.transactions.values()) {
      assert(!isToBeReleased(one) || one.releaseAt! > now, `${one.id} is released in time`);
      const isOver = one.expiresAt !== null && now >= one.expiresAt + EXPIRY_GRACE_MS;
      assert(!isOver || !isOpenedLongAgo || isFinal(one.status), `${one.id} expires in time`);
    }
    for (const { wallets } of Object.values(this.model.accounts)) {
      for (const { id, status, activeAt } of wallets) {
        assert(status !== 'COOLING_OFF' || activeAt > now, `${id} is active in time`);
      }
    }
    this.#callers = this.#callers.filter(({ reply }) => reply === null);
    for (const { since, command } of this.#callers) {
      assert(since > this.now - ANSWER_MS || ms < ANSWER_MS, `${JSON.stringify(command)} is answered`);
    }
  }

  /** What the retention of idempotency keys promises: none goes before its time, by the clock and by what was created since, and none
   *  of a transaction that is in progress. */
  async sweep(): Promise<void> {
    await this.flushAll();
    await this.checkpoint(1);
    const now = this.partition.now();
    await this.#checkpointer.sweep(GROUP, 0, now, () => Promise.resolve());
    this.#views.refresh();
    const created = [...this.model.keys.values()].map((id) => this.model.transactions.get(id)!.createdAt);
    const days = [...new Set(created.map(dayOf))];
    for (const [key, id] of this.model.keys) {
      const { status, createdAt } = this.model.transactions.get(id)!;
      const later = days.filter((day) => day > dayOf(createdAt));
      if (!isFinal(status) || createdAt >= now - KEPT_DAYS * DAY || later.length < KEPT_DAYS) continue;
      for (const { keys } of [this.model, this.#durable]) keys.delete(key);
      this.seen.swept++;
    }
  }

  /** What the log gives at once is what many checkpoints made of it, but for keys that were swept away, and its money adds up. */
  async verify(directory: string): Promise<void> {
    await this.flushAll();
    await this.checkpoint(1);
    const read = (_: string, partition: number, { batch }: { batch: number }) =>
      this.#wal.read(GROUP, partition, { afterBatch: batch });
    const views = ViewStore.open({ directory });
    await new Checkpointer([accountsGroup(this.policy) as never], { read }, views).advance(
      GROUP,
      0,
      this.#log.durable,
      () => views.refresh(),
    );
    const kept = new Set<string>();
    for (const id of this.model.keys.values()) {
      const { account, key } = this.model.transactions.get(id)!;
      kept.add(idempotencyKey(account, key!));
    }
    const rebuilt = views.reader(GROUP, 0);
    const isNeedless = ({ table, key }: Row, of: 'log' | 'checkpoint'): boolean => {
      if (table === 'bucket') return isEmptyBucket(key, rebuilt);
      return table === 'idempotency' && of === 'log' && !kept.has(key);
    };
    const rows = (): Iterable<Row> => this.#views.rows(GROUP, 0);
    assert.deepEqual(compareRows(views.rows(GROUP, 0), rows(), isNeedless).differences, []);
    await views.close();
    const all = [...this.model.transactions.values()];
    const { faults, transactions, totals } = auditLedger(rows());
    assert.deepEqual([faults, transactions], [[], all.length]);
    for (const [currency, amounts] of totals) {
      const sums = Object.entries(balances(all.filter((one) => one.currency === currency)));
      assert.deepEqual(amounts, Object.fromEntries(sums.map(([name, sum]) => [name, BigInt(sum)])), currency);
    }
  }

  /** A read at any time: what it is answered with is there after a crash, too. */
  read(query: AccountQuery): void {
    const { appended } = this.#log;
    let replies = 0;
    this.partition.send(query, (reply) => {
      assert.equal(++replies, 1, `${JSON.stringify(query)} is answered once`);
      // Lost in a crash, or more has happened since it was asked.
      if (reply.type === 'unknown' || this.#log.durable > appended) return;
      const { reply: left } = this.#left.query(query, this.partition.now());
      // Who was let in by what is not durable is told what is, all the same.
      if (left.type === 'rejected' && LETS_NOBODY_IN.has(left.rejection.code)) return;
      if (appended > this.#log.durable) this.seen.readEarly++;
      assert.deepEqual(said(query, reply), said(query, left), JSON.stringify(query));
    });
  }

  /** What a read is answered with, when all is durable. */
  async ask(query: AccountQuery): Promise<any> {
    await this.flushAll();
    let got: Reply | null = null;
    this.partition.send(query, (reply) => {
      got = reply;
    });
    const reply = got as Reply | null;
    assert(reply?.type === 'done', `${JSON.stringify(query)}: ${JSON.stringify(reply)}`);
    return JSON.parse(reply.body);
  }
}
