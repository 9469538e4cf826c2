// How long a provider asks to be left alone (Retry-After), as the adapters read it: of submits, enquiries, tokens and keys to
// sign with. Real adapters against the simulator over HTTP, and against bare sockets.
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { AirtelRail } from '../../src/rails/airtel.ts';
import { HttpClient } from '../../src/rails/http-client.ts';
import { clockBy } from '../../src/rails/system-clock.ts';
import { startRails, transactionOf } from './rails-setup.ts';

/** By the clock of the rails, which stands still. */
let now = Date.now();
const rails = await startRails(
  { approveAfterMs: 5 },
  clockBy(() => now),
);
t.teardown(() => rails.stop());

const force = (answer: object) => rails.control('POST', '/simulator/answers', answer);

t.test('a call that is refused for a while says for how long', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    const provider = network.toLowerCase();
    const rail = rails.rail(`${provider}_gh`);
    for (const type of ['CHARGE', 'PAYOUT'] as const) {
      for (const status of [429, 503]) {
        const transaction = transactionOf({ network, country: 'GH', type });
        await force({ provider, on: 'submit', status, retryAfter: '17' });
        t.match(await rail.submit(transaction), { type: /^(not_accepted|unknown)$/, retryAfterMs: 17_000 });
        await force({ provider, on: 'enquiry', status, retryAfter: '18' });
        t.match(await rail.enquire(transaction), { type: 'unknown', retryAfterMs: 18_000 });
      }
    }
  }
});

t.test(
  'a token that is refused for a while is not asked for meanwhile, and calls are told what is left',
  async (t) => {
    for (const network of ['MTN', 'AIRTEL'] as const) {
      const provider = network.toLowerCase();
      const rail = rails.rail(`${provider}_ug`);
      const transaction = transactionOf({ network });
      // Once: whoever asked again would be given one.
      await force({ provider, on: 'token', status: 503, retryAfter: '20' });
      t.match(await rail.submit(transaction), { type: 'not_accepted', retryAfterMs: 20_000 });
      now += 15_000;
      t.match(await rail.enquire(transaction), { type: 'unknown', retryAfterMs: 5_000 });
      now += 5_000;
      t.equal((await rail.submit(transaction)).type, 'accepted');
    }
  },
);

t.test('so does one that no key to sign with is given for', async (t) => {
  const app = await rails.control('POST', '/portal/airtel/apps', {
    country: 'UG',
    currency: 'UGX',
    signed: true,
  });
  const rail = new AirtelRail({
    id: 'airtel_signed',
    country: 'UG',
    currency: 'UGX',
    baseUrl: rails.simulator.url,
    maxConcurrency: 2,
    answerMs: 60_000,
    amountDecimals: 0,
    notFoundGraceMs: 1_000,
    forgetful: false,
    clock: clockBy(() => now),
    clientId: String(app['client_id']),
    clientSecret: String(app['client_secret']),
    collectionApi: 'v2',
    disbursement: null,
  });
  t.teardown(() => rail.close());
  await force({ provider: 'airtel', on: 'token', status: 429, retryAfter: '21' });
  t.match(await rail.submit(transactionOf({ network: 'AIRTEL' })), {
    type: 'not_accepted',
    reason: /no usable key.*HTTP 429/,
    retryAfterMs: 21_000,
  });
});

t.test('seconds or a date, bounded, and nothing else', async (t) => {
  let head = '';
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => socket.end(`HTTP/1.1 ${head}\r\nContent-Length: 0\r\n\r\n`));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const http = new HttpClient({ baseUrl: `http://127.0.0.1:${port}`, connections: 1, answerMs: 60_000 });
  t.teardown(() => http.close());
  const BUSY = '429 Too Many Requests';
  // Its own clock is years behind ours: what counts is what it shows.
  const DATE = 'Date: Sun, 06 Nov 1994 08:49:37 GMT';
  const inAMinute = new Date(Date.now() + 61_000).toUTCString();
  const CASES: readonly [string, number | undefined][] = [
    [`${BUSY}\r\nRetry-After: 30`, 30_000],
    [`${BUSY}\r\nretry-after:  30 `, 30_000],
    [`503 Service Unavailable\r\nRetry-After: 1`, 1_000],
    [`${BUSY}\r\nRetry-After: 86400`, LIMITS.railRetryAfterMsMax],
    [`${BUSY}\r\nRetry-After: ${'9'.repeat(400)}`, LIMITS.railRetryAfterMsMax],
    [`${BUSY}\r\n${DATE}\r\nRetry-After: Sun, 06 Nov 1994 08:49:57 GMT`, 20_000],
    [`${BUSY}\r\n${DATE}\r\nRetry-After: Sunday, 06-Nov-94 08:49:57 GMT`, 20_000],
    [`${BUSY}\r\n${DATE}\r\nRetry-After: Fri, 06 Nov 2094 08:49:57 GMT`, LIMITS.railRetryAfterMsMax],
    [`${BUSY}\r\n${DATE}\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT`, undefined],
    [`${BUSY}\r\n${DATE}\r\nRetry-After: Sat, 05 Nov 1994 08:49:37 GMT`, undefined],
    [`${BUSY}\r\nRetry-After: 0`, undefined],
    [`${BUSY}\r\nRetry-After: -5`, undefined],
    [`${BUSY}\r\nRetry-After: 1.5`, undefined],
    [`${BUSY}\r\nRetry-After: 1e3`, undefined],
    [`${BUSY}\r\nRetry-After: soon 5`, undefined],
    [`${BUSY}\r\nRetry-After:`, undefined],
    [`${BUSY}\r\nRetry-After: 5\r\nRetry-After: 7`, undefined],
    [BUSY, undefined],
    // These say something else with it, or nothing.
    ['200 OK\r\nRetry-After: 30', undefined],
    ['301 Moved Permanently\r\nRetry-After: 30', undefined],
    ['500 Internal Server Error\r\nRetry-After: 30', undefined],
  ];
  for (const [said, expected] of CASES) {
    head = said;
    const result = await http.request({ method: 'GET', path: '/', headers: {}, body: null });
    t.equal(result.type === 'answer' ? result.retryAfterMs : 'none', expected, said);
  }
  head = `${BUSY}\r\nRetry-After: ${inAMinute}`;
  const result = await http.request({ method: 'GET', path: '/', headers: {}, body: null });
  const { retryAfterMs = 0 } = result as { retryAfterMs?: number };
  t.ok(retryAfterMs > 40_000 && retryAfterMs <= 61_000, `by our clock where it shows none: ${retryAfterMs}`);
});
