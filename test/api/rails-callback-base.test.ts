// CALLBACK_BASE_URL: providers are told that address, wherever this process itself listens. What stands there, a proxy for instance,
// hands on what it hears. What the file of routes says of callbacks goes before it.
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { LoadedRails } from '../../src/rails/loaded-rails.ts';
import { loadRails } from '../../src/rails/routes.ts';
import { systemClock } from '../../src/rails/system-clock.ts';
import { mtnRoute } from './mtn-route.ts';
import { startExternal } from './rails-external.ts';
import { transactionOf } from './rails-setup.ts';
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

t.test('a file of routes: its own address goes before that, and a route may have none', async (t) => {
  const asked: unknown[] = [];
  const provider = createServer((request, response) => {
    if (request.url?.includes('token') === true) {
      response.end('{"access_token":"t","expires_in":3600}');
      return;
    }
    asked.push(request.headers['x-callback-url']);
    response.writeHead(202).end();
  });
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    provider.closeAllConnections();
    provider.close();
  });
  const baseUrl = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const key = { env: 'KEY' };
  const railsOf = (file: object): Promise<LoadedRails> => {
    const path = join(t.testdir({}), 'rails.json');
    writeFileSync(path, JSON.stringify(file));
    return loadRails({
      config: { type: 'file', path },
      environment: { KEY: 'a-secret-of-a-route' },
      openSealed: null,
      callbackKey: Buffer.alloc(32, 7),
      callbackHost: '127.0.0.1',
      approveAfterMs: 0,
      onHint: () => {},
      clock: systemClock,
    });
  };
  const airtel = {
    id: 'airtel_ug',
    country: 'UG',
    network: 'AIRTEL',
    adapter: 'airtel',
    base_url: baseUrl,
    client_id: 'a',
    client_secret: key,
    collection_api: 'v1',
    callback: { secret: key },
  };
  const mtn = mtnRoute(baseUrl, key);
  for (const [file, told] of [
    [{ routes: [mtn] }, /^https:\/\/given\.example\/callbacks\/mtn_ug\//],
    [
      { callback_base_url: 'https://own.example/in', routes: [mtn, airtel] },
      /^https:\/\/own\.example\/in\/callbacks\/mtn_ug\//,
    ],
    [{ routes: [{ ...mtn, callbacks: false }] }, undefined],
  ] as const) {
    const loaded = await railsOf(file);
    t.teardown(() => loaded.close());
    await loaded.setCallbackBase('https://given.example');
    t.equal((await loaded.rails.get('mtn_ug')?.submit(transactionOf()))?.type, 'accepted');
    t.match([asked.at(-1)], [told]);
    // Nobody could tell a right hash from a wrong one.
    t.ok(loaded.isCallbackPlausible('airtel_ug', '{"transaction":{"id":"A1"},"hash":"AAAA"}'));
  }
});
