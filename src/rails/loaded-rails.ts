// What a process gives to have its rails (routes.ts), and what it has then.

import type { Policy } from '../domain/policy.ts';
import type { Callbacks } from './callbacks.ts';
import type { Clock, OnHint, Rail } from './rail.ts';

export type RailsConfig =
  | { readonly type: 'loopback' }
  /** `url`: of a running simulator. */
  | { readonly type: 'simulator'; readonly url: string }
  | { readonly type: 'file'; readonly path: string };

/** One that runs already does not answer, or is none. */
export class SimulatorUnusable extends Error {
  /** `url`: of the simulator; `what`: it does. */
  constructor(url: string, what: string) {
    super(`the simulator at ${url} ${what}; SIMULATOR_URL says where it is`);
    this.name = 'SimulatorUnusable';
  }
}

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
  readonly oneWay: Policy['oneWay'];
  readonly amountDecimals: Policy['amountDecimals'];
  readonly callbacks: Callbacks;
  /** False: the callback carries a hash that only the provider could make, and it is wrong. A rail without a hash key,
   *  or a callback without a hash, proves nothing either way: true. */
  readonly isCallbackPlausible: (railId: string, body: string) => boolean;
  /** Where providers reach /callbacks, without a slash at its end; a file of routes may name another, which wins.
   *  Until it is known submits carry no address, and enquiries find the outcome. */
  setCallbackBase(baseUrl: string): Promise<void>;
  close(): Promise<void>;
}
