// What a refused token means for a payment: nothing of its own. Processes that share one set of credentials revoke each
// other's tokens at a provider that keeps one for each; real adapters, over HTTP.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { AirtelRail } from '../../src/rails/airtel.ts';
import { MtnRail } from '../../src/rails/mtn.ts';
import type { Clock, Rail, SubmitResult } from '../../src/rails/rail.ts';
import { provisionSimulator } from '../../src/rails/routes-simulator.ts';
import { systemClock } from '../../src/rails/system-clock.ts';
import { until } from '../until.ts';
import { startRails, transactionOf } from './rails-setup.ts';

const COMMON = {
  country: 'UG',
  currency: 'UGX',
  maxConcurrency: 8,
  answerMs: 60_000,
  notFoundGraceMs: 1_000,
  amountDecimals: 0,
  forgetful: false,
} as const;

t.test(
  'three processes with one set of credentials fail nothing, whichever revokes whose token',
  async (t) => {
    const rails = await startRails({ approveAfterMs: 5 });
    t.teardown(() => rails.stop());
    await rails.control('POST', '/simulator/one-token');
    const { url } = rails.simulator;
    const routes = await provisionSimulator({
      url,
      callbackHost: '127.0.0.1',
      merchant: 'shared',
      portalSecretOf: () => 'secret',
    });
    // They make tokens twenty times as often as they may.
    const startedAt = Date.now();
    const clock: Clock = { ...systemClock, now: () => startedAt + 20 * (Date.now() - startedAt) };
    for (const route of routes.filter(({ country }) => country === 'UG')) {
      const { network } = route;
      const make = (): Rail => {
        const options = { ...COMMON, clock, baseUrl: url };
        return route.adapter === 'mtn'
          ? new MtnRail({ ...route, ...options, callbackUrl: () => null })
          : new AirtelRail({ ...route, ...options });
      };
      const processes = [make(), make(), make()];
      const submits = processes.flatMap((rail) =>
        Array.from({ length: 40 }, (_, index) => {
          const transaction = transactionOf({ network, type: index % 2 === 0 ? 'CHARGE' : 'PAYOUT' });
          return until(
            () => rail.submit(transaction),
            ({ type }) => type !== 'not_accepted',
          );
        }),
      );
      t.same(new Set((await Promise.all(submits)).map(({ type }) => type)), new Set(['accepted']), network);
      await Promise.all(processes.map((rail) => rail.close()));
    }
  },
);

/** As MTN and as Airtel write it. */
const REFUSAL = '{"message":"No.","error_description":"No."}';
const NETWORKS = ['MTN', 'AIRTEL'] as const;

