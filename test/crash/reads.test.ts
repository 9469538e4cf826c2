// Whatever the state of everything, it is read byte for byte as it was: from memory before kill -9, from the views after it, and
// from views that are made anew from the log. So are the answers of creates that come again.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { answerTo, get, post, type ServiceProcess, startProcess } from './service-process.ts';
import { randomFrom, seedOf } from '../seed.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const SEED = seedOf(t);

const SETTINGS = {
  PARTITIONS: '1',
  CHARGE_EXPIRY_SECONDS: '3',
  CHARGE_RELEASE_SECONDS: '1',
  WALLET_COOLING_OFF_SECONDS: '0',
  PROVIDER_ANSWER_WAIT_MS: '200',
};
const CREATES = 90;
const SETTLE_MS = 60_000;
const NUMBERS = { UGX: '+2567720000', KES: '+2547330000', GHS: '+2332640000' } as const;
/** Approve, decline, stay silent, settle at once, are refused outright, are taken back. */
const ENDINGS = ['01', '02', '51', '57', '58', '64', '65', '66', '68', '70', '71', '72', '73', '75'];
const REFERENCES = ['r1', 'r2', '.', 'A'.repeat(128)];
const TEXTS = [undefined, null, '', 'plain', 'q"\\\n\u0000\u007f\u2028é😀', 'x'.repeat(100)];
const METADATA = [
  undefined,
  null,
  {},
  { b: 1.5e-7, '1': -0, '': null, a: true, 'ü\u2028"\\': 'e\u0301😀', g: 1e21 },
  Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, 'v'.repeat(512)])),
];
const COLLECTIONS = { CHARGE: 'charges', PAYOUT: 'payouts', DEPOSIT: 'deposits', WITHDRAWAL: 'withdrawals' };
const TRANSACTIONS = '/v1/transactions?limit=3';
const LISTS = [
  '/v1/transactions?limit=1',
  '/v1/transactions?limit=7',
  `${TRANSACTIONS}&type=CHARGE`,
  `${TRANSACTIONS}&type=WITHDRAWAL`,
  `${TRANSACTIONS}&status=FAILED`,
  `${TRANSACTIONS}&status=REVERSED`,
  `${TRANSACTIONS}&status=PENDING_PROVIDER`,
  `${TRANSACTIONS}&approval_status=PENDING`,
  `${TRANSACTIONS}&approval_status=REJECTED`,
  `${TRANSACTIONS}&reference=r1`,
  `${TRANSACTIONS}&currency=KES&type=PAYOUT`,
  '/v1/charges?limit=9',
  '/v1/charges?limit=2&reference=r2',
  '/v1/payouts?limit=9&country=UG',
];

const random = randomFrom(SEED);
function pick<T>(items: readonly T[]): T {
  return items[Math.floor(random() * items.length)]!;
}

interface Sent {
  readonly path: string;
  readonly key: string;
  readonly body: string;
  readonly answer: string;
}

const directory = temporaryDirectory(t);
let service: ServiceProcess;
t.teardown(async () => {
  await service.end('SIGKILL');
});

async function operator(method: string, path: string, body: object | null = null): Promise<string> {
  const { operator_url: url, operator_token: token } = service.demo;
  const response = await fetch(`${url}/operator/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === null ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${text}`);
  return text;
}

