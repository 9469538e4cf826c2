// The references the providers know us by: reversible, within their rules, and the same for ever.
import t from 'tap';
import { parseReference, referenceOf, uuidReference } from '../../src/rails/reference.ts';

const account = 'acc_01JB2XK7T0000ABCDEFGHJKM00';

// Vectors: never to be changed. [transaction id, reference, uuid]
const vectors: [string, string, string][] = [
  [
    'chg_01JB2XK8Z30001NPQRSTVWXY00',
    'CHG01JB2XK8Z30001NPQRSTVWXY0001JB2XK7T0000ABCDEFGHJKM00',
    '921da41a-2381-4734-84a9-63537a24a715',
  ],
  [
    'pyt_01JB2XK8Z30002NPQRSTVWXY00',
    'PYT01JB2XK8Z30002NPQRSTVWXY0001JB2XK7T0000ABCDEFGHJKM00',
    '69cb3164-c817-48c4-923f-ff03604f9580',
  ],
  [
    'wdl_01JB2XK8Z30003NPQRSTVWXY00',
    'WDL01JB2XK8Z30003NPQRSTVWXY0001JB2XK7T0000ABCDEFGHJKM00',
    '7f3e883b-08b5-414d-970d-bea9144056bd',
  ],
  [
    'dep_7ZZZZZZZZZZZZZZZZZZZZZZZ00',
    'DEP7ZZZZZZZZZZZZZZZZZZZZZZZ0001JB2XK7T0000ABCDEFGHJKM00',
    'ca863c37-a0a2-4b11-b59a-bea56c6f76a2',
  ],
];

t.test('a reference is the same for ever and leads back to the ids', async (t) => {
  for (const [id, reference, uuid] of vectors) {
    t.equal(referenceOf({ id, accountId: account }), reference);
    t.match(reference, /^[A-Za-z0-9]{4,64}$/, 'letters and digits, at most 64');
    t.strictSame(parseReference(reference), { accountId: account, transactionId: id });
    t.strictSame(parseReference(reference.toLowerCase()), { accountId: account, transactionId: id });
    t.equal(uuidReference(id), uuid);
    t.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  }
});

t.test('what is not ours is null', async (t) => {
  const good = referenceOf({ id: 'chg_01JB2XK8Z30001NPQRSTVWXY00', accountId: account });
  for (const bad of ['', 'x', good.slice(1), `${good}0`, `ACC${good.slice(3)}`, `REF${good.slice(3)}`]) {
    t.equal(parseReference(bad), null, bad);
  }
  t.equal(parseReference(good.replace('N', 'U')), null, 'a letter outside the alphabet');
  t.equal(parseReference(good.replace('1', '-')), null, 'a hyphen');
});
