// Pages of the log and of the views that are not what LMDB wrote: reading some of them ends the process. Whatever a tool is asked
// then, it says what cannot be read and ends with a status of its own; the next start serves what can be.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePorts } from '../../deploy/free-ports.ts';
import { LogReader } from '../../wal/log-reader.ts';
import type { Fault } from '../../wal/tools/verify.ts';
import { get, post, startProcess } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const CLI = join(import.meta.dirname, '../../wal/cli.ts');
const PAGE_BYTES = 4_096;
/** The first two pages say where everything else is, and are looked at before LMDB is given the file. */
const FIRST_PAGE = 2;
/** Of the pages that are damaged in turn: all of them are thousands of runs. */
const STRIDE = 59;
/** Of one partition: its batches fill some pages. */
const CHARGES = 60;
/** Each partition has a batch at least. */
const PARTITIONS = 40;

const root = temporaryDirectory(t);
const sound = join(root, 'sound');
let balances = '';

t.before(async () => {
  const service = await startProcess(sound, { PARTITIONS: String(PARTITIONS) });
  for (let n = 0; n < CHARGES; n += 1) {
    // Settled in the answer.
    const wallet = { amount: '5000', currency: 'UGX', msisdn: '+256772000068' };
    const body = JSON.stringify({ ...wallet, reference: `p-${n}` });
    const response = await post(service, '/v1/charges', `pages-${n}-of-it`, body);
    t.equal(response.status, 201);
    await response.text();
  }
  balances = await (await get(service, '/v1/balances')).text();
  await service.end('SIGTERM');
});

