// How a front begins and ends: it says why it cannot listen; when it stops, what has reached it is answered, and no client holds it up.

import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { until } from '../until.ts';
import { createBytes, NOBODY, open, READ, readAnswer, readToEnd, startFront } from './front.ts';

t.test('what is open is answered, nothing new is let in, every connection is closed', async (t) => {
  const front = await startFront();
  front.bus.answer = () => null;
  const idle = await open(front.port);
  const idleClosed = readToEnd(idle);
  const busy = await open(front.port);
  const answered = readAnswer(busy);
  busy.write(createBytes('stopping-1'));
  await until(() => front.bus.held.length === 1);
  const stopped = front.stop();
  await t.rejects(open(front.port), { code: 'ECONNREFUSED' });
  front.bus.held[0]!({ type: 'done', body: '{"ok":1}', replayed: false });
  t.hasStrict(await answered, { status: 201, text: '{"ok":1}', headers: { connection: 'close' } });
  await stopped;
  t.equal(await idleClosed, '');
});

t.test('a client that is reading a long answer reads it to its end', async (t) => {
  const front = await startFront();
  const body = JSON.stringify({ long: 'x'.repeat(8_000_000) });
  front.bus.answer = () => ({ type: 'done', body, replayed: false });
  const reading = await open(front.port);
  const gone = await open(front.port);
  for (const socket of [reading, gone]) {
    socket.write(READ);
    await new Promise((resolve) => socket.once('readable', resolve));
  }
  let isStopped = false;
  const stopped = front.stop().then(() => (isStopped = true));
  gone.destroy();
  await t.rejects(open(front.port), { code: 'ECONNREFUSED' });
  t.equal(isStopped, false);
  const answer = await readToEnd(reading);
  t.ok(answer.endsWith(body), 'all of it, then the connection is closed');
  await stopped;
});

t.test('a client that reads a long answer for too long does not hold it up', async (t) => {
  const front = await startFront({ bounds: { frontStopPourMs: 50 } });
  const body = JSON.stringify({ long: 'x'.repeat(8_000_000) });
  front.bus.answer = () => ({ type: 'done', body, replayed: false });
  const reading = await open(front.port);
  reading.write(READ);
  await new Promise((resolve) => reading.once('readable', resolve));
  // Slowly, but on and on: else the HTTP library would let go of it.
  let taken = 0;
  const count = (bytes: Buffer | null): number => (taken += bytes?.length ?? 0);
  const reader = setInterval(() => count(reading.read()), 20);
  await front.stop();
  clearInterval(reader);
  reading.on('data', count);
  await until(() => reading.closed);
  t.ok(taken < body.length, `cut short after ${taken} bytes`);
});

t.test('what lies in a socket, not read yet, is answered', async (t) => {
  const front = await startFront();
  const socket = await open(front.port);
  const answered = readAnswer(socket);
  socket.write(createBytes('stopping-2'));
  const stopped = front.stop();
  t.hasStrict(await answered, { status: 201, text: '{"ok":true}', headers: { connection: 'close' } });
  await stopped;
});

t.test('a long answer closes its connection, as a short one does', async (t) => {
  const front = await startFront();
  front.bus.answer = () => null;
  const socket = await open(front.port);
  const answered = readAnswer(socket);
  socket.write(READ);
  await until(() => front.bus.held.length === 1);
  const stopped = front.stop();
  const body = JSON.stringify({ long: 'x'.repeat(LIMITS.answerAtOnceCharactersMax) });
  front.bus.held[0]!({ type: 'done', body, replayed: false });
  t.hasStrict(await answered, { status: 200, text: body, headers: { connection: 'close' } });
  await stopped;
});

t.test('a port that is taken, or may not be had, is an error that says so', async (t) => {
  const { createServer } = await import('../../src/http/server.ts');
  const { merchantSurface } = await import('../../src/http/routes.ts');
  const front = await startFront();
  const server = () => createServer({ surface: merchantSurface([]), bus: front.bus, observer: NOBODY });
  // One that the system has picked is not shared in any case: it is asked for by its number, by both.
  await front.stop();
  const [first, second] = [server(), server()];
  await first.listen('127.0.0.1', front.port);
  const refused = (host: string, port: number, why: RegExp) =>
    t.rejects(second.listen(host, port), {
      message: new RegExp(`cannot listen on ${host}:${port}: ${why.source};`),
    });
  await refused('127.0.0.1', front.port, /the port is taken/);
  await refused('192.0.2.1', front.port, /the address is not of this machine/);
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    if (freePortsFrom() > 80) await refused('127.0.0.1', 80, /its user may not, .*/);
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
  await Promise.all([first.stop(), second.stop()]);
});

/** Below, the system lets no ordinary user listen. */
function freePortsFrom(): number {
  const setting = '/proc/sys/net/ipv4/ip_unprivileged_port_start';
  return existsSync(setting) ? Number(readFileSync(setting, 'utf8')) : 0;
}
