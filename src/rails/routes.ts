// From the setting RAILS to rails: which (country, network) goes where, with the adapters made and the addresses of
// callbacks known. Called once at start by every process that needs any of it. Those of providers are in provider-routes.ts.

import { COUNTRIES, NETWORKS } from '../domain/country.ts';
import type { Policy } from '../domain/policy.ts';
import { Callbacks } from './callbacks.ts';
import { LoopbackRail } from './loopback.ts';
import { type Clock, closeAll, type OnHint, type Rail } from './rail.ts';

export type RailsConfig =
  | { readonly type: 'loopback' }
  /** `url`: of a running simulator. */
  | { readonly type: 'simulator'; readonly url: string }
  | { readonly type: 'file'; readonly path: string };

export interface LoadRailsOptions {
  readonly config: RailsConfig;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Opens what was sealed with the master key; null: there is none. */
  readonly openSealed: ((sealed: string) => string) | null;
  /** Of Callbacks: 32 bytes, the same on every node. */
  readonly callbackKey: Buffer;
  /** Host that the simulator calls back to, without port. */
  readonly callbackHost: string;
  /** For loopback. */
  readonly approveAfterMs: number;
  readonly onHint: OnHint;
  readonly clock: Clock;
}

export interface LoadedRails {
  readonly rails: ReadonlyMap<string, Rail>;
  readonly routes: Policy['routes'];
  readonly callbacks: Callbacks;
  /** False: the callback carries a hash that only the provider could make, and it is wrong. A rail without a hash key,
   *  or a callback without a hash, proves nothing either way: true. */
  readonly isCallbackPlausible: (railId: string, body: string) => boolean;
  /** Where providers reach /callbacks, without a slash at its end; a file of routes may name another, which wins.
   *  Until it is known submits carry no address, and enquiries find the outcome. */
  setCallbackBase(baseUrl: string): Promise<void>;
  close(): Promise<void>;
}

/** Throws RoutesFileError with all that is wrong, or an error when the simulator cannot be provisioned. */
export async function loadRails(options: LoadRailsOptions): Promise<LoadedRails> {
  const { config } = options;
  switch (config.type) {
    case 'loopback':
      return loadLoopback(options);
    case 'simulator':
      return (await import('./provider-routes.ts')).loadSimulator(options, config.url);
    case 'file':
      return (await import('./provider-routes.ts')).loadFile(options, config.path);
  }
}

function loadLoopback({ approveAfterMs, clock, onHint, callbackKey }: LoadRailsOptions): LoadedRails {
  const rails = new Map<string, Rail>();
  const routes: Record<string, string> = {};
  for (const country of COUNTRIES) {
    for (const network of NETWORKS) {
      const id = `${network}_${country}`.toLowerCase();
      rails.set(id, new LoopbackRail({ id, approveAfterMs, clock, onHint }));
      routes[`${country}:${network}`] = id;
    }
  }
  return {
    rails,
    routes: routes as Policy['routes'],
    callbacks: new Callbacks({ key: callbackKey, portalSecrets: new Map() }),
    isCallbackPlausible: () => true,
    setCallbackBase: () => Promise.resolve(),
    close: () => closeAll(rails),
  };
}
