// The rails of one process and what comes with them: the routes that the accounts decide by, the callbacks that providers
// make, and, standalone, the simulator that plays the providers.

import type { Config } from '../config.ts';
import { COUNTRY_FACTS, type Country, type Network } from '../domain/country.ts';
import type { Policy } from '../domain/policy.ts';
import type { Log } from '../observability/log.ts';
import { LoopbackRail } from '../rails/loopback.ts';
import type { OnHint, Rail } from '../rails/rail.ts';
import { systemClock } from '../rails/system-clock.ts';

export interface Rails {
  readonly rails: readonly Rail[];
  readonly routes: Policy['routes'];
  /** Rail id → the secret in the callback address that is set in its provider's portal. */
  readonly portalSecrets: ReadonlyMap<string, string>;
  /** Null: no simulator was started. */
  readonly simulatorUrl: string | null;
  /** Where providers reach us, known once the front listens; without a slash at its end. */
  setCallbackBase(baseUrl: string): void;
  close(): Promise<void>;
}

export interface RailsOptions {
  readonly config: Config;
  readonly log: Log;
  /** Key of the callback addresses (src/rails/callbacks.ts). */
  readonly callbackKey: Buffer;
  /** News of a transaction that did not come over HTTP. */
  readonly onHint: OnHint;
}

export async function openRails(options: RailsOptions): Promise<Rails> {
  switch (options.config.rails.type) {
    case 'loopback':
      return loopbackRails(options);
    case 'simulator':
    case 'file':
      throw new Error(`RAILS=${options.config.rails.type} is not wired yet; use RAILS=loopback`);
  }
}

const PAIRS: readonly (readonly [Country, Network])[] = (Object.keys(COUNTRY_FACTS) as Country[]).flatMap(
  (country) => (['MTN', 'AIRTEL'] as const).map((network) => [country, network] as const),
);

/** e.g. "mtn_ug". */
function railIdOf(country: Country, network: Network): string {
  return `${network}_${country}`.toLowerCase();
}

function loopbackRails({ config, onHint }: RailsOptions): Rails {
  const rails = PAIRS.map(([country, network]) => {
    const id = railIdOf(country, network);
    return new LoopbackRail({
      id,
      approveAfterMs: config.simulatorApproveAfterMs,
      clock: systemClock,
      onHint,
    });
  });
  const routes = Object.fromEntries(
    PAIRS.map(([country, network]) => [`${country}:${network}`, railIdOf(country, network)]),
  );
  return {
    rails,
    routes,
    portalSecrets: new Map(),
    simulatorUrl: null,
    setCallbackBase: () => {},
    close: async () => {
      await Promise.all(rails.map((rail) => rail.close()));
    },
  };
}
