// CALLBACK_BASE_URL: providers are told that address, wherever this process itself listens. What stands there, a proxy for instance,
// hands on what it hears.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { startExternal } from './rails-external.ts';
import { type Running, startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

interface Proxy {
  /** For CALLBACK_BASE_URL. */
  readonly baseUrl: string;
  /** Paths of the callbacks that came here. */
  readonly heard: readonly string[];
  /** Where they are handed on to. */
  handOnTo(baseUrl: string): void;
}

/** Below `/in` of an address that the service does not listen on. */
async function startProxy(t: Test, host: string): Promise<Proxy> {
  const heard: string[] = [];
  let target = '';
  const server = createServer((request, response) => {
    const { method = '', url: path = '' } = request;
    heard.push(path);
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      void fetch(target + path.replace(/^\/in/, ''), { method, body }).then(({ status }) => {
        response.statusCode = status;
        response.end();
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://${host}:${port}/in`,
    heard,
    handOnTo: (baseUrl) => {
      target = baseUrl;
    },
  };
}

async function isPaid(service: Running, msisdn: string): Promise<string> {
  const body = { amount: '1000', currency: 'UGX', msisdn, reference: 'order-1' };
  const { body: created } = await service.merchant('POST', '/v1/charges', { body });
  const { body: charge } = await service.until(
    () => service.merchant('GET', `/v1/charges/${created.id}`),
    ({ body: { status } }) => ['SUCCESSFUL', 'FAILED'].includes(status),
  );
  return charge.failure_code ?? charge.status;
}

t.test('a process that serves alone, with a file of routes', async (t) => {
  const external = await startExternal(temporaryDirectory(t));
  t.teardown(() => external.simulator.close());
  const proxy = await startProxy(t, '127.0.0.1');
  const service = await startService({ RAILS: external.railsFile, CALLBACK_BASE_URL: proxy.baseUrl });
  t.teardown(() => service.stop());
  proxy.handOnTo(service.demo.base_url);
  t.equal(await isPaid(service, '256770000100'), 'SUCCESSFUL');
  t.match(proxy.heard, [/^\/in\/callbacks\/mtn_ug\//]);
});

t.test('its host is the one that is registered with the simulator', async (t) => {
  const proxy = await startProxy(t, '127.0.0.2');
  const service = await startService({ RAILS: 'simulator', CALLBACK_BASE_URL: proxy.baseUrl });
  t.teardown(() => service.stop());
  proxy.handOnTo(service.demo.base_url);
  t.equal(await isPaid(service, '256770000100'), 'SUCCESSFUL');
  t.equal(await isPaid(service, '256700000100'), 'SUCCESSFUL');
  t.match(proxy.heard, [/^\/in\/callbacks\/mtn_ug\//, /^\/in\/callbacks\/airtel_ug\/portal\//]);
});
