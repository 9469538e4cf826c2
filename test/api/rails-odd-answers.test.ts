// Answers that are not as any document has them: compressed, cut, redirected, on another protocol, with fields of other types,
// blank or twice. What they can mean is read; nothing else ends a transaction. Real adapters against bare sockets.
import { generateKeyPairSync } from 'node:crypto';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { AirtelRail } from '../../src/rails/airtel.ts';
import { parseObject } from '../../src/rails/http-client.ts';
import { MtnRail } from '../../src/rails/mtn.ts';
import { referenceOf } from '../../src/rails/reference.ts';
import { systemClock } from '../../src/rails/system-clock.ts';
import { leastCpuMs } from '../least-cpu.ts';
import { transactionOf } from './rails-setup.ts';

const TOKEN = '{"access_token":"t","expires_in":"3600"}';
/** How the provider answers what is no request for a token. */
let answer: (socket: Socket) => void = () => {};
let asked = '';
const server = createServer((socket) => {
  socket.on('error', () => {});
  socket.on('data', (request) => {
    asked = request.toString('latin1');
    if (!/^\w+ \S*token/.test(asked)) return answer(socket);
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${TOKEN.length}\r\n\r\n${TOKEN}`);
  });
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
t.teardown(() => server.close());

const RAIL = {
  country: 'KE',
  currency: 'KES',
  baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  maxConcurrency: 1,
  answerMs: 60_000,
  notFoundGraceMs: 1_000,
  amountDecimals: 2,
  forgetful: false,
  clock: systemClock,
} as const;
const CREDENTIALS = { subscriptionKey: 'a', apiUser: 'b', apiKey: 'c' };
const MTN = {
  ...RAIL,
  id: 'mtn_odd',
  targetEnvironment: 'odd',
  collection: CREDENTIALS,
  disbursement: CREDENTIALS,
  callbackUrl: () => null,
} as const;
const mtn = new MtnRail(MTN);
const airtel = new AirtelRail({
  ...RAIL,
  id: 'airtel_odd',
  clientId: 'a',
  clientSecret: 'b',
  collectionApi: 'v1',
  disbursement: null,
});
t.teardown(() => Promise.all([mtn.close(), airtel.close()]));

const charge = () => transactionOf({ country: 'KE', network: 'AIRTEL', amount: 1_050 });
const payout = () => transactionOf({ country: 'KE', amount: 1_050, type: 'PAYOUT' });

/** `head`: without its end, and without the length of the body. */
function says(head: string, body: string | Buffer = ''): void {
  const bytes = Buffer.from(body);
  answer = (socket) => {
    socket.write(`HTTP/1.1 ${head}\r\nContent-Length: ${bytes.length}\r\n\r\n`);
    socket.write(bytes);
  };
}

const PAID_BY_MTN = '{"status":"SUCCESSFUL","amount":"10.50","currency":"KES"}';
const PAID_BY_AIRTEL =
  '{"data":{"transaction":{"status":"TS"}},"status":{"success":true,"response_code":"DP00800001001"}}';
/** Takes any coding, ends any transaction: [MTN, Airtel] as they would say that it is paid. */
const PAID = [
  [mtn, payout, PAID_BY_MTN],
  [airtel, charge, PAID_BY_AIRTEL],
] as const;

t.test('no coding is asked for, and one that comes all the same is read', async (t) => {
  for (const [rail, transaction, paid] of PAID) {
    for (const [coding, bytes] of [
      ['gzip', gzipSync(paid)],
      ['X-Gzip', gzipSync(paid)],
      ['deflate', deflateSync(paid)],
      ['br', brotliCompressSync(paid)],
      ['identity', Buffer.from(paid)],
    ] as const) {
      says(`200 OK\r\nContent-Encoding: ${coding}`, bytes);
      t.equal((await rail.enquire(transaction())).type, 'succeeded', coding);
      t.match(asked, /^accept-encoding: identity\r$/im);
      t.match(asked, /^user-agent: Daftari\/1.0\r$/im, 'it says who it is');
    }
    const bomb = gzipSync(Buffer.alloc(LIMITS.railAnswerBytesMax + 1, ' '));
    for (const [what, coding, bytes] of [
      ['cut off', 'gzip', gzipSync(paid).subarray(0, -9)],
      ['something else', 'gzip', Buffer.from(paid)],
      ['too long', 'gzip', bomb],
      ['unknown', 'zstd', gzipSync(paid)],
    ] as const) {
      says(`200 OK\r\nContent-Encoding: ${coding}`, bytes);
      t.equal((await rail.enquire(transaction())).type, 'unknown', what);
      t.equal((await rail.submit(transaction())).type, 'unknown', what);
    }
  }
  says('202 Accepted\r\nContent-Encoding: gzip');
  t.equal((await mtn.submit(payout())).type, 'accepted', 'no body has no coding');
});

t.test('what is not the end of a call ends nothing', async (t) => {
  const sent =
    (text: string, end: 'open' | 'closed' | 'reset' = 'open') =>
    (socket: Socket): void => {
      if (end === 'reset') return void socket.resetAndDestroy();
      socket.write(text);
      if (end === 'closed') socket.end();
    };
  const accepted = 'HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n';
  for (const [what, sends, type] of [
    ['a word before the answer', sent(`HTTP/1.1 103 Early Hints\r\n\r\n${accepted}`), 'accepted'],
    ['another before it', sent(`HTTP/1.1 102 Processing\r\n\r\n${accepted}`), 'accepted'],
    [
      'another protocol',
      sent('HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n'),
      'unknown',
    ],
    ['no HTTP', sent('SSH-2.0-OpenSSH_9.6\r\n', 'closed'), 'unknown'],
    [
      'two lengths',
      sent('HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n'),
      'unknown',
    ],
    ['a connection that is closed', sent('', 'closed'), 'unknown'],
    ['one that is reset', sent('', 'reset'), 'unknown'],
    ['half a head', sent('HTTP/1.1 202 Acc', 'closed'), 'unknown'],
    ['HTTP/1.0', sent('HTTP/1.0 202 Accepted\r\n\r\n', 'closed'), 'accepted'],
  ] as const) {
    answer = sends;
    t.equal((await mtn.submit(payout())).type, type, what);
  }
  for (const [rail, transaction, paid] of PAID) {
    for (const status of ['300 Choices', '301 Moved', '302 Found', '307 Temporary', '308 Permanent']) {
      says(`${status}\r\nLocation: ${RAIL.baseUrl}/elsewhere`, paid);
      t.equal((await rail.submit(transaction())).type, 'unknown', status);
      t.equal((await rail.enquire(transaction())).type, 'unknown', status);
      t.notMatch(asked, /elsewhere/, 'nobody goes there with our token');
    }
  }
});

t.test('a head that comes letter by letter is given up in time', async (t) => {
  answer = (socket) => {
    let sent = 0;
    const dripping = setInterval(() => socket.write('HTTP/1.1 202 Accepted and so on'[sent++] ?? '.'), 100);
    socket.on('close', () => clearInterval(dripping));
  };
  const hasty = new MtnRail({ ...MTN, answerMs: 2_000 });
  t.teardown(() => hasty.close());
  const started = performance.now();
  t.equal((await hasty.submit(payout())).type, 'unknown');
  const tookMs = performance.now() - started;
  t.ok(tookMs < 20_000, `${tookMs} ms`);
});

/** [what it says, what that is to a submit, what to an enquiry]: types, or fields. */
type Row = readonly [string, string | object, string | object];

async function each(
  t: Test,
  rail: MtnRail | AirtelRail,
  transaction: typeof charge,
  rows: readonly Row[],
): Promise<void> {
  const like = (expected: string | object) => (typeof expected === 'string' ? { type: expected } : expected);
  for (const [said, submitted, enquired] of rows) {
    says('200 OK', said);
    const shown = said.slice(0, 80);
    t.match(await rail.submit(transaction()), like(submitted), `submit: ${shown}`);
    t.match(await rail.enquire(transaction()), like(enquired), `enquiry: ${shown}`);
  }
}

const paid = (amount: number | null) => ({ type: 'succeeded', amount });

t.test('amounts and currencies, however they are written, are theirs or nobody’s', async (t) => {
  /** No transaction has it. */
  const UNREADABLE = 0;
  const rows: readonly [string, number | null][] = [
    ['"amount":"10.50","currency":"KES"', 1_050],
    ['"amount":10.5,"currency":"KES"', 1_050],
    ['"amount":1.05e1,"currency":"kes"', 1_050],
    ['"amount":" 10.5000 ","currency":" KES "', 1_050],
    ['"amount":"0010.50","currency":null', 1_050],
    ['"amount":null,"currency":"KES"', null],
    ['"amount":10.51', 1_051],
    ['"amount":"10.501"', UNREADABLE],
    ['"amount":"1.05e1"', UNREADABLE],
    ['"amount":"10,50"', UNREADABLE],
    ['"amount":"-10.50"', UNREADABLE],
    ['"amount":1e21', UNREADABLE],
    ['"amount":""', UNREADABLE],
    ['"amount":true', UNREADABLE],
    ['"amount":["10.50"]', UNREADABLE],
    ['"amount":{"value":"10.50"}', UNREADABLE],
    ['"amount":"10.50","currency":"TZS"', UNREADABLE],
    ['"amount":"10.50","currency":7', UNREADABLE],
  ];
  const mtnRows = rows.map(([said, amount]): Row => {
    return [`{"status":"SUCCESSFUL",${said}}`, paid(amount), paid(amount)];
  });
  await each(t, mtn, payout, mtnRows);
  const airtelRows = rows.map(([said, amount]): Row => {
    return [`{"data":{"transaction":{"status":"TS",${said}}},"status":{}}`, paid(amount), paid(amount)];
  });
  await each(t, airtel, charge, airtelRows);
});

t.test(
  'what a route has no credentials for fails before anything is sent, and an enquiry ends nothing',
  async (t) => {
    const collecting = new MtnRail({ ...MTN, disbursement: null });
    const sending = new MtnRail({ ...MTN, collection: null });
    t.teardown(() => Promise.all([collecting.close(), sending.close()]));
    asked = '';
    for (const [rail, transaction, lacks] of [
      [collecting, payout, /has no credentials to send/],
      [sending, charge, /has no credentials to collect/],
      [airtel, payout, /has no PIN to send with/],
    ] as const) {
      t.match(await rail.submit(transaction()), {
        type: 'failed',
        failureCode: 'provider_rejected',
        failureMessage: lacks,
        providerStatus: null,
        ourFault: true,
      });
      if (rail !== airtel) t.match(await rail.enquire(transaction()), { type: 'unknown' });
      t.equal(asked, '');
    }
  },
);

t.test('a sandbox that has one currency for all moves ours, and no other', async (t) => {
  const sandbox = new MtnRail({ ...MTN, currency: 'EUR' });
  t.teardown(() => sandbox.close());
  const of = (currency: string): string =>
    `{"status":"SUCCESSFUL","amount":"10.50","currency":"${currency}"}`;
  const ours = { type: 'succeeded', amount: 1_050, currency: 'KES' };
  const nobodys = { type: 'succeeded', amount: 0, currency: null };
  await each(t, sandbox, payout, [
    [of('EUR'), ours, ours],
    [of('USD'), nobodys, nobodys],
  ]);
  await each(t, mtn, payout, [[of('EUR'), nobodys, nobodys]]);
});

t.test('a number that no double carries is read digit by digit', async (t) => {
  const digits = '12345678901234567891';
  for (const id of [digits, `"${digits}"`]) {
    const theirs = { type: 'succeeded', providerTransactionId: digits };
    const ofMtn = `{"status":"SUCCESSFUL","financialTransactionId":${id}}`;
    await each(t, mtn, payout, [[ofMtn, theirs, theirs]]);
    const ofAirtel = `{"data":{"transaction":{"status":"TS","airtel_money_id":${id}}},"status":{}}`;
    await each(t, airtel, charge, [[ofAirtel, theirs, theirs]]);
  }
});

t.test(
  'and by itself: what looks like one in a text stays, and the rest of an answer is no dearer',
  async (t) => {
    const long = '-12345678901234567891';
    t.strictSame(
      parseObject(`{"a":"12345678901234567891 \\"","b":[${long},1.5e300],"12345678901234567891":2}`),
      {
        a: '12345678901234567891 "',
        b: [long, 1.5e300],
        '12345678901234567891': 2,
      },
    );
    for (const none of [`{${long}:1}`, `{"a":0${long.slice(1)}}`, `{"a":${long}-}`, `[${long}]`]) {
      t.equal(parseObject(none), undefined, none);
    }
    const short = `"a":[${'1,'.repeat(LIMITS.railAnswerBytesMax)}1]`;
    const leastMs = (text: string): number => leastCpuMs(() => parseObject(text));
    const without = leastMs(`{${short}}`);
    const withOne = leastMs(`{${short},"b":${long}}`);
    t.ok(withOne < 8 * without, `${withOne} ms, ${without} ms without`);
  },
);

t.test('MTN: words of other types and forms', async (t) => {
  const failed = (failureCode: string) => ({ type: 'failed', failureCode });
  const anothers = referenceOf(payout());
  await each(t, mtn, payout, [
    [`\ufeff${PAID_BY_MTN}`, 'succeeded', 'succeeded'],
    ['{"status":" successful ","amount":1}', 'succeeded', 'succeeded'],
    ['{"status":"Pending","amount":1}', 'accepted', 'pending'],
    ['{"status":"TIMEOUT","amount":1}', 'accepted', 'pending'],
    ['{"status":"PAID","amount":1}', 'accepted', 'pending'],
    ...['null', '{}', '[]', 'true', '200', '"200"', '""', '["SUCCESSFUL"]', '{"code":"SUCCESSFUL"}'].map(
      (status): Row => [`{"status":${status}}`, 'unknown', 'unknown'],
    ),
    // A failure without a reason: the enquiry has to say it.
    ...['null', '""', '[]', '{}', '7', '{"code":null}', '{"code":""}', '["PAYEE_NOT_FOUND"]'].map(
      (reason): Row => [`{"status":"FAILED","amount":1,"reason":${reason}}`, 'unknown', failed('unknown')],
    ),
    ...['"PAYEE_NOT_FOUND"', '{"code":" PAYEE_NOT_FOUND ","message":{}}'].map((reason): Row => [
      `{"status":"FAILED","reason":${reason}}`,
      failed('wallet_not_found'),
      failed('wallet_not_found'),
    ]),
    [
      '{"status":"failed","reason":"payee_not_found"}',
      failed('wallet_not_found'),
      failed('wallet_not_found'),
    ],
    // A gateway's, which names nothing of a payment: it may have handed on the call, or not.
    ...['error', 'failed', 'FAILED', 'rejected', 'pending', 'successful', 'Service Unavailable'].map(
      (word): Row => [
        `{"status":"${word}","message":"x","reason":"SERVICE_UNAVAILABLE"}`,
        'unknown',
        'unknown',
      ],
    ),
    ['{"status":"error","code":"SERVICE_UNAVAILABLE","amount":null}', 'unknown', 'unknown'],
    ...['"amount":1', '"currency":"KES"', '"externalId":"7"', '"payer":{}', '"payee":{}'].map(
      (named): Row => [`{"status":"CREATED",${named}}`, 'accepted', 'pending'],
    ),
    ['{"code":"Resource_Already_Exist"}', 'accepted', 'unknown'],
    ['{"code":"payee_not_found"}', failed('wallet_not_found'), 'unknown'],
    ['{"code":"service_unavailable"}', 'unknown', 'unknown'],
    [`{"status":"SUCCESSFUL","externalId":"${anothers}"}`, 'unknown', 'unknown'],
    [`{"status":"FAILED","reason":"PAYEE_NOT_FOUND","externalId":"${anothers}"}`, 'unknown', 'unknown'],
    ...[
      'null',
      '"SUCCESSFUL"',
      '7',
      '[{"status":"SUCCESSFUL"}]',
      '',
      PAID_BY_MTN.slice(0, -1),
      '['.repeat(1e5),
    ].map((body): Row => [body, 'unknown', 'unknown']),
    [
      `{"status":"SUCCESSFUL","amount":1,"x":"${'x'.repeat(LIMITS.railAnswerBytesMax)}"}`,
      'unknown',
      'unknown',
    ],
  ]);
});

t.test('Airtel: words of other types and forms', async (t) => {
  const of = (transaction: string, status: string): string =>
    `{"data":{"transaction":${transaction}},"status":${status}}`;
  await each(t, airtel, charge, [
    [`\ufeff${PAID_BY_AIRTEL}`, 'succeeded', 'succeeded'],
    ...[
      '{}',
      'null',
      '[]',
      '{"success":true}',
      '{"success":" TRUE"}',
      '{"success":1}',
      '{"success":null}',
    ].map((status): Row => [of('{"status":" ts "}', status), 'succeeded', 'succeeded']),
    // It says that it was paid, and that it was not.
    ...['false', '"false"', '"False"', '0', '"0"', '"no"', '{}', '[]', '""'].map((success): Row => [
      of('{"status":"TS"}', `{"success":${success}}`),
      'unknown',
      'pending',
    ]),
    // A blank code is none: the next one counts, and that one ends nothing.
    ...['""', '" "', 'null'].map((blank): Row => [
      of('{"status":"TF"}', `{"success":false,"response_code":${blank},"result_code":"ESB000008"}`),
      'unknown',
      'pending',
    ]),
    ...['""', 'null', '{}'].map((blank): Row => {
      const declined = { type: 'failed', failureCode: 'customer_declined' };
      const status = `{"response_code":${blank},"result_code":" DP00800001002 "}`;
      return [of('{"status":"TF"}', status), declined, declined];
    }),
    // A code is the same in small letters: one that is not final fails nothing, one that is lets nothing succeed.
    ...['dp00800001006', 'Esb000008'].map((code): Row => [
      of('{"status":"tf"}', `{"success":false,"response_code":"${code}"}`),
      'unknown',
      'pending',
    ]),
    [of('{"status":"ts"}', '{"response_code":"dp00800001002"}'), 'accepted', 'pending'],
    [of('{}', '{"response_code":"dp00800001025"}'), 'unknown', 'not_found'],
    [of('{}', '{"response_code":"dp00900001017"}'), 'accepted', 'unknown'],
    [
      of('{"status":"tf"}', '{"success":false,"response_code":"dp00800001002"}'),
      { type: 'failed', failureCode: 'customer_declined', providerStatus: 'TF dp00800001002' },
      { type: 'failed', failureCode: 'customer_declined' },
    ],
    // No document has it in the answer to a submit: the enquiry has to say it.
    ...['{}', '{"success":true,"response_code":"DP00900001001"}'].map((status): Row => {
      return [of('{"status":"TE"}', status), 'accepted', { type: 'failed', failureCode: 'expired' }];
    }),
    [
      of('{"status":"TE"}', '{"success":false,"response_code":"weird"}'),
      'unknown',
      { type: 'failed', failureCode: 'expired' },
    ],
    ['{"data":[{"transaction":{"status":"TS"}}],"status":{"success":true}}', 'unknown', 'unknown'],
    [of('{"status":["TS"]}', '{"success":true}'), 'unknown', 'unknown'],
    [of('"TS"', '{"success":true}'), 'unknown', 'unknown'],
    [of(`{"status":"TS","id":"${referenceOf(charge())}"}`, '{"success":true}'), 'unknown', 'unknown'],
  ]);
});

t.test(
  'a collection is paid where Airtel names the payment, though its code is that of the acceptance',
  async (t) => {
    const of = (transaction: string, code: string, success = true): string =>
      `{"data":{"transaction":${transaction}},"status":{"success":${success},"response_code":"${code}","result_code":"ESB000010"}}`;
    const named = '{"status":"TS","airtel_money_id":"MP230113.0956.J05048"}';
    const paid = { type: 'succeeded', providerTransactionId: 'MP230113.0956.J05048' };
    const accepted = 'DP00800001006';
    await each(t, airtel, charge, [
      // So answers the live system, and the example in its documents.
      [of(named, accepted), 'accepted', { ...paid, providerStatus: `TS ${accepted}` }],
      [of(named, accepted.toLowerCase()), 'accepted', paid],
      [of('{"status":"TS"}', accepted), 'accepted', 'pending'],
      [of('{"status":"TS","airtel_money_id":" "}', accepted), 'accepted', 'pending'],
      [of(named, accepted, false), 'unknown', 'pending'],
      [of(named, 'DP00800001000'), 'accepted', 'pending'],
      ...['TIP', 'TF', 'TE', 'TR'].map((word): Row => {
        return [of(named.replace('TS', word), accepted), word === 'TF' ? 'unknown' : 'accepted', 'pending'];
      }),
    ]);
    for (const code of [accepted, 'DP00900001006']) {
      says('200 OK', of(named, code));
      t.match(await airtel.enquire(payout()), { type: 'pending' }, `a payout: ${code}`);
    }
  },
);

t.test('why it failed is told in the words that say most, wherever they stand', async (t) => {
  const because = (failureCode: string, failureMessage: string | null) => ({ failureCode, failureMessage });
  const late = (transaction: string, status: string): Row => {
    const said = `{"data":{"transaction":{"status":"TF"${transaction}}},"status":{"response_code":"DP00800001005"${status}}}`;
    const message = /"message":"(Too late[^"]*)"/.exec(said)?.[1] ?? null;
    const expected = because('customer_unreachable', message);
    return [said, expected, expected];
  };
  await each(t, airtel, charge, [
    late(',"message":"Too late."', ',"message":"Process completed."'),
    late(',"message":" "', ',"message":"Too late, it says."'),
    late('', ''),
    [
      '{"status_code":"ROUTER112","status_message":"Not yours."}',
      because('provider_rejected', 'Not yours.'),
      'unknown',
    ],
  ]);
  const nobody = because('wallet_not_found', 'Nobody has it.');
  await each(t, mtn, payout, [
    ['{"status":"FAILED","reason":{"code":"PAYEE_NOT_FOUND","message":"Nobody has it."}}', nobody, nobody],
    ['{"code":"PAYEE_NOT_FOUND","message":"Nobody has it."}', nobody, 'unknown'],
  ]);
});

