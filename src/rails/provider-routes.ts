// Rails of providers, with their adapters, as a file of routes names them or the simulator has them. Apart from routes.ts: what
// asks over HTTP is loaded only where there is such a rail.

import { createHmac } from 'node:crypto';
import type { Policy } from '../domain/policy.ts';
import { callbackHashIsValid } from './airtel-crypto.ts';
import { AirtelRail } from './airtel.ts';
import { Callbacks } from './callbacks.ts';
import type { LoadedRails, LoadRailsOptions } from './loaded-rails.ts';
import { MtnRail } from './mtn.ts';
import type { CallbackUrlOf, ProviderRail } from './provider-rail.ts';
import { type Clock, closeAll, type Direction } from './rail.ts';
import { readRoutesFile, type Route } from './routes-file.ts';
import { provisionSimulator, setPortalUrls } from './routes-simulator.ts';

/** Throws RoutesFileError with all that is wrong. */
export function loadFile(options: LoadRailsOptions, path: string): LoadedRails {
  const { routes, callbackBaseUrl } = readRoutesFile(path, options);
  return assemble(options, routes, { baseUrl: callbackBaseUrl, forgetful: false, onBase: null });
}

/** Of a running simulator. Throws SimulatorUnusable when it cannot be provisioned. */
export async function loadSimulator(options: LoadRailsOptions, url: string): Promise<LoadedRails> {
  const { callbackKey } = options;
  const callbackHost = options.callbackHost.includes(':')
    ? `[${options.callbackHost}]`
    : options.callbackHost;
  const portalSecretOf = (id: string): string =>
    createHmac('sha256', callbackKey).update(`portal ${id}`).digest('base64url');
  const merchant = portalSecretOf('merchant');
  const routes = await provisionSimulator({ url, callbackHost, merchant, portalSecretOf });
  return assemble(options, routes, {
    baseUrl: null,
    forgetful: true,
    onBase: (portalUrlOf) => setPortalUrls(url, routes, portalUrlOf),
  });
}

interface Assembly {
  /** Null: known later. */
  readonly baseUrl: string | null;
  readonly forgetful: boolean;
  /** What is to be done at the provider when the address of callbacks is known. */
  readonly onBase: ((portalUrlOf: (railId: string) => string | null) => Promise<void>) | null;
}

function assemble(
  { clock, callbackKey }: LoadRailsOptions,
  routes: readonly Route[],
  { baseUrl, forgetful, onBase }: Assembly,
): LoadedRails {
  const callbacks = new Callbacks({ key: callbackKey, portalSecrets: portalSecretsOf(routes) });
  const rails = new Map<string, ProviderRail>();
  const pairs: Record<string, string> = {};
  const oneWay: Record<string, Direction> = {};
  const amountDecimals: Record<string, number> = {};
  let base = baseUrl;
  for (const route of routes) {
    const callbackUrl: CallbackUrlOf = (transaction) =>
      base === null ? null : callbacks.callbackUrl(base, route.id, transaction);
    rails.set(route.id, makeRail(route, { clock, callbackUrl, forgetful }));
    const pair = `${route.country}:${route.network}`;
    pairs[pair] = route.id;
    const only = onlyWayOf(route);
    if (only !== null) oneWay[pair] = only;
    if (route.adapter === 'airtel') amountDecimals[pair] = route.amountDecimals;
  }
  return {
    rails,
    routes: pairs as Policy['routes'],
    oneWay: oneWay as Policy['oneWay'],
    amountDecimals: amountDecimals as Policy['amountDecimals'],
    callbacks,
    isCallbackPlausible: hashCheck(routes),
    setCallbackBase: async (given) => {
      const known = baseUrl ?? given;
      base = known;
      await onBase?.((railId) => callbacks.portalUrl(known, railId));
    },
    close: () => closeAll(rails),
  };
}

/** In which a route moves money. Null: it has credentials for both. */
export function onlyWayOf(route: Route): Direction | null {
  if (route.disbursement === null) return 'collect';
  return route.adapter === 'mtn' && route.collection === null ? 'send' : null;
}

function portalSecretsOf(routes: readonly Route[]): Map<string, string> {
  const portalSecrets = new Map<string, string>();
  for (const route of routes) {
    if (route.adapter === 'airtel' && route.callback !== null) {
      portalSecrets.set(route.id, route.callback.secret);
    }
  }
  return portalSecrets;
}

interface RailContext {
  readonly clock: Clock;
  readonly callbackUrl: CallbackUrlOf;
  readonly forgetful: boolean;
}

export function makeRail(route: Route, { clock, callbackUrl, forgetful }: RailContext): ProviderRail {
  switch (route.adapter) {
    case 'mtn': {
      const none: CallbackUrlOf = () => null;
      return new MtnRail({ ...route, clock, forgetful, callbackUrl: route.callbacks ? callbackUrl : none });
    }
    case 'airtel':
      return new AirtelRail({ ...route, clock, forgetful });
  }
}

function hashCheck(routes: readonly Route[]): LoadedRails['isCallbackPlausible'] {
  const checks = new Map<string, (body: string) => boolean>();
  for (const route of routes) {
    if (route.adapter !== 'airtel' || route.callback === null) continue;
    const { hashKey, hashOver } = route.callback;
    if (hashKey === null) continue;
    checks.set(route.id, (body) => !hasHash(body) || callbackHashIsValid(body, hashKey, hashOver));
  }
  return (railId, body) => checks.get(railId)?.(body) ?? true;
}

/** As `hash` of the body, and not empty: a callback without one counts, too. */
function hasHash(body: string): boolean {
  if (!body.includes('"hash"')) return false;
  try {
    const { hash } = Object(JSON.parse(body)) as { readonly hash?: unknown };
    return hash !== undefined && hash !== null && hash !== '';
  } catch {
    // Nor has it a transaction: nobody is asked about it.
    return true;
  }
}
