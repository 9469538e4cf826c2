// Kills the service under load at random moments, starts it again, and checks every request that was ever sent: what was
// acknowledged exists exactly once and its replay is byte for byte the first answer; what was not may be sent again and
// then exists exactly once; in the end all money is where the transactions say, and the trial balance is zero.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from '../../deploy/wait-for.ts';
import { severalAtOnce } from '../../src/several-at-once.ts';
import { answerTo, get, type ServiceProcess, startProcess } from './service-process.ts';
import { randomFrom } from '../seed.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

export interface CyclesOptions {
  readonly cycles: number;
  readonly seed: number;
  readonly onProgress: (line: string) => void;
}

export interface CyclesReport {
  readonly kills: number;
  readonly sent: number;
  readonly acknowledged: number;
  /** Sent, and no answer came before the kill. */
  readonly unanswered: number;
  /** One line each; empty when all is well. */
  readonly faults: readonly string[];
}

interface Sent {
  readonly key: string;
  readonly path: string;
  readonly body: string;
  /** The first 201 as text; null: none came yet. */
  answer: string | null;
  /** It came before the kill. */
  acknowledged: boolean;
}

const CONNECTIONS = 16;
const KILL_AFTER_MS_MAX = 600;
const SETTLE_MS = 90_000;

export async function runCycles(options: CyclesOptions): Promise<CyclesReport> {
  const random = randomFrom(options.seed);
  const dataDir = mkdtempSync(join(tmpdir(), 'daftari-crash-'));
  const all: Sent[] = [];
  const faults: string[] = [];
  try {
    for (let cycle = 1; cycle <= options.cycles; cycle++) {
      const service = await startProcess(dataDir);
      if (cycle === 1) await fund(service);
      const fresh = await loadUntilKilled(service, random, cycle);
      all.push(...fresh);
      const again = await startProcess(dataDir);
      await severalAtOnce(CONNECTIONS, fresh, (sent) => checkOne(again, sent, faults));
      // Every other time the service is killed while it recovers pending work, too.
      await again.end(random() < 0.5 ? 'SIGKILL' : 'SIGTERM');
      const answered = all.filter(({ acknowledged }) => acknowledged).length;
      options.onProgress(`cycle ${cycle}/${options.cycles}: ${all.length} sent, ${answered} acknowledged`);
    }
    const last = await startProcess(dataDir);
    await severalAtOnce(CONNECTIONS, all, (sent) => checkOne(last, sent, faults));
    await checkMoney(last, all.length, faults);
    const status = await last.end('SIGTERM');
    if (status !== 0) faults.push(`a graceful stop ended with status ${status}`);
  } finally {
    await removeDirectory(dataDir);
  }
  return {
    kills: options.cycles,
    sent: all.length,
    acknowledged: all.filter(({ acknowledged }) => acknowledged).length,
    unanswered: all.filter(({ acknowledged }) => !acknowledged).length,
    faults,
  };
}

// --- Load ---------------------------------------------------------------------------------------------------------------

async function fund(service: ServiceProcess): Promise<void> {
  for (let i = 0; i < 4; i++) {
    const body = JSON.stringify({ ...wallet('01'), amount: '5000000', reference: `fund-${i}` });
    const { id } = JSON.parse((await answerTo(service, '/v1/deposits', `fund-key-${i}`, body)).text);
    await waitFor(
      'a deposit succeeds',
      SETTLE_MS,
      async () => (await read(service, `/v1/deposits/${id}`)).status === 'SUCCESSFUL',
    );
  }
}

async function loadUntilKilled(
  service: ServiceProcess,
  random: () => number,
  cycle: number,
): Promise<Sent[]> {
  const fresh: Sent[] = [];
  let killed = false;
  const one = async (connection: number): Promise<void> => {
    for (let n = 0; !killed; n++) {
      const sent = requestOf(random, `c${cycle}-${connection}-${n}`);
      fresh.push(sent);
      try {
        const { status, text } = await answerTo(service, sent.path, sent.key, sent.body);
        if (status !== 201) continue;
        sent.answer = text;
        sent.acknowledged = true;
      } catch {
        // The process was killed: nobody knows, until it is asked again.
        return;
      }
    }
  };
  const connections = Array.from({ length: CONNECTIONS }, (_, connection) => one(connection));
  // Killed before anything was acknowledged each time, as on a slow machine, it would have nothing to keep.
  if (cycle === 1) {
    const acknowledged = (): number => fresh.filter((sent) => sent.acknowledged).length;
    await waitFor('creates are acknowledged', SETTLE_MS, async () => acknowledged() > CONNECTIONS);
  }
  await new Promise((resolve) => setTimeout(resolve, 20 + random() * KILL_AFTER_MS_MAX));
  await service.end('SIGKILL');
  killed = true;
  await Promise.all(connections);
  return fresh;
}

