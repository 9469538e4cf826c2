// Closed-loop load by wrk, for peak throughput: well-kept, and light enough to leave the cores to the server. Its script
// makes the same requests as work.ts, from pieces of the same text.

import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { threadCountOf } from '../measure/process-use.ts';
import { PERCENTILES, type Latency } from '../result.ts';
import { spawnChild } from '../servers/child.ts';
import {
  COUNTER_DIGITS,
  createText,
  getText,
  SCATTER,
  SCATTER_MODULUS,
  type Kind,
  type Work,
} from './work.ts';

export interface WrkRun {
  readonly host: string;
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly work: Work;
  /** The first request is the one of this number: requests of a warm-up are not sent again. */
  readonly firstCounter: number;
  /** For the script. */
  readonly directory: string;
  /** It begins to send. */
  readonly onStart: (pid: number) => void;
  /** Kills it when it is aborted. */
  readonly signal: AbortSignal | undefined;
}

export interface WrkResult {
  readonly completed: number;
  readonly seconds: number;
  readonly errors: Readonly<Record<string, number>>;
  /** Not 2xx or 3xx. */
  readonly refused: number;
  readonly latency: Latency;
  /** Number of the next request. */
  readonly nextCounter: number;
}

const US_PER_MS = 1_000;
const TIMEOUT_SECONDS = 10;
const LOOK_MS = 2;
const RESULT_MARK = 'daftari-bench ';

let known: boolean | null = null;

export function hasWrk(): boolean {
  known ??= spawnSync('wrk', ['--version']).error === undefined;
  return known;
}

export async function runWrk(run: WrkRun): Promise<WrkResult> {
  const script = join(run.directory, 'wrk.lua');
  writeFileSync(script, scriptOf(run));
  const args = [
    ['-t', '1'],
    ['-c', String(run.connections)],
    ['-d', `${Math.max(1, Math.round(run.seconds))}s`],
    ['--timeout', `${TIMEOUT_SECONDS}s`],
    ['-s', script],
    [`http://${run.host}:${run.port}`],
  ].flat();
  const output = await outputOf('wrk', args, run);
  const line = output.split('\n').find((text) => text.startsWith(RESULT_MARK));
  if (line === undefined) throw new Error(`wrk said nothing of use:\n${output}`);
  const told = JSON.parse(line.slice(RESULT_MARK.length)) as WrkTold;
  return {
    completed: told.requests,
    seconds: told.duration_us / 1_000_000,
    errors: { connect: told.connect, read: told.read, write: told.write, timeout: told.timeout },
    refused: told.status,
    nextCounter: told.counter,
    latency: {
      meanMs: told.mean_us / US_PER_MS,
      maxMs: told.max_us / US_PER_MS,
      percentiles: PERCENTILES.map((percent, index) => [percent, told.percentiles_us[index]! / US_PER_MS]),
    },
  };
}

interface WrkTold {
  readonly requests: number;
  readonly duration_us: number;
  readonly connect: number;
  readonly read: number;
  readonly write: number;
  readonly timeout: number;
  readonly status: number;
  readonly mean_us: number;
  readonly max_us: number;
  readonly percentiles_us: number[];
  readonly counter: number;
}

function outputOf(command: string, args: readonly string[], { onStart, signal }: WrkRun): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawnChild(command, args, { stdio: ['ignore', 'pipe', 'pipe'] }, signal);
    let output = '';
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    }
    const looking = setInterval(() => {
      if (child.pid === undefined || !isSending(child.pid)) return;
      clearInterval(looking);
      onStart(child.pid);
    }, LOOK_MS);
    child.once('error', (error) => {
      clearInterval(looking);
      reject(error);
    });
    child.once('close', (status, by) => {
      clearInterval(looking);
      if (status === 0) resolve(output);
      else reject(new Error(`${command} ended with ${status ?? by}:\n${output}`));
    });
  });
}

/** It reads its script, and the ids, before it starts the thread that sends. Not to be seen elsewhere than on Linux. */
function isSending(pid: number): boolean {
  return process.platform !== 'linux' || threadCountOf(pid) > 1;
}

