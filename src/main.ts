// The process: reads the configuration, starts the service, says where it is, and stops it gracefully on SIGTERM,
// SIGINT and SIGHUP. The stages themselves are in src/wiring: standalone.ts, or with NATS_URL cluster.ts.
//
// Exit status:
//   0  after a graceful stop
//   1  after a failure
//   2  when an operator has to change something: the configuration, the data directory, the number of files that may be open, or the
//      address space, a cluster of another version or number of partitions, or NATS servers that take too short messages

import { join } from 'node:path';
import { ConfigError, describeConfig, readConfig, type Config } from './config.ts';
import { endProcess, STOP_SIGNALS } from './end-process.ts';
import { CannotListen } from './http/cannot-listen.ts';
import { LIMITS } from './limits.ts';
import {
  CannotConnect,
  CannotJoin,
  ClusterIdentityError,
  NatsUnfit,
  WriteFormatUnknown,
} from './nats/errors.ts';
import { LogOutput } from './observability/log-output.ts';
import { createLog } from './observability/log.ts';
import { openFilesMax, processLimitsProblem } from './process-limits.ts';
import { demoCurl } from './operator/demo.ts';
import { SimulatorUnusable } from './rails/loaded-rails.ts';
import { RoutesFileError } from './rails/routes-file.ts';
import { SimulatorCannotStart } from './rails/simulator/thread.ts';
import { SecretFileError } from './secrets.ts';
import { DataDirectoryError } from './data-directory/identity.ts';
import { WAL_LIMITS } from '../wal/limits.ts';
import { UnusableFile } from '../wal/meta-pages.ts';
import type { OnFailure } from './storage/storage.ts';
import type { ServiceOptions } from './wiring/service-options.ts';
import type { Service } from './wiring/standalone.ts';

const FAILED = 1;
const WRONGLY_CONFIGURED = 2;
/** Errors whose message says how to mend them. */
const OPERATORS_ERRORS = [
  ConfigError,
  DataDirectoryError,
  RoutesFileError,
  SecretFileError,
  ClusterIdentityError,
  NatsUnfit,
  WriteFormatUnknown,
  UnusableFile,
];
/** By the code of a system error that names a file: what mends it. */
const FILE_MENDS: Readonly<Record<string, string>> = {
  ENOSPC: 'make room on its disk',
  EDQUOT: "raise the quota of the service's user, or make room",
  EROFS: 'its disk is mounted read-only',
  EACCES: "give it to the service's user",
  EPERM: "give it to the service's user",
  EIO: 'distrust its disk',
};
/** As OPERATORS_ERRORS, but the cause may be gone by the next start. */
const PASSING_ERRORS = [CannotConnect, CannotJoin, CannotListen, SimulatorCannotStart, SimulatorUnusable];

// Whoever read these streams may have gone. Without a listener the next write, be it a warning of Node's, would end the process.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

// The socket in the data directory and LMDB's files are made as this says. Whoever may write to the socket could stop all commits.
process.umask(0o077);

const given = process.argv.slice(2);
if (given.some((argument) => argument === '--help' || argument === '-h')) {
  process.stdout.write(
    `npm start\n\nRuns Daftari. Settings are environment variables:\n\n${describeConfig()}`,
  );
} else if (given.length > 0) {
  process.stderr.write(
    'npm start takes no arguments: settings are environment variables; --help lists them.\n',
  );
  process.exitCode = WRONGLY_CONFIGURED;
} else {
  await run();
}

async function run(): Promise<void> {
  const problem = processLimitsProblem('the service', {
    openFiles: LIMITS.openFilesMin,
    addressSpace: WAL_LIMITS.logMapBytes + WAL_LIMITS.viewsMapBytes,
  });
  if (problem !== null) {
    process.stderr.write(`${problem}, then start again.\n`);
    process.exitCode = WRONGLY_CONFIGURED;
    return;
  }
  try {
    await serve(readConfig(process.env));
  } catch (error) {
    const isWrong = OPERATORS_ERRORS.some((each) => error instanceof each);
    const isToldWell = isWrong || PASSING_ERRORS.some((each) => error instanceof each);
    const { message, stack = message, code = '', path } = error as NodeJS.ErrnoException;
    const mend = path === undefined ? undefined : FILE_MENDS[code];
    if (mend !== undefined) process.stderr.write(`${message}: ${mend}, then start again.\n`);
    else process.stderr.write(`${isToldWell ? message : stack}\n`);
    endProcess(isWrong ? WRONGLY_CONFIGURED : FAILED);
  }
}

async function serve(config: Config): Promise<void> {
  const output = new LogOutput();
  const log = createLog({ level: config.logLevel, node: config.nodeName, stream: output });
  const onFailure: OnFailure = (error, part) => {
    // What was decided may or may not be on disk: recovery says, so nothing more is said here.
    const isOfAnother = error instanceof DataDirectoryError;
    const status = isOfAnother ? WRONGLY_CONFIGURED : FAILED;
    const failed = isOfAnother || part === undefined ? '' : `${part} has failed; `;
    log.fatal({ err: error }, `${failed}stopping`);
    process.exitCode = status;
    setImmediate(() => endProcess(status));
  };
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'an uncaught error; stopping');
    endProcess(FAILED);
  });
  let stopService: (() => Promise<void>) | null = null;
  let stopping = false;
  const stop = async (signal: string): Promise<void> => {
    if (stopping) return;
    stopping = true;
    log.info({ signal }, 'stopping');
    await stopService?.();
    log.info({}, 'stopped');
    await output.settled();
    // Null: it is starting, has promised nothing, and its threads may be at work.
    if (stopService === null) endProcess(0);
    process.exit(0);
  };
  // From the start on: the first process of a container does not hear of a signal otherwise.
  for (const signal of STOP_SIGNALS) process.on(signal, () => void stop(signal));
  const files = openFilesMax();
  const kept = Math.max(Math.floor(files / 2), LIMITS.openFilesKeptMin);
  const connectionsMax = files - Math.min(kept, LIMITS.openFilesKeptMax);
  stopService = await startProfile({ config, log, onFailure, connectionsMax });
}

/** Resolves, when it serves, with the way to stop it. Of the profiles only the one that is asked for is loaded. */
async function startProfile(options: ServiceOptions): Promise<() => Promise<void>> {
  if (options.config.natsServers !== null) {
    const { startClusterNode } = await import('./wiring/cluster.ts');
    const node = await startClusterNode(options);
    return () => node.stop();
  }
  const { startStandalone } = await import('./wiring/standalone.ts');
  const service = await startStandalone(options);
  greet(service, options.config);
  return () => service.stop();
}

function greet({ baseUrl, operatorUrl, simulatorUrl, demo }: Service, { rails, dataDir }: Config): void {
  // Whoever collects the lines of a service takes each for JSON; the log says the same.
  if (demo === null && !process.stdout.isTTY) return;
  const lines = ['', `Daftari serves merchants at ${baseUrl} and operators at ${operatorUrl}.`];
  if (simulatorUrl !== null) lines.push(`Play the customer at ${simulatorUrl}.`);
  if (demo !== null && rails.type === 'file') {
    // What is written here is kept where many may read it.
    const file = join(dataDir, 'demo.json');
    lines.push(
      `The demo account is live, and its money real: its keys are in ${file}. DEMO=false makes none.`,
    );
  } else if (demo !== null) {
    lines.push('Create a charge:', '', `  ${demoCurl(demo)}`);
  }
  process.stdout.write(`${lines.join('\n')}\n\n`);
}
