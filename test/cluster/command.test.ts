// `npm run cluster`, as a person uses it: the map, a charge with the printed curl, a node drained and started again, Ctrl-C.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { writeWholeFile } from '../../src/data-directory/whole-file.ts';
import { aliveIn, markOf, ownMark } from '../../wal/process-mark.ts';
import { WriterLock } from '../../wal/writer-lock.ts';
import { needs } from '../needs.ts';
import { ENVIRONMENT } from '../../deploy/environment.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

needs('nats-server');

const PROGRAM = join(import.meta.dirname, '../../deploy/cluster.ts');
const START_MS = 90_000;

interface ClusterFile {
  readonly natsUrls: readonly string[];
  readonly nodes: readonly { readonly name: string; readonly mark: string }[];
}

// A short title: it is part of the directory's name, and a data directory has a longest one.
t.test('by its commands', async (t) => {
  const directory = temporaryDirectory(t);
  const env = { ...ENVIRONMENT, CLUSTER_DIR: directory, PARTITIONS: '4' };
  const file = (): ClusterFile => JSON.parse(readFileSync(join(directory, 'cluster.json'), 'utf8')) as never;
  const say = async (...words: string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, ...words], { env });
    return stdout;
  };

  // As of a `start` that nobody took up before the cluster was stopped.
  writeWholeFile(join(directory, 'start-ledger2'), '');

  // A group of its own, as a terminal's command has.
  const running = spawn(process.execPath, [PROGRAM], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  // Not SIGKILL: its children would run on.
  t.teardown(async () => {
    running.kill('SIGCONT');
    running.kill('SIGINT');
    await exited;
  });
  let printed = '';
  running.stdout.on('data', (chunk) => (printed += String(chunk)));
  let complained = '';
  running.stderr.on('data', (chunk) => (complained += String(chunk)));
  const exited = new Promise<number | null>((resolve) => running.once('exit', resolve));
  await waitFor('it says how to stop it', START_MS, () => {
    if (running.exitCode !== null) throw new Error(`it has ended: ${printed}${complained}`);
    return printed.includes('Ctrl-C stops');
  });
  t.match(printed, /^ledger3 +operators http/m);
  t.match(printed, /^accounts\n  \w+ +\d/m);
  const made = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  const open = made.filter((path) => {
    const file = lstatSync(join(directory, path), { throwIfNoEntry: false });
    return file !== undefined && (file.mode & 0o077) !== 0;
  });
  t.strictSame(open, [], 'nobody else on the machine reads what it made');

  const curl = /^ {2}(curl .*)$/m.exec(printed)?.[1] ?? '';
  const { stdout: charge } = await promisify(execFile)('bash', ['-c', curl]);
  t.hasStrict(JSON.parse(charge), { object: 'charge', status: 'AWAITING_CUSTOMER' });

  const noted = readFileSync(join(directory, 'processes'), 'utf8').trimEnd().split('\n');
  t.equal(noted.length, 3 + 1 + file().nodes.length, 'nats-servers, the simulator, nodes');
  t.notOk(
    noted.some((line) => aliveIn(line) === null),
    'each is known by its mark',
  );
  const again = await say().catch((error: { code: number; stderr: string }) => error);
  t.match(again, { code: 1, stderr: /^A cluster runs in .* already/ });

  const [drained] = file().nodes.filter(({ name }) => name === 'ledger2');
  t.match(await say('drain', 'ledger2'), /ledger2 has handed over and ended/);
  t.notMatch(printed, 'ledger2 starts again');
  t.match(await say('map'), /^ledger2 .* ended$/m);
  // What is in the way of its start ends nothing else.
  const log = join(directory, 'ledger2', 'node.log');
  renameSync(log, `${log}.kept`);
  mkdirSync(log);
  writeWholeFile(join(directory, 'start-ledger2'), '');
  await waitFor('it says why it does not start', 30_000, () => complained.includes(`EISDIR`));
  rmdirSync(log);
  renameSync(`${log}.kept`, log);
  // So is one that starts, and cannot serve.
  const data = join(directory, 'ledger2', 'data');
  renameSync(data, `${data}.kept`);
  writeFileSync(data, '');
  const failed = await say('start', 'ledger2').catch((error: unknown) => error);
  t.match(failed, { code: 1, stderr: /^start: ledger2 has ended with \d+: [^]*node\.log\)\n$/ });
  rmSync(data);
  renameSync(`${data}.kept`, data);
  t.match(await say('drain', 'poller2'), /poller2 has handed over and ended/);
  // Two at once, while nobody looks. Neither takes up what another has begun to write.
  for (const begun of ['start.new', 'start-ledger2.new']) mkdirSync(join(directory, begun));
  running.kill('SIGSTOP');
  const both = ['ledger2', 'poller2'];
  const starting = Promise.all(both.map((name) => say('start', name)));
  // The last one as an older cluster looks for it.
  const asked = [...both.map((name) => `start-${name}`), 'start'];
  await waitFor('both are asked for', 30_000, () => asked.every((name) => existsSync(join(directory, name))));
  running.kill('SIGCONT');
  t.strictSame(await starting, ['ledger2 runs again.\n', 'poller2 runs again.\n']);
  t.not(file().nodes.find(({ name }) => name === 'ledger2')?.mark, drained?.mark);

  // One that is killed before it has handed over has not.
  const pid = Number(aliveIn(file().nodes.find(({ name }) => name === 'ledger3')?.mark ?? ''));
  process.kill(pid, 'SIGSTOP');
  const draining = say('drain', 'ledger3').catch((error: unknown) => error);
  await waitFor('it was asked to stop', 30_000, () => {
    const [, pending = '0'] = /^ShdPnd:\s*(\w+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return (Number.parseInt(pending, 16) & (1 << (constants.signals.SIGTERM - 1))) !== 0;
  });
  process.kill(pid, 'SIGKILL');
  t.match(await draining, {
    code: 1,
    stderr: /^drain: ledger3 ended with SIGKILL, before it had handed over/,
  });
  t.match(await say('map'), /^ledger3 .* ended with SIGKILL$/m);

  const withTls = { ...env, NATS_URL: file().natsUrls[0]?.replace('nats:', 'tls:') };
  const upgrade = promisify(execFile)(process.execPath, [PROGRAM, 'upgrade'], { env: withTls });
  const unmade = await upgrade.catch((error: { code: number; stderr: string }) => error);
  t.match(unmade, { code: 1, stderr: /^upgrade: cannot connect to NATS: the server has no TLS, [^\n]*\n$/ });

  const archive = join(directory, 'archive');
  t.match(
    await say('archive', '--to', archive, '--before', '2999-01-01'),
    /^accounts.\d: sequences 1 to \d/m,
  );
  t.match(await say('trim', '--archive', archive), /^accounts.0 +0 batches +kept: there is no snapshot/m);

  const { nodes } = file();
  // Somebody tries what happens when it stands still.
  process.kill(Number(aliveIn(nodes.find(({ name }) => name === 'front2')?.mark ?? '')), 'SIGSTOP');
  // The terminal asks the whole group.
  process.kill(-running.pid!, 'SIGINT');
  t.equal(await exited, 0, 'it ends well');
  t.notOk(existsSync(join(directory, 'cluster.json')));
  t.notOk(
    nodes.some(({ mark }) => aliveIn(mark) !== null),
    'no node runs on',
  );
  for (const { name } of nodes.filter((each) => each.name !== 'ledger3')) {
    const log = readFileSync(join(directory, name, 'node.log'), 'utf8');
    t.match(log, /"stopped"\}\n$/, `${name} has stopped`);
    t.notMatch(log, /connection was lost/, `${name} had its NATS until then`);
  }
  const refused = await say('map').catch((error: { code: number; stderr: string }) => error);
  t.match(refused, { code: 1, stderr: /^No cluster runs in/ });
  const untrimmed = await say('trim', '--archive', archive).catch((error: { code: number }) => error);
  t.match(untrimmed, { code: 2, stderr: /No cluster runs in .* set NATS_URL, and NATS_CA_FILE/ });
});

