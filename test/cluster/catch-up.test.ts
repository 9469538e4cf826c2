// A node that is behind in many streams reads all of them over its one connection, and keeps it: what it owns stands on it.
import type { Msg, SubscriptionOptions } from 'nats';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { batchesAfter } from '../../src/nats/log/stream-batches.ts';
import type { NatsLink } from '../../src/nats/connection.ts';
import { StreamReader } from '../../src/nats/stream-reader.ts';
import { logStream, logSubject } from '../../src/nats/subjects.ts';
import { Semaphore } from '../../src/nats/semaphore.ts';
import { startNatsServers } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { needs } from '../needs.ts';
import { emptyTip, tipAt } from '../../wal/batch.ts';
import { batchAfter, link, longer, partitionMaker, tellOnce } from './adapters.ts';

needs('nats-server');

const STREAMS = 32;
const MESSAGES = 80;
/** A full batch of the log has some hundred records. */
const MESSAGE = new Uint8Array(32 * 1024);

t.test('the server never keeps more for it than a connection may have', async (t) => {
  // All of it is seven times that.
  const servers = await startNatsServers({ configuration: 'max_pending: 12MB' });
  t.teardown(() => servers.stop());
  const writer = await link(servers.url, 'writer');
  t.teardown(() => writer.close());
  for (let s = 0; s < STREAMS; s++) {
    await writer.manager.streams.add({ name: `s${s}`, subjects: [`s.${s}`] });
    for (let m = 0; m < MESSAGES; m++) writer.connection.publish(`s.${s}`, MESSAGE);
    await writer.connection.flush();
  }
  for (let s = 0; s < STREAMS; s++) {
    await waitFor('all is written', 30_000, async () => {
      return (await writer.manager.streams.info(`s${s}`)).state.messages === MESSAGES;
    });
  }

  const problems: string[] = [];
  const reader = await link(servers.url, 'reader', { onProblem: (problem) => problems.push(problem) });
  t.teardown(() => reader.close());
  const read = Array.from({ length: STREAMS }, () => 0);
  const readers = read.map(
    (_, s) =>
      new StreamReader({
        link: reader,
        stream: `s${s}`,
        from: 1,
        onMessage({ sequence }) {
          if (sequence !== read[s]! + 1) t.fail(`s${s}: ${sequence} after ${read[s]}`);
          read[s] = sequence;
          // As long as a batch takes to be taken over.
          for (const until = performance.now() + 0.3; performance.now() < until;);
        },
        onError: (error) => t.fail(error.message),
      }),
  );
  await waitFor('all is read', 60_000, () => read.every((count) => count === MESSAGES));
  t.strictSame(problems, [], 'the connection was never lost');

  writer.connection.publish('s.7', MESSAGE);
  await waitFor('what is written then is read at once', 10_000, () => read[7] === MESSAGES + 1);
  for (const each of readers) await each.close();

  await t.test('what does not come to it is not passed over, whatever server it reads from', async (t) => {
    const sequences: number[] = [];
    let come = 0;
    const lossy = new StreamReader({
      link: heardBy(reader, (message) => {
        come++;
        return come === 5 || come === 6 || come === 50 ? null : asNewer(message);
      }),
      stream: 's7',
      from: 1,
      onMessage: ({ sequence, pending }) => {
        sequences.push(sequence);
        t.equal(pending, MESSAGES + 1 - sequence);
      },
      onError: (error) => t.fail(error.message),
    });
    await waitFor('all is read', 60_000, () => sequences.length > MESSAGES);
    await lossy.close();
    t.strictSame(
      sequences,
      Array.from({ length: MESSAGES + 1 }, (_, i) => i + 1),
    );
  });

  await t.test('nor what comes anew while one is handled, after a connection was lost', async (t) => {
    const sequences: number[] = [];
    let fourths = 0;
    let reconnected = (): void => {};
    const { promise: handled, resolve: goOn } = Promise.withResolvers<void>();
    const over = heardBy(reader, (message) => {
      if (message.reply!.split('.')[5] === '4') fourths++;
      return message;
    });
    const onReconnect: NatsLink['onReconnect'] = (listener) => {
      reconnected = listener;
      return () => {};
    };
    const busy = new StreamReader({
      link: { ...over, onReconnect },
      stream: 's7',
      from: 1,
      onMessage({ sequence }) {
        sequences.push(sequence);
        return sequence === 3 ? handled : undefined;
      },
      onError: (error) => t.fail(error.message),
    });
    t.teardown(() => {
      goOn();
      return busy.close();
    });
    await waitFor('the next one has come', 20_000, () => fourths === 1);
    reconnected();
    await waitFor('it has come once more', 20_000, () => fourths === 2);
    t.strictSame(sequences, [1, 2, 3]);
    goOn();
    await waitFor('all is read', 20_000, () => sequences.length > MESSAGES);
    t.strictSame(
      sequences,
      Array.from({ length: MESSAGES + 1 }, (_, i) => i + 1),
    );
  });
});

