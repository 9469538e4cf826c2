// What the service promises about every call, whatever it is: nothing secret leaves it or lies about in its files, log lines
// name their request, a stop loses nothing that was answered, and what was refused was not created.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { bodyOf, numberOf, openMerchant } from './merchants.ts';
import { startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

function bytesOf(directory: string): Buffer {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return Buffer.concat(files.map(({ parentPath, name }) => readFileSync(join(parentPath, name))));
}

t.test('keys and signing secrets are in no file and no log line; full numbers in no log line', async (t) => {
  const dataDir = temporaryDirectory(t);
  const lines: string[] = [];
  const environment = { LOG_LEVEL: 'trace', DEMO: 'true', WALLET_COOLING_OFF_SECONDS: '1' };
  const service = await startService(environment, dataDir, (line) => lines.push(line));
  const merchant = await openMerchant(service);
  const { body: app } = await merchant.operator('/apps', { name: 'A', domain: 'a.test' });
  await merchant.fund('1000000');
  const destination = await merchant.wallet();
  for (const digits of ['01', '51', '57', '65', '68', '74', '99']) {
    await merchant.post('/v1/charges', bodyOf({ msisdn: numberOf('UGX', digits) }), { key: app.secret_key });
    await merchant.post('/v1/payouts', bodyOf({ msisdn: numberOf('UGX', digits) }));
  }
  await merchant.post('/v1/withdrawals', { amount: '1000', currency: 'UGX', destination, reference: 'w' });
  // Numbers in wrong places and forms are numbers all the same.
  const wrong = await Promise.all([
    merchant.post('/v1/charges', bodyOf({ msisdn: '+2567720000011' })),
    merchant.post('/v1/charges', bodyOf({ amount: '+256772000001' })),
    merchant.post('/v1/charges', bodyOf({ reference: '+256772000001' })),
    merchant.post('/v1/charges', bodyOf({ currency: '+256772000001' })),
    merchant.get('/v1/charges?status=256772000001'),
    merchant.get('/v1/charges/256772000001'),
  ]);
  await service.stop();

  for (const { status, text } of wrong) {
    t.ok(status >= 400);
    t.notMatch(text, '772000001', 'not told again');
  }
  t.ok(lines.length > 20, `${lines.length} lines`);
  const secrets = [merchant.key, app.secret_key, app.signing_secret, service.demo.operator_token];
  for (const line of lines) {
    for (const secret of secrets) t.notOk(line.includes(secret), 'a secret in a log line');
    // The id of a request may look like a number by chance.
    t.notMatch(
      line.replaceAll(/req_\w{26}/g, ''),
      /772000\d{3}|whsec_\w|sk_live_\w/,
      'a number or a secret in a log line',
    );
  }
  const bytes = bytesOf(dataDir);
  for (const secret of [merchant.key, app.secret_key, app.signing_secret]) {
    t.equal(bytes.indexOf(secret), -1, 'a secret on disk');
    t.equal(bytes.indexOf(secret.slice(-32)), -1, 'its random part on disk');
  }
  t.not(bytes.indexOf(merchant.accountId), -1, 'the files do hold the account');
});

t.test('log lines of a request have its Request-Id', async (t) => {
  const lines: string[] = [];
  const service = await startService({ LOG_LEVEL: 'debug' }, null, (line) => lines.push(line));
  const ids: string[] = [];
  for (const path of ['/v1/balances', '/v1/charges?limit=0', '/v1/nothing']) {
    ids.push((await service.merchant('GET', path)).headers.get('request-id')!);
  }
  await service.stop();
  const told = new Set(lines.map((line) => JSON.parse(line).request_id));
  for (const id of ids) t.ok(told.has(id), id);
});

t.test(
  'a stop under load: what was answered 201 is there afterwards, once, and nothing else but what was cut off',
  async (t) => {
    const dataDir = temporaryDirectory(t);
    let service = await startService({}, dataDir);
    const created = new Map<string, string>();
    const refused: string[] = [];
    let cutOff = 0;
    let stopped = false;
    const work = async (worker: number): Promise<void> => {
      for (let i = 0; !stopped; i++) {
        const reference = `load-${worker}-${i}`;
        const body = bodyOf({ reference, msisdn: numberOf('UGX', '65') });
        try {
          const { status, body: charge } = await service.merchant('POST', '/v1/charges', { body });
          if (status === 201) created.set(charge.id, reference);
          else refused.push(reference);
        } catch (error) {
          // The connection was closed: nobody promised anything.
          if (!(error instanceof TypeError)) throw error;
          cutOff++;
        }
      }
    };
    const workers = Array.from({ length: 16 }, (_, i) => work(i));
    await service.until(
      async () => created.size,
      (size) => size > 200,
    );
    await service.stop();
    stopped = true;
    await Promise.all(workers);

    service = await startService({}, dataDir);
    const found = new Map<string, string>();
    let cursor = '';
    do {
      const { body } = await service.merchant('GET', `/v1/charges?limit=100${cursor}`);
      for (const { id, reference } of body.data) found.set(id, reference);
      cursor = body.next_cursor === null ? '' : `&starting_after=${body.next_cursor}`;
    } while (cursor !== '');
    await service.stop();
    for (const [id, reference] of created) t.equal(found.get(id), reference, `${id} is there`);
    t.ok(
      found.size <= created.size + cutOff,
      `${found.size} found, ${created.size} created, ${cutOff} cut off`,
    );
    const references = new Set(found.values());
    for (const reference of refused) t.notOk(references.has(reference), 'refused is not created');
    t.equal(references.size, found.size, 'each once');
  },
);

t.test('everything is under /v1, and says so', async (t) => {
  const service = await startService();
  t.teardown(() => service.stop());
  for (const path of ['/charges', '/v2/charges', '/V1/charges', '/v1/charges/', '/v1', '/', '/v1/refunds']) {
    const { status, body } = await service.merchant('GET', path);
    t.strictSame([status, body.error.code], [404, 'not_found'], path);
  }
  for (const [method, path, allow] of [
    ['DELETE', '/v1/charges', 'GET, HEAD, POST'],
    ['PATCH', '/v1/charges/chg_01KAJ3W8Q07M4R2N9X5T6V1B00', 'GET, HEAD'],
    ['POST', '/v1/balances', 'GET, HEAD'],
    ['GET', '/v1/deposits', 'POST'],
  ] as const) {
    const { status, body, headers } = await service.merchant(method, path);
    t.strictSame([status, body.error.code], [405, 'method_not_allowed'], `${method} ${path}`);
    t.strictSame(new Set(headers.get('allow')?.split(', ')), new Set(allow.split(', ')));
  }
});
