// What a run is asked to do: the command line, and the forms with their durations and sizes.

import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

export const FORMS = ['smoke', 'quick', 'standard', 'full'] as const;
export type Form = (typeof FORMS)[number];

/** Durations and sizes that a form sets and options override. */
export interface Sizes {
  /** Of one measured load. */
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly connections: number;
  readonly repeats: number;
  /** Merchants whose keys the load uses in turn. */
  readonly accounts: number;
  /** Merchants of the spread half of `hot`. */
  readonly spreadAccounts: number;
  /** Histories of `lists`, ascending. */
  readonly listTransactions: readonly number[];
  readonly recoveryTransactions: number;
  readonly recoveryAccounts: number;
  readonly backlogDeliveries: number;
  readonly lifecyclePerSecond: number;
  /** Webhook endpoints of `webhooks`; every fifth hangs. */
  readonly endpoints: number;
  readonly eventsPerSecond: number;
  /** Trials of a search for the highest rate; 0: no search. */
  readonly searchTrials: number;
  /** Offered rates of latency against rate, as parts of the peak. */
  readonly rateParts: readonly number[];
  readonly fsyncSeconds: number;
  /** Acknowledged ids that are looked up after a load. */
  readonly idsChecked: number;
  readonly partitions: number;
  /** How long `failover` is under load at least: the death, the take-over and some time after. */
  readonly failoverSeconds: number;
  /** A closed loop by wrk where there is one; otherwise by the node driver. */
  readonly wrk: boolean;
}

export interface RunOptions extends Sizes {
  readonly form: Form;
  readonly scenarios: readonly string[];
  readonly peer: 'postgres' | null;
  /** Folder of another checkout, whose service is measured in turn with this one's. */
  readonly against: string | null;
  /** Both run all the time and are loaded in turn, instead of one whole measurement after the other. */
  readonly sideBySide: boolean;
  /** Null: a temporary one, removed afterwards. */
  readonly directory: string | null;
  readonly json: string | null;
  readonly html: string | null;
  /** Given to the service's Node before its program: V8 options to try. */
  readonly nodeArgs: readonly string[];
  /** Folder for CPU profiles of the service; null: none. */
  readonly profile: string | null;
}

export type Command =
  | { readonly type: 'help' }
  | { readonly type: 'list' }
  | { readonly type: 'run'; readonly options: RunOptions }
  | { readonly type: 'compare'; readonly before: string; readonly after: string | null }
  | { readonly type: 'profile'; readonly file: string };