/** A link of which each message that a stream has sent comes as `hear` has it; null: not at all. */
function heardBy(over: NatsLink, hear: (message: Msg) => Msg | null): NatsLink {
  const connection = new Proxy(over.connection, {
    get(target, name) {
      if (name === 'subscribe') {
        return (subject: string, { callback }: Required<SubscriptionOptions>) =>
          target.subscribe(subject, {
            callback(error, message) {
              const heard = error === null && message.reply?.startsWith('$JS.ACK') ? hear(message) : message;
              if (heard !== null) callback(error, heard);
            },
          });
      }
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return { ...over, connection };
}

/** As a later server says it, with a domain and an account before the stream. */
function asNewer(message: Msg): Msg {
  const reply = message.reply!.replace('$JS.ACK.', '$JS.ACK.hub.ABCDEF.') + '.token';
  return Object.create(message, { reply: { value: reply } }) as Msg;
}

t.test('who reads to the end of a stream that loses it meanwhile does not wait for it', async (t) => {
  const servers = await startNatsServers();
  t.teardown(() => servers.stop());
  const nats = await link(servers.url, 'reader');
  t.teardown(() => nats.close());
  const place = { link: nats, group: 'accounts', partition: await partitionMaker(nats)() } as const;
  const subject = logSubject(place.group, place.partition);
  const jetstream = nats.connection.jetstream();
  // More than the reader has asked for when the first is taken.
  let tip = emptyTip;
  for (let n = 0; n < LIMITS.streamReadMessages + 1; n++) {
    const batch = batchAfter(tip, place.partition, 1, 'record');
    await jetstream.publish(subject, batch.bytes);
    tip = tipAt(batch);
  }
  const batches = batchesAfter(place, emptyTip);
  t.hasStrict(await batches.next(), { value: { batch: 1 } });
  await nats.manager.streams.purge(logStream(place.group, place.partition));
  const rest = async (): Promise<void> => {
    for await (const _ of batches);
  };
  await t.rejects(rest(), /accounts\/0 was emptied while it was read/);

  await jetstream.publish(subject, batchAfter(tip, place.partition, 1, 'one more').bytes);
  // As it was before its machine lost its power: there were two more.
  tellOnce(nats, (now) => longer(now, 2));
  const cut = batchesAfter(place, tip);
  t.hasStrict(await cut.next(), { value: { batch: tip.batch + 1 } });
  await t.rejects(cut.next(), /accounts\/0 has lost its end while it was read/);
});

t.test(
  'who has handled a message when the connection has ended asks for no more, and that is all',
  async (t) => {
    const servers = await startNatsServers();
    t.teardown(() => servers.stop());
    const ending = await link(servers.url, 'ending');
    t.teardown(() => ending.close());
    await ending.manager.streams.add({ name: 's', subjects: ['s'] });
    for (let m = 0; m < LIMITS.streamReadMessages * 2; m++) ending.connection.publish('s', 'message');
    const [handling, handled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let read = 0;
    const reader = new StreamReader({
      link: ending,
      stream: 's',
      from: 1,
      onMessage() {
        read++;
        if (read < LIMITS.streamReadMessages) return;
        handling.resolve();
        return handled.promise;
      },
      onError: (error) => t.fail(error.message),
    });
    // The last that it has asked for: as when it writes what it has read to the disk.
    await handling.promise;
    await ending.close();
    handled.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    await reader.close();
    t.equal(read, LIMITS.streamReadMessages);
  },
);

t.test('turns are given in the order in which they were asked for, so many at a time', async (t) => {
  const turns = new Semaphore(2);
  const called: string[] = [];
  const take = (name: string): (() => void) => turns.take(() => called.push(name));
  const [first, second, third, fourth] = ['first', 'second', 'third', 'fourth'].map(take);
  t.strictSame(called, ['first', 'second']);
  third!();
  first!();
  t.strictSame(called, ['first', 'second', 'fourth'], 'who has left the line is not called');
  first!();
  third!();
  const fifth = take('fifth');
  t.strictSame(called, ['first', 'second', 'fourth'], 'a turn ends once');
  second!();
  fourth!();
  fifth();
  take('sixth');
  take('seventh');
  take('eighth');
  t.strictSame(called.slice(3), ['fifth', 'sixth', 'seventh']);
});