t.test('a key to sign with is kept for a while, whatever it says of its end', async (t) => {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 1_024 });
  const key = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  for (const valid_upto of [undefined, '', 'soon', '2020-01-01T00:00:00', 7, '2999-01-01T00:00:00Z']) {
    const signing = new AirtelRail({
      ...RAIL,
      id: 'airtel_signing',
      clientId: 'a',
      clientSecret: 'b',
      collectionApi: 'v2',
      disbursement: null,
    });
    t.teardown(() => signing.close());
    let fetched = 0;
    says('200 OK', JSON.stringify({ data: { key, valid_upto } }));
    const withKey = answer;
    says('200 OK', PAID_BY_AIRTEL);
    const asPaid = answer;
    answer = (socket) => {
      const isForKey = asked.includes('/v1/rsa/encryption-keys');
      if (isForKey) fetched++;
      (isForKey ? withKey : asPaid)(socket);
    };
    for (let n = 0; n < 3; n++) t.match(await signing.submit(charge()), { type: 'succeeded' });
    t.equal(fetched, 1, `${valid_upto}`);
  }
});

/** As JSON.stringify, PHP and .NET write the same text. */
const ESCAPING = [
  (text: string): string => text,
  (text: string): string => text.replaceAll('/', '\\/'),
  (text: string): string => text.replaceAll('+', '\\u002B'),
] as const;

