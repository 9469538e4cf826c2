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
import { provisionSimulator, setPortalUrls } from './routes-simulator.ts';

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
      return loadSimulator(options, config.url);
    case 'file': {
      const { routes, callbackBaseUrl } = readRoutesFile(config.path, options);
      return assemble(options, routes, { baseUrl: callbackBaseUrl, forgetful: false, onBase: null });
    }
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

async function loadSimulator(options: LoadRailsOptions, url: string): Promise<LoadedRails> {
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
  let base = baseUrl;
  for (const route of routes) {
    const callbackUrl: CallbackUrlOf = (transaction) =>
      base === null ? null : callbacks.callbackUrl(base, route.id, transaction);
    rails.set(route.id, makeRail(route, { clock, callbackUrl, forgetful }));
    pairs[`${route.country}:${route.network}`] = route.id;
  }
  return {
    rails,
    routes: pairs as Policy['routes'],
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

async function closeAll(rails: ReadonlyMap<string, Rail>): Promise<void> {
  await Promise.all([...rails.values()].map((rail) => rail.close()));
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
    checks.set(route.id, (body) => !body.includes('"hash"') || callbackHashIsValid(body, hashKey, hashOver));
  }
  return (railId, body) => checks.get(railId)?.(body) ?? true;
}
