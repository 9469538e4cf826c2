// A simulator outside the service, and a RAILS file that leads to it: the simulator, as a provider would, outlives
// whatever happens to the service.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { provisionSimulator } from '../../src/rails/routes-simulator.ts';
import type { Route } from '../../src/rails/routes-file.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/rails/simulator/server.ts';

/** As short as routes may have them: what a provider never got is sent again that soon. */
const TIMES = { answer_ms: 2_000, not_found_grace_seconds: 4 };

export interface External {
  readonly simulator: Simulator;
  /** For RAILS. */
  readonly railsFile: string;
  /** A control of the simulator: src/rails/simulator/portal.ts. */
  control<T>(method: string, path: string, body?: object): Promise<T>;
  /** Sets the portals' callback addresses to where the service is. */
  callBackTo(baseUrl: string): Promise<void>;
  payments(): Promise<readonly SimulatedPayment[]>;
}

export interface SimulatedPayment {
  readonly number: number;
  readonly provider: string;
  readonly kind: 'collect' | 'send';
  readonly reference: string;
  readonly msisdn: string;
  readonly amount: string;
  readonly currency: string;
  readonly state: string;
}

export async function startExternal(
  directory: string,
  options: Partial<SimulatorOptions> = {},
): Promise<External> {
  const simulator = await startSimulator({
    port: 0,
    host: '127.0.0.1',
    approveAfterMs: 50,
    speed: 100,
    ...options,
  });
  const routes = await provisionSimulator({
    url: simulator.url,
    callbackHost: '127.0.0.1',
    merchant: 'shop',
    portalSecretOf: (id) => `portal-secret-of-${id}`,
  });
  const control = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(simulator.url + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === '' ? {} : JSON.parse(text)) as T;
  };
  return {
    simulator,
    railsFile: writeRailsFile(directory, routes),
    control,
    callBackTo: async (baseUrl) => {
      for (const route of routes) {
        if (route.adapter !== 'airtel' || route.callback === null) continue;
        const callback_url = `${baseUrl}/callbacks/${route.id}/portal/${route.callback.secret}`;
        await control('POST', `/portal/airtel/apps/${route.clientId}`, { callback_url });
      }
    },
    payments: async () =>
      (await control<{ data: SimulatedPayment[] }>('GET', '/simulator/transactions?limit=1000')).data,
  };
}

/** As an operator would write it: secrets in files of their own. Its path. */
function writeRailsFile(directory: string, routes: readonly Route[]): string {
  mkdirSync(join(directory, 'secrets'), { recursive: true });
  let secrets = 0;
  const secret = (value: string): { file: string } => {
    const file = `secrets/${++secrets}`;
    writeFileSync(join(directory, file), `${value}\n`, { mode: 0o600 });
    return { file };
  };
  const credentials = (of: { subscriptionKey: string; apiUser: string; apiKey: string }): object => ({
    subscription_key: secret(of.subscriptionKey),
    api_user: of.apiUser,
    api_key: secret(of.apiKey),
  });
  const written = routes.map((route) => {
    const { id, country, network, adapter, baseUrl: base_url } = route;
    const common = { id, country, network, adapter, base_url, ...TIMES };
    if (route.adapter === 'mtn') {
      return {
        ...common,
        target_environment: route.targetEnvironment,
        collection: credentials(route.collection!),
        disbursement: credentials(route.disbursement!),
      };
    }
    const { pin, padding: pin_padding, publicKey } = route.disbursement!;
    return {
      ...common,
      client_id: route.clientId,
      client_secret: secret(route.clientSecret),
      collection_api: route.collectionApi,
      disbursement: { pin: secret(pin), pin_padding, public_key: publicKey },
      callback: { secret: secret(route.callback!.secret), hash_key: secret(route.callback!.hashKey!) },
    };
  });
  const path = join(directory, 'rails.json');
  writeFileSync(path, JSON.stringify({ routes: written }, null, 2));
  return path;
}
