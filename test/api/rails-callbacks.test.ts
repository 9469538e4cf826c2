// Callbacks on their way from the simulator to us: early, double, missing, forged, for another amount, by PUT and by
// POST, with a hash and without. A callback names a transaction and proves nothing; the enquiry does.
import { createHmac } from 'node:crypto';
import { networkInterfaces } from 'node:os';
import t from 'tap';
import { until } from '../until.ts';
import { startRails, transactionOf } from './rails-setup.ts';
import { startService } from './start.ts';
import { callbackHashIsValid } from '../../src/rails/airtel-crypto.ts';
import { referenceOf } from '../../src/rails/reference.ts';

const rails = await startRails();
t.teardown(() => rails.stop());

function heardOf(transactionId: string) {
  return rails.heard.filter(
    ({ callback }) => callback.type === 'hint' && callback.hint.transactionId === transactionId,
  );
}

t.test('each leads to its transaction, before the answer to the submit too', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    for (const [endsIn, count] of [
      ['00', 1],
      ['66', 3],
      ['71', 1],
    ] as const) {
      const transaction = transactionOf({ network, endsIn });
      await rails.rail(transaction.provider).submit(transaction);
      if (endsIn === '71') t.equal(heardOf(transaction.id).length, 1, 'it came before the answer');
      await until(
        () => heardOf(transaction.id).length,
        (heard) => heard === count,
      );
      t.hasStrict(heardOf(transaction.id)[0], {
        method: network === 'MTN' ? 'PUT' : 'POST',
        callback: { railId: transaction.provider, hint: { accountId: transaction.accountId } },
      });
    }
  }
});

const hasIpv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
);

t.test(
  'each reaches a service that listens on IPv6',
  { skip: hasIpv6 ? false : 'no IPv6 here' },
  async (t) => {
    const service = await startService({ RAILS: 'simulator', HOST: '::1' });
    t.teardown(() => service.stop());
    for (const msisdn of ['256772000011', '256702000011']) {
      const body = { amount: '1000', currency: 'UGX', msisdn, reference: 'order-1' };
      t.equal((await service.merchant('POST', '/v1/charges', { body })).status, 201);
    }
    const counts = await service.until(
      async () => (await fetch(`${service.demo.simulator_url}/simulator/counts`)).json() as Promise<object>,
      (counted) => Object(counted).callbacks_sent + Object(counted).callbacks_failed === 2,
    );
    t.hasStrict(counts, { callbacks_sent: 2, callbacks_failed: 0 });
  },
);

t.test("MTN's body has no reference of ours but externalId; its address does", async (t) => {
  const transaction = transactionOf();
  await rails.rail('mtn_ug').submit(transaction);
  const [heard] = await until(
    () => heardOf(transaction.id),
    (list) => list.length > 0,
  );
  t.hasStrict(JSON.parse(heard!.body), { status: 'SUCCESSFUL', externalId: referenceOf(transaction) });
  t.notOk('referenceId' in JSON.parse(heard!.body));
  const forged = heard!.path.slice(0, -1) + (heard!.path.endsWith('A') ? 'B' : 'A');
  t.strictSame(rails.loaded.callbacks.read('PUT', forged, heard!.body), { type: 'not_found' });
});

t.test('a callback with a hash: forged ones are told', async (t) => {
  const transaction = transactionOf({ network: 'AIRTEL' });
  await rails.rail('airtel_ug').submit(transaction);
  const [heard] = await until(
    () => heardOf(transaction.id),
    (list) => list.length > 0,
  );
  const { body } = heard!;
  const { isCallbackPlausible } = rails.loaded;
  t.ok(JSON.parse(body).hash, 'it carries one');
  t.ok(isCallbackPlausible('airtel_ug', body));
  t.notOk(isCallbackPlausible('airtel_ug', body.replace('"TS"', '"TF"')), 'changed on the way');
  t.notOk(isCallbackPlausible('airtel_ke', body), 'made for another rail');
  const { hash: _, ...without } = JSON.parse(body);
  t.ok(isCallbackPlausible('airtel_ug', JSON.stringify(without)), 'none: neither way');
  t.notOk(isCallbackPlausible('airtel_ug', '{"hash":1}'));
  t.notOk(isCallbackPlausible('airtel_ug', '{"hash":"'));
  t.ok(isCallbackPlausible('mtn_ug', 'anything'));
  t.notOk(callbackHashIsValid(body, 'another key', 'transaction'));
});

t.test('an empty hash, or a field of that name elsewhere, is no hash: the callback counts', (t) => {
  const transaction = `{"id":"${referenceOf(transactionOf({ network: 'AIRTEL' }))}","status_code":"TS"`;
  for (const body of [
    `{"transaction":${transaction}},"hash":null}`,
    `{"transaction":${transaction}},"hash":""}`,
    `{"transaction":${transaction},"hash":"AAAA"}}`,
    `{"data":{"transaction":${transaction}},"hash":"AAAA"}}`,
  ]) {
    t.ok(rails.loaded.isCallbackPlausible('airtel_ug', body), body);
  }
  t.end();
});