/** A provider that gives tokens where `token` says 200, and answers every call that is made with one so; and both rails to it. */
async function railsTo(t: Test, answer: () => { status: number; body: string }, token = () => 200) {
  let minted = 0;
  let aheadMs = 0;
  const server = createServer((request, response) => {
    if (request.url?.includes('token') === true) {
      const granted = { access_token: `t${++minted}`, expires_in: 3_600 };
      const status = token();
      response
        .writeHead(status, { 'Retry-After': '17' })
        .end(status === 200 ? JSON.stringify(granted) : REFUSAL);
      return;
    }
    const { status, body } = answer();
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const startedAt = Date.now();
  const clock = { ...systemClock, now: () => startedAt + aheadMs };
  const options = { ...COMMON, baseUrl, clock };
  const keys = { subscriptionKey: 'a', apiUser: 'b', apiKey: 'c' };
  const rails: Readonly<Record<(typeof NETWORKS)[number], Rail>> = {
    MTN: new MtnRail({
      ...options,
      id: 'mtn_ug',
      targetEnvironment: 'mtnuganda',
      collection: keys,
      disbursement: keys,
      callbackUrl: () => null,
    }),
    AIRTEL: new AirtelRail({
      ...options,
      id: 'airtel_ug',
      clientId: 'a',
      clientSecret: 'b',
      collectionApi: 'v1',
      disbursement: null,
    }),
  };
  t.teardown(async () => {
    await Promise.all(Object.values(rails).map((rail) => rail.close()));
    server.close();
  });
  const later = (ms: number): void => void (aheadMs += ms);
  return { rails, later, minted: () => minted };
}

t.test('calls that are refused with every token, for long, are our credentials', async (t) => {
  for (const status of [401, 403]) {
    let refuses = true;
    const answer = () => (refuses ? { status, body: REFUSAL } : { status: 503, body: '{"message":"Busy."}' });
    for (const network of NETWORKS) {
      const { rails, later } = await railsTo(t, answer);
      const rail = rails[network];
      const transaction = transactionOf({ network });
      const submitFor = async (ms: number): Promise<SubmitResult[]> => {
        const results: SubmitResult[] = [];
        for (let passed = 0; passed < ms; passed += LIMITS.railTokenRetryMs) {
          later(LIMITS.railTokenRetryMs);
          results.push(await rail.submit(transaction));
        }
        return results;
      };
      for (const result of await submitFor(LIMITS.railTokensRefusedMs)) {
        t.match(result, { type: 'not_accepted', reason: /just made is refused: 40\d: No\./ }, network);
      }
      refuses = false;
      await rail.submit(transaction);
      refuses = true;
      const all = await submitFor(2 * LIMITS.railTokensRefusedMs);
      t.equal(all[0]?.type, 'not_accepted', 'one call was let in since');
      t.match(all.at(-1), { type: 'failed', failureCode: 'provider_rejected', ourFault: true }, network);
      t.equal((await rail.enquire(transaction)).type, 'unknown', 'an enquiry ends nothing');
    }
    for (const network of NETWORKS) {
      const { rails, later } = await railsTo(t, answer);
      const transaction = transactionOf({ network });
      t.equal((await rails[network].submit(transaction)).type, 'not_accepted');
      later(10 * LIMITS.railTokensRefusedMs);
      t.equal((await rails[network].submit(transaction)).type, 'not_accepted', 'few tokens prove nothing');
    }
  }
});

t.test('a refusal in a listed code is final at once, with a token that was just made', async (t) => {
  for (const [network, body] of [
    ['MTN', '{"code":"NOT_ALLOWED"}'],
    ['AIRTEL', '{"status_code":"ROUTER119","status_message":"x"}'],
  ] as const) {
    const { rails, later, minted } = await railsTo(t, () => ({ status: 403, body }));
    const transaction = transactionOf({ network });
    t.equal(
      (await rails[network].submit(transaction)).type,
      'not_accepted',
      'the token may be what is refused',
    );
    later(LIMITS.railTokenRetryMs);
    t.match(await rails[network].submit(transaction), { type: 'failed', failureCode: 'provider_rejected' });
    t.equal(minted(), 2);
  }
});

t.test('where a call is refused and no newer token is given, what is said of the token counts', async (t) => {
  for (const [status, expected] of [
    [401, { type: 'failed', failureCode: 'provider_rejected', providerStatus: '401', ourFault: true }],
    [503, { type: 'not_accepted', retryAfterMs: 17_000 }],
  ] as const) {
    for (const network of NETWORKS) {
      let ofToken = 200;
      const { rails, later, minted } = await railsTo(
        t,
        // A listed code: of a token that may be over it says nothing.
        () => ({ status: 401, body: '{"code":"NOT_ALLOWED","status_code":"ROUTER119"}' }),
        () => ofToken,
      );
      const transaction = transactionOf({ network });
      t.equal((await rails[network].submit(transaction)).type, 'not_accepted');
      ofToken = status;
      later(LIMITS.railTokenRetryMs);
      t.match(await rails[network].submit(transaction), expected, `${network} ${status}`);
      t.equal(minted(), 2);
    }
  }
});
