// Phone numbers: what is read and how, the network hint, the mask; and libphonenumber-js as a second opinion.

import fc from 'fast-check';
import { parsePhoneNumberFromString } from 'libphonenumber-js';
import t from 'tap';
import { COUNTRIES, COUNTRY_FACTS, type Country, type Network } from '../../../src/domain/country.ts';
import { maskMsisdn, networkOf, parseMsisdn } from '../../../src/domain/msisdn.ts';
import { seedOf } from '../../seed.ts';

const seed = seedOf(t);

t.test('what is read', async (t) => {
  const rows: [text: string, against: Country, msisdn: string | null, country?: Country][] = [
    ['+256772123456', 'KE', '256772123456', 'UG'],
    ['256772123456', 'KE', '256772123456', 'UG'],
    ['00256772123456', 'KE', '256772123456', 'UG'],
    ['+254 733-123 456', 'UG', '254733123456', 'KE'],
    [' +233-24-123-4567 ', 'UG', '233241234567', 'GH'],
    ['0772123456', 'UG', '256772123456', 'UG'],
    ['077 212-3456', 'UG', '256772123456', 'UG'],
    ['772123456', 'UG', '256772123456', 'UG'],
    ['0733123456', 'KE', '254733123456', 'KE'],
    ['0110123456', 'KE', '254110123456', 'KE'],
    ['0241234567', 'GH', '233241234567', 'GH'],
    ['0551234567', 'GH', '233551234567', 'GH'],
    // Not a number of ours
    ['', 'UG', null],
    ['   ', 'UG', null],
    ['+', 'UG', null],
    ['0', 'UG', null],
    ['000000000', 'UG', null],
    ['0000000000000', 'UG', null],
    ['+255772123456', 'UG', null],
    ['+1 202 555 0100', 'UG', null],
    ['+25677212345', 'UG', null],
    ['+2567721234567', 'UG', null],
    ['77212345', 'UG', null],
    ['07721234567', 'UG', null],
    ['00772123456', 'UG', null],
    ['0256772123456', 'UG', null],
    ['000256772123456', 'UG', null],
    ['+00256772123456', 'UG', null],
    ['+0772123456', 'UG', null],
    ['+772123456', 'UG', null],
    ['++256772123456', 'UG', null],
    ['256+772123456', 'UG', null],
    ['256772123456x', 'UG', null],
    ['25677212345x', 'UG', null],
    ['25677212345:', 'UG', null],
    ['077212345/', 'UG', null],
    ['256.772.123.456', 'UG', null],
    ['٢٥٦٧٧٢١٢٣٤٥٦', 'UG', null],
    ['9'.repeat(400), 'UG', null],
    // Not a mobile range
    ['+256414123456', 'UG', null],
    ['0201234567', 'KE', null],
    ['0302123456', 'GH', null],
    ['0772123456', 'GH', null],
  ];
  for (const [text, against, msisdn, country] of rows) {
    const expected = msisdn === null ? null : { msisdn, country };
    t.strictSame(
      parseMsisdn(text, against),
      expected,
      `${JSON.stringify(text.slice(0, 20))} against ${against}`,
    );
  }
});

t.test('the network that a prefix hints at', async (t) => {
  const rows: [prefix: string, network: Network | null][] = [
    ['25676', 'MTN'],
    ['25677', 'MTN'],
    ['25678', 'MTN'],
    ['256790', 'MTN'],
    ['256791', 'MTN'],
    ['256792', 'MTN'],
    ['256793', 'MTN'],
    ['256794', null],
    ['256795', 'AIRTEL'],
    ['256799', null],
    ['25670', 'AIRTEL'],
    ['25674', 'AIRTEL'],
    ['25675', 'AIRTEL'],
    ['256730', 'AIRTEL'],
    ['256731', null],
    ['25671', null],
    ['25672', null],
    ['25410', 'AIRTEL'],
    ['25411', null],
    ['25470', null],
    ['25472', null],
    ['25473', 'AIRTEL'],
    ['254756', 'AIRTEL'],
    ['254757', null],
    ['254758', null],
    ['254759', null],
    ['254761', 'AIRTEL'],
    ['254762', 'AIRTEL'],
    ['254763', null],
    ['25478', 'AIRTEL'],
    ['23324', 'MTN'],
    ['23325', 'MTN'],
    ['23353', 'MTN'],
    ['23354', 'MTN'],
    ['23355', 'MTN'],
    ['23359', 'MTN'],
    ['23326', 'AIRTEL'],
    ['23327', 'AIRTEL'],
    ['23356', 'AIRTEL'],
    ['23357', 'AIRTEL'],
    ['23323', null],
    ['23320', null],
    ['23350', null],
    ['999', null],
  ];
  for (const [prefix, network] of rows) t.equal(networkOf(prefix.padEnd(12, '5')), network, prefix);
});

t.test('the mask keeps country code, two digits and the last three', async (t) => {
  t.equal(maskMsisdn('256772123456'), '25677****456');
});

const national = fc.integer({ min: 100_000_000, max: 799_999_999 }).map(String);
const country = fc.constantFrom(...COUNTRIES);

t.test('every way of writing a number reads the same', async (t) => {
  fc.assert(
    fc.property(country, national, country, fc.nat(11), (of, digits, other, at) => {
      const { dialingCode } = COUNTRY_FACTS[of];
      const full = dialingCode + digits;
      const read = parseMsisdn(`+${full}`, other);
      t.strictSame(parseMsisdn(full, other), read);
      t.strictSame(parseMsisdn(`00${full}`, other), read);
      t.strictSame(parseMsisdn(`${full.slice(0, at)} - ${full.slice(at)}`, other), read);
      t.strictSame(parseMsisdn(digits, of), read);
      t.strictSame(parseMsisdn(`0${digits}`, of), read);
      if (read !== null) t.strictSame(read, { msisdn: full, country: of });
    }),
    { seed, numRuns: 300 },
  );
});

t.test('nothing else is read, and nothing throws', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), country, (text, against) => {
      const read = parseMsisdn(text, against);
      if (read !== null) t.match(read.msisdn, /^(256|254|233)[0-9]{9}$/);
    }),
    { seed, numRuns: 500 },
  );
});

// The library knows number plans better than we do, except that it lags behind newly assigned Ghanaian and Kenyan ranges:
// what it calls a mobile number we must accept and read alike; what our table names a network for need not be valid there.
t.test('second opinion: what libphonenumber-js calls a mobile number, we read as it does', async (t) => {
  let mobiles = 0;
  fc.assert(
    fc.property(country, national, (of, digits) => {
      for (const text of [`+${COUNTRY_FACTS[of].dialingCode}${digits}`, `0${digits}`]) {
        const theirs = parsePhoneNumberFromString(text, of);
        if (theirs?.isValid() !== true || theirs.country !== of) continue;
        // Without its larger metadata the library cannot tell mobile from fixed; the ranges of wallets can.
        if (parseMsisdn(text, of) === null) {
          t.match(digits, { UG: /^[2-46]/, KE: /^[2-689]/, GH: /^[346-9]/ }[of], `${text}: not mobile`);
          continue;
        }
        mobiles++;
        t.strictSame(parseMsisdn(text, of), { msisdn: theirs.number.slice(1), country: of });
      }
    }),
    { seed, numRuns: 400 },
  );
  t.ok(mobiles > 100, `${mobiles} numbers compared`);
});
