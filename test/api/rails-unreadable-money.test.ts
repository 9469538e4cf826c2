// Money that a provider says it moved, in a form that nobody can read: nothing is moved here, operators are told, and a payout is
// settled with the command of deploy/README.md. The whole service, and between it and the simulator a gateway that spoils answers.
import { equal } from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { startExternal } from './rails-external.ts';
import { startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const runbook = readFileSync(join(import.meta.dirname, '../../deploy/README.md'), 'utf8');

const external = await startExternal(temporaryDirectory(t), { speed: 20 });
t.teardown(() => external.simulator.close());
const gateway = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const { method = 'GET', url = '/' } = request;
    const headers = request.headers as Record<string, string>;
    delete headers['content-length'];
    const body = method === 'GET' ? null : Buffer.concat(chunks);
    void fetch(external.simulator.url + url, { method, headers, body }).then(async (answer) => {
      const text = await answer.text();
      response.writeHead(answer.status, { 'content-type': 'application/json' });
      // Airtel's alone has one.
      response.end(text.replace(/("transaction":\{[^}]*)\}/, '$1,"currency":" "}'));
    });
  });
});
await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
t.teardown(() => gateway.close());
const spoiled = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
const routes = readFileSync(external.railsFile, 'utf8').replaceAll(external.simulator.url, spoiled);
writeFileSync(external.railsFile, routes);
const service = await startService({ RAILS: external.railsFile });
t.teardown(() => service.stop());
const { operator_url, operator_token, account_id } = service.demo;

async function create(what: string, body: object): Promise<string> {
  const { status, body: made } = await service.merchant('POST', `/v1/${what}`, { body });
  equal(status, 201);
  return made.id as string;
}

async function mismatchOf(id: string): Promise<string> {
  const { body } = await service.until(
    () => service.operator('GET', '/operator/v1/reconciliation?open=true'),
    ({ body: { data } }) => data.length > 0,
  );
  const detail = /of nothing, or of money that cannot be read/;
  t.match(body.data, [{ transaction_id: id, kind: 'AMOUNT_MISMATCH', detail }]);
  return body.data[0].id as string;
}

const skip = spawnSync('curl', ['--version']).status === 0 ? false : 'curl is not here';

t.test('a payout stays open, and is settled by one command of the runbook', { skip }, async (t) => {
  const funds = { amount: '10000', currency: 'UGX', msisdn: '+256772000001', reference: 'funds' };
  const funding = await create('deposits', funds);
  await service.until(
    () => service.merchant('GET', `/v1/deposits/${funding}`),
    ({ body: { status } }) => status === 'SUCCESSFUL',
  );
  const id = await create('payouts', { ...funds, amount: '3000', msisdn: '+256702000001' });
  const item = await mismatchOf(id);
  t.hasStrict((await service.merchant('GET', `/v1/payouts/${id}`)).body, { status: 'PENDING_PROVIDER' });

  const command = /^curl [^\n]*transactions\/pyt_…\/settle [^\n]*$/m.exec(runbook)?.[0];
  t.ok(command, 'the runbook has it');
  const OP = `${operator_url}/operator/v1`;
  const { stdout } = await promisify(execFile)(
    'bash',
    ['-c', command!.replace('acc_…', account_id).replace('pyt_…', id)],
    { env: { ...process.env, OP, TOKEN: `Authorization: Bearer ${operator_token}` } },
  );
  t.strictSame(JSON.parse(stdout), { id, object: 'payout', status: 'SUCCESSFUL' });
  t.hasStrict((await service.merchant('GET', `/v1/payouts/${id}`)).body, { status: 'SUCCESSFUL' });
  const { body: detail } = await service.merchant('GET', `/v1/transactions/${id}`);
  t.hasStrict(detail.events.at(-1), { status: 'SUCCESSFUL', source: 'DASHBOARD' });
  const { body: sums } = await service.operator('GET', `/operator/v1/accounts/${account_id}/trial_balance`);
  const ugx = sums.data.find(({ currency }: { currency: string }) => currency === 'UGX');
  t.hasStrict(ugx, { sum: '0', accounts: { SETTLEMENT_CLEARING: '0' } });

  const resolved = await service.operator('POST', `/operator/v1/reconciliation/${item}/resolve`, {
    account_id,
    resolution: 'Settled as Airtel said.',
  });
  t.equal(resolved.status, 200);
});
