// The demo account of a standalone service: made once, found again at every start, whatever interrupted the making.
//
// Its ids and keys are written down (demo.json.new) before anything is created with them; every step may be repeated with
// the same ones; demo.json is there only when all of it is true. Both files are for the owner alone.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Reply } from '../bus/bus.ts';
import { connectApp, createAccount, makeAppSecrets } from './account-actions.ts';
import type { AppSecrets } from './account-actions.ts';
import { askAccount, freshId, fromNow } from './context.ts';
import type { OperatorContext } from './context.ts';
import { namingNow } from '../../wal/thrown.ts';

/** Content of demo.json. */
export interface Demo {
  readonly account_id: string;
  readonly app_id: string;
  readonly secret_key: string;
  readonly publishable_key: string;
  readonly signing_secret: string;
  readonly base_url: string;
  readonly operator_url: string;
  readonly operator_token: string;
  /** Null: the money does not move through the simulator. */
  readonly simulator_url: string | null;
}

export interface DemoUrls {
  readonly baseUrl: string;
  readonly operatorUrl: string;
  readonly simulatorUrl: string | null;
}

/** What is decided before anything is made. */
interface Plan extends AppSecrets {
  readonly accountId: string;
}

/** What is read back of each. */
const DEMO_FIELDS = ['account_id', 'app_id', 'secret_key', 'publishable_key', 'signing_secret'] as const;
const PLAN_FIELDS = ['accountId', 'secretKey', 'publishableKey', 'signingSecret'] as const;

const OPERATOR = 'demo';
const OWNERS = ['owner@demo.test', 'second-owner@demo.test'];

/** It could not be made, or found. */
class NoDemo extends Error {
  override readonly name = 'NoDemo';
}

/** At start: as `ensureDemo`. Null: there is none, since changes are refused, as on a disk that is short, or somebody changed what was
 *  half made. That keeps nothing else from being served. */
export async function offerDemo(
  context: OperatorContext,
  dataDir: string,
  urls: DemoUrls,
): Promise<Demo | null> {
  try {
    return await ensureDemo(context, dataDir, urls);
  } catch (error) {
    if (!(error instanceof NoDemo)) throw error;
    context.log.warn({ err: error }, 'there is no demo account; the next start tries again');
    return null;
  }
}

/** Makes or finds the demo account, and writes demo.json with today's addresses. */
export async function ensureDemo(context: OperatorContext, dataDir: string, urls: DemoUrls): Promise<Demo> {
  const path = join(dataDir, 'demo.json');
  const known = readJson<Demo>(path, DEMO_FIELDS);
  const made = known !== null && (await exists(context, known)) ? known : await make(context, `${path}.new`);
  const demo: Demo = {
    account_id: made.account_id,
    app_id: made.app_id,
    secret_key: made.secret_key,
    publishable_key: made.publishable_key,
    signing_secret: made.signing_secret,
    base_url: urls.baseUrl,
    operator_url: urls.operatorUrl,
    operator_token: context.token,
    simulator_url: urls.simulatorUrl,
  };
  writeJson(path, demo);
  rmSync(`${path}.new`, { force: true });
  return demo;
}

/** A command that works when pasted. */
export function demoCurl(demo: Pick<Demo, 'base_url' | 'secret_key'>): string {
  const body = {
    amount: '5000',
    currency: 'UGX',
    msisdn: '+256772000001',
    reference: 'order-1',
  };
  return [
    `curl -sS ${demo.base_url}/v1/charges`,
    `-H 'Authorization: Bearer ${demo.secret_key}'`,
    `-H "Idempotency-Key: demo-$(date +%s)"`,
    `-H 'Content-Type: application/json'`,
    `-d '${JSON.stringify(body)}'`,
  ].join(' ');
}

/** False: the data directory was emptied, and demo.json is of another life of it. */
async function exists(context: OperatorContext, demo: Demo): Promise<boolean> {
  const reply = await askAccount(context, { type: 'GetAccount', accountId: demo.account_id });
  if (reply.type === 'rejected') return false;
  const { apps } = JSON.parse(bodyOf(reply, 'found')) as {
    apps: readonly { id: string; removed_at: string | null }[];
  };
  return apps.some((app) => app.id === demo.app_id && app.removed_at === null);
}

async function make(
  context: OperatorContext,
  planPath: string,
): Promise<Pick<Demo, 'account_id' | 'app_id' | 'secret_key' | 'publishable_key' | 'signing_secret'>> {
  const plan = readJson<Plan>(planPath, PLAN_FIELDS) ?? newPlan();
  writeJson(planPath, plan);
  const { accountId, secretKey, publishableKey, signingSecret } = plan;
  const may = { live: true, payoutsEnabled: true, withdrawalsEnabled: true };
  const account = { accountId, name: 'Demo', country: 'UG', ...may, operator: OPERATOR } as const;
  bodyOf(await createAccount(context, account, fromNow()), 'opened');
  for (const email of OWNERS) {
    const owner = { accountId, email, role: 'OWNER', operator: OPERATOR, deadline: fromNow() } as const;
    bodyOf(await askAccount(context, { type: 'AddUser', ...owner }), 'given an owner');
  }
  const shop = { name: 'Demo shop', domain: 'demo.test', webhookUrl: null };
  const app = { accountId, ...shop, operator: OPERATOR, deadline: fromNow() };
  const connected = JSON.parse(bodyOf(await connectApp(context, app, plan), 'given an app')) as {
    id: string;
  };
  return {
    account_id: accountId,
    app_id: connected.id,
    secret_key: secretKey,
    publishable_key: publishableKey,
    signing_secret: signingSecret,
  };
}

function newPlan(): Plan {
  const accountId = freshId('account');
  return { accountId, ...makeAppSecrets(accountId) };
}

function bodyOf(reply: Reply, step: string): string {
  if (reply.type === 'done') return reply.body;
  const reason = reply.type === 'rejected' ? reply.rejection.code : reply.type;
  throw new NoDemo(`the demo account could not be ${step}: ${reason}`);
}

/** Null when there is none, or what is there is not whole. */
function readJson<Content>(path: string, fields: readonly (keyof Content)[]): Content | null {
  try {
    const content = JSON.parse(readFileSync(path, 'utf8')) as Content | null;
    return fields.every((name) => typeof content?.[name] === 'string') ? content : null;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function writeJson(path: string, content: object): void {
  const draft = `${path}.draft`;
  rmSync(draft, { force: true });
  const text = `${JSON.stringify(content, null, 2)}\n`;
  namingNow(draft, () => writeFileSync(draft, text, { mode: 0o600, flush: true }));
  renameSync(draft, path);
}
