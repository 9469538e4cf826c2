// SIGKILL between every two steps on the way from the ledger's log to the merchant: every final status arrives at least
// once, and no event changes its id or a byte of its body.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { makeCertificate, Receiver } from '../api/webhooks-receiver.ts';
import type { CrashTask } from './webhooks-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const CHARGES = 6;
const certificate = await makeCertificate();

const STEPS = [
  'GetWebhookObject before',
  'GetWebhookObject after',
  'TakeEvents before',
  'TakeEvents after',
  'send before',
  'send after',
  'RecordAttempt before',
  'RecordAttempt after',
] as const;

for (const step of STEPS) {
  void t.test(`killed at: ${step}`, async (t) => {
    const receiver = new Receiver(certificate);
    await receiver.listen();
    t.teardown(() => receiver.close());
    // Every second request fails, so that retries are among what is interrupted.
    receiver.answer = (_request, response) =>
      response.writeHead(receiver.received.length % 2 === 0 ? 500 : 200).end();
    const url = `https://localhost:${receiver.port}/hook`;
    const task = { directory: temporaryDirectory(t), ca: certificate.cert, url, charges: CHARGES, step };
    // Further along each time; the last life is left to finish.
    let killed = 0;
    for (const at of [1, 2, 4]) if ((await live({ ...task, at })) === 'killed') killed++;
    t.equal(await live({ ...task, step: null, at: 0 }), 'done');
    t.ok(killed > 0, `killed ${killed} times`);
    const bodies = new Map<string, Set<string>>();
    const idsOf = new Map<string, Set<string>>();
    for (const { headers, body } of receiver.received) {
      const id = String(headers['service-event-id']);
      const event = JSON.parse(body.toString('utf8')) as { id: string; data: { object: { id: string } } };
      t.equal(event.id, id);
      add(bodies, id, body.toString('utf8'));
      add(idsOf, event.data.object.id, id);
    }
    t.equal(idsOf.size, CHARGES, 'every transaction was heard of');
    t.ok(
      Array.from(idsOf.values()).every((ids) => ids.size === 1),
      'under one event id each',
    );
    t.ok(
      Array.from(bodies.values()).every((texts) => texts.size === 1),
      'with the same bytes each time',
    );
    t.comment(`${receiver.received.length} requests for ${CHARGES} events`);
  });
}

/** One life of the service: until it kills itself, or is done and killed by us. */
async function live(task: CrashTask): Promise<'killed' | 'done'> {
  const child = fork(new URL('./webhooks-process.ts', import.meta.url), { execArgv: [] });
  const exited = once(child, 'exit');
  let end: 'killed' | 'done' = 'killed';
  child.once('message', () => {
    end = 'done';
    child.kill('SIGKILL');
  });
  child.send(task);
  const [, signal] = (await exited) as [number | null, string | null];
  if (signal !== 'SIGKILL') throw new Error('the service ended by itself');
  return end;
}

function add(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set.add(value));
}
