// What is sealed comes back under the same key and purpose and no other way; what the service makes for itself is kept.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { parseMasterKey } from '../../src/config/master-key.ts';
import {
  CannotOpen,
  createSecrets,
  loadMasterKey,
  loadOperatorToken,
  makeSigningSecret,
} from '../../src/secrets.ts';
import { seedOf } from '../seed.ts';
import { traced, tracer } from '../tracer.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const SEED = seedOf(t);

const secrets = createSecrets(Buffer.alloc(32, 1));

t.test('what is sealed is opened again, and looks different every time', async (t) => {
  t.doesNotThrow(() => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const sealed = secrets.seal('signing-secret', text);
        return (
          secrets.open('signing-secret', sealed) === text && sealed !== secrets.seal('signing-secret', text)
        );
      }),
      { seed: SEED },
    );
  });
});

t.test('a changed character anywhere is found', async (t) => {
  const sealed = secrets.seal('signing-secret', makeSigningSecret());
  // The last character of base64url may hold bits that decode to nothing.
  for (let i = 0; i < sealed.length - 1; i++) {
    const other = sealed.charAt(i) === 'A' ? 'B' : 'A';
    const changed = sealed.slice(0, i) + other + sealed.slice(i + 1);
    t.throws(() => secrets.open('signing-secret', changed), CannotOpen, `character ${i}`);
  }
  for (const wrong of ['', 'v1.', 'v1.AAAA', sealed.slice(0, -8), `${sealed}AAAA`]) {
    t.throws(() => secrets.open('signing-secret', wrong), CannotOpen);
  }
});

t.test('neither another key nor another purpose opens it', async (t) => {
  const sealed = secrets.seal('signing-secret', 'whsec_x');
  t.throws(() => createSecrets(Buffer.alloc(32, 2)).open('signing-secret', sealed), /another MASTER_KEY/);
  t.throws(() => secrets.open('callback-token', sealed), CannotOpen);
  t.notSame(secrets.subkey('callback-token'), secrets.subkey('signing-secret'));
});

t.test('what was sealed by an older version is opened, and its master key known again', async (t) => {
  const sealed = {
    'signing-secret': 'v1.fKCCTmdCz6YZ0EXgcYYU3t8xACoKzsAcIJL5J5SbykSVghCR9OC-Zh111C-w',
    'rail-credential': 'v1.qktVdUiad7mybY3UZgtmahVfaT4JOGMx7xUaAnfD8mDwdsOTwuTjafSHBdiPKg',
  } as const;
  for (const purpose of ['signing-secret', 'rail-credential'] as const) {
    t.equal(secrets.open(purpose, sealed[purpose]), `of ${purpose}`);
  }
  t.equal(secrets.fingerprint, 'bb97c85731247b01', 'it is noted beside the data');
  // Providers have URLs with tokens that are made of it.
  const tokens = 'DFdrEqMwvTtSO0s30Qa3J2-84_i44kOamchvBTq5nDs';
  t.equal(secrets.subkey('callback-token').toString('base64url'), tokens);
});

t.test('signing secrets are long and never the same', async (t) => {
  t.match(makeSigningSecret(), /^whsec_[\w-]{43}$/);
  t.not(makeSigningSecret(), makeSigningSecret());
});

t.test('a master key is 32 bytes in hex or base64', async (t) => {
  const key = Buffer.alloc(32, 0xfb);
  for (const form of [key.toString('hex'), key.toString('base64'), key.toString('base64url')]) {
    t.strictSame(parseMasterKey(form), key, form);
  }
  for (const wrong of [
    '',
    'secret',
    'ab'.repeat(31),
    'ab'.repeat(33),
    'é'.repeat(43),
    `${'a'.repeat(42)}=`,
  ]) {
    t.equal(parseMasterKey(wrong), undefined, wrong);
  }
});

t.test('a master key and an operator token are made once and kept for the owner alone', async (t) => {
  const dataDir = join(temporaryDirectory(t), 'new', 'data');
  const key = loadMasterKey(dataDir, null);
  const token = loadOperatorToken(dataDir, null);
  t.equal(key.length, 32);
  t.match(token, /^op_[\w-]{43}$/);
  t.strictSame(loadMasterKey(dataDir, null), key);
  t.equal(loadOperatorToken(dataDir, null), token);
  t.strictSame(readdirSync(dataDir), ['master.key', 'operator.token'], 'and nothing else is left behind');
  for (const file of readdirSync(dataDir)) t.equal(statSync(join(dataDir, file)).mode & 0o777, 0o600, file);
});

t.test('a disk that does not take it leaves no part of it behind', traced, async (t) => {
  const dataDir = temporaryDirectory(t);
  const secrets = new URL('../../src/secrets.ts', import.meta.url);
  const make = `import { loadMasterKey } from "${secrets.href}"; loadMasterKey('${dataDir}', null);`;
  const given = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=fsync', '-e', 'inject=fsync:error=ENOSPC'];
  const node = [process.execPath, '--input-type=module', '-e', make];
  t.match(spawnSync(tracer, [...given, ...node], { encoding: 'utf8' }).stderr, /ENOSPC/);
  t.strictSame(readdirSync(dataDir), []);
});

t.test('what is configured wins, and makes no file', async (t) => {
  const dataDir = join(temporaryDirectory(t), 'data');
  const key = Buffer.alloc(32, 7);
  t.equal(loadMasterKey(dataDir, key), key);
  t.equal(loadOperatorToken(dataDir, 'given-by-operator'), 'given-by-operator');
  t.throws(() => readFileSync(join(dataDir, 'master.key')), { code: 'ENOENT' });
});

t.test('a damaged file is named, not replaced', async (t) => {
  const dataDir = join(temporaryDirectory(t), 'data');
  mkdirSync(dataDir);
  for (const file of ['master.key', 'operator.token']) writeFileSync(join(dataDir, file), 'short\n');
  t.throws(() => loadMasterKey(dataDir, null), /master\.key does not hold 32 bytes/);
  t.throws(() => loadOperatorToken(dataDir, null), /operator\.token holds no token/);
  t.equal(readFileSync(join(dataDir, 'master.key'), 'utf8'), 'short\n');
});