t.test('nothing is done of what is not understood to its end', async (t) => {
  // Nobody listens there: whoever tried would wait, and say so.
  const env = { ...ENVIRONMENT, CLUSTER_DIR: temporaryDirectory(t), NATS_URL: 'nats://127.0.0.1:9' };
  const ask = (...words: string[]) =>
    promisify(execFile)(process.execPath, [PROGRAM, ...words], { env, timeout: 20_000 })
      .then(({ stdout, stderr }) => ({ code: 0, stdout, stderr }))
      .catch((error: { code: number; stdout: string; stderr: string }) => error);
  for (const words of [['--help'], ['upgrade', '--help'], ['drain', '-h'], ['run', '--help']]) {
    const { code, stdout, stderr } = await ask(...words);
    t.strictSame([code, stderr], [0, ''], words.join(' '));
    t.match(stdout, /^npm run cluster +starts/);
  }
  for (const words of [
    ['upgrade', '--dry-run'],
    ['run', 'now'],
    ['map', 'x'],
    ['drain', 'ledger1', 'ledger2'],
  ]) {
    const { code, stdout, stderr } = await ask(...words);
    t.strictSame([code, stdout], [2, ''], words.join(' '));
    t.match(stderr, `${words[0]} takes no "${words.at(-1)}".`);
  }
  t.match(await ask('nothing', 'ledger1'), { code: 2, stderr: /^There is no "nothing"\./ });
});

t.test('a process that got the number of one that ran a cluster is none', async (t) => {
  // As after a loss of power, or where a container has started again.
  const left = { pid: process.pid, mark: `${process.pid} 1`, nodes: [] };
  const env = { ...ENVIRONMENT, CLUSTER_DIR: t.testdir({ 'cluster.json': JSON.stringify(left) }) };
  const refused = await promisify(execFile)(process.execPath, [PROGRAM, 'map'], { env }).catch(
    (error: { code: number; stderr: string }) => error,
  );
  t.match(refused, { code: 1, stderr: /^No cluster runs in/ });
});

