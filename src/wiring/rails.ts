// The rails of one process, and, where RAILS=simulator, the simulator that plays the providers in a thread of its own.

import type { Config } from '../config.ts';
import type { Log } from '../observability/log.ts';
import type { OnHint } from '../rails/rail.ts';
import type { LoadedRails, RailsConfig } from '../rails/loaded-rails.ts';
import { loadRails } from '../rails/routes.ts';
import { startSimulatorThread } from '../rails/simulator/thread.ts';
import { clockBy } from '../rails/system-clock.ts';
import type { Secrets } from '../secrets.ts';

export interface Rails extends LoadedRails {
  /** Null: no simulator was started. */
  readonly simulatorUrl: string | null;
}

export interface RailsOptions {
  readonly config: Config;
  readonly log: Log;
  readonly secrets: Secrets;
  /** Of the process. */
  readonly clock: () => number;
  /** News of a transaction that did not come over HTTP. */
  readonly onHint: OnHint;
}

export async function openRails(options: RailsOptions): Promise<Rails> {
  const { config, log, secrets, onHint, clock } = options;
  const isSimulated = config.rails.type === 'simulator';
  const simulator = isSimulated && config.simulatorUrl === null ? await startSimulator(config, log) : null;
  const simulatorUrl = simulator?.url ?? config.simulatorUrl;
  const loaded = await loadRails({
    config:
      isSimulated && simulatorUrl !== null
        ? { type: 'simulator', url: simulatorUrl }
        : (config.rails as RailsConfig),
    environment: process.env,
    openSealed: (sealed) => secrets.open('rail-credential', sealed),
    callbackKey: secrets.subkey('callback-token'),
    callbackHost: callbackHostOf(config),
    approveAfterMs: config.simulatorApproveAfterMs,
    onHint,
    clock: clockBy(clock),
  });
  tellOneWay(loaded, log);
  return {
    ...loaded,
    simulatorUrl: simulator?.url ?? null,
    async close() {
      await loaded.close();
      await simulator?.close();
    },
  };
}

/** Merchants are refused what such a route lacks credentials for, and nobody else hears of that. */
function tellOneWay({ oneWay, routes }: LoadedRails, log: Log): void {
  for (const [pair, only] of Object.entries(oneWay)) {
    const refused = only === 'collect' ? 'payouts and withdrawals' : 'charges and deposits';
    const fields = { route: routes[pair as keyof typeof routes] };
    log.warn(fields, `${refused} over this route are refused: it has no credentials for them`);
  }
}

/** Of an IPv6 address without its brackets. */
function callbackHostOf({ callbackBaseUrl, host }: Config): string {
  return callbackBaseUrl === null ? host : new URL(callbackBaseUrl).hostname.replace(/^\[|\]$/g, '');
}

/** On loopback: it plays with no real money, and anybody who reaches it may approve anything. */
function startSimulator(config: Config, log: Log) {
  const options = {
    host: '127.0.0.1',
    port: config.simulatorPort,
    approveAfterMs: config.simulatorApproveAfterMs,
  };
  return startSimulatorThread(options, (error) => log.error({ err: error }, 'the simulator has died'));
}
