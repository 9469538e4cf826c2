// Configuration: what each name takes, what a wrong value says, and what the defaults are.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { ConfigError, describeConfig, readConfig } from '../../src/config.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { parsePolicyFile } from '../../src/domain/policy-file.ts';
import type { Policy } from '../../src/domain/policy.ts';
import { LIMITS } from '../../src/limits.ts';
import { policiesOf } from '../../src/wiring/outbound.ts';
import type { Rails } from '../../src/wiring/rails.ts';

const KEY = 'ab'.repeat(32);
const TOKEN = 'a-long-operator-token';
const CLUSTER = { NATS_URL: 'nats://a:4222', OPERATOR_TOKEN: TOKEN, MASTER_KEY: KEY, RAILS: 'loopback' };

function problemsOf(environment: Record<string, string>): readonly string[] {
  try {
    readConfig(environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

t.test('an empty environment is a standalone service', async (t) => {
  t.match(readConfig({}), {
    host: '127.0.0.1',
    port: 8080,
    operatorHost: '127.0.0.1',
    operatorPort: 8081,
    operatorToken: null,
    rails: { type: 'simulator' },
    simulatorPort: 8082,
    simulatorApproveAfterMs: 1_500,
    natsReplicas: 3,
    replication: 'sync',
    snapshotEveryBatches: 50_000,
    dataDir: resolve('data'),
    diskReserveBytes: 268_435_456,
    masterKey: null,
    natsServers: null,
    roles: new Set(['front', 'ledger', 'webhooks', 'poller']),
    partitions: 16,
    nodeName: /^[\w-]+$/,
    logLevel: 'info',
    webhookRetryMs: [30_000, 120_000, 600_000, 1_800_000, 7_200_000, 21_600_000, 57_600_000],
    webhookRetentionMs: 32 * 86_400_000,
    webhookPorts: [],
    webhookAllowPrivate: false,
    demo: true,
    policy: DEFAULT_POLICY,
  });
  t.strictSame(readConfig({ PORT: '', NATS_URL: ' ', DEMO: '' }), readConfig({}), 'empty is absent');
});

t.test('every value is read into its unit', async (t) => {
  const config = readConfig({
    PORT: '0',
    HOST: '::1',
    OPERATOR_HOST: 'ops.internal',
    SIMULATOR_APPROVE_AFTER_MS: '20',
    SIMULATOR_URL: 'http://s',
    CALLBACK_BASE_URL: 'https://pay.test/in',
    DATA_DIR: '/var/lib/daftari',
    DISK_RESERVE_MB: '3',
    NATS_CA_FILE: 'package.json',
    NATS_REPLICAS: '5',
    REPLICATION: 'async',
    ROLES: 'poller, front, ledger, webhooks',
    MASTER_KEY: Buffer.from(KEY, 'hex').toString('base64'),
    OPERATOR_TOKEN: TOKEN,
    RAILS: 'loopback',
    PARTITIONS: '1',
    NODE_NAME: 'n-1',
    LOG_LEVEL: 'debug',
    PROVIDER_ANSWER_WAIT_MS: '100',
    CHARGE_EXPIRY_SECONDS: '1800',
    CHARGE_RELEASE_SECONDS: '0.25',
    WALLET_COOLING_OFF_SECONDS: '0',
    CASH_OUT_PER_MINUTE: '5',
    WEBHOOK_RETRY_SECONDS: '1, 2.5',
    WEBHOOK_RETENTION_DAYS: '1',
    WEBHOOK_PORTS: '8443, 10443',
    WEBHOOK_ALLOW_PRIVATE: 'true',
    DEMO: 'false',
  });
  t.hasStrict(config, {
    port: 0,
    host: '::1',
    operatorHost: 'ops.internal',
    simulatorApproveAfterMs: 20,
    simulatorUrl: 'http://s',
    callbackBaseUrl: 'https://pay.test/in',
    dataDir: '/var/lib/daftari',
    diskReserveBytes: 3_145_728,
    natsCaFile: resolve('package.json'),
    natsReplicas: 5,
    replication: 'async',
    roles: new Set(['front', 'ledger', 'webhooks', 'poller']),
    masterKey: Buffer.from(KEY, 'hex'),
    operatorToken: TOKEN,
    rails: { type: 'loopback' },
    partitions: 1,
    nodeName: 'n-1',
    logLevel: 'debug',
    webhookRetryMs: [1_000, 2_500],
    webhookRetentionMs: 86_400_000,
    webhookPorts: [8443, 10443],
    webhookAllowPrivate: true,
    demo: false,
    policy: {
      providerAnswerWaitMs: 100,
      chargeExpiryMs: 1_800_000,
      chargeReleaseMs: 250,
      walletCoolingOffMs: 0,
      cashOutPerMinute: 5,
    },
  });
});

t.test('a cluster has other defaults, no demo, and makes no secrets of its own', async (t) => {
  const given = { ROLES: 'front,ledger', NATS_URL: 'nats://a:4222, tls://u:p@b', NATS_REPLICAS: '1' };
  const config = readConfig({ ...CLUSTER, ...given });
  t.hasStrict(config, {
    partitions: 64,
    natsReplicas: 1,
    replication: 'sync',
    demo: false,
    natsServers: ['nats://a:4222', 'tls://u:p@b'],
  });
  t.strictSame(config.roles, new Set(['front', 'ledger']));
  t.match(problemsOf({ NATS_URL: 'nats://a:4222' }), [
    /^OPERATOR_TOKEN: is required with NATS_URL; it takes at least 16 characters/,
    /^MASTER_KEY: is required with NATS_URL/,
    /^RAILS: is required with NATS_URL/,
  ]);
  const simulated = { ...CLUSTER, RAILS: 'simulator' };
  t.match(problemsOf(simulated), [/^SIMULATOR_URL: is required with NATS_URL and RAILS=simulator/]);
  t.strictSame(problemsOf({ ...simulated, SIMULATOR_URL: 'http://127.0.0.1:9000' }), []);
});

// [name, wrong value, what is said]
const wrong: [string, string, string][] = [
  ['PORT', '80a', 'PORT: "80a" is not a whole number from 0 to 65535 (default: 8080)'],
  ['PORT', '65536', 'PORT: "65536" is not a whole number from 0 to 65535 (default: 8080)'],
  ['PORT', '-1', 'PORT: "-1" is not a whole number from 0 to 65535 (default: 8080)'],
  ['HOST', 'a b', 'HOST: "a b" is not an address or host name (default: 127.0.0.1)'],
  ['OPERATOR_PORT', '8e1', 'OPERATOR_PORT: "8e1" is not a whole number from 0 to 65535 (default: 8081)'],
  ['OPERATOR_HOST', '/', 'OPERATOR_HOST: "/" is not an address or host name (default: 127.0.0.1)'],
  [
    'OPERATOR_TOKEN',
    'short',
    'OPERATOR_TOKEN: its value is not at least 16 characters without spaces (default: made, and kept in DATA_DIR/operator.token)',
  ],
  [
    'RAILS',
    '/no/such/file',
    'RAILS: "/no/such/file" is not simulator, loopback, or a file of routes and credentials (default: simulator)',
  ],
  ['SIMULATOR_PORT', 'x', 'SIMULATOR_PORT: "x" is not a whole number from 0 to 65535 (default: 8082)'],
  [
    'SIMULATOR_APPROVE_AFTER_MS',
    '1.5',
    'SIMULATOR_APPROVE_AFTER_MS: "1.5" is not a whole number from 0 to 3600000 (default: 1500)',
  ],
  ['DATA_DIR', 'a\0b', 'DATA_DIR: "a\\u0000b" is not a directory (default: ./data)'],
  [
    'DISK_RESERVE_MB',
    '1.5',
    'DISK_RESERVE_MB: "1.5" is not a whole number from 0 to 1000000000 (default: 256)',
  ],
  [
    'MASTER_KEY',
    'abc',
    'MASTER_KEY: its value is not 32 bytes in hex or base64 (default: made, and kept in DATA_DIR/master.key)',
  ],
  [
    'NATS_URL',
    'http://user:secret@a',
    'NATS_URL: its value is not nats:// or tls:// URLs, comma-separated (default: none: standalone)',
  ],
  ...['NATS_CA_FILE', 'NATS_CERT_FILE', 'NATS_KEY_FILE', 'NATS_CREDENTIALS_FILE'].map(
    (name): [string, string, string] => [name, '/absent', `${name}: "/absent" is not a file (default: none)`],
  ),
  ...['localhost:8082', 'http://:8082', 'http://a:80800'].map((value): [string, string, string] => [
    'SIMULATOR_URL',
    value,
    `SIMULATOR_URL: "${value}" is not an http:// or https:// URL, no query, no slash at its end (default: none: standalone starts one)`,
  ]),
  ...['https://pay.test/', 'https://', 'https://pay.test?in', 'https://pay.test/#in', 'https://pay test'].map(
    (value): [string, string, string] => [
      'CALLBACK_BASE_URL',
      value,
      `CALLBACK_BASE_URL: "${value}" is not an http:// or https:// URL, no query, no slash at its end (default: where this process listens)`,
    ],
  ),
  ['NATS_REPLICAS', '2', 'NATS_REPLICAS: "2" is not 1, 3 or 5 (default: 3)'],
  ['REPLICATION', 'none', 'REPLICATION: "none" is not sync or async (default: sync)'],
  [
    'SNAPSHOT_EVERY_BATCHES',
    '0',
    'SNAPSHOT_EVERY_BATCHES: "0" is not a whole number from 1 to 10000000 (default: 50000)',
  ],
  ...['front', 'front,front,ledger,webhooks'].map((value): [string, string, string] => [
    'ROLES',
    value,
    'ROLES: without NATS_URL one process has every role (default: all of them)',
  ]),
  [
    'ROLES',
    'front,chef',
    'ROLES: "front,chef" is not front, ledger, webhooks, poller, comma-separated (default: all of them)',
  ],
  ['PARTITIONS', '0', 'PARTITIONS: "0" is not a whole number from 1 to 1024 (default: 16; in a cluster 64)'],
  [
    'NODE_NAME',
    'a.b',
    'NODE_NAME: "a.b" is not 1 to 64 characters from A-Z a-z 0-9 _ - (default: the host name)',
  ],
  [
    'LOG_LEVEL',
    'loud',
    'LOG_LEVEL: "loud" is not trace, debug, info, warn, error, fatal, silent (default: info)',
  ],
  [
    'PROVIDER_ANSWER_WAIT_MS',
    '60000',
    'PROVIDER_ANSWER_WAIT_MS: "60000" is not a whole number from 0 to 7500 (default: 5000)',
  ],
  [
    'CHARGE_EXPIRY_SECONDS',
    '30m',
    'CHARGE_EXPIRY_SECONDS: "30m" is not a duration in seconds, up to a year (default: 1800)',
  ],
  ...['-1', '31622400.001'].map((value): [string, string, string] => [
    'CHARGE_RELEASE_SECONDS',
    value,
    `CHARGE_RELEASE_SECONDS: "${value}" is not a duration in seconds, up to a year (default: 86400)`,
  ]),
  [
    'WALLET_COOLING_OFF_SECONDS',
    '999999999',
    'WALLET_COOLING_OFF_SECONDS: "999999999" is not a duration in seconds, up to a year (default: 86400)',
  ],
  [
    'CASH_OUT_PER_MINUTE',
    '0',
    'CASH_OUT_PER_MINUTE: "0" is not a whole number from 1 to 100000 (default: 60)',
  ],
  [
    'WEBHOOK_RETRY_SECONDS',
    '30,,60',
    'WEBHOOK_RETRY_SECONDS: "30,,60" is not 1 to 15 durations in seconds, comma-separated (default: 30,120,600,1800,7200,21600,57600)',
  ],
  [
    'WEBHOOK_RETRY_SECONDS',
    '9,9,9,9,9,9,9,9,9,9,9,9,9,9,9,9',
    'WEBHOOK_RETRY_SECONDS: "9,9,9,9,9,9,9,9,9,9,9,9,9,9,9,9" is not 1 to 15 durations in seconds, comma-separated (default: 30,120,600,1800,7200,21600,57600)',
  ],
  [
    'WEBHOOK_RETENTION_DAYS',
    '0',
    'WEBHOOK_RETENTION_DAYS: "0" is not a whole number from 1 to 366 (default: 32)',
  ],
  [
    'WEBHOOK_RETENTION_DAYS',
    '1',
    'WEBHOOK_RETENTION_DAYS: 1 is less than the 2 days that attempts may take with these WEBHOOK_RETRY_SECONDS (default: 32)',
  ],
  ...['0', '65536', '443;8443', '8443,'].map((value): [string, string, string] => [
    'WEBHOOK_PORTS',
    value,
    `WEBHOOK_PORTS: "${value}" is not port numbers, comma-separated (default: none)`,
  ]),
  ...['yes', 'TRUE', 'constructor'].map((value): [string, string, string] => [
    'WEBHOOK_ALLOW_PRIVATE',
    value,
    `WEBHOOK_ALLOW_PRIVATE: "${value}" is not true or false (default: false)`,
  ]),
  ['DEMO', '1', 'DEMO: "1" is not true or false (default: true)'],
  [
    'RAILS',
    `{"routes":[{"api_key":"${'0123'.repeat(100)}"}]}`,
    'RAILS: its value is not simulator, loopback, or a file of routes and credentials (default: simulator)',
  ],
];

t.test('a wrong value says its name, what is wrong and the default', async (t) => {
  for (const [name, value, said] of wrong) {
    t.strictSame(problemsOf({ [name]: value }), [said], JSON.stringify([name, value]));
  }
});

t.test('a file that cannot be looked at says why', async (t) => {
  const below = join(import.meta.filename, 'rails.json');
  t.strictSame(problemsOf({ RAILS: below }), [
    `RAILS: "${below}" is not simulator, loopback, or a file of routes and credentials: ENOTDIR (default: simulator)`,
  ]);
  t.strictSame(problemsOf({ ...CLUSTER, NATS_CA_FILE: below }), [
    `NATS_CA_FILE: "${below}" is not a file: ENOTDIR (default: none)`,
  ]);
});

t.test('every name but POLICY_FILE has a wrong value in the table above', async (t) => {
  const names = [...describeConfig().matchAll(/^\| `([A-Z_]+)`/gm)].map((match) => match[1]);
  const tried = new Set(wrong.map(([name]) => name)).add('POLICY_FILE');
  t.strictSame(
    names.filter((name) => !tried.has(name ?? '')),
    [],
  );
});

t.test('a certificate and its key go together', async (t) => {
  const both = { NATS_CERT_FILE: import.meta.filename, NATS_KEY_FILE: import.meta.filename };
  t.strictSame(problemsOf({ ...CLUSTER, ...both }), []);
  t.strictSame(problemsOf({ ...CLUSTER, NATS_CERT_FILE: both.NATS_CERT_FILE }), [
    'NATS_KEY_FILE: is required with NATS_CERT_FILE',
  ]);
  t.strictSame(problemsOf({ ...CLUSTER, NATS_KEY_FILE: both.NATS_KEY_FILE }), [
    'NATS_CERT_FILE: is required with NATS_KEY_FILE',
  ]);
});

t.test('a port that two would listen on is told before anything starts', async (t) => {
  const PORT_81 = ['OPERATOR_PORT: 8081 is PORT, too, on 127.0.0.1 (default: 8081)'];
  t.strictSame(problemsOf({ PORT: '8081' }), PORT_81);
  t.strictSame(problemsOf({ PORT: '8082' }), [
    'SIMULATOR_PORT: 8082 is PORT, too, on 127.0.0.1 (default: 8082)',
  ]);
  t.strictSame(problemsOf({ PORT: '8082', RAILS: 'loopback' }), []);
  t.strictSame(problemsOf({ PORT: '8081', HOST: '10.0.0.1' }), []);
  t.strictSame(problemsOf({ ...CLUSTER, ROLES: 'ledger', PORT: '8081' }), []);
  t.strictSame(problemsOf({ ...CLUSTER, ROLES: 'ledger,front', PORT: '8081' }), PORT_81);
  t.strictSame(problemsOf({ PORT: '0', OPERATOR_PORT: '0', SIMULATOR_PORT: '0' }), []);
});

t.test('deliveries are kept for as long as they may be tried, jitter and attempts included', async (t) => {
  const DAY = 86_400;
  const attempts = 2 * (LIMITS.webhookAttemptMs / 1_000);
  const longest = Math.floor((DAY - attempts) / 1.1);
  const kept = (retry: number): readonly string[] =>
    problemsOf({ WEBHOOK_RETENTION_DAYS: '1', WEBHOOK_RETRY_SECONDS: String(retry) });
  t.strictSame(kept(longest), []);
  t.match(kept(longest + 1), [/^WEBHOOK_RETENTION_DAYS: 1 is less than the 2 days /]);
  t.match(problemsOf({ ...CLUSTER, WEBHOOK_RETRY_SECONDS: String(32 * DAY) }), [
    /^WEBHOOK_RETENTION_DAYS: 32 is less than the 36 days /,
  ]);
});

t.test('as many waits between attempts as there may be are taken', async (t) => {
  const waits = Array.from({ length: LIMITS.webhookRetriesMax }, () => '9').join();
  t.equal(readConfig({ WEBHOOK_RETRY_SECONDS: waits }).webhookRetryMs.length, LIMITS.webhookRetriesMax);
});

t.test('numbers are taken up to their bounds, and seconds to the millisecond', async (t) => {
  const ends = { PORT: '65535', PARTITIONS: '1024', WEBHOOK_PORTS: '1,65535', CASH_OUT_PER_MINUTE: '1' };
  t.hasStrict(readConfig({ ...ends, CHARGE_RELEASE_SECONDS: '31622400', CHARGE_EXPIRY_SECONDS: '1.001' }), {
    port: 65_535,
    partitions: 1_024,
    webhookPorts: [1, 65_535],
    policy: { cashOutPerMinute: 1, chargeReleaseMs: 366 * 86_400_000, chargeExpiryMs: 1_001 },
  });
});

t.test('texts are taken up to their bounds, and a key in every form of its 32 bytes', async (t) => {
  const [token, name] = ['!'.repeat(16), 'n'.repeat(64)];
  const config = readConfig({ OPERATOR_TOKEN: token, NODE_NAME: name });
  t.hasStrict(config, { operatorToken: token, nodeName: name });
  const key = Buffer.from(KEY, 'hex');
  for (const text of [KEY, KEY.toUpperCase(), key.toString('base64'), key.toString('base64url')]) {
    t.strictSame(readConfig({ MASTER_KEY: text }).masterKey, key, text);
  }
  const problems = problemsOf({
    ...CLUSTER,
    OPERATOR_TOKEN: 'a token with spaces',
    NODE_NAME: `${name}n`,
    NATS_URL: 'nats://a:4222/b',
    MASTER_KEY: `${KEY}ab`,
  });
  t.match(problems, [/^OPERATOR_TOKEN: /, /^MASTER_KEY: /, /^NATS_URL: /, /^NODE_NAME: /]);
});

t.test('the rules of webhooks are those of the configuration', async (t) => {
  const rails = { routes: {} } as unknown as Rails;
  const config = readConfig({ WEBHOOK_RETENTION_DAYS: '3', WEBHOOK_RETRY_SECONDS: '7' });
  t.strictSame(policiesOf(config, rails).webhooks, { retryMs: [7_000], retentionMs: 3 * 86_400_000 });
});

t.test('every mistake is reported, secrets are not repeated', async (t) => {
  const problems = problemsOf({ PORT: 'x', DEMO: 'y', MASTER_KEY: 'hunter2hunter2' });
  t.equal(problems.length, 3);
  t.notMatch(problems.join(), /hunter2/);
  t.throws(() => readConfig({ PORT: 'x' }), { message: /^The configuration is wrong:\n {2}PORT: / });
});

t.test('a policy file replaces parts of the defaults', async (t) => {
  const dir = t.testdir({
    'policy.json': '{"minimums": {"UGX": "1000"}}',
    'wrong.json': '{"minimums": {"UGX": "-1"}}',
    'broken.json': '{',
    'comma.json': '{"minimums": {"UGX": "1000"}\n"fees": {}}',
    key: 'sk_live_01M8PTB5GK1H9XRKPX7PJ38M00',
    'rails.json': '{}',
  });
  const { policy } = readConfig({ POLICY_FILE: join(dir, 'policy.json'), CASH_OUT_PER_MINUTE: '7' });
  t.hasStrict(policy, {
    minimums: { UGX: 1_000, KES: 1_000 },
    cashOutPerMinute: 7,
    fees: DEFAULT_POLICY.fees,
  });
  t.match(problemsOf({ POLICY_FILE: join(dir, 'wrong.json') }), [
    /^POLICY_FILE: .*wrong\.json: minimums\.UGX is /,
  ]);
  t.match(problemsOf({ POLICY_FILE: join(dir, 'broken.json') }), [/^POLICY_FILE: .*broken\.json: .*JSON/]);
  const [key = ''] = problemsOf({ POLICY_FILE: join(dir, 'key') });
  t.match(key, /^POLICY_FILE: .*key: it is not JSON \(default: none\)$/);
  t.notMatch(key, 'sk_live', 'what it says is not repeated: it may be another file, of secrets');
  t.match(problemsOf({ POLICY_FILE: join(dir, 'comma.json') }), [
    /comma\.json: it is not JSON at .*line 2 column 1/,
  ]);
  t.match(problemsOf({ POLICY_FILE: join(dir, 'absent.json') }), [/^POLICY_FILE: .*ENOENT/]);
  t.hasStrict(readConfig({ RAILS: join(dir, 'rails.json') }).rails, {
    type: 'file',
    path: join(dir, 'rails.json'),
  });
});

t.test('the example of a policy file is the defaults, all of them', async (t) => {
  const file = readFileSync(join(import.meta.dirname, '../../deploy/policy.json'), 'utf8');
  const rows = { UGX: null, KES: null, GHS: null };
  const { fees, limits, minimums, approvalThresholds } = DEFAULT_POLICY;
  const nothing = {
    ...DEFAULT_POLICY,
    minimums: rows,
    approvalThresholds: rows,
    fees: { CHARGE: rows, PAYOUT: rows, WITHDRAWAL: {} },
    limits: { CHARGE: rows, PAYOUT: rows, WITHDRAWAL: rows, DEPOSIT: rows },
  } as unknown as Policy;
  t.hasStrict(parsePolicyFile(file, nothing), { fees, limits, minimums, approvalThresholds });
});

t.test('the README has the table that the service prints', async (t) => {
  const readme = readFileSync(join(import.meta.dirname, '../../src/README.md'), 'utf8');
  const rows = (text: string) =>
    text.split('\n').map((line) => line.replace(/\s+/g, ' ').replace(/-{2,}/g, '--'));
  const inReadme = new Set(rows(readme));
  t.strictSame(
    rows(describeConfig()).filter((row) => !inReadme.has(row)),
    [],
  );
});
