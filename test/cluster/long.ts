// `npm run test:cluster -- --minutes 30 --seed 7`: a cluster under load while one thing after another is taken from it, in an
// order that the seed decides; then the checker. Exit status 0 only if it finds nothing.

import { untilReady, whyNotReady } from '../../deploy/cluster-processes.ts';
import { NATS_SERVER_MISSING } from '../../deploy/nats-servers.ts';
import { waitFor } from '../../deploy/wait-for.ts';
import { isInstalled } from '../../deploy/server-path.ts';
import { endWithChildren } from '../../deploy/stop-signal.ts';
import { messageOf } from '../../wal/thrown.ts';
import { readLongOptions } from '../long-options.ts';
import { Cluster, PARTITIONS } from './cluster.ts';
import { percentile } from './load.ts';
import { faultOfNats } from './nats-fault.ts';
import { randomFrom } from '../seed.ts';
import { canTrace, hangDisk } from '../tracer.ts';

const { minutes, callers, partitions, seed } = readLongOptions(
  `npm run test:cluster -- [--minutes N, default 5] [--callers N, default 16] [--partitions N, default ${PARTITIONS}] ` +
    '[--seed S, default random]',
  { minutes: 5, callers: 16, partitions: PARTITIONS },
);
if (!isInstalled('nats-server')) {
  console.error(NATS_SERVER_MISSING);
  process.exit(2);
}
endWithChildren();
console.log(`seed ${seed}, ${minutes} minutes, ${partitions} partitions`);
process.exitCode = await run();

async function run(): Promise<number> {
  const random = randomFrom(seed);
  const cluster = await Cluster.start(
    {
      natsServers: 3,
      fronts: 2,
      ledgers: 3,
      webhooks: 1,
      pollers: 2,
      environment: { PARTITIONS: String(partitions) },
    },
    partitions,
  );
  console.log(`cluster in ${cluster.directory}`);
  let findings: string[] = ['it did not come to its end'];
  try {
    const load = cluster.load(callers, 5);
    const faults = faultsOf(cluster, random);
    const names = Object.keys(faults);
    const until = performance.now() + minutes * 60_000;
    while (performance.now() < until) {
      const name = names[Math.floor(random() * names.length)] ?? '';
      const answered = load.answered;
      process.stdout.write(name.padEnd(22));
      const startedAt = performance.now();
      await faults[name]?.();
      await untilReady(cluster.running, 120_000);
      const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
      console.log(` ${seconds} s, ${load.answered - answered} creates answered meanwhile`);
    }
    const report = await load.stop();
    const statuses = Map.groupBy(report.journal, ({ status }) => String(status));
    console.log(
      `${report.journal.length} creates: ${[...statuses].map(([status, all]) => `${all.length} × ${status}`).join(', ')}; ` +
        `p50 ${percentile(report.latenciesMs, 0.5).toFixed(1)} ms, longest ${percentile(report.latenciesMs, 1).toFixed(0)} ms`,
    );
    findings = await cluster.check(report);
  } catch (error) {
    const fault = await faultOfNats(cluster);
    if (fault === null) throw error;
    findings = [`NATS itself has not come back, so nothing is shown: ${fault} (${messageOf(error)})`];
  } finally {
    // What was found is looked for in the logs.
    await cluster.stop(findings.length > 0);
  }
  for (const finding of findings) console.log(`FOUND ${finding}`);
  console.log(
    findings.length === 0 ? 'Sound.' : `Not sound. Again with: --seed ${seed} --minutes ${minutes}`,
  );
  return findings.length === 0 ? 0 : 1;
}

/** Each leaves the cluster whole again, or on its way there. */
function faultsOf(cluster: Cluster, random: () => number): Record<string, () => Promise<void>> {
  const one = (role: string): string => {
    const names = [...new Set(cluster.nodes.filter(({ roles }) => roles === role).map(({ name }) => name))];
    return names[Math.floor(random() * names.length)] ?? '';
  };
  const restart = async (role: string, signal: NodeJS.Signals, pauseMs: number): Promise<void> => {
    const name = one(role);
    cluster.node(name).signal(signal);
    await cluster.node(name).exited();
    await pause(random() * pauseMs);
    await cluster.add(name, role);
  };
  const freeze = async (role: string): Promise<void> => {
    const node = cluster.node(one(role));
    node.signal('SIGSTOP');
    await pause(1_000 + random() * 5_000);
    node.signal('SIGCONT');
  };
  const hang = async (role: string): Promise<void> => {
    const name = one(role);
    const node = cluster.node(name);
    const goOn = await hangDisk(node.pid);
    await pause(2_000 + random() * 12_000);
    goOn();
    const hasEnded = (): boolean => node.exitStatus() !== null;
    // One whose disk was away for too long has ended by itself.
    await waitFor(
      'it has ended, or serves',
      120_000,
      async () => hasEnded() || (await whyNotReady(node)) === null,
    );
    if (hasEnded()) await cluster.add(name, role);
  };
  const natsServer = async (signal: 'SIGKILL' | 'SIGSTOP'): Promise<void> => {
    const index = Math.floor(random() * 3);
    await cluster.nats.kill(index, signal);
    await pause(1_000 + random() * 15_000);
    if (signal === 'SIGSTOP') await cluster.nats.kill(index, 'SIGCONT');
    else await cluster.nats.restart(index, 'member');
  };
  return {
    'ledger killed': () => restart('ledger', 'SIGKILL', 6_000),
    'ledger restarted': () => restart('ledger', 'SIGTERM', 1_000),
    'ledger frozen': () => freeze('ledger'),
    ...(canTrace && { "ledger's disk hung": () => hang('ledger') }),
    'front killed': () => restart('front', 'SIGKILL', 2_000),
    'poller killed': () => restart('poller', 'SIGKILL', 6_000),
    'webhooks killed': () => restart('webhooks', 'SIGKILL', 6_000),
    'nats-server killed': () => natsServer('SIGKILL'),
    'nats-server frozen': () => natsServer('SIGSTOP'),
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