/** Numbers that approve, decline, stay silent, settle at once, call back thrice, or lose the answer. */
const ENDINGS = ['01', '02', '51', '55', '65', '66', '68', '71', '72'];

function wallet(ending: string): { currency: string; msisdn: string } {
  return { currency: 'UGX', msisdn: `+2567720000${ending}` };
}

function requestOf(random: () => number, name: string): Sent {
  const ending = ENDINGS[Math.floor(random() * ENDINGS.length)]!;
  const kind = random();
  let path = '/v1/charges';
  if (kind >= 0.6) path = kind < 0.8 ? '/v1/payouts' : '/v1/deposits';
  const amount = String(500 + Math.floor(random() * 1_000));
  return {
    key: `crash-${name}`,
    path,
    body: JSON.stringify({ ...wallet(ending), amount, reference: name }),
    answer: null,
    acknowledged: false,
  };
}

// --- Checks -------------------------------------------------------------------------------------------------------------

async function checkOne(service: ServiceProcess, sent: Sent, faults: string[]): Promise<void> {
  const { status, text, replayed } = await answerTo(service, sent.path, sent.key, sent.body);
  if (status !== 201) {
    faults.push(`${sent.key}: ${sent.acknowledged ? 'acknowledged' : 'unanswered'}, now ${status} ${text}`);
    return;
  }
  if (sent.answer !== null && (!replayed || text !== sent.answer)) {
    faults.push(`${sent.key}: its replay differs\n  first ${sent.answer}\n  now   ${text}`);
  }
  sent.answer = text;
  const { id, reference } = JSON.parse(text);
  const object = await read(service, `${sent.path}/${id}`);
  if (object.id !== id) faults.push(`${sent.key}: ${id} is not there`);
  const { data } = await read(service, `/v1/transactions?reference=${reference}`);
  if (data.length !== 1 || data[0].id !== id) faults.push(`${sent.key}: exists ${data.length} times`);
}

/** Balances are what the transactions add up to, once nothing but the silent numbers is in flight. */
async function checkMoney(service: ServiceProcess, sent: number, faults: string[]): Promise<void> {
  const listed = await settled(service);
  const expected = { pending: 0, available: 0 };
  for (const { type, status, amount, net } of listed) {
    if (type === 'CHARGE' && status === 'SUCCESSFUL') expected.pending += Number(net);
    else if (type === 'DEPOSIT' && status === 'SUCCESSFUL') expected.available += Number(amount);
    else if (type === 'PAYOUT' && status === 'SUCCESSFUL') expected.available -= Number(net);
  }
  const held = await holds(service, listed);
  const [row] = (await read(service, '/v1/balances')).data;
  if (Number(row.pending) !== expected.pending || Number(row.available) !== expected.available - held) {
    faults.push(
      `balances ${JSON.stringify(row)}, transactions add up to ${JSON.stringify(expected)} less ${held}`,
    );
  }
  const { account_id: account, operator_url: url, operator_token: token } = service.demo;
  const response = await fetch(`${url}/operator/v1/accounts/${account}/trial_balance`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const trial: any = await response.json();
  for (const { currency, sum } of trial.data) {
    if (sum !== '0') faults.push(`the trial balance of ${currency} is ${sum}`);
  }
  const funding = 4;
  if (listed.length !== sent + funding) {
    faults.push(`${listed.length} transactions for ${sent + funding} requests`);
  }
}

async function settled(service: ServiceProcess): Promise<any[]> {
  let listed: any[] = [];
  await waitFor('only silent numbers are in flight', SETTLE_MS, async () => {
    listed = await listAll(service);
    const moving = listed.filter(
      ({ status }) => status === 'PENDING_PROVIDER' || status === 'AWAITING_CUSTOMER',
    );
    return moving.every(({ msisdn_masked }) => msisdn_masked.endsWith('065'));
  });
  return listed;
}

async function listAll(service: ServiceProcess): Promise<any[]> {
  const listed: any[] = [];
  for (let cursor = ''; ;) {
    const page = await read(service, `/v1/transactions?limit=100${cursor}`);
    listed.push(...page.data);
    if (!page.has_more) return listed;
    cursor = `&starting_after=${page.next_cursor}`;
  }
}

/** What payouts still in flight hold, fee included: read from their ledgers. */
async function holds(service: ServiceProcess, listed: readonly any[]): Promise<number> {
  let held = 0;
  for (const { id, type, status } of listed) {
    if (type !== 'PAYOUT' || status === 'SUCCESSFUL' || status === 'FAILED') continue;
    const { ledger } = await read(service, `/v1/transactions/${id}`);
    held += Number(ledger.find(({ account }: any) => account === 'SETTLEMENT_CLEARING').amount);
  }
  return held;
}

// --- Calls --------------------------------------------------------------------------------------------------------------

async function read(service: ServiceProcess, path: string): Promise<any> {
  return (await get(service, path)).json();
}
