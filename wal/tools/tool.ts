// What an operator's tool is, and how a command line of tools runs: arguments, help, progress, and an exit status that is
// 0 only when what was looked at is sound. Tools of other folders are run by the same code: give `runTools` a longer list.
import { existsSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { printable } from '../printable.ts';
import { messageOf } from '../thrown.ts';
import { hurry } from './priority.ts';
import { Progress } from './progress.ts';

export interface ToolOption {
  readonly type: 'string' | 'boolean';
  /** What stands for the value in the help. */
  readonly value?: string;
  readonly help: string;
}

export interface Tool {
  readonly name: string;
  /** One line for the list of tools. */
  readonly summary: string;
  /** What it does, what it needs, and an example. */
  readonly help: string;
  readonly options: Readonly<Record<string, ToolOption>>;
  /** False: it looks at no data directory. */
  readonly data?: false;
  run(input: ToolInput): Promise<ToolResult>;
}

export interface ToolInput {
  /** The data directory. */
  readonly directory: string;
  readonly values: Readonly<Record<string, string | boolean | undefined>>;
  readonly progress: Progress;
}

export interface ToolResult {
  /** false: something is wrong with what was looked at. */
  readonly sound: boolean;
  /** Printed with --json. */
  readonly report: object;
  /** Printed otherwise. */
  readonly lines: readonly string[];
}

/** What was asked is wrong; told with a hint at --help, and exit status 2. */
export class UsageError extends Error {}

export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  readonly errIsTty: boolean;
  /** 0 or absent: it does not say. */
  readonly errColumns?: () => number;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** This process's. Who has read enough (`| head`) closes the pipe: that is no failure of the tool. A result that a full disk did not
 *  take is one, with the status `notWritten`; of progress and complaints nobody could be told, and the work goes on. */
export function ownTerminal(notWritten: 1 | 2 = 1): Terminal {
  let isTold = false;
  process.stderr.on('error', () => {});
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE' || isTold) return;
    isTold = true;
    process.stderr.write(`What it found could not be written to standard output: ${error.message}\n`);
    // After the result's own status.
    process.once('exit', () => (process.exitCode ||= notWritten));
  });
  return {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    errIsTty: process.stderr.isTTY,
    // Undefined where it is no terminal, whatever its type says.
    errColumns: () => (process.stderr.isTTY ? process.stderr.columns : 0),
    env: process.env,
  };
}

/** Of what reads or writes for long. */
export const paceOption: Readonly<Record<string, ToolOption>> = {
  'full-speed': { type: 'boolean', help: 'rest for nobody: what runs beside it is slower meanwhile' },
};

const dataOptions: Readonly<Record<string, ToolOption>> = {
  data: { type: 'string', value: 'directory', help: 'data directory (default: DATA_DIR, or ./data)' },
  ...paceOption,
};

const commonOptions: Readonly<Record<string, ToolOption>> = {
  json: { type: 'boolean', help: 'print the result as JSON' },
  progress: { type: 'boolean', help: 'show progress though standard error is no terminal' },
  help: { type: 'boolean', help: 'show this' },
};

/** Exit status: 0 done and sound, 1 not sound or failed, 2 wrongly asked. */
export async function runTools(
  command: string,
  tools: readonly Tool[],
  args: readonly string[],
  terminal: Terminal,
): Promise<number> {
  const [name = '--help', ...rest] = args;
  // The last of a name: a list may be extended by a tool that knows more.
  const tool = tools.findLast((candidate) => candidate.name === name);
  if (tool === undefined) {
    const asked = name === '--help' || name === 'help';
    if (asked) terminal.out(overview(command, tools, null));
    else terminal.err(overview(command, tools, name));
    return asked ? 0 : 2;
  }
  try {
    return await runTool(command, tool, rest, terminal);
  } catch (error) {
    const message = printable(messageOf(error));
    if (!(error instanceof UsageError)) {
      terminal.err(`${tool.name}: ${message}\n`);
      return 1;
    }
    terminal.err(`${tool.name}: ${message}\nSee: ${command} ${tool.name} --help\n`);
    return 2;
  }
}

