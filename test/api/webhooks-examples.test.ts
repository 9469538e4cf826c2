// The README's verification examples, as they stand there, against real deliveries: a genuine one is taken, and one with a
// changed body, another secret or an old time is refused, and any while there is no secret; whoever breaks off or holds the line is
// in nobody's way. A language that is not on the machine is skipped and said so.

import { spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import type { Test } from 'tap';
import { freePort } from '../../deploy/free-ports.ts';
import { Sender } from '../../actors/webhooks/sender.ts';
import type { SendRequest } from '../../actors/webhooks/sender.ts';
import { LIMITS } from '../../src/limits.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const readme = readFileSync(new URL('../../actors/webhooks/README.md', import.meta.url), 'utf8');

interface Language {
  readonly name: string;
  readonly fence: string;
  readonly file: string;
  /** Tells that the language is there. */
  readonly probe: readonly [string, ...string[]];
  readonly run: (file: string, port: number) => readonly [string, ...string[]];
}

const LANGUAGES: readonly Language[] = [
  { name: 'TypeScript', fence: 'ts', file: 'webhook.ts', probe: [process.execPath, '--version'], run: (file) => [process.execPath, file] },
  { name: 'Python', fence: 'python', file: 'webhook.py', probe: ['python3', '--version'], run: (file) => ['python3', file] },
  { name: 'PHP', fence: 'php', file: 'webhook.php', probe: ['php', '--version'], run: (file, port) => ['php', '-S', `127.0.0.1:${port}`, file] },
  { name: 'Go', fence: 'go', file: 'webhook.go', probe: ['go', 'version'], run: (file) => ['go', 'run', file] },
  { name: 'Java', fence: 'java', file: 'Webhook.java', probe: ['java', '--version'], run: (file) => ['java', file] },
]; // prettier-ignore

const SECRET = 'whsec_of_the_examples';
const BODY = JSON.stringify({
  id: 'evt_1',
  object: 'event',
  type: 'charge.successful',
  note: 'Ebirango ßüñ 🥑',
});

const HALF = 'POST /hook HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{';

for (const language of LANGUAGES) {
  const { name, probe } = language;
  const found = spawnSync(probe[0], probe.slice(1)).status === 0;
  const options = { skip: found ? false : `no ${probe[0]} on this machine` } as const;

  void t.test(`${name} takes nothing while it has no secret`, options, async (t) => {
    const { child, port } = await start(t, language, '');
    const sender = new Sender({ guard: { allowPrivate: true, ports: [] }, clock: Date.now });
    t.teardown(() => sender.close());
    // It ends, or takes nothing.
    await listening(child, port);
    const { statusCode } = await sender.send(deliveryTo(port, ''));
    t.ok(statusCode === null || statusCode >= 400, `status ${statusCode}`);
  });

  void t.test(`${name} takes genuine deliveries only`, options, async (t) => {
    const { child, port } = await start(t, language, SECRET);
    await listening(child, port);
    let now = Date.now();
    let changed = false;
    const sender = new Sender({ guard: { allowPrivate: true, ports: [] }, clock: () => now });
    t.teardown(() => sender.close());
    const deliver = (signingSecret: string, to = port) => sender.send(deliveryTo(to, signingSecret));
    t.hasStrict(await deliver(SECRET), { error: null, statusCode: 200 });
    t.hasStrict(await deliver(SECRET.replace('whsec_', '')), { statusCode: 400 }, 'another secret');
    now -= 301_000;
    t.hasStrict(await deliver(SECRET), { statusCode: 400 }, 'too old');
    now = Date.now() + 400_000;
    t.hasStrict(await deliver(SECRET), { statusCode: 400 }, 'from the future');
    now = Date.now();
    const [held, broken] = [await connected(port), await connected(port)];
    t.teardown(() => held.destroy());
    held.write(HALF);
    broken.end(HALF);
    await once(broken.resume(), 'close');
    t.hasStrict(await deliver(SECRET), { error: null, statusCode: 200 }, 'it goes on');
    t.equal(await takenWhileStopped(child.pid!, port), LIMITS.webhookEndpointInFlightMax, 'come at once');
    // On its way the body is changed by one byte.
    const proxy = net.createServer((from) => {
      const to = net.connect(port, '127.0.0.1');
      from.on('data', (chunk: Buffer) => {
        const text = chunk.toString('latin1');
        changed ||= text.includes('successful","note');
        to.write(Buffer.from(text.replace('successful","note', 'successfuL","note'), 'latin1'));
      });
      to.pipe(from);
    });
    await new Promise<void>((resolve) => {
      proxy.listen(0, '127.0.0.1', resolve);
    });
    t.hasStrict(
      await deliver(SECRET, (proxy.address() as net.AddressInfo).port),
      { statusCode: 400 },
      'changed',
    );
    t.ok(changed);
    sender.close();
    proxy.close();
  });
}

interface Running {
  readonly child: ChildProcess;
  readonly port: number;
}

/** As it stands in the README. */
async function start(t: Test, { fence, file, run }: Language, secret: string): Promise<Running> {
  const code = new RegExp(`^\`\`\`${fence}\\n(.*?)^\`\`\`$`, 'ms').exec(readme)?.[1];
  t.ok(code, 'is in the README');
  const directory = temporaryDirectory(t);
  const path = join(directory, file);
  writeFileSync(path, code ?? '');
  const port = await freePort();
  const [command, ...args] = run(path, port);
  const env = {
    ...process.env,
    PORT: String(port),
    WEBHOOK_SECRET: secret,
    GOCACHE: join(directory, 'cache'),
  };
  const child = spawn(command, args, { env, detached: true, stdio: 'ignore' });
  // The group: `go run` starts a program of its own.
  t.teardown(() => child.exitCode === null && process.kill(-child.pid!, 'SIGKILL'));
  return { child, port };
}

function deliveryTo(port: number, signingSecret: string): SendRequest {
  return {
    url: `http://127.0.0.1:${port}/hook`,
    eventId: 'evt_1',
    eventType: 'charge.successful',
    body: BODY,
    signingSecret,
  };
}

/** As many connections as deliveries go out at once, of which it accepts none for a moment: how many it has room for. One for
 *  which there is none is tried again by the system, after a second. */
async function takenWhileStopped(pid: number, port: number): Promise<number> {
  process.kill(-pid, 'SIGSTOP');
  const sockets = Array.from({ length: LIMITS.webhookEndpointInFlightMax }, () =>
    net.connect(port, '127.0.0.1'),
  );
  let taken = 0;
  const all = sockets.map(async (socket) => {
    await once(socket, 'connect');
    taken++;
  });
  await Promise.race([Promise.all(all), delay(ROOM_MS)]);
  // Those that the system has connected by now are told of in this turn, however late it is.
  await new Promise((resolve) => setImmediate(resolve));
  const takenSoon = taken;
  process.kill(-pid, 'SIGCONT');
  await Promise.all(all);
  for (const socket of sockets) socket.destroy();
  return takenSoon;
}

/** Longer than it takes to connect where there is room, and no time to wait for the system's next try. */
const ROOM_MS = 900;

async function connected(port: number): Promise<net.Socket> {
  const socket = net.connect(port, '127.0.0.1');
  // However it is closed.
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

/** Or has ended. */
async function listening(child: ChildProcess, port: number): Promise<void> {
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    const isUp = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
    });
    socket.destroy();
    if (isUp || child.exitCode !== null) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
