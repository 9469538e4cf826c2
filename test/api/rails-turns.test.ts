// A rail takes only so many calls at once, and all accounts share it: who has thousands waiting for it waits behind their own,
// and nobody else behind them. The whole service, with a real adapter and a provider that answers when the test lets it.
import { writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { bodyOf, openMerchant, type Merchant } from './merchants.ts';
import { mtnRoute } from './mtn-route.ts';
import { startService } from './start.ts';

const AT_ONCE = 2;
/** What the provider was asked, in that order: a merchant's reference, of a submit; and what it has not answered. */
const asked: string[] = [];
const unanswered: ServerResponse[] = [];

const provider = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (text: string) => (body += text));
  request.on('end', () => {
    if (request.url!.includes('/token')) {
      response.end(JSON.stringify({ access_token: 'granted', expires_in: 3_600 }));
    } else if (request.method === 'POST') {
      asked.push((JSON.parse(body) as { payerMessage: string }).payerMessage);
      unanswered.push(response);
    } else response.end(JSON.stringify({ status: 'PENDING' }));
  });
});
await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));

const directory = t.testdir({ key: 'secret' });
const route = {
  ...mtnRoute(`http://127.0.0.1:${(provider.address() as AddressInfo).port}`, { file: 'key' }),
  max_concurrency: AT_ONCE,
  answer_ms: 60_000,
};
const railsFile = join(directory, 'rails.json');
writeFileSync(railsFile, JSON.stringify({ routes: [route] }));
const service = await startService({ RAILS: railsFile, PROVIDER_ANSWER_WAIT_MS: '100' });
t.teardown(() => {
  // First: the service would wait for its answers.
  provider.closeAllConnections();
  provider.close();
  return service.stop();
});

/** Charges whose references begin with `name`. */
async function charge(merchant: Merchant, name: string, count: number): Promise<void> {
  const created = Array.from({ length: count }, async (_, i) => {
    const { status } = await merchant.post('/v1/charges', bodyOf({ reference: `${name}-${i}` }));
    if (status !== 201) throw new Error(`${name}: ${status}`);
  });
  await Promise.all(created);
}

t.test('a charge does not wait behind the thousands of another merchant', async (t) => {
  const [many, one] = [await openMerchant(service), await openMerchant(service)];
  await charge(many, 'many', 50);
  await charge(one, 'one', 1);
  await service.until(
    () => asked.length,
    (count) => count === AT_ONCE,
  );
  t.notOk(asked.includes('one-0'), 'it waits for an answer to another');
  unanswered.shift()!.writeHead(202).end();
  unanswered.shift()!.writeHead(202).end();
  await service.until(
    () => asked.length,
    (count) => count === 2 * AT_ONCE,
  );
  t.ok(asked.includes('one-0'), asked.join(' '));
});
