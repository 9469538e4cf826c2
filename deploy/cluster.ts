// `npm run cluster`: a small real cluster on this machine, for development and for trying what happens when parts of it go.
// Data is in ./data/cluster; a second start goes on where the first ended.

import { directory, readCluster } from './cluster-file.ts';
import type { ClusterFile } from './cluster-file.ts';
import { printMap } from './cluster-map.ts';
import { drain, startAgain } from './cluster-nodes.ts';
import { run } from './cluster-run.ts';
import { linkForOperator, natsOf } from './operator-link.ts';
import type { Nats } from './operator-link.ts';
import { streamTools } from './stream-tools.ts';
import { upgrade } from './upgrade.ts';
import type { NatsLink } from '../src/nats/connection.ts';
import { endBySignals } from '../src/end-process.ts';
import { messageOf } from '../wal/thrown.ts';
import { ownTerminal, runTools, UsageError } from '../wal/tools/tool.ts';

const USAGE = `npm run cluster                    starts a small real cluster on this machine, prints its map, stops it on Ctrl-C
npm run cluster -- drain <node>    has a node of the running cluster hand over what it has, and stops it
npm run cluster -- start <node>    starts it again
npm run cluster -- map             prints the map again
npm run cluster -- upgrade         has it write the newest format that all nodes read
npm run cluster -- archive --help  copies what is old from the streams to an archive
npm run cluster -- trim --help     removes from the streams what is archived and needed by nobody
npm run cluster -- put-back --help gives streams that were lost, or purged empty, a node's log back

CLUSTER_DIR   where its data is (data/cluster)
PARTITIONS    of a new cluster (16)
NATS_URL      for upgrade, archive, trim and put-back: the NATS of another cluster, with NATS_CA_FILE and the like as nodes have them

It needs nats-server on the path. Exit status: 0 done, 1 failed, 2 wrongly asked.`;

const NONE_RUNS = `No cluster runs in ${directory}. Start one with: npm run cluster`;
const NO_NATS = `No cluster runs in ${directory}. For another one set NATS_URL, and NATS_CA_FILE where its NATS has TLS`;
/** From the start on: whoever reads no further ends neither a command nor the cluster. */
const terminal = ownTerminal();

// Logs, streams and archives have everybody's numbers and money: all that is made is for this user alone.
process.umask(0o077);
process.exitCode = await obey(process.argv.slice(2));

async function obey(args: readonly string[]): Promise<number> {
  const [command = 'run', ...words] = args;
  if (command !== 'run') endBySignals();
  if (['archive', 'trim', 'put-back'].includes(command)) {
    return runTools('npm run cluster --', streamTools(connect), args, terminal);
  }
  if ([command, ...words].some((word) => word === '--help' || word === '-h')) {
    console.log(USAGE);
    return 0;
  }
  const [node, ...more] = words;
  const act = actOf(command, node);
  if (act === null) return wronglyAsked(`There is no "${command}".`);
  // Nothing is done before every word is understood: an upgrade cannot be taken back.
  const unknown = command === 'drain' || command === 'start' ? more[0] : node;
  return unknown === undefined ? told(command, act) : wronglyAsked(`${command} takes no "${unknown}".`);
}

/** Why it could not be done is told in a line. */
async function told(command: string, act: () => Promise<number>): Promise<number> {
  try {
    return await act();
  } catch (error) {
    console.error(`${command}: ${messageOf(error)}`);
    return 1;
  }
}

/** Null: there is no such command. */
function actOf(command: string, node: string | undefined): (() => Promise<number>) | null {
  switch (command) {
    case 'run':
      return run;
    case 'map':
      return () => withRunning(printMap);
    case 'drain':
      return () => withRunning((cluster) => drain(cluster, node));
    case 'start':
      return () => withRunning((cluster) => startAgain(cluster, node));
    case 'upgrade':
      return upgradeCluster;
    default:
      return null;
  }
}

function wronglyAsked(problem: string): number {
  console.error(`${problem}\n\n${USAGE}`);
  return 2;
}

async function upgradeCluster(): Promise<number> {
  const nats = natsOfCluster();
  if (nats === null) return noneRuns(NO_NATS);
  return report(await upgrade(nats, console.error));
}

async function connect(): Promise<NatsLink> {
  const nats = natsOfCluster();
  if (nats === null) throw new UsageError(NO_NATS);
  return linkForOperator('streams', nats, console.error);
}

/** Of the cluster that NATS_URL names, otherwise of the one on this machine; null: none runs here. */
function natsOfCluster(): Nats | null {
  const running = readCluster();
  return natsOf(process.env) ?? (running === null ? null : { url: running.natsUrls.join(',') });
}

function report({ done, said }: { done: boolean; said: string }): number {
  console.log(said);
  return done ? 0 : 1;
}

async function withRunning(act: (cluster: ClusterFile) => Promise<number>): Promise<number> {
  const cluster = readCluster();
  return cluster === null ? noneRuns() : act(cluster);
}

function noneRuns(why = NONE_RUNS): number {
  console.error(why);
  return 1;
}
