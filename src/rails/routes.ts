// From the setting RAILS to rails: which (country, network) goes where, with the adapters made and the addresses of
// callbacks known. Called once at start by every process that needs any of it. Those of providers are in provider-routes.ts.

import { COUNTRIES, NETWORKS } from '../domain/country.ts';
import type { Policy } from '../domain/policy.ts';
import { Callbacks } from './callbacks.ts';
import type { LoadedRails, LoadRailsOptions } from './loaded-rails.ts';
import { LoopbackRail } from './loopback.ts';
import { closeAll, type Rail } from './rail.ts';

/** Throws RoutesFileError with all that is wrong, or SimulatorUnusable. */
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
    oneWay: {},
    amountDecimals: {},
    callbacks: new Callbacks({ key: callbackKey, portalSecrets: new Map() }),
    isCallbackPlausible: () => true,
    setCallbackBase: () => Promise.resolve(),
    close: () => closeAll(rails),
  };
}