async function read(path: string): Promise<string> {
  const response = await get(service, path);
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${text}`);
  return text;
}

/** The texts of all pages, and what is on them. */
async function pages(list: string): Promise<{ texts: string[]; rows: any[] }> {
  const texts: string[] = [];
  const rows: any[] = [];
  for (let cursor: string | null = null; ;) {
    const text = await read(cursor === null ? list : `${list}&starting_after=${cursor}`);
    const page = JSON.parse(text);
    texts.push(text);
    rows.push(...page.data);
    cursor = page.next_cursor;
    if (cursor === null) return { texts, rows };
  }
}

function createOf(number: number, wallets: readonly string[]): Omit<Sent, 'answer'> {
  const kind = pick(['charges', 'charges', 'deposits', 'payouts', 'withdrawals']);
  const isOut = kind === 'payouts' || kind === 'withdrawals';
  const currency = kind === 'withdrawals' ? 'UGX' : pick(['UGX', 'KES', 'GHS'] as const);
  const target =
    kind === 'withdrawals' ? { destination: pick(wallets) } : { msisdn: NUMBERS[currency] + pick(ENDINGS) };
  const body = JSON.stringify({
    amount: pick(['1000', '1001', '2999', '3000', '3001', '99950']),
    currency,
    ...target,
    reference: pick(REFERENCES),
    [isOut ? 'narration' : 'description']: pick(TEXTS),
    metadata: pick(METADATA),
  });
  return { path: `/v1/${kind}`, key: `reads-key-${number}`, body };
}

/** Everything that a merchant and an operator can read of the account, by where it is read. */
async function everything(): Promise<Map<string, string>> {
  const seen = new Map<string, string>();
  for (const list of LISTS) seen.set(list, (await pages(list)).texts.join('\n'));
  const { rows } = await pages('/v1/transactions?limit=50');
  for (const { id, type } of rows) {
    const object = `/v1/${COLLECTIONS[type as 'CHARGE']}/${id}`;
    const paths = [`/v1/transactions/${id}`, object, ...(type === 'CHARGE' ? [`${object}/timeline`] : [])];
    for (const path of paths) seen.set(path, await read(path));
  }
  for (const path of ['/v1/balances', '/v1/payout_destinations']) seen.set(path, await read(path));
  const account = `/accounts/${service.demo.account_id}`;
  for (const path of [account, `${account}/trial_balance`, '/reconciliation?limit=100']) {
    seen.set(path, await operator('GET', path));
  }
  return seen;
}

t.test('everything, and every answer', { timeout: 300_000 }, async (t) => {
  service = await startProcess(directory, SETTINGS);
  const account = `/accounts/${service.demo.account_id}`;
  const users: string[] = [];
  for (const role of ['OWNER', 'ADMIN']) {
    const user = await operator('POST', `${account}/users`, { email: `${role}@reads.test`, role });
    users.push(JSON.parse(user).id);
  }
  await operator('PATCH', account, { approval_thresholds: { UGX: '3000' } });
  const wallets: string[] = [];
  for (const ending of ['01', '51', '65']) {
    const wallet = { label: ending, msisdn: NUMBERS.UGX + ending, by: users[1] };
    const { id } = JSON.parse(await operator('POST', `${account}/wallets`, wallet));
    await operator('POST', `${account}/wallets/${id}/approve`, { by: users[0] });
    wallets.push(id);
  }
  for (const [currency, number] of Object.entries(NUMBERS)) {
    const deposit = { amount: '5000000', currency, msisdn: `${number}01`, reference: 'float', by: users[0] };
    await operator('POST', `${account}/deposits`, deposit);
  }
  await waitFor('there is money', SETTLE_MS, async () => {
    const { data } = JSON.parse(await read('/v1/balances'));
    return data.length === 3 && data.every(({ available }: any) => available === '5000000');
  });
  await waitFor(
    'wallets are active',
    SETTLE_MS,
    async () => !(await read('/v1/payout_destinations')).includes('COOLING_OFF'),
  );

  const sent: Sent[] = [];
  let number = 0;
  const createSome = async (): Promise<void> => {
    while (number < CREATES) {
      const create = createOf(number++, wallets);
      const response = await post(service, create.path, create.key, create.body);
      const answer = await response.text();
      if (response.status !== 201) throw new Error(`${create.body}: ${answer}`);
      sent.push({ ...create, answer });
      const { id, approval_status: approval } = JSON.parse(answer);
      const verb = pick(['approve', 'reject', null]);
      if (approval === 'PENDING' && verb !== null) {
        await operator('POST', `${account}/withdrawals/${id}/${verb}`, { by: pick(users) });
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, createSome));
  await waitFor('nothing moves any more', SETTLE_MS, async () => {
    const { rows } = await pages('/v1/transactions?limit=100');
    const { data } = JSON.parse(await read('/v1/balances'));
    const moves = ({ type, status, msisdn_masked: msisdn }: any): boolean =>
      type === 'CHARGE' || type === 'DEPOSIT'
        ? status === 'AWAITING_CUSTOMER' ||
          status === 'PENDING_PROVIDER' ||
          (type === 'CHARGE' && status === 'SUCCESSFUL' && msisdn.endsWith('070'))
        : status === 'PENDING_PROVIDER' && !/0(?:65|73)$/.test(msisdn);
    // What was taken back of a deposit is an item for operators.
    const items = await operator('GET', '/reconciliation?limit=100');
    const isTold = ({ id, type, status, msisdn_masked: msisdn }: any): boolean =>
      type !== 'DEPOSIT' || status !== 'SUCCESSFUL' || !msisdn.endsWith('070') || items.includes(id);
    return !rows.some(moves) && rows.every(isTold) && data.every(({ pending }: any) => pending === '0');
  });

  const before = await everything();
  t.ok(before.size > 2 * CREATES, `${before.size} reads`);
  const compare = async (when: string): Promise<void> => {
    const after = await everything();
    t.strictSame([...after.keys()], [...before.keys()], `${when}: nothing more, and nothing less`);
    for (const [path, text] of before) if (after.get(path) !== text) t.equal(after.get(path), text, path);
    for (const { path, key, body, answer } of sent) {
      const { status, replayed, text } = await answerTo(service, path, key, body);
      if (status === 201 && replayed && text === answer) continue;
      t.strictSame([status, replayed, text], [201, true, answer], key);
    }
  };
  await compare('a while later');
  await service.end('SIGKILL');
  service = await startProcess(directory, SETTINGS);
  await compare('after kill -9');
  await service.end('SIGKILL');
  rmSync(join(directory, 'views'), { recursive: true });
  service = await startProcess(directory, SETTINGS);
  await compare('from the log alone');
});
