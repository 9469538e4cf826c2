// A provider that takes a payment back says so once, in a callback, and may answer nobody for a while: the service that was told is
// killed, and finds out when it is there again.
import { join } from 'node:path';
import t from 'tap';
import { startExternal } from '../api/rails-external.ts';
import { until } from '../until.ts';
import { get, post, type ServiceProcess, startProcess } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

interface Item {
  readonly transaction_id: string | null;
  readonly resolved_at: string | null;
}

async function itemsAbout(id: string, { demo }: ServiceProcess): Promise<Item[]> {
  const response = await fetch(`${demo.operator_url}/operator/v1/reconciliation`, {
    headers: { authorization: `Bearer ${demo.operator_token}` },
  });
  const { data } = (await response.json()) as { data: Item[] };
  return data.filter(({ transaction_id: about }) => about === id);
}

async function statusOf(id: string, service: ServiceProcess): Promise<string> {
  const { status } = (await (await get(service, `/v1/charges/${id}`)).json()) as { status: string };
  return status;
}

t.test('a payment taken back is heard of although whoever was told of it was killed', async (t) => {
  const directory = temporaryDirectory(t);
  const external = await startExternal(join(directory, 'external'));
  t.teardown(() => external.simulator.close());
  const start = () => startProcess(join(directory, 'data'), { RAILS: external.railsFile });
  let service = await start();
  t.teardown(() => service.end('SIGKILL'));
  const charge = { amount: '5000', currency: 'UGX', msisdn: '256772000100', reference: 'order-1' };
  const created = await post(service, '/v1/charges', 'callback-1', JSON.stringify(charge));
  const { id } = (await created.json()) as { id: string };
  await until(
    () => statusOf(id, service),
    (status) => status === 'SUCCESSFUL',
  );

  await external.control('POST', '/simulator/answers', { on: 'enquiry', hang: true, times: 1_000 });
  const [payment] = await external.payments();
  await external.control('POST', `/simulator/transactions/${payment!.number}/reverse`);
  const [item] = await until(
    () => itemsAbout(id, service),
    (items) => items.length > 0,
  );
  t.equal(item!.resolved_at, null, 'operators see that it waits for its provider');
  await service.end('SIGKILL');
  await external.control('DELETE', '/simulator/forced');

  service = await start();
  await until(
    () => statusOf(id, service),
    (status) => status === 'REVERSED',
  );
  const [resolved] = await until(
    () => itemsAbout(id, service),
    (items) => items.every(({ resolved_at: at }) => at !== null),
  );
  t.not(resolved!.resolved_at, null);
});