t.test('the map is asked of all nodes: one that does not answer is waited for by nobody', async (t) => {
  const urls: string[] = [];
  const partition = { group: 'accounts', partition: 0, node: 'ledger1', epoch: 7 };
  const answers: RequestListener[] = [
    () => {},
    (_, response) => response.writeHead(503).end('{"error":{}}'),
    (_, response) => response.end(JSON.stringify({ data: [partition] })),
  ];
  for (const answer of answers) {
    const server = createServer(answer).listen(0, '127.0.0.1');
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, 'listening');
    urls.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  }
  const nodes = urls.map((operatorUrl, index) => {
    const name = `front${index + 1}`;
    return { name, roles: 'front', mark: ownMark(), baseUrl: operatorUrl, operatorUrl };
  });
  const cluster = { mark: ownMark(), operatorToken: 'token', natsUrls: [], simulatorUrl: '' };
  const map = (running: typeof nodes): Promise<unknown> => {
    const content = JSON.stringify({ ...cluster, nodes: running });
    const env = { ...ENVIRONMENT, CLUSTER_DIR: t.testdir({ 'cluster.json': content }) };
    return promisify(execFile)(process.execPath, [PROGRAM, 'map'], { env, timeout: 20_000 }).catch(
      (error: unknown) => error,
    );
  };
  t.match(await map(nodes), { stdout: /^accounts\n  ledger1 +0 \(epoch 7\)$/m });

  const unread = spawn(process.execPath, [PROGRAM, 'map'], {
    env: { ...ENVIRONMENT, CLUSTER_DIR: t.testdirName },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  unread.stdout.destroy();
  let complained = '';
  unread.stderr.on('data', (chunk) => (complained += String(chunk)));
  t.strictSame(
    await once(unread, 'close'),
    [0, null],
    'who has read enough of it, as `head` has, is no failure',
  );
  t.equal(complained, '');

  t.match(await map(nodes.slice(0, 2)), {
    code: 1,
    stderr: /^Nobody says who has what: front1: [^\n]*timeout[^\n]*; front2: 503 \{"error":\{\}\}\n$/,
  });
});

t.test('what a cluster that was killed had started is told, and how to end it', async (t) => {
  const left = spawn(process.execPath, ['--eval', 'setInterval(() => {}, 1_000)'], { stdio: 'ignore' });
  t.teardown(() => left.kill('SIGKILL'));
  const dead = `${process.pid} 1 nats-server n1`;
  const directory = t.testdir({ processes: `${dead}\n${markOf(left.pid!)} nats-server n2\n` });
  const env = { ...ENVIRONMENT, CLUSTER_DIR: directory };
  const refused = await promisify(execFile)(process.execPath, [PROGRAM], { env }).catch(
    (error: { code: number; stderr: string }) => error,
  );
  const told = ` runs on: nats-server n2 (process ${left.pid}). End that first: kill -9 ${left.pid}\n`;
  t.match(refused, { code: 1, stderr: told });
  t.notOk(existsSync(join(directory, 'writer.lock')), 'the next start may come');
});

t.test('of two that start at once one is refused', async (t) => {
  const directory = temporaryDirectory(t);
  const lock = WriterLock.take(directory);
  t.teardown(() => lock.release());
  const env = { ...ENVIRONMENT, CLUSTER_DIR: directory };
  const refused = await promisify(execFile)(process.execPath, [PROGRAM], { env }).catch(
    (error: { code: number; stderr: string }) => error,
  );
  t.match(refused, { code: 1, stderr: `${directory} is being written by process ${process.pid}\n` });
});

t.test('where a start fails nothing that it has started runs on', async (t) => {
  const directory = t.testdir({ 'cluster.json.new': {} });
  const env = { ...ENVIRONMENT, CLUSTER_DIR: directory };
  const child = spawn(process.execPath, [PROGRAM], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk) => (said += String(chunk)));
  const status = await new Promise<number | null>((resolve) => child.once('exit', resolve));
  t.equal(status, 1);
  t.match(said, /^EISDIR: [^\n]* '[^\n]*cluster\.json\.new'\n$/, 'what is in its way, in a line');
  const servers = await promisify(execFile)('ps', ['-eo', 'args']);
  t.notMatch(servers.stdout, `${directory}/nats/`);
});

t.test('a directory that cannot be is told in a line', async (t) => {
  const env = { ...ENVIRONMENT, CLUSTER_DIR: join(t.testdir({ file: '' }), 'file', 'cluster') };
  const refused = await promisify(execFile)(process.execPath, [PROGRAM], { env }).catch(
    (error: { code: number; stderr: string }) => error,
  );
  t.match(refused, { code: 1, stderr: /^ENOTDIR: [^\n]*cluster'\n$/ });
});
