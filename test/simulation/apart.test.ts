// Pollers and accounts in processes of their own: the accounts die with what was not durable, the pollers go on; or the other
// way round, or other pollers take over from them, which may be cut off and go on. In bad weather, with withdrawals that are approved, rejected, or to a wallet
// that is revoked. Whatever happens, what was answered exists, nothing stays in flight, and the ledger agrees with the provider
// or operators are told that it does not.

import t from 'tap';
import { PollerGroup } from '../../actors/pollers/poller-group.ts';
import type { OnReply, Reply } from '../../src/bus/bus.ts';
import type { AccountCommand, CreateCommand, PendingTransaction } from '../../src/domain/account-command.ts';
import { isCallbackNote } from '../../src/domain/decide/reconciliation-id.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { zeroCheck } from '../../src/domain/ledger.ts';
import { money } from '../../src/domain/money.ts';
import type { Transaction } from '../../src/domain/transaction.ts';
import { LIMITS } from '../../src/limits.ts';
import { referenceOf } from '../../src/rails/reference.ts';
import { lengthOf, randomFrom, seedOf } from '../seed.ts';
import {
  ACCOUNT,
  activateWallet,
  byOperator,
  charge,
  deposit,
  KEY_HASH,
  outcome,
  payout,
  settle as settledByOperator,
  withdrawal,
} from '../unit/domain/scenario.ts';
import { declined, DrivenClock, DrivenRail, paid, Provider } from '../unit/pollers-driven.ts';
import { after, ApartAccounts, FEED_MS_MAX, Link } from './apart-world.ts';
import { TakenBack } from './taken-back.ts';
import { stormy } from './weather.ts';

const SEED = seedOf(t);
const RUNS = lengthOf(t, 'RUNS', 12);

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const STEP_MS = 50;
const FUNDS = '20000000';
const POLICY = {
  ...DEFAULT_POLICY,
  routes: { 'UG:MTN': 'mtn_ug', 'UG:AIRTEL': 'airtel_ug' },
  cashOutPerMinute: 100_000,
  approvalThresholds: { ...DEFAULT_POLICY.approvalThresholds, UGX: money(6_000) },
  walletCoolingOffMs: 0,
};
/** By how much the accounts' time may differ from that of their pollers. */
const AHEAD_MS_MAX = 5 * MINUTE;

const REFUSED = { ...declined(), failureCode: 'provider_rejected' } as const;

class Apart {
  readonly clock = new DrivenClock(1_772_357_500_000);
  readonly accounts: ApartAccounts;
  readonly provider = new Provider();
  readonly takenBack = new TakenBack(this, (transaction, onReply) => this.hint(transaction, onReply));
  readonly faults: unknown[] = [];
  readonly random: () => number;
  /** How often something goes wrong. */
  trouble = 0;
  /** Calls that a rail takes at once. */
  readonly railConcurrency: number;
  /** How often a rail refuses, for certain, what it has not taken. */
  refusals: number;
  pollers: PollerGroup;
  /** Wallets, and when their owner was told that they are revoked. */
  readonly revokedAt = new Map<string, number>();
  /** What was submitted after that. */
  readonly sentToRevoked: string[] = [];
  /** What was answered to whoever created it. */
  readonly answered = new Set<string>();
  #link!: Link;
  #rails: DrivenRail[] = [];
  #keys = 0;

  constructor(random: () => number) {
    this.random = random;
    this.railConcurrency = random() < 0.5 ? 1 : 100;
    this.refusals = random() < 0.5 ? 0 : 0.6;
    const chargeExpiryMs = random() < 0.5 ? POLICY.chargeExpiryMs : MINUTE;
    const aheadMsMax = random() < 0.5 ? 0 : AHEAD_MS_MAX;
    this.accounts = new ApartAccounts(
      this.clock,
      random,
      { ...POLICY, chargeExpiryMs },
      aheadMsMax,
      (message, onReply) => {
        this.pollers.send(0, message, onReply);
      },
    );
    this.pollers = this.#newPollers();
    this.clock.every(STEP_MS, () => this.accounts.tick());
  }

