// Views that end the process when they are read: the start after reads them in a process of its own, sets them aside, and
// makes them anew. Views that can be read are kept, however the process ended.

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  cpSync,
  openSync,
  readFileSync,
  readdirSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { someOf } from '../seed.ts';
import { get, post, type ServiceProcess, startProcess } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const CLI = join(import.meta.dirname, '../../wal/cli.ts');
const CHARGES = 40;
const PAGE_BYTES = 4_096;
/** The first two pages of an LMDB file say where everything else is. */
const META_BYTES = 2 * PAGE_BYTES;

const root = temporaryDirectory(t);
const sound = join(root, 'sound');
let balances = '';

t.before(async () => {
  const service = await startProcess(sound);
  for (let n = 0; n < CHARGES; n++) await charge(service, n);
  balances = await balancesOf(service);
  await service.end('SIGTERM');
});

async function charge(service: ServiceProcess, number: number): Promise<void> {
  // Settled in the answer.
  const wallet = { amount: '5000', currency: 'UGX', msisdn: '+256772000068' };
  const body = JSON.stringify({ ...wallet, reference: `v-${number}` });
  const response = await post(service, '/v1/charges', `views-fault-${number}`, body);
  t.equal(response.status, 201);
  await response.text();
}

async function balancesOf(service: ServiceProcess): Promise<string> {
  return (await get(service, '/v1/balances')).text();
}

function copy(name: string): string {
  const directory = join(root, name);
  cpSync(sound, directory, { recursive: true, filter: (path) => !path.endsWith('/lock') });
  return directory;
}

function setAsideIn(directory: string): string[] {
  return readdirSync(directory).filter((name) => name.startsWith('views.damaged-'));
}

function viewsFile(directory: string): string {
  return join(directory, 'views', 'data.mdb');
}

const damages: Readonly<Record<string, (file: string) => void>> = {
  'cut off': (file) => truncateSync(file, META_BYTES),
  'cut off at their first page': (file) => truncateSync(file, PAGE_BYTES),
  overwritten: (file) => {
    const garbage = Buffer.alloc(statSync(file).size - META_BYTES, 0xa5);
    const descriptor = openSync(file, 'r+');
    writeSync(descriptor, garbage, 0, garbage.length, META_BYTES);
    closeSync(descriptor);
  },
  'changed where they say how far they reach': (file) => {
    const text = readFileSync(file, 'latin1');
    writeFileSync(file, text.replaceAll('{"sequence":', '{"sequence";'), 'latin1');
  },
};

for (const [name, damage] of someOf(t, Object.entries(damages), 2)) {
  t.test(`views that were ${name} end one start, not two`, async (t) => {
    const directory = copy(name.replaceAll(' ', '-'));
    damage(viewsFile(directory));
    const verified = spawnSync(process.execPath, [CLI, 'verify', '--data', directory, '--full-speed'], {
      encoding: 'utf8',
    });
    t.match(
      verified,
      { status: 1, stdout: /^sound: .*\nNOT SOUND: .*views cannot be read/ },
      'the log is sound',
    );
    await t.rejects(startProcess(directory), /ended before it was ready/);
    t.strictSame(setAsideIn(directory), [], 'what ended one start is not blamed yet');

    const service = await startProcess(directory);
    t.equal(await balancesOf(service), balances, 'made anew from the log');
    t.equal(setAsideIn(directory).length, 1, 'what could not be read is kept');
    await service.end('SIGTERM');

    const again = await startProcess(directory);
    t.equal(await balancesOf(again), balances);
    t.equal(setAsideIn(directory).length, 1);
    await again.end('SIGTERM');
  });
}

t.test('views that can be read are kept when a start did not come through', async (t) => {
  const directory = copy('killed');
  const killed = await startProcess(directory);
  await killed.end('SIGKILL');
  t.ok(readdirSync(directory).includes('starting'), 'its mark is there');
  const { ino } = statSync(viewsFile(directory));
  const service = await startProcess(directory);
  t.equal(await balancesOf(service), balances);
  t.equal(statSync(viewsFile(directory)).ino, ino, 'the same file');
  t.strictSame(setAsideIn(directory), []);
  await service.end('SIGTERM');
  t.notOk(readdirSync(directory).includes('starting'), 'a stop takes the mark away');
});

t.test(
  'a start that ended for another reason than its views leaves the next none to suspect them',
  async (t) => {
    const directory = copy('other-reasons');
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const taken = String((server.address() as AddressInfo).port);
    const routes = join(root, 'no-routes.json');
    writeFileSync(routes, 'none');
    const reasons: [Record<string, string>, RegExp][] = [
      [{ PORT: taken }, /cannot listen on .*: the port is taken/],
      [{ OPERATOR_PORT: taken }, /cannot listen on .*: the port is taken/],
      [{ RAILS: 'simulator', SIMULATOR_PORT: taken }, /SIMULATOR_PORT chooses its port/],
      [
        { RAILS: 'simulator', SIMULATOR_URL: 'http://127.0.0.1:1' },
        /^ *the simulator at http:\/\/127\.0\.0\.1:1 does not answer .*: ECONNREFUSED.*; SIMULATOR_URL says where it is$/m,
      ],
      [{ RAILS: routes }, /not JSON/],
    ];
    for (const [environment, message] of reasons) {
      const failure = await startProcess(directory, environment).catch((error: unknown) => error as Error);
      t.match(failure, { message });
      t.notMatch(failure, { message: /^ +at /m }, 'no stack: it says what to do');
      t.notOk(readdirSync(directory).includes('starting'), JSON.stringify(environment));
    }
  },
);
