// Callback addresses: only ours are taken, whatever the body says; and what a callback tells.
import t from 'tap';
import { Callbacks } from '../../src/rails/callbacks.ts';
import { referenceOf } from '../../src/rails/reference.ts';

const callbacks = new Callbacks({
  key: Buffer.alloc(32, 7),
  portalSecrets: new Map([['airtel_ug', 'portal-secret-of-airtel-ug']]),
});
const transaction = { id: 'chg_01JB2XK8Z30001NPQRSTVWXY00', accountId: 'acc_01JB2XK7T0000ABCDEFGHJKM00' };
const hint = { accountId: transaction.accountId, transactionId: transaction.id };
const pathOf = (url: string | null): string => new URL(String(url)).pathname;
const path = pathOf(callbacks.callbackUrl('https://pay.example', 'mtn_ug', transaction));
const portal = pathOf(callbacks.portalUrl('https://pay.example', 'airtel_ug'));

t.test('an address of one transaction is a hint, with PUT and POST and any body', async (t) => {
  for (const method of ['PUT', 'POST', 'put']) {
    for (const body of ['', '{}', 'not json', '{"externalId":"x","status":"FAILED"}', '[1,2', 'null']) {
      t.strictSame(callbacks.read(method, path, body), { type: 'hint', railId: 'mtn_ug', hint }, body);
    }
  }
});

t.test('a forged address is not found', async (t) => {
  const other = referenceOf({ ...transaction, id: 'pyt_01JB2XK8Z30001NPQRSTVWXY00' });
  const forged = [
    path.slice(0, -1),
    `${path}A`,
    path.slice(0, -1) + (path.endsWith('A') ? 'B' : 'A'),
    path.replace('mtn_ug', 'mtn_gh'),
    path.replace(referenceOf(transaction), other),
    '/callbacks/mtn_ug/',
    '/callbacks/mtn_ug',
    '/callbacks/',
    '/v1/charges',
    '',
  ];
  for (const each of forged) t.strictSame(callbacks.read('POST', each, '{}'), { type: 'not_found' }, each);
  t.strictSame(callbacks.read('GET', path, ''), { type: 'not_found' });
  const stranger = new Callbacks({ key: Buffer.alloc(32, 8), portalSecrets: new Map() });
  t.strictSame(stranger.read('POST', path, ''), { type: 'not_found' }, 'made with another key');
});

t.test('a portal callback names the transaction in its body', async (t) => {
  const reference = referenceOf(transaction);
  const bodies = [
    { transaction: { id: reference, message: 'Paid', status_code: 'TS', airtel_money_id: 'MP1' }, hash: 'x' },
    { transaction: { id: reference } },
    { transaction: { id: ` ${reference.toLowerCase()} `, more: [1] }, unknown: true },
    { data: { transaction: { id: reference } } },
  ];
  for (const body of bodies) {
    t.strictSame(callbacks.read('POST', portal, JSON.stringify(body)), {
      type: 'hint',
      railId: 'airtel_ug',
      hint,
    });
  }
});

t.test('a portal callback about nothing of ours is unknown, and says no phone number', async (t) => {
  for (const body of ['', 'html', '[]', 'null', '{"transaction":null}', '{"transaction":{"id":7}}']) {
    t.hasStrict(callbacks.read('POST', portal, body), { type: 'unknown', railId: 'airtel_ug' }, body);
  }
  for (const id of ['256772123456', '0772 123 456', '+256 772 123-456', '772 123 456', 'MP 0772123456']) {
    const unknown = callbacks.read('POST', portal, JSON.stringify({ transaction: { id } }));
    t.match(unknown, { type: 'unknown', detail: /\*{4}456"$/ }, id);
    t.notMatch(JSON.stringify(unknown).replace(/\D/g, ''), /772123/, id);
  }
  const long = callbacks.read('POST', portal, JSON.stringify({ transaction: { id: 'x'.repeat(1_000) } }));
  t.match(long, { detail: /"x{64}"$/ });
});

t.test('a portal address needs its own secret, and POST', async (t) => {
  const body = JSON.stringify({ transaction: { id: referenceOf(transaction) } });
  t.strictSame(callbacks.read('PUT', portal, body), { type: 'not_found' });
  t.strictSame(callbacks.read('POST', `${portal}x`, body), { type: 'not_found' });
  t.strictSame(callbacks.read('POST', portal.replace('airtel_ug', 'airtel_gh'), body), { type: 'not_found' });
  t.equal(callbacks.portalUrl('https://pay.example', 'mtn_ug'), null);
});
