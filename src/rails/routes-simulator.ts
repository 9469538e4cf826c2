// The built-in profile: all six pairs of country and network to the simulator, over HTTP as to any provider, with
// credentials that are made at every start.

import { randomUUID } from 'node:crypto';
import { COUNTRIES, type Country, COUNTRY_FACTS, CURRENCY_DECIMALS } from '../domain/country.ts';
import { LIMITS } from '../limits.ts';
import { HttpClient, parseObject, textAt } from './http-client.ts';
import { SimulatorUnusable } from './loaded-rails.ts';
import type { MtnCredentials } from './mtn.ts';
import type { AirtelRoute, MtnRoute, Route } from './routes-file.ts';

const TARGET_ENVIRONMENTS: Readonly<Record<Country, string>> = {
  UG: 'mtnuganda',
  // MTN has no wallets in Kenya: only the simulator has this environment.
  KE: 'mtnkenya',
  GH: 'mtnghana',
};
/** The simulator answers in milliseconds: what it does not know, it never had. */
const GRACE_MS = 5_000;

export interface SimulatorProfile {
  readonly url: string;
  /** Host that callbacks go to, without port. */
  readonly callbackHost: string;
  /** Names the merchant: processes of one merchant share its till there, and a reference that one sent the others find. */
  readonly merchant: string;
  /** By rail id. */
  readonly portalSecretOf: (railId: string) => string;
}

/** Throws SimulatorUnusable when it does not answer as expected. */
export async function provisionSimulator(profile: SimulatorProfile): Promise<Route[]> {
  const { url } = profile;
  const portal = portalOf(url, 6);
  try {
    const routes: Route[] = [];
    for (const country of COUNTRIES) {
      routes.push(await mtnRoute(portal, profile, country), await airtelRoute(portal, profile, country));
    }
    return routes;
  } finally {
    await portal.http.close();
  }
}

interface SimulatorPortal {
  readonly url: string;
  readonly http: HttpClient;
}

function portalOf(url: string, connections: number): SimulatorPortal {
  return { url, http: new HttpClient({ baseUrl: url, connections, answerMs: LIMITS.railAnswerMs }) };
}

/** Sets the callback address of Airtel's applications, as a person does in the portal. Throws as above. */
export async function setPortalUrls(
  url: string,
  routes: readonly Route[],
  portalUrlOf: (railId: string) => string | null,
): Promise<void> {
  const portal = portalOf(url, 1);
  try {
    for (const route of routes) {
      if (route.adapter !== 'airtel') continue;
      await post(portal, `/portal/airtel/apps/${route.clientId}`, { callback_url: portalUrlOf(route.id) });
    }
  } finally {
    await portal.http.close();
  }
}

function commonFields(url: string, country: Country) {
  return {
    country,
    baseUrl: url,
    currency: COUNTRY_FACTS[country].currency,
    maxConcurrency: LIMITS.railConcurrencyDefault,
    answerMs: LIMITS.railAnswerMs,
    notFoundGraceMs: GRACE_MS,
  };
}

async function mtnRoute(
  portal: SimulatorPortal,
  profile: SimulatorProfile,
  country: Country,
): Promise<MtnRoute> {
  const credentials = async (product: string): Promise<MtnCredentials> => {
    const { subscription_key: subscriptionKey } = await post(portal, '/portal/mtn/subscriptions', {
      merchant: profile.merchant,
      product,
      target_environment: TARGET_ENVIRONMENTS[country],
      country,
      currency: COUNTRY_FACTS[country].currency,
    });
    const apiUser = randomUUID();
    const headers = { 'Ocp-Apim-Subscription-Key': subscriptionKey ?? '' };
    const user = { providerCallbackHost: profile.callbackHost };
    await post(portal, '/v1_0/apiuser', user, { ...headers, 'X-Reference-Id': apiUser });
    const { apiKey } = await post(portal, `/v1_0/apiuser/${apiUser}/apikey`, {}, headers);
    return { subscriptionKey: subscriptionKey ?? '', apiUser, apiKey: apiKey ?? '' };
  };
  return {
    ...commonFields(profile.url, country),
    id: `mtn_${country.toLowerCase()}`,
    network: 'MTN',
    adapter: 'mtn',
    targetEnvironment: TARGET_ENVIRONMENTS[country],
    collection: await credentials('collection'),
    disbursement: await credentials('disbursement'),
    callbacks: true,
  };
}

async function airtelRoute(
  portal: SimulatorPortal,
  profile: SimulatorProfile,
  country: Country,
): Promise<AirtelRoute> {
  const id = `airtel_${country.toLowerCase()}`;
  const app = await post(portal, '/portal/airtel/apps', {
    merchant: profile.merchant,
    country,
    currency: COUNTRY_FACTS[country].currency,
    callback_hash: true,
    pin_padding: 'pkcs1',
  });
  return {
    ...commonFields(profile.url, country),
    id,
    network: 'AIRTEL',
    adapter: 'airtel',
    clientId: app['client_id'] ?? '',
    clientSecret: app['client_secret'] ?? '',
    collectionApi: 'v1',
    amountDecimals: CURRENCY_DECIMALS[COUNTRY_FACTS[country].currency],
    disbursement: { pin: app['pin'] ?? '', padding: 'pkcs1', publicKey: app['pin_public_key'] ?? '' },
    callback: {
      secret: profile.portalSecretOf(id),
      hashKey: app['hash_key'] ?? null,
      hashOver: 'transaction',
    },
  };
}

/** The text fields of the answer. */
async function post(
  { url, http }: SimulatorPortal,
  path: string,
  body: Record<string, unknown>,
  headers: Record<string, string> = {},
): Promise<Record<string, string>> {
  const result = await http.request({
    method: 'POST',
    path,
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  if (result.type !== 'answer') {
    throw new SimulatorUnusable(url, `does not answer ${path}: ${result.reason}`);
  }
  if (result.status !== 201 && result.status !== 204) {
    throw new SimulatorUnusable(url, `answers ${path} with HTTP ${result.status}`);
  }
  const fields: Record<string, string> = {};
  const answer = parseObject(result.text) ?? {};
  for (const name of Object.keys(answer)) fields[name] = textAt(answer, name) ?? '';
  return fields;
}
