// Configuration: the environment, read once at start. Every name of the product is a row of SETTINGS, with what it
// takes, its default and its meaning; `--help`, the README and the error messages are made from the same rows.
//
// Invariants: a wrong value stops the start, with its name, what is wrong with it and the default; all wrong values are
// reported at once. The value of a secret is never repeated. An empty value is an absent one. Nothing here creates,
// connects or listens; only POLICY_FILE and the file that RAILS names are looked at.

import { readFileSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { DEFAULT_POLICY } from './domain/default-policy.ts';
import type { Policy } from './domain/policy.ts';
import { parsePolicyFile } from './domain/policy-file.ts';
import { LIMITS } from './limits.ts';
import { parseMasterKey } from './config/master-key.ts';
import {
  flag,
  listOf,
  optional,
  parseSeconds,
  parseWhole,
  port,
  SECOND_MS,
  seconds,
  text,
  whole,
} from './config/setting.ts';
import type { Setting } from './config/setting.ts';

export const ROLES = ['front', 'ledger', 'webhooks', 'poller'] as const;
export type Role = (typeof ROLES)[number];

const REPLICATIONS = ['sync', 'async'] as const;
/** async: acknowledged when this machine's disk has it, before the other machines do. */
export type Replication = (typeof REPLICATIONS)[number];

const NATS_REPLICAS = [1, 3, 5] as const;
export type NatsReplicas = (typeof NATS_REPLICAS)[number];

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type RailsSetting =
  | { readonly type: 'simulator' }
  | { readonly type: 'loopback' }
  /** Absolute path of a file of routes and credentials. */
  | { readonly type: 'file'; readonly path: string };

export interface Config {
  readonly host: string;
  /** 0: any free port; so for the others. */
  readonly port: number;
  readonly operatorHost: string;
  readonly operatorPort: number;
  /** Null: standalone makes one and keeps it in the data directory. */
  readonly operatorToken: string | null;
  readonly rails: RailsSetting;
  readonly simulatorPort: number;
  readonly simulatorApproveAfterMs: number;
  /** Of a simulator that runs already; null: the process starts one. */
  readonly simulatorUrl: string | null;
  /** Where providers reach /callbacks; null: where this process listens. */
  readonly callbackBaseUrl: string | null;
  /** Absolute. */
  readonly dataDir: string;
  /** Free space of its disk below which nothing more is written. */
  readonly diskReserveBytes: number;
  /** 32 bytes. Null: standalone makes one and keeps it in the data directory. */
  readonly masterKey: Buffer | null;
  /** Null: standalone. */
  readonly natsServers: readonly string[] | null;
  /** Of the connection to NATS; null: none. */
  readonly natsCaFile: string | null;
  readonly natsCertFile: string | null;
  readonly natsKeyFile: string | null;
  readonly natsCredentialsFile: string | null;
  /** Servers that keep each stream. */
  readonly natsReplicas: NatsReplicas;
  readonly replication: Replication;
  readonly snapshotEveryBatches: number;
  readonly roles: ReadonlySet<Role>;
  readonly partitions: number;
  readonly nodeName: string;
  readonly logLevel: LogLevel;
  /** Waits after a delivery's first, second, … attempt; one attempt more than there are waits. */
  readonly webhookRetryMs: readonly number[];
  /** How long after it was made a delivery that has ended is kept. */
  readonly webhookRetentionMs: number;
  /** That webhook URLs may use besides 443. */
  readonly webhookPorts: readonly number[];
  readonly webhookAllowPrivate: boolean;
  readonly demo: boolean;
  /** Without routes: those are the rails' to say. */
  readonly policy: Policy;
}

/** Its message lists every problem, one a line. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`The configuration is wrong:\n${problems.map((problem) => `  ${problem}\n`).join('')}`);
    this.problems = problems;
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Throws ConfigError. */
export function readConfig(environment: Environment): Config {
  const problems: string[] = [];
  const values = readSettings(environment, problems);
  const policy = readPolicy(values, problems);
  problems.push(...problemsBetween(values));
  if (problems.length > 0) throw new ConfigError(problems);

  const cluster = values.NATS_URL !== null;
  return {
    host: values.HOST,
    port: values.PORT,
    operatorHost: values.OPERATOR_HOST,
    operatorPort: values.OPERATOR_PORT,
    operatorToken: values.OPERATOR_TOKEN,
    rails: values.RAILS ?? { type: 'simulator' },
    simulatorPort: values.SIMULATOR_PORT,
    simulatorApproveAfterMs: values.SIMULATOR_APPROVE_AFTER_MS,
    simulatorUrl: values.SIMULATOR_URL,
    callbackBaseUrl: values.CALLBACK_BASE_URL,
    dataDir: resolve(values.DATA_DIR),
    diskReserveBytes: values.DISK_RESERVE_MB * MIB,
    masterKey: values.MASTER_KEY,
    natsServers: values.NATS_URL,
    natsCaFile: values.NATS_CA_FILE,
    natsCertFile: values.NATS_CERT_FILE,
    natsKeyFile: values.NATS_KEY_FILE,
    natsCredentialsFile: values.NATS_CREDENTIALS_FILE,
    natsReplicas: values.NATS_REPLICAS,
    replication: values.REPLICATION,
    snapshotEveryBatches: values.SNAPSHOT_EVERY_BATCHES,
    roles: new Set(values.ROLES ?? ROLES),
    partitions: values.PARTITIONS ?? (cluster ? PARTITIONS_CLUSTER : PARTITIONS_STANDALONE),
    nodeName: values.NODE_NAME,
    logLevel: values.LOG_LEVEL,
    webhookRetryMs: values.WEBHOOK_RETRY_SECONDS,
    webhookRetentionMs: values.WEBHOOK_RETENTION_DAYS * DAY_MS,
    webhookPorts: values.WEBHOOK_PORTS,
    webhookAllowPrivate: values.WEBHOOK_ALLOW_PRIVATE,
    demo: values.DEMO && !cluster,
    policy,
  };
}

/** The settings as a table in Markdown, which is also readable in a terminal. */
export function describeConfig(): string {
  const rows = Object.entries(SETTINGS).map(([name, { takes, fallbackText, meaning }]) => {
    return `| \`${name}\` | ${takes} | ${fallbackText} | ${meaning} |`;
  });
  return ['| name | takes | default | what it is |', '| --- | --- | --- | --- |', ...rows, ''].join('\n');
}

const MIB = 1024 * 1024;
const DAY_MS = 86_400 * SECOND_MS;
/** Of the simulator (src/wiring/rails.ts). */
const LOOPBACK = '127.0.0.1';
const PARTITIONS_STANDALONE = 16;
const PARTITIONS_CLUSTER = 64;

const SETTINGS = {
  PORT: port(8080, 'Where merchants (`/v1`) and providers (`/callbacks`) call. 0: any free port.'),
  HOST: host(),
  OPERATOR_PORT: port(8081, 'Where operators call, and `/healthz`, `/readyz`, `/metrics`.'),
  OPERATOR_HOST: host(),
  OPERATOR_TOKEN: optional({
    takes: 'at least 16 characters without spaces',
    fallbackText: 'made, and kept in DATA_DIR/operator.token',
    meaning: 'The bearer token of the operator API. Required in a cluster.',
    secret: true,
    parse: (value) => (/^[\x21-\x7e]{16,}$/.test(value) ? value : undefined),
  }),
  RAILS: optional<RailsSetting>({
    takes: '`simulator`, `loopback`, or a file of routes and credentials',
    fallbackText: '`simulator`',
    meaning: 'What moves the money. Required in a cluster.',
    secret: false,
    parse: parseRails,
  }),
  SIMULATOR_PORT: port(
    8082,
    'Where the simulator of the providers listens, standalone with RAILS=simulator.',
  ),
  SIMULATOR_APPROVE_AFTER_MS: whole(
    1_500,
    0,
    3_600_000,
    'How long a simulated customer takes to approve; also `loopback`.',
  ),
  SIMULATOR_URL: url(
    'none: standalone starts one',
    'A simulator that runs already, with RAILS=simulator. Required with it in a cluster.',
  ),
  CALLBACK_BASE_URL: url(
    'where this process listens',
    'Where providers reach `/callbacks`. The pollers of a cluster need it.',
  ),
  DATA_DIR: text(
    './data',
    'a directory',
    /^[^\0]+$/,
    'The log, its views, and what standalone makes. One process at a time.',
  ),
  DISK_RESERVE_MB: whole(
    256,
    0,
    1_000_000_000,
    'Free MiB of its disk below which partitions go to nodes that have room, and without such a node changes are refused until there is room: reads are served. 0: only a full disk ends writing.',
  ),
  MASTER_KEY: optional({
    takes: '32 bytes in hex or base64',
    fallbackText: 'made, and kept in DATA_DIR/master.key',
    meaning:
      'Encrypts signing secrets at rest. Never another than the data was begun with. The same on every node; required in a cluster.',
    secret: true,
    parse: parseMasterKey,
  }),
  NATS_URL: optional({
    takes: 'nats:// or tls:// URLs, comma-separated',
    fallbackText: 'none: standalone',
    meaning: 'The NATS servers of the cluster. Where one says tls, none is spoken to without TLS.',
    secret: true,
    parse: (value) => listOf(value, (url) => (/^(?:nats|tls):\/\/[^\s/]+\/?$/.test(url) ? url : undefined)),
  }),
  NATS_CA_FILE: file('Certificate authority of the NATS servers.'),
  NATS_CERT_FILE: file('Certificate of this process for NATS.'),
  NATS_KEY_FILE: file('The key of that certificate.'),
  NATS_CREDENTIALS_FILE: file('Credentials (`.creds`) of this process for NATS, read for each connection.'),
  NATS_REPLICAS: {
    takes: '`1`, `3` or `5`',
    fallback: 3,
    fallbackText: '`3`',
    meaning: 'NATS servers that keep each stream. Of 3, one may be away. Fixed when the cluster is created.',
    secret: false,
    parse: (value) => NATS_REPLICAS.find((count) => String(count) === value),
  } as Setting<NatsReplicas>,
  REPLICATION: {
    takes: '`sync` or `async`',
    fallback: 'sync',
    fallbackText: '`sync`',
    meaning:
      '`sync`: a posting is acknowledged when NATS has it too. `async`: when the local disk has it; if its process dies and is replaced before it is back, up to 32 batches of each partition that were acknowledged are lost.',
    secret: false,
    parse: (value) => REPLICATIONS.find((each) => each === value),
  } as Setting<Replication>,
  SNAPSHOT_EVERY_BATCHES: whole(
    LIMITS.snapshotEveryBatches,
    1,
    10_000_000,
    'In a cluster: a partition of which so many batches are in no snapshot gets a new one, within a minute. An empty machine reads these and the snapshot.',
  ),
  ROLES: optional<readonly Role[]>({
    takes: '`front`, `ledger`, `webhooks`, `poller`, comma-separated',
    fallbackText: 'all of them',
    meaning: 'What this process does; standalone does everything.',
    secret: false,
    parse: (value) => listOf(value, (role) => ROLES.find((each) => each === role)),
  }),
  PARTITIONS: optional({
    takes: `a whole number from 1 to ${LIMITS.partitionsMax}`,
    fallbackText: `${PARTITIONS_STANDALONE}; in a cluster ${PARTITIONS_CLUSTER}`,
    meaning: 'Units of writing and ownership. Fixed when the data directory or the cluster is created.',
    secret: false,
    parse: (value) => parseWhole(value, 1, LIMITS.partitionsMax),
  }),
  NODE_NAME: {
    takes: '1 to 64 characters from A-Z a-z 0-9 _ -',
    fallback:
      hostname()
        .replace(/[^\w-]/g, '-')
        .slice(0, 64) || 'node',
    fallbackText: 'the host name',
    meaning: 'Names this process in logs and in the cluster; no two may share it.',
    secret: false,
    parse: (value) => (/^[\w-]{1,64}$/.test(value) ? value : undefined),
  },
  LOG_LEVEL: {
    takes: LOG_LEVELS.map((level) => `\`${level}\``).join(', '),
    fallback: 'info',
    fallbackText: '`info`',
    meaning: 'Log lines below it are not written. `debug` writes one for every request.',
    secret: false,
    parse: (value) => LOG_LEVELS.find((level) => level === value),
  } as Setting<LogLevel>,
  PROVIDER_ANSWER_WAIT_MS: whole(
    DEFAULT_POLICY.providerAnswerWaitMs,
    0,
    LIMITS.railAnswerWaitMsMax,
    'How long the 201 of a charge or deposit waits for the provider.',
  ),
  CHARGE_EXPIRY_SECONDS: seconds(
    DEFAULT_POLICY.chargeExpiryMs,
    'When a charge or deposit without an answer fails.',
  ),
  CHARGE_RELEASE_SECONDS: seconds(
    DEFAULT_POLICY.chargeReleaseMs,
    "From a charge's success to its money being available.",
  ),
  WALLET_COOLING_OFF_SECONDS: seconds(
    DEFAULT_POLICY.walletCoolingOffMs,
    "From a payout wallet's approval to `ACTIVE`.",
  ),
  CASH_OUT_PER_MINUTE: whole(
    DEFAULT_POLICY.cashOutPerMinute,
    1,
    LIMITS.cashOutPerMinuteMax,
    'Payout and withdrawal requests of an account in a minute.',
  ),
  WEBHOOK_RETRY_SECONDS: {
    takes: `1 to ${LIMITS.webhookRetriesMax} durations in seconds, comma-separated`,
    fallback: [30, 120, 600, 1_800, 7_200, 21_600, 57_600].map((wait) => wait * SECOND_MS),
    fallbackText: '`30,120,600,1800,7200,21600,57600`',
    meaning: 'Waits between the attempts of a webhook delivery, each ± 10 %.',
    secret: false,
    parse: (value) => {
      const waits = listOf(value, parseSeconds);
      return waits !== undefined && waits.length <= LIMITS.webhookRetriesMax ? waits : undefined;
    },
  } as Setting<readonly number[]>,
  WEBHOOK_RETENTION_DAYS: whole(
    32,
    1,
    366,
    'How many days after it was made a webhook delivery that has ended is removed. Not fewer than its attempts may take.',
  ),
  WEBHOOK_PORTS: {
    takes: 'port numbers, comma-separated',
    fallback: [],
    fallbackText: 'none',
    meaning: 'Ports that webhook URLs may use besides 443.',
    secret: false,
    parse: (value) => listOf(value, (item) => parseWhole(item, 1, 65_535)),
  } as Setting<readonly number[]>,
  WEBHOOK_ALLOW_PRIVATE: flag(false, 'Development: allows webhook URLs with http and private addresses.'),
  DEMO: flag(true, 'Standalone: makes a demo account and DATA_DIR/demo.json.'),
  POLICY_FILE: optional({
    takes: 'a JSON file',
    fallbackText: 'none',
    meaning: 'Fees, limits, minimums and approval thresholds that replace the defaults.',
    secret: false,
    parse: (value) => value,
  }),
} as const satisfies Readonly<Record<string, Setting<unknown>>>;

function host(): Setting<string> {
  return text(LOOPBACK, 'an address or host name', /^[\w.:%-]+$/, 'The address to listen on for them.');
}

function url(fallbackText: string, meaning: string): Setting<string | null> {
  return optional({
    takes: 'an http:// or https:// URL, no query, no slash at its end',
    fallbackText,
    meaning,
    secret: false,
    // Paths are put behind it.
    parse: (value) =>
      /^https?:\/\/[^\s?#]*[^\s?#/]$/.test(value) && URL.canParse(value) ? value : undefined,
  });
}

function file(meaning: string): Setting<string | null> {
  return optional({
    takes: 'a file',
    fallbackText: 'none',
    meaning,
    secret: false,
    parse: (value) => (isFile(value) ? resolve(value) : undefined),
  });
}

type Settings = typeof SETTINGS;
type SettingName = keyof Settings;
type Values = { -readonly [Name in SettingName]: Settings[Name]['fallback'] };

function readSettings(environment: Environment, problems: string[]): Values {
  const values: Partial<Record<SettingName, unknown>> = {};
  for (const [name, setting] of Object.entries(SETTINGS) as [SettingName, Setting<unknown>][]) {
    const text = environment[name]?.trim() ?? '';
    const value = text === '' ? setting.fallback : setting.parse(text);
    if (value === undefined) problems.push(problemWith(name, text));
    values[name] = value ?? setting.fallback;
  }
  return values as Values;
}

function problemWith(name: SettingName, text: string): string {
  const { takes, fallbackText, secret } = SETTINGS[name];
  // A long one is none of what is taken, but may be what a file should hold, credentials included.
  const what = secret || text.length > LIMITS.settingRepeatedMax ? 'its value' : JSON.stringify(text);
  const why = takes.includes('a file') ? whyNoFile(text) : '';
  return `${name}: ${what} is not ${takes}${why} (default: ${fallbackText})`.replaceAll('`', '');
}

function readPolicy(values: Values, problems: string[]): Policy {
  return {
    ...readPolicyFile(values.POLICY_FILE, problems),
    cashOutPerMinute: values.CASH_OUT_PER_MINUTE,
    chargeExpiryMs: values.CHARGE_EXPIRY_SECONDS,
    chargeReleaseMs: values.CHARGE_RELEASE_SECONDS,
    walletCoolingOffMs: values.WALLET_COOLING_OFF_SECONDS,
    providerAnswerWaitMs: values.PROVIDER_ANSWER_WAIT_MS,
    routes: {},
    oneWay: {},
    amountDecimals: {},
  };
}

function problemsBetween(values: Values): string[] {
  const problems = sharedPorts(values);
  const scheduleDays = Math.ceil(scheduleMsMax(values.WEBHOOK_RETRY_SECONDS) / DAY_MS);
  if (values.WEBHOOK_RETENTION_DAYS < scheduleDays) {
    problems.push(
      `WEBHOOK_RETENTION_DAYS: ${values.WEBHOOK_RETENTION_DAYS} is less than the ${scheduleDays} days that attempts may take with these WEBHOOK_RETRY_SECONDS (default: ${SETTINGS.WEBHOOK_RETENTION_DAYS.fallback})`,
    );
  }
  for (const [name, other] of CERTIFICATE_AND_KEY) {
    if (values[name] === null && values[other] !== null) problems.push(`${name}: is required with ${other}`);
  }
  if (values.NATS_URL === null) {
    if (values.ROLES !== null && new Set(values.ROLES).size < ROLES.length) {
      problems.push('ROLES: without NATS_URL one process has every role (default: all of them)');
    }
    return problems;
  }
  for (const name of ['OPERATOR_TOKEN', 'MASTER_KEY', 'RAILS'] as const) {
    if (values[name] === null) {
      problems.push(`${name}: is required with NATS_URL; it takes ${SETTINGS[name].takes}`);
    }
  }
  if (values.RAILS?.type === 'simulator' && values.SIMULATOR_URL === null) {
    problems.push('SIMULATOR_URL: is required with NATS_URL and RAILS=simulator: all nodes use the same one');
  }
  return problems;
}

const CERTIFICATE_AND_KEY = [
  ['NATS_CERT_FILE', 'NATS_KEY_FILE'],
  ['NATS_KEY_FILE', 'NATS_CERT_FILE'],
] as const;

/** One that several would listen on: the last of them would say that it is taken. */
function sharedPorts(values: Values): string[] {
  const { HOST, OPERATOR_HOST, RAILS, SIMULATOR_URL, ROLES: roles } = values;
  const isFront = roles === null || roles.includes('front');
  const hasSimulator = (RAILS ?? { type: 'simulator' }).type === 'simulator' && SIMULATOR_URL === null;
  const listening: [SettingName & `${string}PORT`, string | null][] = [
    ['PORT', isFront ? HOST : null],
    ['OPERATOR_PORT', OPERATOR_HOST],
    ['SIMULATOR_PORT', hasSimulator ? LOOPBACK : null],
  ];
  return listening.flatMap(([name, host], index) => {
    const port = values[name];
    const other = listening.slice(0, index).find(([before, its]) => its === host && values[before] === port);
    if (port === 0 || host === null || other === undefined) return [];
    return [`${name}: ${port} is ${other[0]}, too, on ${host} (default: ${SETTINGS[name].fallback})`];
  });
}

/** The longest that a delivery's attempts and waits take where nothing of ours was down meanwhile. */
function scheduleMsMax(retryMs: readonly number[]): number {
  const waitsMs = retryMs.reduce((total, waitMs) => total + waitMs, 0);
  return waitsMs * (1 + LIMITS.webhookRetryJitterMax) + (retryMs.length + 1) * LIMITS.webhookAttemptMs;
}

function readPolicyFile(path: string | null, problems: string[]): Policy {
  if (path === null) return DEFAULT_POLICY;
  try {
    return parsePolicyFile(readFileSync(path, 'utf8'), DEFAULT_POLICY);
  } catch (error) {
    problems.push(`POLICY_FILE: ${path}: ${(error as Error).message} (default: none)`);
    return DEFAULT_POLICY;
  }
}

function parseRails(value: string): RailsSetting | undefined {
  if (value === 'simulator' || value === 'loopback') return { type: value };
  const path = resolve(value);
  return isFile(path) ? { type: 'file', path } : undefined;
}

/** Whoever looks as root sees a file where the service's user may not look at all. "": it is not there, or no file. */
function whyNoFile(path: string): string {
  try {
    statSync(path);
    return '';
  } catch (error) {
    const { code } = Object(error) as { readonly code: unknown };
    const isToldAlready = code === 'ENOENT' || code === 'ENAMETOOLONG' || code === 'ERR_INVALID_ARG_VALUE';
    return isToldAlready ? '' : `: ${String(code)}`;
  }
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    // Also what can be no path: its text may be the credentials themselves.
    return false;
  }
}
