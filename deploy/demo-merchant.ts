// A merchant to try the cluster with, as `npm start` makes one: opened once over the operator API and kept in demo.json,
// with the addresses of this start. What was not written down is opened anew.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeWholeFile } from '../src/data-directory/whole-file.ts';

/** Content of demo.json. */
export interface DemoMerchant {
  readonly account_id: string;
  readonly app_id: string;
  readonly secret_key: string;
  readonly publishable_key: string;
  readonly signing_secret: string;
  readonly base_url: string;
  readonly operator_url: string;
  readonly operator_token: string;
  readonly simulator_url: string;
}

type Addresses = Pick<DemoMerchant, 'base_url' | 'operator_url' | 'operator_token' | 'simulator_url'>;
type Made = Omit<DemoMerchant, keyof Addresses>;

/** Longer than a command may take. */
const ANSWER_MS = 20_000;

/** `directory`: the cluster's, which is for its owner alone. Rejects with what the operator API refused, or where it says nothing for so
 *  long. */
export async function openDemoMerchant(
  directory: string,
  addresses: Addresses,
  answerMs = ANSWER_MS,
): Promise<DemoMerchant> {
  const path = join(directory, 'demo.json');
  const made = existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as Made)
    : await make(addresses, answerMs);
  const merchant = { ...made, ...addresses };
  writeWholeFile(path, `${JSON.stringify(merchant, null, 2)}\n`);
  return merchant;
}

async function make(addresses: Addresses, answerMs: number): Promise<Made> {
  const may = { live: true, payouts_enabled: true, withdrawals_enabled: true };
  const account = await post(addresses, '/accounts', { name: 'Demo', country: 'UG', ...may }, answerMs);
  const shop = { name: 'Demo shop', domain: 'demo.test' };
  const app = await post(addresses, `/accounts/${account['id']}/apps`, shop, answerMs);
  const { id, secret_key, publishable_key, signing_secret } = app as Record<string, string>;
  if (!account['id'] || !id || !secret_key || !publishable_key || !signing_secret) {
    throw new Error('the operator API did not say all of the new account and its app');
  }
  return { account_id: account['id'], app_id: id, secret_key, publishable_key, signing_secret };
}

async function post(
  { operator_url, operator_token }: Addresses,
  path: string,
  body: object,
  answerMs: number,
): Promise<Readonly<Record<string, string>>> {
  const response = await fetch(`${operator_url}/operator/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operator_token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(answerMs),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as Readonly<Record<string, string>>;
}