t.test('a hash over the transaction or the whole body, as Airtel wrote them', async (t) => {
  const key = 'k3y';
  const hashOf = (text: string): string => createHmac('sha256', key).update(text).digest('base64');
  const said = '{ "id":"A1", "amount": 500.0, "more":{"hash":"}\\","} }';
  const compact = JSON.stringify(JSON.parse(said));
  const CASES: readonly (readonly ['transaction' | 'body', string, (hash: string) => string])[] = [
    ['transaction', said, (hash) => `{"transaction": ${said}, "hash":"${hash}"}`],
    ['transaction', compact, (hash) => `{"transaction": ${said}, "hash":"${hash}"}`],
    ['transaction', said, (hash) => `{"hash":"${hash}","data":{"a":[1,{}],"transaction":${said}}}`],
    ['body', `{"transaction":${said}}`, (hash) => `{"transaction":${said},"hash":"${hash}"}`],
    [
      'body',
      `{"transaction":${said}, "v": 2.0}`,
      (hash) => `{"transaction":${said} ,"hash":"${hash}", "v": 2.0}`,
    ],
    [
      'body',
      `{"transaction":${compact},"v":2}`,
      (hash) => `{"hash" :"${hash}", "transaction":${said}, "v": 2.0}`,
    ],
    [
      'body',
      `{ "data":{"transaction":${said}}}`,
      (hash) => `{ "hash":"${hash}", "data":{"transaction":${said}}}`,
    ],
  ];
  for (const [over, hashed, bodyOf] of CASES) {
    const body = bodyOf(hashOf(hashed));
    t.ok(callbackHashIsValid(body, key, over), body);
    t.notOk(callbackHashIsValid(body.replace('"A1"', '"A2"'), key, over), 'changed on the way');
    t.notOk(callbackHashIsValid(body, 'another key', over));
  }
  const twice = `{"transaction":${said},"transaction":{"id":"A2"},"hash":"${hashOf(said)}"}`;
  t.notOk(callbackHashIsValid(twice, key, 'transaction'), 'what is read is what is hashed');
  const added = `{"transaction":${said},"data":{},"hash":"${hashOf(`{"transaction":${said}}`)}"}`;
  t.notOk(callbackHashIsValid(added, key, 'body'), 'the whole body');
  for (const odd of ['[]', 'null', '{"hash":"x"}', '["hash"]']) {
    t.notOk(callbackHashIsValid(odd, key, 'transaction'), odd);
    t.notOk(callbackHashIsValid(odd, key, 'body'), odd);
  }
});

t.test('a body is looked through in proportion to its length, or it would hold up everybody', async (t) => {
  // Far longer than the front takes, so that what is not linear does not come to its end.
  const blanks = ' '.repeat(3_000_000);
  for (const body of [
    `{"x":"${blanks}","hash":"AAAA"}`,
    `{"x":1${blanks},${blanks}"hash":"AAAA"}`,
    `{"hash":"AAAA"${blanks},${blanks}"x":"${blanks}"}`,
    `{"data":{"x":"${blanks}","transaction":{"x":"${blanks}"}},"hash":"AAAA"}`,
  ]) {
    for (const over of ['transaction', 'body'] as const) t.notOk(callbackHashIsValid(body, 'k3y', over));
  }
});

t.test('a callback says one amount, the enquiry another: the enquiry is what counts', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    const transaction = transactionOf({ network, amount: 5_000 });
    const rail = rails.rail(transaction.provider);
    const outcome = { msisdn: transaction.msisdn.slice(-9), amount: '4000', currency: 'UGX' };
    await rails.control('POST', '/simulator/outcomes', outcome);
    await rail.submit(transaction);
    await until(
      () => heardOf(transaction.id).length,
      (heard) => heard > 0,
    );
    t.hasStrict(await rail.enquire(transaction), { type: 'succeeded', amount: 4_000, currency: 'UGX' });
  }
});

t.test('a reversal that a test asks for', async (t) => {
  const transaction = transactionOf();
  const rail = rails.rail(transaction.provider);
  const outcome = { msisdn: transaction.msisdn, state: 'reversed' };
  await rails.control('POST', '/simulator/outcomes', outcome);
  await rail.submit(transaction);
  const said = await until(
    () => rail.enquire(transaction),
    ({ type }) => type === 'reversed',
  );
  t.hasStrict(said, { type: 'reversed', amount: 500 });
  await until(
    () => heardOf(transaction.id).length,
    (heard) => heard === 2,
  );
});

t.test('a person at the page: approve, decline, reverse', async (t) => {
  for (const network of ['MTN', 'AIRTEL'] as const) {
    const press = async (transactionMsisdn: string, action: string): Promise<void> => {
      const { data } = await rails.control('GET', '/simulator/transactions?limit=50');
      const found = (data as { number: number; msisdn: string }[]).find(({ msisdn }) =>
        transactionMsisdn.endsWith(msisdn),
      );
      const answer = await fetch(`${rails.simulator.url}/transactions/${found!.number}/${action}`, {
        method: 'POST',
        redirect: 'manual',
      });
      t.equal(answer.status, 303);
    };
    const approved = transactionOf({ network, endsIn: 65 });
    const declined = transactionOf({ network, endsIn: 65 });
    const rail = rails.rail(approved.provider);
    await Promise.all([rail.submit(approved), rail.submit(declined)].map(async (answer) => answer));
    t.match(await (await fetch(rails.simulator.url)).text(), /<button>approve<\/button>/);
    await press(approved.msisdn, 'approve');
    await press(declined.msisdn, 'decline');
    t.equal((await rail.enquire(approved)).type, 'succeeded');
    t.hasStrict(await rail.enquire(declined), { type: 'failed', failureCode: 'customer_declined' });
    await press(approved.msisdn, 'reverse');
    t.hasStrict(await rail.enquire(approved), { type: 'reversed', amount: network === 'MTN' ? 500 : null });
  }
  const foreign = await fetch(`${rails.simulator.url}/transactions/1/approve`, {
    method: 'POST',
    headers: { origin: 'https://evil.example' },
  });
  t.equal(foreign.status, 403, "another site's page may not press");
});
