// The parts of the bench that need what npm does not install: PostgreSQL as a peer, nats-server for the cluster, and wrk.
// Left out, saying so, where it is not there.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { delimiter, join } from 'node:path';
import t from 'tap';
import { drive } from '../../bench/load/drive.ts';
import { hasWrk } from '../../bench/load/wrk.ts';
import { threadTimeOf } from '../../bench/measure/process-use.ts';
import { startBare, TYPICAL_BODY } from '../../bench/servers/start-bare.ts';
import { userIn } from '../../bench/servers/start-postgres-peer.ts';
import { isInstalled } from '../../deploy/server-path.ts';
import { driveOn, portOf } from './bench-endpoint.ts';
import { smokeTest } from './bench-smoke.ts';

const hasPostgres =
  existsSync('/usr/lib/postgresql') ||
  (process.env['PATH'] ?? '').split(delimiter).some((place) => existsSync(join(place, 'initdb')));

if (hasPostgres) smokeTest(t, 'payouts', ['--peer', 'postgres']);
else t.comment('PostgreSQL is not installed: its comparison is not tested');

t.test('for root PostgreSQL runs as the user of its package, or else as nobody', async (t) => {
  const nobody =
    'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n';
  t.strictSame(userIn(`${nobody}postgres:x:101:104::/var/lib/postgresql:/bin/bash\n`), {
    uid: 101,
    gid: 104,
  });
  t.strictSame(userIn(nobody), { uid: 65_534, gid: 65_533 });
  t.throws(() => userIn('root:x:0:0:root:/root:/bin/bash\n'), /there is no user "postgres"/);
});

t.test('CPU is told of the load, not of the time that wrk takes to begin', { skip: !hasWrk() }, async (t) => {
  const IDS = 300_000;
  const directory = t.testdir({ keys: 'key' });
  const [keysFile, idsFile] = [join(directory, 'keys'), join(directory, 'ids')];
  writeFileSync(idsFile, `0 chg_${'0'.repeat(26)}\n`.repeat(IDS));
  const server = await startBare({ postBody: TYPICAL_BODY, getBody: TYPICAL_BODY });
  t.teardown(() => server.stop());
  const { pid } = server.processes[0]!;
  /** Of all its threads, so far. */
  const seconds: number[] = [];
  const readMetrics = async () => {
    seconds.push(threadTimeOf(readFileSync(`/proc/${pid}/stat`, 'latin1'), null).seconds);
    return [];
  };
  const { load } = await drive({
    label: 'reads',
    server: { ...server, readMetrics },
    work: { kinds: ['read'], keysFile, idsFile, lists: [], msisdn: '', prefix: '' },
    connections: 16,
    ratePerSecond: null,
    warmUpSeconds: 1,
    seconds: 1,
    wrk: true,
    onProgress: () => {},
  });
  // Asked twice before the load, when wrk begins to send, and when it has ended.
  const spent = seconds[3]! - seconds[2]!;
  const told = load.processes[0]!.cpu * load.seconds;
  t.comment(`${spent} s were spent, ${told} told`);
  t.ok(Math.abs(told - spent) < 0.05 * spent + 0.04);
});

t.test('wrk sends every request that is told as sent, its first too', { skip: !hasWrk() }, async (t) => {
  const arrived = new Set<number>();
  const endpoint = createServer((request, response) => {
    arrived.add(Number(String(request.headers['idempotency-key']).split('-')[1]));
    request.resume().on('end', () => response.end());
  });
  const connections = 2;
  const offer = { connections, warmUpSeconds: 0.1, wrk: true };
  const { load, sent, brokeOffAt } = await driveOn(t, await portOf(t, endpoint), offer);
  t.ok(load.warmUpSeconds > 0.9, 'it knows whole seconds only, and that is told');
  const missing = Array.from({ length: sent }, (_, counter) => counter).filter(
    (counter) => !arrived.has(counter),
  );
  t.comment(`missing: ${missing.join(', ')}; broke off at ${brokeOffAt.join(', ')}`);
  // One that a connection was about to send when wrk broke off may not have left.
  const brokenOff = (counter: number): boolean =>
    brokeOffAt.some((end) => counter < end && counter >= end - connections);
  t.strictSame(
    missing.filter((counter) => !brokenOff(counter)),
    [],
  );
});

const clustered = isInstalled('nats-server') ? ['cluster', 'failover'] : [];
if (clustered.length === 0) t.comment('nats-server is not installed: cluster and failover are not tested');
for (const name of clustered) smokeTest(t, name);

// One that Node does not know: whoever is given it says so and ends.
const unknown = ['bench/cli.ts', ...clustered, '--form', 'smoke', '--node-args=--no-such-option'];
t.test('--node-args reaches the nodes of a cluster', { skip: clustered.length === 0 }, async (t) => {
  const { status, stderr } = spawnSync(process.execPath, unknown, { encoding: 'utf8', timeout: 120_000 });
  t.equal(status, 1);
  for (const name of clustered) {
    t.match(stderr, new RegExp(`${name} could not be measured: .*bad option: --no-such-option`, 's'));
  }
});
