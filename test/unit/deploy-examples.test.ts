// The examples of deploy/ against the service's own bounds: what runs it does not end it before it has done what it is asked to.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { STOP_MS_MAX as NODE_STOP_MS_MAX } from '../../deploy/cluster-processes.ts';
import { LIMITS } from '../../src/limits.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

/** A server's, from when it takes no new connection: a request is read, then answered. */
const SERVER_MS = LIMITS.requestReceiveMs + LIMITS.commandDeadlineMs;
/** Each waits for its own, one after the other (src/wiring/standalone.ts): the front, the pollers for calls, for their outcomes and
 *  for who takes over, the webhooks, the operators' server. */
const STOP_MS_MAX = SERVER_MS + 3 * LIMITS.pollerStopMs + LIMITS.webhookStopMs + SERVER_MS;
/** A renewal of the session that is under way, and another that says what is new. */
const SESSION_MS = 2 * LIMITS.streamAckMs;
/** A node of a cluster besides (src/wiring/cluster.ts): it says that it leaves, waits for others, lets go of what is left, ends its session,
 *  and closes its connection. */
const NODE_MS = SESSION_MS + LIMITS.drainMs + LIMITS.handOverMs + SESSION_MS + LIMITS.natsPingMs;

for (const [file, given] of [
  ['systemd/daftari.service', /^TimeoutStopSec=(\d+)$/m],
  ['compose/compose.yaml', /^ *stop_grace_period: (\d+)s$/m],
  ['kubernetes/daftari.yaml', /^ *terminationGracePeriodSeconds: (\d+)$/m],
] as const) {
  t.test(`${file} lets a stop come to its end`, async (t) => {
    const text = readFileSync(join(import.meta.dirname, '../../deploy', file), 'utf8');
    const seconds = Number(given.exec(text)?.[1]);
    t.ok(seconds * 1000 > NODE_STOP_MS_MAX, `${seconds} s, and a stop may take ${NODE_STOP_MS_MAX / 1000}`);
    t.match(text, `hang, in ${STOP_MS_MAX / 1000}; in a cluster in ${NODE_STOP_MS_MAX / 1000} at`);
  });
}

for (const [file, given] of [
  ['systemd/daftari.service', /^LimitCORE=0$/m],
  ['compose/compose.yaml', /^ {4}ulimits:\n(?: {6}.*\n)*? {6}core: 0$/m],
] as const) {
  // Kubernetes has no word for it.
  t.test(`with ${file} nobody finds secrets in what is left of a process that died`, async (t) => {
    t.match(readFileSync(join(import.meta.dirname, '../../deploy', file), 'utf8'), given);
  });
}

t.test(
  "Kubernetes' policy lets names be asked for, also of a cache on the node, and nothing else of link-local addresses",
  (t) => {
    const text = readFileSync(join(import.meta.dirname, '../../deploy/kubernetes/daftari.yaml'), 'utf8');
    const [, egress = ''] = /\n {2}egress:\n([^]*?)\n---\n/.exec(text) ?? [];
    const rules = egress.split(/^ {4}- to:/m).slice(1);
    const names = rules.filter((rule) => rule.includes('port: 53'));
    t.equal(names.length, 1);
    t.match(names[0], /k8s-app: kube-dns/);
    // Its pods have the network of the node: no selector of pods finds them.
    t.match(names[0], /ipBlock: \{ cidr: 169\.254\.20\.10\/32 \}/);
    for (const protocol of ['UDP', 'TCP']) t.match(names[0], `{ protocol: ${protocol}, port: 53 }`);
    t.ok(rules.some((rule) => /except: .*169\.254\.0\.0\/16/.test(rule) && !rule.includes('port: 53')));
    t.end();
  },
);

t.test('who drains a node of a cluster waits for as long as that may take, as the READMEs say', (t) => {
  t.equal(NODE_STOP_MS_MAX, STOP_MS_MAX + NODE_MS);
  const text = (file: string): string => readFileSync(join(import.meta.dirname, '../..', file), 'utf8');
  const most = `${NODE_STOP_MS_MAX / 1000} s at the very most`;
  t.match(text('deploy/README.md'), `wait for exit 0 (${most}`);
  t.match(text('src/README.md'), `hang, it takes ${STOP_MS_MAX / 1000} s, and in a\ncluster ${most}`);
  t.end();
});

t.test(
  "what the runbook sets once in a shell works for a user without a home, as a service's mostly is",
  (t) => {
    const runbook = readFileSync(join(import.meta.dirname, '../../deploy/README.md'), 'utf8');
    const [pasted = ''] = /^export DATA_DIR=[^\n]*\n[^]*?(?=\n```)/m.exec(runbook) ?? [];
    const env = {
      PATH: process.env['PATH'],
      HOME: '/nonexistent',
      TMPDIR: temporaryDirectory(t),
      OPERATOR_TOKEN: 'secret',
    };
    const shown = `${pasted}\nstat -c %a "\${TOKEN#@}" && cat "\${TOKEN#@}"`;
    t.match(spawnSync('bash', ['-c', shown], { env, encoding: 'utf8' }), {
      stdout: '600\nAuthorization: Bearer secret\n',
      stderr: '',
    });
    t.strictSame(readdirSync(env.TMPDIR), [], 'nor does the token outlive the shell');
    t.end();
  },
);