// ---- The script

/** Stand-ins in the texts of work.ts; as long as what they stand for, since bodies carry their length. */
const KEY = '\u0001KEY\u0001';
const ID = '\u0001ID\u0001';
const NUMBER = '\u0001'.padEnd(COUNTER_DIGITS, 'N');

function scriptOf({ host, port, work, firstCounter }: WrkRun): string {
  const kinds = work.kinds.map((kind) => `"${kind}"`).join(',');
  return `
local function lines(path)
  local all = {}
  for line in io.lines(path) do if line ~= "" then all[#all + 1] = line end end
  return all
end
local keys, ids, lists, kinds
-- wrk asks for one before it begins, to see that it is a request, and does not send it.
counter = ${firstCounter - 1}
function init()
  keys = lines(${quoted(work.keysFile)})
  ids = {}
  ${
    work.idsFile === null
      ? ''
      : `for n, line in ipairs(lines(${quoted(work.idsFile)})) do
    local number, id = line:match("^(%d+) (%S+)$")
    ids[n] = { keys[number + 1], id }
  end`
  }
  lists = { ${work.lists.map(quoted).join(', ')} }
  kinds = { ${kinds} }
end
local make = {
  ${luaMakers(work, `${host}:${port}`).join(',\n  ')}
}
function request()
  local n = math.max(counter, ${firstCounter})
  counter = counter + 1
  return make[kinds[n % #kinds + 1]](n)
end
local threads = {}
function setup(thread) threads[#threads + 1] = thread end
function done(summary, latency)
  local at = {}
  for i, percent in ipairs({ ${PERCENTILES.join(', ')} }) do at[i] = latency:percentile(percent) end
  io.write(string.format(
    '${RESULT_MARK}{"requests":%d,"duration_us":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d,"mean_us":%f,"max_us":%d,"percentiles_us":[%s],"counter":%d}\\n',
    summary.requests, summary.duration, summary.errors.connect, summary.errors.read, summary.errors.write,
    summary.errors.timeout, summary.errors.status, latency.mean, latency.max, table.concat(at, ","),
    threads[1]:get("counter")))
end
`;
}

function luaMakers(work: Work, host: string): string[] {
  const { prefix, msisdn } = work;
  const create = (path: string): string =>
    createText({ host, path, prefix, msisdn, key: KEY, number: NUMBER });
  const makers: Readonly<Record<Kind, () => string>> = {
    charge: () => luaCreate(create('/v1/charges')),
    payout: () => luaCreate(create('/v1/payouts')),
    read: () => `function(n)
    local target = ids[((n * ${SCATTER}) % ${SCATTER_MODULUS}) % #ids + 1]
    return ${luaText(getText(host, `/v1/charges/${ID}`, KEY), { [KEY]: 'target[1]', [ID]: 'target[2]' })}
  end`,
    list: () => `function(n)
    local path, key = lists[n % #lists + 1], keys[n % #keys + 1]
    return ${luaText(getText(host, ID, KEY), { [KEY]: 'key', [ID]: 'path' })}
  end`,
  };
  return [...new Set(work.kinds)].map((kind) => `${kind} = ${makers[kind]()}`);
}

function luaCreate(text: string): string {
  return `function(n)
    local key, number = keys[n % #keys + 1], string.format("%0${COUNTER_DIGITS}d", n)
    return ${luaText(text, { [KEY]: 'key', [NUMBER]: 'number' })}
  end`;
}

/** A Lua expression: the text, with each stand-in replaced by a variable. */
function luaText(text: string, variables: Readonly<Record<string, string>>): string {
  const standIns = new RegExp(`(${Object.keys(variables).join('|')})`);
  return text
    .split(standIns)
    .filter((piece) => piece !== '')
    .map((piece) => variables[piece] ?? quoted(piece))
    .join(' .. ');
}

/** JSON's escapes of what occurs here (quotes, \\r, \\n, backslashes) are also Lua's. */
function quoted(text: string): string {
  return JSON.stringify(text);
}