async function runTool(
  command: string,
  tool: Tool,
  args: readonly string[],
  terminal: Terminal,
): Promise<number> {
  const values = parse(tool, args);
  if (values['help'] === true) {
    terminal.out(helpOf(command, tool));
    return 0;
  }
  const progress = new Progress({
    write: (text) => terminal.err(text),
    shown: values['progress'] === true || (terminal.errIsTty && values['json'] !== true),
    overwrites: terminal.errIsTty,
    ...(terminal.errColumns === undefined ? {} : { columns: terminal.errColumns }),
  });
  const directory = dataDirectoryOf(values['data'], terminal.env);
  if (tool.data !== false && isFile(directory)) {
    throw new UsageError(`${directory} is a file: give the data directory with --data`);
  }
  hurry(values['full-speed'] === true);
  try {
    const result = await tool.run({ directory, values, progress });
    progress.clear();
    const lines = values['json'] === true ? [JSON.stringify(result.report, null, 2)] : result.lines;
    terminal.out(printable(lines.map((line) => `${line}\n`).join('')));
    return result.sound ? 0 : 1;
  } finally {
    progress.clear();
  }
}

/** `asked`: the value of --data. As the service has it: an empty variable is an absent one. */
export function dataDirectoryOf(
  asked: string | boolean | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const dataDir = env['DATA_DIR'] ?? '';
  return String(asked ?? (dataDir === '' ? './data' : dataDir));
}

function parse(tool: Tool, args: readonly string[]): ToolInput['values'] {
  const options = Object.fromEntries(
    Object.entries(optionsOf(tool)).map(([name, { type }]) => [name, { type }]),
  );
  const values = parsed(args, options);
  // A variable of the shell that is not set: it must not stand for the directory one is in.
  const empty = Object.keys(values).find((name) => values[name] === '');
  if (empty !== undefined) throw new UsageError(`--${empty} is empty`);
  return values;
}