  #newPollers(): PollerGroup {
    const { clock, provider, accounts, random } = this;
    this.#rails = ['mtn_ug', 'airtel_ug'].map((id) => new DrivenRail(id, provider, clock));
    for (const rail of this.#rails) {
      rail.maxConcurrency = this.railConcurrency;
      stormy(this, rail, random, () => this.trouble);
      const { onSubmit } = rail;
      rail.onSubmit = (transaction) => {
        this.#sends(transaction, link);
        const isRefused = !provider.accepted.has(referenceOf(transaction)) && random() < this.refusals;
        return isRefused ? REFUSED : onSubmit(transaction);
      };
    }
    const link = new Link(clock, accounts);
    this.#link = link;
    return new PollerGroup({
      bus: link,
      feed: link,
      rails: this.#rails,
      routes: POLICY.routes,
      clock,
      monotonic: () => clock.now(),
      deadlineClock: () => clock.now(),
      random,
      onNotice: () => {},
      onFault: (error) => this.faults.push(error),
      onUnknownMessage: () => {},
    });
  }

  #sends({ id }: PendingTransaction, { isCut }: Link): void {
    const { destination } = this.accounts.state.transaction(id)!;
    const revokedAt = this.revokedAt.get(destination ?? '') ?? Infinity;
    // It may have waited for its rail since it was asked about, until the feed told of the wallet; who is cut off hears no more of it.
    const lateMs = FEED_MS_MAX + (isCut ? LIMITS.leaseMs : 0) + 2 * STEP_MS;
    const knewAt = Math.max(this.accounts.askedAt.get(id)!, this.clock.now() - lateMs);
    if (knewAt > revokedAt) this.sentToRevoked.push(id);
  }

  /** One in `n`. */
  once(n: number): boolean {
    return this.random() * n < 1;
  }

  async told(command: AccountCommand): Promise<Reply> {
    let reply: Reply | null = null;
    this.accounts.tell(command, (said) => {
      reply = said;
    });
    while (reply === null) await this.clock.advance(STEP_MS, STEP_MS);
    return reply;
  }

  hint({ id: transactionId }: Transaction, onReply: OnReply = () => {}): void {
    const deadline = this.clock.now() + 1_000;
    const message = { type: 'Hint', accountId: ACCOUNT, transactionId, deadline } as const;
    this.pollers.send(0, message, onReply);
  }

  create(command: CreateCommand): void {
    const idempotencyKey = `apart-${++this.#keys}`;
    this.accounts.tell({ ...command, idempotencyKey }, (reply) => {
      if (reply.type === 'done') this.answered.add(JSON.parse(reply.body).id);
    });
  }

  begin(): void {
    const { pollers } = this;
    const link = this.#link;
    void pollers.start(0, { holds: () => !link.mayBeLost });
  }

  crashPollers(): void {
    this.clock.killIntervals();
    this.accounts.forgetPollers();
    for (const rail of this.#rails) {
      rail.onSubmit = () => new Promise(() => {});
      rail.onEnquire = () => new Promise(() => {});
    }
    this.pollers = this.#newPollers();
    this.clock.every(STEP_MS, () => this.accounts.tick());
    this.begin();
    this.takenBack.callAgain();
  }

  /** As between two nodes: the next one begins when this one has let go. */
  handOver(): void {
    const before = this.pollers;
    const next = this.#newPollers();
    this.pollers = next;
    void before.release(0).then(() => {
      if (this.pollers === next) this.begin();
      return before.stop();
    });
  }

  /** From NATS, not from the rails: the next one begins when their session has ended, and they go on until they hear of that. */
  cutOff(): void {
    const { pollers: before, clock } = this;
    const link = this.#link;
    link.isCut = true;
    const next = this.#newPollers();
    this.pollers = next;
    after(clock, LIMITS.leaseMs - LIMITS.leaseMarginMs, () => {
      link.mayBeLost = true;
    });
    after(clock, LIMITS.leaseMs, () => {
      if (this.pollers === next) this.begin();
    });
    const backMs = LIMITS.leaseMs + Math.floor(this.random() * 5 * MINUTE);
    after(clock, backMs, () => {
      link.isCut = false;
    });
    after(clock, backMs + 500, () => void before.lose(0).then(() => before.stop()));
  }

  async crashAccounts(awayMs: number): Promise<void> {
    this.accounts.crash();
    await this.clock.advance(awayMs, STEP_MS);
    this.accounts.open();
  }

  async advance(ms: number, stepMs = STEP_MS): Promise<void> {
    await this.clock.advance(ms, stepMs);
  }
}

