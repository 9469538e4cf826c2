// The parts of the bench that need what npm does not install: PostgreSQL as a peer, and nats-server for the cluster.
// Left out, saying so, where it is not there.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import t from 'tap';
import { userIn } from '../../bench/servers/start-postgres-peer.ts';
import { isInstalled } from '../../deploy/server-path.ts';
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
