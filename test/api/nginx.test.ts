// deploy/nginx/daftari.conf as it stands, but for ports and paths: what merchants are told through it is what Daftari says,
// and what Daftari does not say nobody says in its place.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { RequestListener, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { Test } from 'tap';
import { Agent, fetch } from 'undici';
import { freePort } from '../../deploy/free-ports.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { withServers } from '../../deploy/server-path.ts';
import { needs } from '../needs.ts';
import { startService } from './start.ts';
import { makeCertificate } from './webhooks-receiver.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nginx', 'nginx-light');

const CHARGE = { currency: 'UGX', amount: '5000', reference: 'order-1', msisdn: '256772000001' };

interface Proxy {
  readonly url: string;
  readonly agent: Agent;
  /** Who calls from this address. */
  readonly agentAt: (localAddress: string) => Agent;
  /** Of its logs, where nothing says otherwise. */
  readonly logged: () => string;
}

/** nginx with the example before these servers. */
async function startNginx(
  t: Test,
  upstreams: readonly string[],
  limits: [string, string][] = [],
): Promise<Proxy> {
  const directory = temporaryDirectory(t);
  const { key, cert } = await makeCertificate();
  writeFileSync(join(directory, 'cert.pem'), cert);
  writeFileSync(join(directory, 'key.pem'), key);
  const port = await freePort();
  const replaced: [string, string][] = [
    ['server 127.0.0.1:8080 max_fails=0;', upstreams.map((at) => `server ${at} max_fails=0;`).join('\n')],
    ['listen 443 ', `listen 127.0.0.1:${port} `],
    ['/etc/ssl/daftari/fullchain.pem', join(directory, 'cert.pem')],
    ['/etc/ssl/daftari/privkey.pem', join(directory, 'key.pem')],
    ...limits,
  ];
  let example = readFileSync(join(import.meta.dirname, '../../deploy/nginx/daftari.conf'), 'utf8');
  for (const [there, here] of replaced) {
    t.ok(example.includes(there), `the example has: ${there}`);
    example = example.replace(there, here);
  }
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => {
    mkdirSync(join(directory, kind));
    return `${kind}_temp_path ${join(directory, kind)};`;
  });
  const configuration = join(directory, 'nginx.conf');
  writeFileSync(
    configuration,
    `daemon off; master_process off; pid ${join(directory, 'pid')}; error_log ${join(directory, 'error.log')};
events { worker_connections 256; }
http {
access_log ${join(directory, 'access.log')};
${temporary.join('\n')}
${example}
}
`,
  );
  const nginx = spawn('nginx', ['-p', directory, '-c', configuration], {
    stdio: 'ignore',
    env: withServers(),
  });
  const exited = once(nginx, 'exit');
  const agents: Agent[] = [];
  const agentAt = (localAddress: string): Agent => {
    const made = new Agent({ localAddress, connect: { ca: cert, servername: 'localhost' } });
    agents.push(made);
    return made;
  };
  const agent = agentAt('127.0.0.1');
  t.teardown(async () => {
    await Promise.all(agents.map((made) => made.destroy()));
    nginx.kill();
    await exited;
  });
  const url = `https://127.0.0.1:${port}`;
  await waitFor('nginx listens', 20_000, async () => {
    if (nginx.exitCode !== null) throw new Error(readFileSync(join(directory, 'error.log'), 'utf8'));
    return fetch(url, { dispatcher: agent }).then(
      () => true,
      () => false,
    );
  });
  const logs = ['access.log', 'error.log'].map((file) => join(directory, file));
  return { url, agent, agentAt, logged: () => logs.map((file) => readFileSync(file, 'utf8')).join('') };
}

/** A server that gets requests whole and closes the connection in place of an answer. */
async function startSilent(t: Test): Promise<{ readonly at: string; readonly got: string[] }> {
  const got: string[] = [];
  const at = await startServer(t, (request) => {
    request.resume().on('end', () => {
      if (request.url !== '/') got.push(`${request.method} ${request.url}`);
      request.socket.destroy();
    });
  });
  return { at, got };
}

/** Resolves with its address and port. */
async function startServer(t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function create({ url, agent }: Proxy, key: string, body: string) {
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'idempotency-key': crypto.randomUUID(),
  };
  return fetch(`${url}/v1/charges`, { method: 'POST', headers, body, dispatcher: agent });
}

t.test('what Daftari says passes as it is', async (t) => {
  const service = await startService();
  t.teardown(() => service.stop());
  const { secret_key: key, base_url } = service.demo;
  const nginx = await startNginx(t, [new URL(base_url).host]);

  const created = await create(nginx, key, JSON.stringify(CHARGE));
  t.equal(created.status, 201);
  t.match(created.headers.get('request-id'), /^req_/);
  const charge = (await created.json()) as { readonly id: string };
  const read = await fetch(`${nginx.url}/v1/charges/${charge.id}`, {
    headers: { authorization: `Bearer ${key}` },
    dispatcher: nginx.agent,
  });
  t.hasStrict(await read.json(), { id: charge.id, amount: '5000' });

  for (const [body, status, code] of [
    ['{', 400, 'invalid_json'],
    [JSON.stringify({ ...CHARGE, amount: '05' }), 400, 'validation_failed'],
    [' '.repeat(900_000), 413, 'body_too_large'],
  ] as const) {
    const refused = await create(nginx, key, body);
    t.equal(refused.status, status);
    t.hasStrict(await refused.json(), { error: { code } });
  }
});

t.test('a create without an answer gets none, and is sent once', async (t) => {
  const one = await startSilent(t);
  const other = await startSilent(t);
  const nginx = await startNginx(t, [one.at, other.at]);
  await t.rejects(create(nginx, 'sk_live_x', JSON.stringify(CHARGE)), { cause: { code: 'UND_ERR_SOCKET' } });
  t.strictSame([...one.got, ...other.got], ['POST /v1/charges']);
});