/** A live account with money, an owner, and wallets. */
async function merchant(apart: Apart): Promise<string[]> {
  const id = async (command: object): Promise<string> => {
    const reply = await apart.told({ ...byOperator, ...command } as AccountCommand);
    if (reply.type !== 'done') throw new Error(JSON.stringify(reply));
    return JSON.parse(reply.body).id;
  };
  const enabled = { live: true, payoutsEnabled: true, withdrawalsEnabled: true };
  await id({ type: 'OpenAccount', name: 'Shop', country: 'UG', ...enabled });
  const app = { name: 'Shop', domain: 'shop.example', webhookUrl: null, signingSecretSealed: 's' };
  await id({ type: 'ConnectApp', ...app, publishableKey: 'pk', secretKeyHash: KEY_HASH });
  const by = await id({ type: 'AddUser', email: 'o@shop.example', role: 'OWNER' });
  const wallets: string[] = [];
  for (const [n, msisdn] of ['+256772000111', '+256772000112', '+256702000113'].entries()) {
    const wallet = { label: `${n}`, msisdn, network: null, country: null, by };
    const walletId = await id({ type: 'AddWallet', ...wallet });
    await id({ type: 'ApproveWallet', walletId, by });
    await apart.told(activateWallet(walletId));
    wallets.push(walletId);
  }
  apart.create(deposit({ amount: FUNDS }));
  while (apart.accounts.state.transactions.size === 0) await apart.advance(STEP_MS);
  const [funding] = apart.accounts.state.transactions.keys();
  await apart.told(outcome(funding!, 'SUCCESSFUL'));
  return [by, ...wallets];
}

async function run(seed: number): Promise<Apart> {
  const random = randomFrom(seed);
  const apart = new Apart(random);
  const { accounts, provider } = apart;
  const [by, ...wallets] = await merchant(apart);
  apart.begin();
  const [pollersDie, isTakenBack] = random() < 0.5 ? [8, 8] : [40, 60];
  apart.trouble = 0.2 + random() / 2;
  const settle = (one: Transaction): void => {
    if (provider.accepted.get(referenceOf(one)) !== null) return;
    provider.settle(one, random() < 0.7 ? paid({ amount: one.amount }) : declined());
    for (let hints = Math.floor(random() * 3); hints > 0; hints--) apart.hint(one);
  };

  for (let step = 0; step < 120; step++) {
    for (let times = Math.floor(random() * 3); times > 0; times--) apart.create(anything(random, wallets));
    // Records of no transaction.
    if (apart.once(3)) {
      accounts.tell({ ...byOperator, type: 'ChangeAccountSettings', changes: { payoutsEnabled: true } });
    }
    if (apart.once(40)) {
      const walletId = wallets[step % 2]!;
      accounts.tell({ ...byOperator, type: 'RevokeWallet', walletId, by: by! }, () => {
        apart.revokedAt.set(walletId, apart.revokedAt.get(walletId) ?? apart.clock.now());
      });
    }
    for (const one of withoutFunding(apart)) {
      if (one.status === 'INITIATED' && apart.once(20)) {
        const type = apart.once(3) ? 'RejectWithdrawal' : 'ApproveWithdrawal';
        accounts.tell({ ...byOperator, type, transactionId: one.id, by: by! });
      }
      if (apart.once(20)) settle(one);
      else if (apart.once(100)) apart.hint(one);
      const isPaid = provider.accepted.get(referenceOf(one))?.type === 'succeeded';
      if (isPaid && apart.once(isTakenBack)) apart.takenBack.add(one);
      const isOut = one.type === 'PAYOUT' || one.type === 'WITHDRAWAL';
      if (isOut && apart.once(1_000)) accounts.tell(settledByOperator(one.id));
    }
    apart.takenBack.call();
    if (apart.once(12)) await apart.crashAccounts(Math.floor(random() * 4_000));
    if (apart.once(pollersDie)) apart.crashPollers();
    else if (apart.once(30) && apart.pollers.isFollowing) apart.handOver();
    else if (apart.once(15) && apart.pollers.isFollowing) apart.cutOff();
    accounts.isHung = apart.once(10);
    await apart.advance(Math.floor(random() * 1_500));
  }

  // Begun while the disk of the accounts hangs, and nobody begins anew after that: what they miss stays missed.
  accounts.isHung = false;
  await apart.advance(3_000);
  accounts.isHung = true;
  accounts.tell({ ...byOperator, type: 'ChangeAccountSettings', changes: { payoutsEnabled: true } });
  apart.crashPollers();
  await apart.advance(Math.floor(random() * 500));
  await apart.crashAccounts(Math.floor(random() * 1_000));
  accounts.isHung = false;
  for (let n = 0; n < 3; n++) apart.create(payout({ amount: '5000' }));
  await apart.advance(5_000);

  await clear(apart, by!, settle);
  return apart;
}

