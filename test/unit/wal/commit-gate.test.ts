// While another process opens a file of LMDB's nothing is committed, in no thread of the process that has the directory; who would
// open it waits for what is being committed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { closeGate, openGate, throughGate } from '../../../wal/commit-gate.ts';
import { holdDirectory, openBeside, socketFile } from '../../../wal/directory-socket.ts';
import { WriteAheadLog } from '../../../wal/log.ts';
import { LogReader } from '../../../wal/log-reader.ts';
import { until } from '../../until.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

t.test('a commit waits for who opens, and who opens for a commit', async (t) => {
  const did: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const first = throughGate('log', () => {
    did.push('first begins');
    return promise;
  });
  t.strictSame(did, ['first begins'], 'in this turn, where nobody opens');
  const closed = closeGate('log').then(() => did.push('opens'));
  const second = throughGate('log', async () => did.push('second'));
  resolve();
  await Promise.all([first, closed]);
  t.strictSame(did, ['first begins', 'opens']);
  await throughGate('views', async () => did.push('views'));
  t.strictSame(did, ['first begins', 'opens', 'views'], 'another file is another matter');
  openGate('log');
  await second;
  t.strictSame(did, ['first begins', 'opens', 'views', 'second']);
});

t.test('what waits for one who opens goes before the next who does', async (t) => {
  const did: string[] = [];
  await closeGate('log');
  const waits = throughGate('log', async () => did.push('commits'));
  const next = closeGate('log').then(() => {
    did.push('opens');
    openGate('log');
  });
  await closeGate('views');
  openGate('views');
  openGate('log');
  await Promise.all([waits, next]);
  t.strictSame(did, ['commits', 'opens']);
});

t.test('a commit that fails is over, too', async (t) => {
  await t.rejects(
    throughGate('log', () => Promise.reject(new Error('the disk is full'))),
    /full/,
  );
  await closeGate('log');
  openGate('log');
});

t.test('so does one of another thread', async (t) => {
  await closeGate('log');
  const gate = new URL('../../../wal/commit-gate.ts', import.meta.url).href;
  const program = `import { parentPort } from 'node:worker_threads';
    const { throughGate } = await import('${gate}');
    const done = throughGate('log', async () => parentPort.postMessage('done'));
    parentPort.postMessage('begun');
    await done;`;
  const worker = new Worker(program, { eval: true });
  const said: string[] = [];
  worker.on('message', (text: string) => said.push(text));
  await until(() => said.length > 0);
  const { promise, resolve } = Promise.withResolvers<void>();
  openGate('log');
  const opened = throughGate('log', () => promise);
  await once(worker, 'exit');
  t.strictSame(said, ['begun', 'done']);
  resolve();
  await opened;
});

t.test('whoever has the directory lets others open it, and goes on when they have', async (t) => {
  const directory = temporaryDirectory(t);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure: (error) => t.fail(error.message) });
  const opening = { epoch: 1, replica: null, onCommitted: () => {}, onDurable: () => {} };
  const partition = log.openPartition('accounts', 0, opening);
  await partition.drained();
  t.equal(await openBeside(directory, 'log', () => 'nobody has it'), 'nobody has it');
  const held = (await holdDirectory(directory))!;
  let began = false;
  const { commit } = await openBeside(directory, 'log', () => {
    const begun = throughGate('log', async () => {
      began = true;
    });
    t.equal(began, false, 'not while it is opened');
    return { commit: begun };
  });
  await commit;
  t.equal(began, true);

  await t.rejects(
    openBeside(directory, 'log', () => {
      throw new Error('it is damaged');
    }),
    /damaged/,
  );
  partition.append('{}');
  await partition.drained();
  const reader = await LogReader.openBeside({ directory });
  t.equal(reader.tip('accounts', 0).sequence, 1);
  await reader.close();
  await held.release();
  await log.close();
});

t.test('a directory is let go of although somebody is opening', async (t) => {
  const directory = temporaryDirectory(t);
  const held = (await holdDirectory(directory))!;
  const { released } = await openBeside(directory, 'log', () => ({ released: held.release() }));
  await released;
  await closeGate('log');
  openGate('log');
  await throughGate('log', async () => {});
  t.pass('what comes after is committed');
});

t.test('who goes away before a slow commit has ended keeps no other from being made', async (t) => {
  const directory = temporaryDirectory(t);
  const held = (await holdDirectory(directory))!;
  const { promise, resolve } = Promise.withResolvers<void>();
  const slow = throughGate('log', () => promise);
  const asker = connect(join(directory, socketFile));
  asker.write('log 1');
  let began = false;
  // Until its question has come.
  await until(() => {
    began = false;
    void throughGate('log', async () => {
      began = true;
    });
    return !began;
  });
  asker.destroy();
  await throughGate('log', async () => {});
  t.pass('while the slow one is under way');
  resolve();
  await slow;
  await held.release();
});

t.test('who stands still as it opens is ended', async (t) => {
  const directory = temporaryDirectory(t);
  const held = (await holdDirectory(directory))!;
  const socket = new URL('../../../wal/directory-socket.ts', import.meta.url).href;
  const program = `import { openBeside } from '${socket}';
    await openBeside('${directory}', 'log', () => { process.stdout.write('opens'); process.kill(process.pid, 'SIGSTOP'); });`;
  const opener = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(opener.stdout, 'data');
  const ended = once(opener, 'exit');
  await throughGate('log', async () => {});
  t.strictSame(await ended, [null, 'SIGKILL']);
  await held.release();
});

t.test('beside a process that does not know of this nothing is opened', async (t) => {
  // A socket's path is short.
  const directory = temporaryDirectory(t);
  const server = createServer((connection) => connection.end()).listen(join(directory, socketFile));
  t.teardown(() => server.close());
  await once(server, 'listening');
  await t.rejects(
    openBeside(directory, 'log', () => t.fail('it was opened')),
    /stop it first/,
  );
});
