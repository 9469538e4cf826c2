// The example configuration of nats-server: TLS, a user per role, and a front that can write to no stream.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { generate } from 'selfsigned';
import t from 'tap';
import { startNode, untilReady } from '../../deploy/cluster-processes.ts';
import type { NodeProcess } from '../../deploy/cluster-processes.ts';
import { freePorts } from '../../deploy/free-ports.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { connectNats } from '../../src/nats/connection.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { hasStream, leadElsewhere, storedMessage } from '../../src/nats/streams.ts';
import { LEASE_STREAM, LEASE_SUBJECT_PREFIX } from '../../src/nats/subjects.ts';
import { makeAccounts } from './load.ts';
import { withServers } from '../../deploy/server-path.ts';
import { needs } from '../needs.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const LEASE = `${LEASE_SUBJECT_PREFIX}lease.accounts.0`;
const directory = temporaryDirectory(t);
const passwords = {
  FRONT_PASSWORD: 'front-secret',
  // As nats.conf says: one that it would take for a number otherwise.
  LEDGER_PASSWORD: '"4e12"',
  WEBHOOKS_PASSWORD: 'webhooks-secret',
  POLLER_PASSWORD: 'poller-secret',
  OPERATOR_PASSWORD: 'operator-secret',
};
const [clientPort, monitorPort] = await freePorts(2);
const server = await startServer();
const nodes: NodeProcess[] = [];
t.teardown(async () => {
  for (const node of nodes) node.signal('SIGKILL');
  await Promise.all(nodes.map((node) => node.exited()));
  if (server.exitCode === null) {
    const exited = once(server, 'exit');
    server.kill('SIGKILL');
    // It writes to its directory until then.
    await exited;
  }
});

async function startServer(): Promise<ReturnType<typeof spawn>> {
  const { private: key, cert } = await generate([{ name: 'commonName', value: '127.0.0.1' }], {
    extensions: [
      { name: 'basicConstraints', cA: true },
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 7, ip: '127.0.0.1' },
        ],
      },
    ],
  });
  writeFileSync(join(directory, 'cert.pem'), cert);
  writeFileSync(join(directory, 'key.pem'), key, { mode: 0o600 });
  cpSync(join(import.meta.dirname, '../../deploy/nats'), directory, { recursive: true });
  // As shipped, but for the port of the monitor, which several servers on one machine cannot share.
  const file = join(directory, 'nats.conf');
  writeFileSync(file, readFileSync(file, 'utf8').replace('127.0.0.1:8222', `127.0.0.1:${monitorPort}`));
  const child = spawn('nats-server', ['-c', file], {
    stdio: 'ignore',
    env: withServers({
      ...passwords,
      SERVER_NAME: 'n1',
      CLIENT_PORT: String(clientPort),
      STORE_DIR: join(directory, 'store'),
      TLS_CERT: join(directory, 'cert.pem'),
      TLS_KEY: join(directory, 'key.pem'),
      TLS_CA: join(directory, 'cert.pem'),
      PATH: process.env['PATH'],
    }),
  });
  await waitFor('nats-server is healthy', 60_000, async () => {
    if (child.exitCode !== null) throw new Error('nats-server does not take the example configuration');
    return (await fetch(`http://127.0.0.1:${monitorPort}/healthz`).catch(() => null))?.status === 200;
  });
  return child;
}

function urlFor(role: string): string {
  const password = role === 'ledger' ? '4e12' : `${role}-secret`;
  return `tls://${role}:${password}@127.0.0.1:${clientPort}`;
}

async function as(role: string, problems: string[]): Promise<NatsLink> {
  const link = await connectNats(
    {
      url: urlFor(role),
      name: role,
      inboxPrefix: `_INBOX.${role}.test`,
      caFile: join(directory, 'cert.pem'),
    },
    { onProblem: (problem) => problems.push(problem) },
  );
  t.teardown(() => link.close());
  return link;
}

t.test('a front and a ledger with the rights of their roles serve', async (t) => {
  const settings = {
    natsUrl: '',
    directory,
    operatorToken: 'an-operator-token',
    masterKey: '5e'.repeat(32),
    environment: { PARTITIONS: '2', NATS_REPLICAS: '1', NATS_CA_FILE: join(directory, 'cert.pem') },
  };
  for (const role of ['ledger', 'front', 'webhooks', 'poller']) {
    nodes.push(await startNode(settings, `${role}1`, role, { NATS_URL: urlFor(role) }));
  }
  await untilReady(nodes);
  const front = nodes.find(({ roles }) => roles === 'front')!;
  const accounts = await makeAccounts({ ...front, operatorToken: settings.operatorToken }, 1);
  const answer = await fetch(`${front.baseUrl}/v1/balances`, {
    headers: { authorization: `Bearer ${accounts[0]!.secretKey}` },
  });
  t.equal(answer.status, 200);
  // As nodes do when a stream's leader lacks what they have: NATS says of a single server that there is nobody else.
  for (const role of ['ledger', 'webhooks']) {
    t.match(await leadElsewhere(await as(role, []), 'DAFTARI_accounts_0'), /cluster/i);
  }
  // As nodes do when the servers number its messages differently.
  for (const role of ['ledger', 'webhooks', 'poller']) {
    const { manager } = await as(role, []);
    const { created } = await manager.streams.info(LEASE_STREAM);
    t.ok(await manager.streams.delete(LEASE_STREAM));
    await waitFor('a node makes the bucket of leases anew', 60_000, async () => {
      if (!(await hasStream(manager, LEASE_STREAM))) return false;
      return (await manager.streams.info(LEASE_STREAM)).created !== created;
    });
    await waitFor('its lease is said again', 60_000, async () => {
      return (await storedMessage(manager, LEASE_STREAM, { last_by_subj: LEASE })) !== null;
    });
  }
  await untilReady(nodes);
  front.signal('SIGTERM');
  t.equal(await front.exited(), 0);
  for (const { name, logFile } of nodes) {
    t.notMatch(readFileSync(logFile, 'utf8'), /permission/i, `${name} needed nothing that it may not do`);
  }
});