function anything(random: () => number, wallets: readonly string[]): CreateCommand {
  const msisdn = random() < 0.5 ? '+256772123456' : '+256702123456';
  const amount = random() < 0.3 ? '7000' : '5000';
  const destination = wallets[Math.floor(random() * wallets.length)]!;
  const choice = Math.floor(random() * 4);
  if (choice === 3) return withdrawal({ amount, destination });
  const create = [charge, deposit, payout][choice]!;
  return create({ msisdn, amount }) as CreateCommand;
}

/** The weather clears, members decide, and every customer answers in the end: of those whose charges expire soon some too late. */
async function clear(apart: Apart, by: string, settle: (one: Transaction) => void): Promise<void> {
  const { accounts, provider, revokedAt } = apart;
  apart.trouble = 0;
  for (let round = 0; round < 30; round++) {
    for (const one of withoutFunding(apart)) {
      if (one.status === 'INITIATED') {
        accounts.tell({ ...byOperator, type: 'RejectWithdrawal', transactionId: one.id, by });
      }
      if (round > 15 || apart.once(5)) settle(one);
      // It may never have been sent, and is not sent any more: the provider's people say so.
      const isRevoked = revokedAt.has(one.destination ?? '');
      if (isInFlight(one) && isRevoked && !provider.accepted.has(referenceOf(one))) {
        accounts.tell(settledByOperator(one.id));
      }
    }
    apart.takenBack.call();
    await apart.advance(MINUTE, 500);
  }
  await apart.advance(3 * HOUR, 10_000);
}

function withoutFunding({ accounts }: Apart): Transaction[] {
  return [...accounts.state.transactions.values()].filter((one) => !isFunding(one));
}

for (let seed = SEED; seed < SEED + RUNS; seed++) {
  t.test(`SEED=${seed} RUNS=1`, async (t) => {
    const { accounts, provider, takenBack, answered, pollers, faults, sentToRevoked } = await run(seed);
    const { state } = accounts;
    const transactions = [...state.transactions.values()];
    t.comment(`${transactions.length} transactions, ${accounts.lost} records lost`);
    t.strictSame(
      transactions.filter(isInFlight).map(({ id, status }) => [id, status]),
      [],
      'nothing stays in flight',
    );
    t.strictSame(
      [...answered].filter((id) => !state.transactions.has(id)),
      [],
      'what was answered exists',
    );
    t.equal(takenBack.size, 0, 'the network need not call again');
    const references = new Set(transactions.map(referenceOf));
    t.strictSame(
      [...provider.accepted.keys()].filter((one) => !references.has(one)),
      [],
      'nothing else was sent',
    );
    const items = [...state.reconciliations.values()];
    const notes = items.filter(({ id, transactionId }) => isCallbackNote(id, transactionId));
    t.comment(`${notes.length} notes of callbacks`);
    t.strictSame(
      notes.filter(({ resolvedAt }) => resolvedAt === null).map(({ id }) => id),
      [],
      'every callback is explained',
    );
    const raised = new Set(
      items.filter((item) => !notes.includes(item)).map(({ transactionId }) => transactionId),
    );
    const expired = transactions.filter(({ failureCode }) => failureCode === 'expired');
    const paidLate = expired.filter((one) => provider.accepted.get(referenceOf(one))?.type === 'succeeded');
    t.comment(`${expired.length} expired, ${paidLate.length} of them paid all the same`);
    for (const one of transactions) {
      const theirs = provider.accepted.get(referenceOf(one))?.type;
      const isPaid = one.status === 'SUCCESSFUL';
      if (isFunding(one) || isPaid === (theirs === 'succeeded')) continue;
      t.ok(raised.has(one.id), `${one.id} is ${one.status} here, ${theirs} there: operators know`);
      // Said too early by an operator.
      if (one.events.at(-1)?.source === 'DASHBOARD') continue;
      if (theirs === 'reversed') t.not(one.type, 'CHARGE', 'a charge that is taken back is reversed');
      else t.notMatch(one.type, /PAYOUT|WITHDRAWAL/, 'what goes out ends as its provider says');
    }
    const balances = state.account(ACCOUNT)!.balances.get('UGX')!;
    t.equal(zeroCheck(balances), 0, 'the ledger is balanced');
    t.equal(balances.SETTLEMENT_CLEARING, 0, 'nothing is held');
    t.equal(pollers.size, 0, 'nothing is followed');
    t.strictSame(faults, []);
    t.strictSame(sentToRevoked, [], 'a revoked wallet is sent nothing');
  });
}

function isInFlight({ status }: Transaction): boolean {
  return status !== 'SUCCESSFUL' && status !== 'FAILED' && status !== 'REVERSED';
}

/** Went over no rail. */
function isFunding({ amount }: { readonly amount: number }): boolean {
  return amount === Number(FUNDS);
}