/** Of the person at the terminal: shown without a stack. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const STANDARD: Sizes = {
  seconds: 10,
  warmUpSeconds: 3,
  connections: 256,
  repeats: 3,
  accounts: 100,
  spreadAccounts: 10_000,
  listTransactions: [10_000, 1_000_000],
  recoveryTransactions: 1_000_000,
  recoveryAccounts: 100_000,
  backlogDeliveries: 50_000,
  lifecyclePerSecond: 1_500,
  endpoints: 1_000,
  eventsPerSecond: 500,
  searchTrials: 0,
  rateParts: [0.5],
  fsyncSeconds: 2,
  idsChecked: 2_000,
  partitions: 16,
  failoverSeconds: 10,
  wrk: true,
};

const SIZES: Readonly<Record<Form, Sizes>> = {
  smoke: {
    ...STANDARD,
    seconds: 0.4,
    warmUpSeconds: 0.1,
    connections: 16,
    repeats: 1,
    accounts: 4,
    spreadAccounts: 20,
    listTransactions: [200, 400],
    recoveryTransactions: 500,
    recoveryAccounts: 20,
    backlogDeliveries: 100,
    lifecyclePerSecond: 50,
    endpoints: 5,
    eventsPerSecond: 50,
    fsyncSeconds: 0.05,
    idsChecked: 50,
    partitions: 4,
    failoverSeconds: 6,
    wrk: false,
  },
  quick: {
    ...STANDARD,
    seconds: 3,
    warmUpSeconds: 1,
    repeats: 1,
    spreadAccounts: 1_000,
    listTransactions: [1_000, 10_000],
    recoveryTransactions: 50_000,
    recoveryAccounts: 1_000,
    backlogDeliveries: 10_000,
    lifecyclePerSecond: 500,
    endpoints: 100,
    fsyncSeconds: 1,
    idsChecked: 500,
  },
  standard: STANDARD,
  full: {
    ...STANDARD,
    seconds: 30,
    warmUpSeconds: 10,
    repeats: 5,
    listTransactions: [10_000, 1_000_000, 10_000_000],
    recoveryAccounts: 1_000_000,
    backlogDeliveries: 200_000,
    searchTrials: 10,
    rateParts: [0.1, 0.25, 0.5, 0.75, 0.9],
    fsyncSeconds: 5,
    idsChecked: 10_000,
  },
};

const ARGUMENTS = {
  help: { type: 'boolean', short: 'h' },
  list: { type: 'boolean' },
  form: { type: 'string' },
  peer: { type: 'string' },
  against: { type: 'string' },
  'side-by-side': { type: 'boolean' },
  partitions: { type: 'string' },
  directory: { type: 'string' },
  json: { type: 'string' },
  html: { type: 'string' },
  profile: { type: 'string' },
  'node-args': { type: 'string' },
  repeats: { type: 'string' },
  seconds: { type: 'string' },
  'warm-up': { type: 'string' },
  connections: { type: 'string' },
  accounts: { type: 'string' },
  'list-transactions': { type: 'string' },
  'recovery-transactions': { type: 'string' },
  'recovery-accounts': { type: 'string' },
  rate: { type: 'string' },
  search: { type: 'string' },
} as const;

export const HELP = `npm run bench -- [scenario …] [option …]
npm run bench -- compare before.json after.json   (or one report of a run with --against)
npm run bench -- profile file.cpuprofile

Measures the service against a bare uWebSockets.js handler in the same run, and says under which conditions.
Without scenarios: all that need nothing installed. --list names them.

  --form smoke|quick|standard|full   how long and how large; default quick. Seconds, half a minute, some minutes, an hour
                                     for each scenario
  --repeats n                        of every scenario; differences need at least 3
  --seconds n  --warm-up n           of each load
  --connections n                    keep-alive; default 256
  --accounts n                       merchants whose keys are used in turn; default 100
  --partitions n                     of the service; default 16
  --list-transactions 10000,1000000  histories of \`lists\`
  --recovery-transactions n          history of \`recovery\` and \`tools\`
  --recovery-accounts n              accounts of its start from a checkpoint
  --rate n                           events a second of \`lifecycle\`
  --search n                         search the highest rate with p99 under 10 ms, in at most n trials
  --peer postgres                    charges and payouts also on Fastify and PostgreSQL, started from Debian's package
  --against folder                   the service of another checkout too, in turn with this one's (its dependencies
                                     installed), and the ratios of the pairs: is a change faster than the noise?
  --side-by-side                     with --against, for charges, payouts, reads and mixed: both services run all the time
                                     and take peak loads in turn; shows the smallest change with --repeats 30 --seconds 2
  --directory path                   where data goes; default a temporary folder. Its disk is what is measured
  --profile folder                   CPU profiles of the service, read with \`profile\`; they cost some per cent
  --node-args='--flag …'             options of Node for the service, to try what they do
  --json file  --html file           the report

Status 0: all was measured and every check passed; 1: a check failed, or a scenario did; 2: wrong usage.
`;

export function parseCommand(args: readonly string[]): Command {
  const { values, positionals } = parse(args);
  if (values.help === true) return { type: 'help' };
  if (values.list === true) return { type: 'list' };
  const [first, ...files] = positionals;
  if (first === 'compare' || first === 'profile') {
    const [option] = Object.keys(values);
    if (option !== undefined) throw new UsageError(`${first} takes no --${option}`);
    return first === 'compare'
      ? { type: 'compare', ...pairOf(files) }
      : { type: 'profile', file: oneOf(files) };
  }
  const form = choice('form', values.form ?? 'quick', FORMS);
  const sizes = SIZES[form];
  const seconds = number('seconds', values.seconds, sizes.seconds);
  const sideBySide = values['side-by-side'] ?? false;
  if (sideBySide && values.against === undefined) {
    throw new UsageError('--side-by-side takes --against folder: whom to measure beside this checkout');
  }
  if (sideBySide && values.peer !== undefined) throw new UsageError('--peer is not for --side-by-side');
  return {
    type: 'run',
    options: {
      ...sizes,
      form,
      scenarios: positionals,
      peer: values.peer === undefined ? null : choice('peer', values.peer, ['postgres'] as const),
      against: values.against === undefined ? null : checkout(values.against),
      sideBySide,
      partitions: count('partitions', values.partitions, sizes.partitions),
      directory: values.directory === undefined ? null : resolve(values.directory),
      json: values.json ?? null,
      html: values.html ?? null,
      profile: values.profile === undefined ? null : resolve(values.profile),
      nodeArgs: values['node-args']?.split(' ') ?? [],
      repeats: count('repeats', values.repeats, sizes.repeats),
      seconds,
      warmUpSeconds: number('warm-up', values['warm-up'], sizes.warmUpSeconds),
      connections: count('connections', values.connections, sizes.connections),
      accounts: count('accounts', values.accounts, sizes.accounts),
      listTransactions: rising('list-transactions', values['list-transactions'], sizes.listTransactions),
      recoveryTransactions: count(
        'recovery-transactions',
        values['recovery-transactions'],
        sizes.recoveryTransactions,
      ),
      recoveryAccounts: count('recovery-accounts', values['recovery-accounts'], sizes.recoveryAccounts),
      lifecyclePerSecond: number('rate', values.rate, sizes.lifecyclePerSecond),
      searchTrials: count('search', values.search, sizes.searchTrials),
    },
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: ARGUMENTS, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function pairOf(positionals: readonly string[]): { before: string; after: string | null } {
  const [before, after = null, ...more] = positionals;
  if (before === undefined || more.length > 0) {
    throw new UsageError('compare takes two JSON reports, or one of a run with --against');
  }
  return { before, after };
}

function oneOf(positionals: readonly string[]): string {
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) throw new UsageError('profile takes one .cpuprofile file');
  return file;
}

function checkout(folder: string): string {
  const path = resolve(folder);
  for (const needed of ['src/main.ts', 'node_modules']) {
    if (existsSync(join(path, needed))) continue;
    throw new UsageError(
      `--against takes a checkout of Daftari with its dependencies: ${path} has no ${needed}`,
    );
  }
  return path;
}

function choice<const Choices extends readonly string[]>(
  name: string,
  value: string,
  choices: Choices,
): Choices[number] {
  if (!choices.includes(value)) throw new UsageError(`--${name} takes ${choices.join(', ')}`);
  return value;
}

function number(name: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new UsageError(`--${name} takes a positive number`);
  return value;
}

function count(name: string, text: string | undefined, fallback: number): number {
  const value = number(name, text, fallback);
  if (!Number.isSafeInteger(value)) throw new UsageError(`--${name} takes a whole number`);
  return value;
}

/** The history of one size is continued for the next. */
function rising(name: string, text: string | undefined, fallback: readonly number[]): readonly number[] {
  if (text === undefined) return fallback;
  const values = text.split(',').map((each) => count(name, each, 0));
  const isRising = values.every((value, place) => place === 0 || value > values[place - 1]!);
  if (!isRising) throw new UsageError(`--${name} takes numbers that rise, such as 10000,1000000`);
  return values;
}
