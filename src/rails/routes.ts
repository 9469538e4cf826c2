// From the setting RAILS to rails: which (country, network) goes where, with the adapters made and the addresses of
// callbacks known. Called once at start by every process that needs any of it.

import { createHmac } from 'node:crypto';
import { COUNTRIES, NETWORKS } from '../domain/country.ts';
import type { Policy } from '../domain/policy.ts';
import { callbackHashIsValid } from './airtel-crypto.ts';
import { AirtelRail } from './airtel.ts';
import { Callbacks } from './callbacks.ts';
import { LoopbackRail } from './loopback.ts';
import { MtnRail } from './mtn.ts';
import type { CallbackUrlOf, ProviderRail } from './provider-rail.ts';
import type { Clock, OnHint, Rail } from './rail.ts';
import { readRoutesFile, type Route } from './routes-file.ts';
import { provisionSimulator } from './routes-simulator.ts';

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
  /** Where providers reach /callbacks, without a slash at its end; a file of routes may name another. */
  readonly callbackBaseUrl: string;
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
  close(): Promise<void>;
}

/** Throws RoutesFileError with all that is wrong, or an error when the simulator cannot be provisioned. */
export async function loadRails(options: LoadRailsOptions): Promise<LoadedRails> {
  const { config } = options;
  switch (config.type) {
    case 'loopback':
      return loadLoopback(options);
    case 'simulator':
      return loadSimulator(options, config.url);
    case 'file': {
      const { routes, callbackBaseUrl } = readRoutesFile(config.path, options);
      const baseUrl = callbackBaseUrl ?? options.callbackBaseUrl;
      return assemble(options, routes, callbacksOf(options, routes), baseUrl, false);
    }
  }
}

function loadLoopback({ approveAfterMs, clock, onHint, callbackKey }: LoadRailsOptions): LoadedRails {
  const rail = new LoopbackRail({ id: 'loopback', approveAfterMs, clock, onHint });
  const routes: Record<string, string> = {};
  for (const country of COUNTRIES) for (const network of NETWORKS) routes[`${country}:${network}`] = rail.id;
  return {
    rails: new Map([[rail.id, rail]]),
    routes: routes as Policy['routes'],
    callbacks: new Callbacks({ key: callbackKey, portalSecrets: new Map() }),
    isCallbackPlausible: () => true,
    close: () => rail.close(),
  };
}

async function loadSimulator(options: LoadRailsOptions, url: string): Promise<LoadedRails> {
  const { callbackBaseUrl, callbackKey } = options;
  const portalSecrets = new Map<string, string>();
  for (const country of COUNTRIES) {
    const id = `airtel_${country.toLowerCase()}`;
    portalSecrets.set(id, createHmac('sha256', callbackKey).update(`portal ${id}`).digest('base64url'));
  }
  const callbacks = new Callbacks({ key: callbackKey, portalSecrets });
  const routes = await provisionSimulator({
    url,
    callbackHost: new URL(callbackBaseUrl).hostname,
    portalUrlOf: (railId) => callbacks.portalUrl(callbackBaseUrl, railId) ?? '',
  });
  return assemble(options, routes, callbacks, callbackBaseUrl, true);
}

function callbacksOf({ callbackKey }: LoadRailsOptions, routes: readonly Route[]): Callbacks {
  const portalSecrets = new Map<string, string>();
  for (const route of routes) {
    if (route.adapter === 'airtel' && route.callback !== null) {
      portalSecrets.set(route.id, route.callback.secret);
    }
  }
  return new Callbacks({ key: callbackKey, portalSecrets });
}

function assemble(
  { clock }: LoadRailsOptions,
  routes: readonly Route[],
  callbacks: Callbacks,
  baseUrl: string,
  forgetful: boolean,
): LoadedRails {
  const rails = new Map<string, ProviderRail>();
  const pairs: Record<string, string> = {};
  for (const route of routes) {
    const callbackUrl: CallbackUrlOf = (transaction) => callbacks.callbackUrl(baseUrl, route.id, transaction);
    rails.set(route.id, makeRail(route, { clock, callbackUrl, forgetful }));
    pairs[`${route.country}:${route.network}`] = route.id;
  }
  return {
    rails,
    routes: pairs as Policy['routes'],
    callbacks,
    isCallbackPlausible: hashCheck(routes),
    close: async () => {
      await Promise.all([...rails.values()].map((rail) => rail.close()));
    },
  };
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
    checks.set(route.id, (body) => !body.includes('"hash"') || callbackHashIsValid(body, hashKey, hashOver));
  }
  return (railId, body) => checks.get(railId)?.(body) ?? true;
}
