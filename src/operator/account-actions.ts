// Making accounts and connecting apps: the two actions with more than one step, used by the routes and by the demo.
//
// An account is registered with the platform, opened in its own partition, and marked as opened: each step may be
// repeated, so what a crash interrupts is finished by whoever has the platform then. A secret key is made here and never kept: only its
// hash goes on.

import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Reply, UNAVAILABLE, UNKNOWN } from '../bus/bus.ts';
import type { NewAccount, Repeatable } from '../domain/account-command.ts';
import type { RegisteredAccount } from '../domain/platform-message.ts';
import { hashApiKey, makeApiKey } from '../http/api-key.ts';
import { LIMITS } from '../limits.ts';
import { makeSigningSecret } from '../secrets.ts';
import { messageOf } from '../../wal/thrown.ts';
import { askAccount, askPlatform, fromNow } from './context.ts';
import type { OperatorContext } from './context.ts';

interface AccountWithId extends NewAccount {
  readonly accountId: string;
}

/** Done: the body is the account. Unavailable or rejected: there is none. `deadline`: it is not begun after that. With a key that came
 *  before it is the account of that time, as it is now. */
export async function createAccount(
  context: OperatorContext,
  account: AccountWithId,
  deadline: number,
  repeatable: Repeatable | null = null,
): Promise<Reply> {
  // If nobody serves its partition, the account would be registered and not opened, and so would each one that is tried instead.
  const asked = await askAccount(context, { type: 'GetAccount', accountId: account.accountId });
  if (!isDecided(asked)) return UNAVAILABLE;
  const registered = await askPlatform(
    context,
    repeatable === null
      ? { type: 'RegisterAccount', ...account, deadline }
      : { type: 'RegisterKeyedAccount', ...account, repeatable, deadline },
  );
  if (registered.type !== 'done') return registered;
  const { id } = JSON.parse(registered.body) as { id: string };
  const opened = await openAccount(context, { ...account, accountId: id });
  if (opened.type === 'done') await markOpened(context, id);
  return opened;
}

/** The account is registered, so it will exist: an answer that says otherwise would be wrong. */
async function openAccount(context: OperatorContext, account: AccountWithId, until?: number): Promise<Reply> {
  const open = () => askAccount(context, { type: 'OpenAccount', ...account, deadline: fromNow() });
  const opened = await untilDecided(open, until);
  return opened.type === 'unavailable' ? UNKNOWN : opened;
}

async function markOpened(context: OperatorContext, accountId: string): Promise<boolean> {
  const mark = { type: 'MarkAccountOpened', accountId, deadline: fromNow() } as const;
  const marked = await askPlatform(context, mark);
  if (marked.type === 'done') return true;
  const fields = { account_id: accountId, reply: marked.type };
  context.log.warn(fields, 'an opened account is not marked as opened; it is tried again');
  return false;
}

/** Accounts whose creation was cut off between its steps: by whoever has the platform, since who was at it may have died elsewhere. What
 *  cannot be opened, as on a disk that is short, keeps nothing else from being served. */
export class Openings {
  readonly #context: OperatorContext;
  /** The problem that was told last. */
  #told: string | null = null;

  constructor(context: OperatorContext) {
    this.#context = context;
  }

  /** At start: whoever is to open them may not be served yet. */
  async finish(): Promise<void> {
    this.#told = null;
    await this.#open(fromNow());
  }

  /** Now and then. A creation that is under way may be finished by this. */
  async retry(): Promise<void> {
    await this.#open(0);
  }

  async #open(until: number): Promise<void> {
    const { log } = this.#context;
    try {
      const count = await openRegisteredAccounts(this.#context, until);
      this.#told = null;
      if (count > 0) log.info({ count }, 'opened accounts that were registered only');
    } catch (error) {
      const problem = messageOf(error);
      if (problem === this.#told) return;
      this.#told = problem;
      log.warn({ err: error }, 'registered accounts could not be opened; it is tried again and again');
    }
  }
}

/** Resolves with how many were opened. What cannot be is listed first again: the rest is opened all the same, and a round that gets none
 *  off the list is the last. `until`: after that each is asked for once, for a start may wait for all of them. */
export async function openRegisteredAccounts(context: OperatorContext, until = fromNow()): Promise<number> {
  let count = 0;
  for (;;) {
    let marked = 0;
    let problem: string | null = null;
    const limit = LIMITS.unopenedAccountsPerRoundMax;
    const list = () => askPlatform(context, { type: 'ListUnopenedAccounts', limit });
    const reply = await untilDecided(list, until);
    if (reply.type !== 'done') throw new Error(`registered accounts cannot be listed: ${reply.type}`);
    const { data } = JSON.parse(reply.body) as { data: readonly RegisteredAccount[] };
    for (const { id, name, country, live, payoutsEnabled, withdrawalsEnabled, operator } of data) {
      const account = { accountId: id, name, country, live, payoutsEnabled, withdrawalsEnabled, operator };
      const opened = await openAccount(context, account, until);
      if (opened.type !== 'done') {
        problem ??= `the registered account ${id} cannot be opened: ${opened.type}`;
        continue;
      }
      count++;
      if (await markOpened(context, id)) marked++;
    }
    if (marked > 0 && data.length >= limit) continue;
    if (problem !== null) throw new Error(problem);
    return count;
  }
}

/** For messages that change nothing the second time. `until`: after that each is sent once, milliseconds since 1970. */
async function untilDecided(send: () => Promise<Reply>, until = fromNow()): Promise<Reply> {
  for (;;) {
    const reply = await send();
    if (isDecided(reply) || Date.now() > until) return reply;
    await delay(LIMITS.operatorResendMs);
  }
}

function isDecided({ type }: Reply): boolean {
  return type === 'done' || type === 'rejected';
}

export interface AppSecrets {
  readonly publishableKey: string;
  readonly secretKey: string;
  readonly signingSecret: string;
}

/** With an idempotency key the publishable one is made of it, by which the account finds the app again. */
export function makeAppSecrets(accountId: string, idempotencyKey: string | null = null): AppSecrets {
  const bytes = idempotencyKey === null ? undefined : bytesOf(accountId, idempotencyKey);
  return {
    publishableKey: makeApiKey('publishable', accountId, bytes),
    secretKey: makeApiKey('secret', accountId),
    signingSecret: makeSigningSecret(),
  };
}

function bytesOf(accountId: string, idempotencyKey: string): Buffer {
  return createHash('sha256').update(`${accountId} ${idempotencyKey}`).digest();
}

export interface NewApp {
  readonly accountId: string;
  readonly name: string;
  readonly domain: string;
  readonly webhookUrl: string | null;
  readonly operator: string;
  readonly deadline: number;
}

/** The same secrets again are the same app. */
export function connectApp(context: OperatorContext, app: NewApp, secrets: AppSecrets): Promise<Reply> {
  return askAccount(context, {
    type: 'ConnectApp',
    ...app,
    publishableKey: secrets.publishableKey,
    secretKeyHash: hashApiKey(secrets.secretKey),
    signingSecretSealed: context.secrets.seal('signing-secret', secrets.signingSecret),
  });
}