t.test('a front can write to no stream', async (t) => {
  const problems: string[] = [];
  const front = await as('front', problems);
  const operator = await as('operator', []);
  const before = await operator.manager.streams.info('DAFTARI_accounts_0');
  for (const subject of [
    'daftari.log.accounts.0',
    '$KV.daftari_leases.lease.accounts.0',
    'daftari.reply.ledger.ledger1.0',
    '$JS.API.STREAM.DELETE.DAFTARI_accounts_0',
    '$JS.API.STREAM.DELETE.KV_daftari_leases',
    '$JS.API.STREAM.PURGE.DAFTARI_accounts_0',
    '$JS.API.STREAM.LEADER.STEPDOWN.DAFTARI_accounts_0',
    '$JS.API.STREAM.MSG.GET.DAFTARI_accounts_0',
  ]) {
    const count = problems.length;
    front.connection.publish(subject, '{}');
    await front.connection.flush();
    await waitFor(`${subject} is refused`, 60_000, () => problems.length > count);
  }
  const after = await operator.manager.streams.info('DAFTARI_accounts_0');
  t.equal(after.state.last_seq, before.state.last_seq);
  t.equal(problems.length, 8);
});

t.test('nor does a ledger write where a front wants its reply', async (t) => {
  const front = await as('front', []);
  const operator = await as('operator', []);
  const key = '$KV.daftari_leases.lease.accounts';
  const { data } = await operator.manager.streams.getMessage('KV_daftari_leases', {
    last_by_subj: `${key}.0`,
  });
  const { epoch } = JSON.parse(Buffer.from(data).toString()) as { epoch: number };
  const written: string[] = [];
  operator.connection.subscribe('>', {
    callback: (_, { subject }) => {
      if (subject.startsWith(`${key}.`) || subject.startsWith('daftari.log.')) written.push(subject);
    },
  });
  await operator.connection.flush();
  const subject = `daftari.cmd.accounts.0.${epoch}`;
  for (const reply of [`${key}.1`, 'daftari.log.accounts.1']) {
    front.connection.publish(subject, '1 1 {}\n', { reply });
  }
  const own = 'daftari.reply.front.test.session';
  let answered = 0;
  front.connection.subscribe(`${own}.*`, { callback: () => answered++ });
  front.connection.publish(subject, '1 1 {}\n', { reply: `${own}.1` });
  await waitFor('what came after them is answered', 20_000, () => answered === 1);
  await operator.connection.flush();
  t.strictSame(written, []);
});

t.test('nor can a poller write a log, nor webhooks the log of the accounts', async (t) => {
  for (const role of ['poller', 'webhooks']) {
    const problems: string[] = [];
    const link = await as(role, problems);
    link.connection.publish('daftari.log.accounts.0', '{}');
    await link.connection.flush();
    await waitFor(`${role} is refused`, 60_000, () => problems.length > 0);
    link.connection.publish('daftari.log.accounts.0', '{}');
    link.connection.publish('daftari.log.accounts.1', '{}');
    await waitFor('the next one is refused', 60_000, () => problems.length > 1);
    t.strictSame(
      problems,
      [0, 1].map(
        (partition) => `permission: NATS does not let this user publish to daftari.log.accounts.${partition}`,
      ),
      'each is told once',
    );
  }
});

t.test(
  'a node with several roles has the rights of all with the user of people, and of none with that of one',
  async (t) => {
    const settings = {
      natsUrl: urlFor('ledger'),
      directory,
      operatorToken: 'an-operator-token',
      masterKey: '5e'.repeat(32),
      environment: { PARTITIONS: '2', NATS_REPLICAS: '1', NATS_CA_FILE: join(directory, 'cert.pem') },
    };
    const roles = 'ledger,webhooks';
    const refused = await startNode(settings, 'both1', roles);
    nodes.push(refused);
    const lines = (): string[] =>
      readFileSync(refused.logFile, 'utf8')
        .split('\n')
        .filter((line) => line.includes('permission: NATS'));
    await waitFor('it says what it may not do', 60_000, () => lines().length > 0);
    t.match(lines()[0], /does not let this user subscribe to _INBOX\.ledger_webhooks\.both1\./);
    const both = await startNode(settings, 'both2', roles, { NATS_URL: urlFor('operator') });
    nodes.push(both);
    await untilReady([both]);
    t.equal(lines().length, 1, 'once');
  },
);

t.test('without a password nobody is let in', async (t) => {
  await t.rejects(
    connectNats({
      url: `tls://127.0.0.1:${clientPort}`,
      name: 'nobody',
      inboxPrefix: '_INBOX.nobody',
      caFile: join(directory, 'cert.pem'),
    }),
    /Authorization Violation/i,
  );
});

t.test('a certificate that is none is told at once', async (t) => {
  const refused = connectNats({
    url: urlFor('ledger'),
    name: 'ledger1',
    inboxPrefix: '_INBOX.ledger',
    caFile: join(directory, 'cert.pem'),
    certFile: import.meta.filename,
    keyFile: join(directory, 'key.pem'),
  });
  await t.rejects(refused, {
    name: 'CannotConnect',
    message: /: NATS_CA_FILE, NATS_CERT_FILE or NATS_KEY_FILE is not a certificate or key/,
  });
});