interface Ran {
  readonly status: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

function tool(directory: string, ...args: string[]): Ran {
  return run(...args, '--data', directory);
}

function run(...args: string[]): Ran {
  return spawnSync(process.execPath, [CLI, ...args, '--full-speed'], { encoding: 'utf8' });
}

let copies = 0;
function copy(): string {
  copies += 1;
  const directory = join(root, `copy-${copies}`);
  cpSync(sound, directory, { recursive: true, filter: (path) => !path.endsWith('/lock') });
  return directory;
}

function pagesOf(which: 'log' | 'views'): number {
  return readFileSync(join(sound, which, 'data.mdb')).length / PAGE_BYTES;
}

type Fill = (page: Buffer, number: number) => void;
const zeros: Fill = (page) => void page.fill(0);
/** As of another file: the same each time. */
const garbage: Fill = (page, number) => {
  for (let at = 0; at < page.length; at += 1) page[at] = (at * 7_919 + number * 31) >> 3;
};

function damaged(which: 'log' | 'views', number: number, fill: Fill): string {
  const directory = copy();
  const file = join(directory, which, 'data.mdb');
  const bytes = readFileSync(file);
  fill(bytes.subarray(number * PAGE_BYTES, (number + 1) * PAGE_BYTES), number);
  writeFileSync(file, bytes);
  return directory;
}

/** A page that ends whoever reads it, and one that LMDB refuses to read where it looks for partitions. */
interface Found {
  readonly ending: number;
  readonly refused: number;
}

function pagesWanted(): Found {
  let [ending, refused] = [0, 0];
  for (let page = FIRST_PAGE; page < pagesOf('log') && (ending === 0 || refused === 0); page += 1) {
    const { stdout, stderr } = tool(damaged('log', page, zeros), 'inspect');
    // The partition that is paid in stays whole.
    if (/was ended by SIG/.test(stderr) && /^accounts\/\d+ +\d{3}/m.test(stdout)) ending = page;
    // Nor is it the root, wherever that was written last: without it nothing is found.
    else if (/cannot be searched/.test(stderr) && /^accounts\/\d+ /m.test(stdout)) refused = page;
  }
  return { ending, refused };
}

let found: Found = { ending: 0, refused: 0 };

t.test('a page of the log that ends a tool, or in which it can look for nothing: it says so', async (t) => {
  found = pagesWanted();
  t.ok(found.ending > 0 && found.refused > 0, 'there are such pages');
  for (const page of Object.values(found)) {
    const directory = damaged('log', page, zeros);
    const { status, stdout } = tool(directory, 'verify', '--json');
    t.equal(status, 1);
    const { faults, partitions } = JSON.parse(stdout) as { faults: Fault[]; partitions: object[] };
    t.ok(faults.length > 0 && faults.length < 2 * PARTITIONS, 'some partitions are damaged');
    t.equal(partitions.length, 2 * PARTITIONS + 1, 'and all were looked at');
    const backup = join(root, `backup-${page}`);
    t.match(tool(directory, 'backup', '--to', backup), { status: 1, stdout: /Nothing of .* was added/ });
    const restored = join(root, `restored-${page}`);
    t.match(run('restore', '--from', backup, '--to', restored), { status: 0 });
    t.equal(partitionsIn(restored) > 0, true, 'what is whole was copied');
    t.match(tool(directory, 'inspect'), { status: 1, stdout: /^accounts\/\d+ /m });
    t.match(tool(directory, 'trim', '--archive', backup, '--yes'), { status: 1, signal: null });
  }
});

function partitionsIn(directory: string): number {
  const log = LogReader.openReader({ directory });
  const { length } = log.partitionNames();
  void log.close();
  return length;
}

t.test('a start that such a page has ended is followed by one that serves the rest, as often', async (t) => {
  const directory = damaged('log', found.ending, zeros);
  const [port, operatorPort] = await freePorts(2);
  const environment = {
    PARTITIONS: String(PARTITIONS),
    PORT: String(port),
    OPERATOR_PORT: String(operatorPort),
  };
  await t.rejects(startProcess(directory, environment), /ended before it was ready/);
  for (let start = 0; start < 2; start += 1) {
    const service = await startProcess(directory, environment);
    const readiness = await fetch(`http://127.0.0.1:${operatorPort}/readyz`);
    t.equal(readiness.status, 503);
    const text = await readiness.text();
    t.match(text, /damaged, not served: .*a process that reads it is ended/);
    const demo = { ...service, demo: { ...service.demo, base_url: `http://127.0.0.1:${port}` } };
    t.equal(await (await get(demo, '/v1/balances')).text(), balances, 'of a partition that is whole');
    await service.end('SIGTERM');
  }
});

t.test('whatever page is damaged, no tool is ended without a word', async (t) => {
  for (const which of ['log', 'views'] as const) {
    for (const fill of [zeros, garbage]) {
      for (let page = FIRST_PAGE; page < pagesOf(which); page += STRIDE) {
        says(t, tool(damaged(which, page, fill), 'verify'), `${which} ${page}`);
      }
    }
  }
});

function says(t: Test, { status, signal, stdout, stderr }: Ran, message: string): void {
  t.equal(signal, null, message);
  if (status !== 0) t.match(stdout + stderr, /NOT SOUND|^\w+: /m, message);
}

t.test('files that are not what belongs there are told, by the tools and by the start', async (t) => {
  const changes: [string, (directory: string) => void, RegExp][] = [
    [
      'log and views swapped',
      (directory) => {
        const file = (which: string): string => join(directory, which, 'data.mdb');
        renameSync(file('log'), join(directory, 'kept'));
        renameSync(file('views'), file('log'));
        renameSync(join(directory, 'kept'), file('views'));
      },
      /log\/data\.mdb is another of LMDB's files than belongs there: restore the log from a backup/,
    ],
    ...(['lock.mdb', 'data.mdb'] as const).map((name): [string, (directory: string) => void, RegExp] => [
      `a directory ${name}`,
      (directory) => {
        rmSync(join(directory, 'log', name));
        mkdirSync(join(directory, 'log', name));
      },
      new RegExp(`log/${name} is no file: restore the log`),
    ]),
  ];
  for (const [name, change, said] of changes) {
    const directory = copy();
    change(directory);
    for (const command of ['verify', 'inspect', 'replay']) {
      t.match(tool(directory, command), { status: 1, signal: null, stderr: said }, `${name}, ${command}`);
    }
    const failure = await startProcess(directory, { PARTITIONS: String(PARTITIONS) }).catch(String);
    t.match(failure, said, name);
    t.notMatch(failure, /^ +at /m, 'no stack: it says what to do');
  }
});
