// The developer's tools against the running service: every event type can be triggered, is received, checked, passed on
// unchanged, and the app's own URL is put back.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Stripe } from 'stripe';
import t from 'tap';
import { TRIGGERS } from '../../actors/webhooks/trigger.ts';
import { freePorts } from '../../deploy/free-ports.ts';
import { Receiver } from './webhooks-receiver.ts';

const root = new URL('../../', import.meta.url);

function start(
  file: string,
  args: readonly string[],
  env: Record<string, string>,
): ChildProcess & { text: string } {
  const child = Object.assign(
    spawn(process.execPath, [file, ...args], { cwd: root, env: { PATH: process.env['PATH'], ...env } }),
    { text: '' },
  );
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      child.text += chunk.toString('utf8');
    });
  }
  return child;
}

async function until(
  isReached: () => boolean,
  child: { text: string; exitCode: number | null },
): Promise<void> {
  while (!isReached()) {
    if (child.exitCode !== null) throw new Error(`ended: ${child.text}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const directory = t.testdir();
const [port, operatorPort, simulatorPort] = await freePorts(3);
const env = {
  DATA_DIR: directory,
  PORT: String(port),
  OPERATOR_PORT: String(operatorPort),
  SIMULATOR_PORT: String(simulatorPort),
  SIMULATOR_APPROVE_AFTER_MS: '20',
  WALLET_COOLING_OFF_SECONDS: '0',
  WEBHOOK_ALLOW_PRIVATE: 'true',
  PARTITIONS: '2',
  LOG_LEVEL: 'error',
};

void t.test('listen and trigger', async (t) => {
  const service = start('src/main.ts', [], env);
  t.teardown(() => service.kill('SIGKILL'));
  await until(() => existsSync(join(directory, 'demo.json')), service);
  const demo = JSON.parse(readFileSync(join(directory, 'demo.json'), 'utf8')) as Record<string, string>;
  const receiver = new Receiver(null);
  await receiver.listen();
  t.teardown(() => receiver.close());

  const forwardTo = `http://127.0.0.1:${receiver.port}/hook`;
  const listener = start('actors/webhooks/cli.ts', ['listen', '--forward-to', forwardTo], {
    DATA_DIR: directory,
  });
  t.teardown(() => listener.kill('SIGKILL'));
  await until(() => listener.text.includes('Listening'), listener);

  for (const type of Object.keys(TRIGGERS)) {
    const child = start('actors/webhooks/cli.ts', ['trigger', type], { DATA_DIR: directory });
    const [code] = (await once(child, 'close')) as [number];
    t.equal(code, 0, child.text.trim());
  }
  const typesSeen = (): Set<unknown> =>
    new Set(receiver.received.map(({ headers }) => headers['service-event-type']));
  await receiver.until(() => Object.keys(TRIGGERS).every((type) => typesSeen().has(type)));
  t.equal(typesSeen().size, Object.keys(TRIGGERS).length, 'and no other');
  const stripe = new Stripe('sk_test_unused');
  for (const { body, headers } of receiver.received) {
    stripe.webhooks.constructEvent(body, String(headers['service-signature']), demo['signing_secret']!, 300);
  }
  for (const type of Object.keys(TRIGGERS)) {
    await until(() => listener.text.includes(`  ${type}  evt_`), listener);
  }

  listener.kill('SIGINT');
  const [code] = (await once(listener, 'exit')) as [number];
  t.equal(code, 0);
  const apps = await fetch(`${demo['operator_url']}/operator/v1/accounts/${demo['account_id']}/apps`, {
    headers: { Authorization: `Bearer ${demo['operator_token']}` },
  });
  t.match(await apps.json(), { data: [{ id: demo['app_id'], webhook_url: null }] }, 'the URL is as it was');
});

void t.test('wrong usage is explained', async (t) => {
  for (const [args, says] of [
    [['trigger', 'charge.pending'], /no event type/],
    [['listen', '--wrong'], /Unknown option/],
    [['listen', '--forward-to', 'nonsense'], /not a URL/],
    [[], /trigger <event type>/],
  ] as const) {
    const child = start('actors/webhooks/cli.ts', args, { DATA_DIR: directory });
    const [code] = (await once(child, 'close')) as [number];
    t.equal(code, 2);
    t.match(child.text, says);
  }
});