t.test(
  'one address leaves others their place: beyond its own it gets 503, and nothing is passed on',
  async (t) => {
    const held: ServerResponse[] = [];
    const at = await startServer(t, (request, response) => {
      if (request.url === '/held') held.push(response);
      else response.end('{}');
    });
    const nginx = await startNginx(
      t,
      [at],
      [
        ['limit_conn daftari_at_once 1024;', 'limit_conn daftari_at_once 2;'],
        ['rate=500r/s', 'rate=1r/m'],
        ['burst=1000', 'burst=3'],
      ],
    );
    const posted = (dispatcher: Agent, path: string) =>
      fetch(nginx.url + path, { method: 'POST', body: '{}', dispatcher });
    const refused = async (dispatcher: Agent, path: string): Promise<void> => {
      const answer = await posted(dispatcher, path);
      const { error } = (await answer.json()) as { readonly error: { readonly request_id: string } };
      t.strictSame([answer.status, answer.headers.get('retry-after')], [503, '1']);
      const request_id = answer.headers.get('request-id');
      t.hasStrict(error, { code: 'service_unavailable', param: null, request_id });
    };
    const [greedy, other] = [nginx.agentAt('127.0.0.2'), nginx.agentAt('127.0.0.3')];
    const atOnce = [posted(greedy, '/held'), posted(greedy, '/held')];
    await waitFor('both are passed on', 20_000, async () => held.length === 2);
    await refused(greedy, '/held');
    t.equal((await posted(other, '/')).status, 200);
    for (const response of held.splice(0)) response.end('{}');
    for (const answered of atOnce) t.equal((await answered).status, 200);

    while ((await posted(other, '/')).status === 200) t.pass('within the burst');
    await refused(other, '/');
    t.equal((await posted(nginx.agentAt('127.0.0.4'), '/')).status, 200);
  },
);

t.test('what anybody may call, providers or not, has a bound of its own for each address', async (t) => {
  const got: string[] = [];
  const at = await startServer(t, (request, response) => {
    got.push(request.url ?? '');
    response.end('{}');
  });
  const nginx = await startNginx(
    t,
    [at],
    [
      ['rate=2000r/s', 'rate=1r/m'],
      ['burst=4000', 'burst=3'],
    ],
  );
  const path = '/callbacks/mtn_ug/a-token';
  const called = (dispatcher: Agent): Promise<number | null> =>
    fetch(nginx.url + path, { method: 'POST', body: '{}', dispatcher }).then(
      ({ status }) => status,
      () => null,
    );
  const [greedy, other] = [nginx.agentAt('127.0.0.2'), nginx.agentAt('127.0.0.3')];
  const answers: (number | null)[] = [];
  while (answers.length < 6) answers.push(await called(greedy));
  t.strictSame(answers, [200, 200, 200, 200, null, null], 'beyond it the connection closes');
  t.equal(got.filter((url) => url === path).length, 4, 'and nothing is passed on');
  t.equal(await called(other), 200);
  const asMerchant = await fetch(`${nginx.url}/v1/balances`, { dispatcher: nginx.agentAt('127.0.0.2') });
  t.equal(asMerchant.status, 200);
  t.notMatch(nginx.logged(), /callbacks/);
});

t.test('a read without an answer is tried at each server, then it is 503', async (t) => {
  const one = await startSilent(t);
  const other = await startSilent(t);
  const nginx = await startNginx(t, [one.at, other.at]);
  const read = await fetch(`${nginx.url}/v1/balances`, { dispatcher: nginx.agent });
  t.equal(read.status, 503);
  t.equal(read.headers.get('retry-after'), '1');
  const { error } = (await read.json()) as { readonly error: { readonly request_id: string } };
  t.hasStrict(error, { code: 'service_unavailable', param: null });
  t.equal(error.request_id, read.headers.get('request-id'));
  t.strictSame([...one.got, ...other.got], ['GET /v1/balances', 'GET /v1/balances']);
});

t.test('where no server listens a create gets no answer either', async (t) => {
  const nginx = await startNginx(t, [`127.0.0.1:${await freePort()}`]);
  await t.rejects(create(nginx, 'sk_live_x', JSON.stringify(CHARGE)), { cause: { code: 'UND_ERR_SOCKET' } });
});

t.test('what providers call is in no log, whatever becomes of it', async (t) => {
  const service = await startService();
  t.teardown(() => service.stop());
  const silent = await startSilent(t);
  const path = '/callbacks/airtel_ug/portal/a-secret';
  const called = async ({ url, agent }: Proxy, body: string): Promise<number | null> => {
    const answered = fetch(url + path, { method: 'POST', body, dispatcher: agent });
    return answered.then(
      ({ status }) => status,
      () => null,
    );
  };
  for (const [at, statuses] of [
    [new URL(service.demo.base_url).host, [404, 413]],
    [silent.at, [null, 413]],
    [`127.0.0.1:${await freePort()}`, [null, 413]],
  ] as const) {
    const nginx = await startNginx(t, [at]);
    const bodies = ['{}', ' '.repeat(2_000_000)];
    t.strictSame([await called(nginx, bodies[0]!), await called(nginx, bodies[1]!)], statuses);
    await fetch(`${nginx.url}/openapi.json`, { method: 'POST', dispatcher: nginx.agent }).catch(() => null);
    await waitFor('nginx has logged', 20_000, async () => nginx.logged().includes('/openapi.json'));
    t.notMatch(nginx.logged(), /callbacks|a-secret/);
  }
  t.strictSame(silent.got, [`POST ${path}`, 'POST /openapi.json'], 'it is passed on once');
});