function parsed(
  args: readonly string[],
  options: Readonly<Record<string, Pick<ToolOption, 'type'>>>,
): ToolInput['values'] {
  try {
    const { values, tokens } = parseArgs({ args: [...args], options, strict: true, tokens: true });
    assertGivenOnce(tokens);
    return values as ToolInput['values'];
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

/** The last of two values would be taken, and the first passed over without a word. `severalOf`: an option that takes them all. */
export function assertGivenOnce(
  tokens: readonly { readonly kind: string; readonly name?: string; readonly value?: unknown }[],
  severalOf: string | null = null,
): void {
  const given = new Set<string>();
  for (const { kind, name, value } of tokens) {
    if (kind !== 'option' || name === undefined || value === undefined || name === severalOf) continue;
    if (given.has(name)) throw new UsageError(`--${name} is given more than once: ask for one at a time`);
    given.add(name);
  }
}

function optionsOf({ options, data }: Tool): Readonly<Record<string, ToolOption>> {
  return { ...options, ...(data === false ? {} : dataOptions), ...commonOptions };
}

function overview(command: string, tools: readonly Tool[], unknown: string | null): string {
  const named = new Map(tools.map((tool) => [tool.name, tool]));
  const width = Math.max(...[...named.keys()].map((name) => name.length));
  return [
    ...(unknown === null ? [] : [`There is no tool "${unknown}".`, '']),
    `Usage: ${command} <tool> [options]      ${command} <tool> --help`,
    '',
    ...[...named.values()].map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`),
    '',
    'Exit status: 0 done and sound, 1 not sound or failed, 2 wrongly asked.',
    '',
  ].join('\n');
}

function helpOf(command: string, tool: Tool): string {
  const options = Object.entries(optionsOf(tool)).map(
    ([name, { value, help }]) => [`--${name}${value === undefined ? '' : ` <${value}>`}`, help] as const,
  );
  const width = Math.max(...options.map(([name]) => name.length));
  return [
    `Usage: ${command} ${tool.name} [options]`,
    '',
    tool.summary,
    '',
    // Not trim(): the examples that it may begin with are indented.
    tool.help.replaceAll(/^\n|\s+$/g, ''),
    '',
    ...options.map(([name, help]) => `  ${name.padEnd(width)}  ${help}`),
    '',
  ].join('\n');
}

export function stringOf(values: ToolInput['values'], name: string): string | undefined {
  const value = values[name];
  return typeof value === 'string' ? value : undefined;
}

export function requiredString(values: ToolInput['values'], name: string): string {
  const value = stringOf(values, name);
  if (value === undefined) throw new UsageError(`--${name} is needed`);
  return value;
}

/** Refuses what would be passed over without a word: an option goes with these alone, and with what every tool takes. */
export function assertGoesWith(values: ToolInput['values'], name: string, others: readonly string[]): void {
  if (values[name] === undefined) return;
  const taken = [name, ...others, ...Object.keys(dataOptions), ...Object.keys(commonOptions)];
  const strays = Object.keys(values).filter((other) => !taken.includes(other));
  if (strays.length === 0) return;
  const named = strays.map((other) => `--${other}`).join(' and ');
  throw new UsageError(`--${name} goes without ${named}: ask for one at a time`);
}

/** Refuses an option that says something of another, where none of those is given. */
export function assertGoesBeside(values: ToolInput['values'], name: string, others: readonly string[]): void {
  if (values[name] === undefined || others.some((other) => values[other] !== undefined)) return;
  throw new UsageError(`--${name} goes with ${others.map((other) => `--${other}`).join(' or ')}`);
}

/** An option that names a directory, which need not be there. */
export function directoryOf(values: ToolInput['values'], name: string): string {
  const path = requiredString(values, name);
  if (isFile(path)) throw new UsageError(`--${name} ${path} is a file: give a directory`);
  return path;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === false;
}

/** An option that names where to write: not in the data directory, which it is to outlive. */
export function targetOf({ directory, values }: ToolInput, name: string): string {
  const target = directoryOf(values, name);
  const below = relative(realOf(directory), realOf(target));
  const isOutside = below === '..' || below.startsWith(`..${sep}`) || isAbsolute(below);
  if (!isOutside) {
    throw new UsageError(
      `--${name} ${target} is in the data directory: choose a place outside it, on another disk`,
    );
  }
  return target;
}

/** Where the path leads, links followed, also when its end is not there yet. */
function realOf(path: string): string {
  const absolute = resolve(path);
  if (existsSync(absolute)) return realpathSync(absolute);
  return join(realOf(dirname(absolute)), basename(absolute));
}

export function numberOf(values: ToolInput['values'], name: string): number | undefined {
  const text = stringOf(values, name);
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new UsageError(`--${name} is a whole number, not ${text}`);
  return Number(text);
}

/** Of what is counted from 1: batches and records. */
export function ordinalOf(values: ToolInput['values'], name: string): number | undefined {
  const number = numberOf(values, name);
  if (number === 0) throw new UsageError(`--${name} counts from 1`);
  return number;
}

/** ISO 8601 with a zone, or milliseconds since 1970: 13 digits. Seconds, of which `date` gives 10, would be a day of 1970.
 *  `timeZone`: of a day alone, as ±hh:mm or Z. */
export function timeOf(values: ToolInput['values'], name: string, timeZone = 'Z'): number | undefined {
  const text = stringOf(values, name);
  if (text === undefined) return undefined;
  if (/^\d{13}$/.test(text)) return Number(text);
  const [, day, time = `T00:00${timeZone}`] = /^(\d{4}-\d\d-\d\d)(T.*(?:Z|[+-]\d\d:\d\d))?$/.exec(text) ?? [];
  const timeMs = day !== undefined && isDay(day) ? Date.parse(day + time) : Number.NaN;
  if (!Number.isNaN(timeMs)) return timeMs;
  throw new UsageError(`--${name} is a time such as 2026-11-21T09:00:00Z, not ${text}`);
}

/** False of the 31st of September, which `Date.parse` takes for the day after the 30th: a balance would be proven of another day. */
function isDay(day: string): boolean {
  const timeMs = Date.parse(day);
  return !Number.isNaN(timeMs) && new Date(timeMs).toISOString().startsWith(day);
}