/** A provider that answers so, until the test is over; its address. */
async function providerOf(t: Test, answer: RequestListener): Promise<string> {
  const server = createHttpServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.test('an answer that repeats the token it was sent shows it to nobody', async (t) => {
  let minted = 0;
  let status = 401;
  let [escaping] = ESCAPING;
  const baseUrl = await providerOf(t, (request, response) => {
    const { authorization = '' } = request.headers;
    const [, sent = ''] = authorization.split(' ');
    if (request.url?.includes('token') === true) {
      response.end(JSON.stringify({ access_token: `secret/of+a-session-${++minted}` }));
    } else {
      const text = JSON.stringify({ error_description: `Invalid access token: ${sent}` });
      response.writeHead(status).end(escaping(text));
    }
  });
  let now = Date.now();
  const rail = new AirtelRail({
    ...RAIL,
    id: 'airtel_echo',
    baseUrl,
    clock: { ...systemClock, now: () => now },
    clientId: 'a',
    clientSecret: 'b',
    collectionApi: 'v1',
    disbursement: null,
  });
  t.teardown(() => rail.close());
  await rail.submit(charge());
  for (escaping of ESCAPING) {
    for (status of [401, 500]) {
      now += LIMITS.railTokenRetryMs;
      const result = await rail.submit(charge());
      t.hasStrict(result, { type: status === 401 ? 'not_accepted' : 'unknown' });
      t.match(JSON.stringify(result), /Invalid access token: \*{3}/);
      now += LIMITS.railTokenRetryMs;
      t.notMatch(JSON.stringify(await rail.enquire(charge())), /secret/);
      for await (const found of rail.check(null)) t.notMatch(JSON.stringify(found), /secret/);
    }
  }
  t.ok(minted > 2, 'the token of a second try is not shown either');
});

t.test('nor does one that repeats our credentials', async (t) => {
  let repeats = 'token';
  let [escaping] = ESCAPING;
  const baseUrl = await providerOf(t, (request, response) => {
    if (request.url?.includes(repeats) !== true) {
      response.end('{"access_token":"granted","expires_in":3600}');
      return;
    }
    const { authorization = '', 'ocp-apim-subscription-key': key = '' } = request.headers;
    const [, basic = ''] = authorization.split(' ');
    const decoded = Buffer.from(basic, 'base64').toString('latin1');
    const message = `of ${String(key)}, ${basic}, ${decoded}`;
    response.writeHead(401).end(escaping(JSON.stringify({ message })));
  });
  const secret = (of: string) => ({
    subscriptionKey: `key/to+${of}-7c1f`,
    apiUser: 'user',
    apiKey: `api/key+to-${of}-9e2b`,
  });
  for (repeats of ['token', 'v1_0']) {
    for (escaping of ESCAPING) {
      const rail = new MtnRail({
        ...RAIL,
        id: 'mtn_echo',
        baseUrl,
        targetEnvironment: 'mtnuganda',
        collection: secret('collect'),
        disbursement: secret('send'),
        callbackUrl: () => null,
      });
      t.teardown(() => rail.close());
      for (const transaction of [charge(), payout()]) {
        const submitted = JSON.stringify(await rail.submit(transaction));
        t.match(submitted, /of \*{3}/, 'the rest of it is told');
        const enquired = JSON.stringify(await rail.enquire(transaction));
        t.notMatch(submitted + enquired, /7c1f|9e2b|dXNlc/);
      }
    }
  }
});
