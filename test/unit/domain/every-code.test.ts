// Every error code that the core can give is produced by a test in this folder, and has a row in the table.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ERROR_CODES } from '../../../src/domain/error-code.ts';

const here = import.meta.dirname;
const source = join(here, '../../../src/domain');

function textOf(folder: string, wanted: RegExp): string {
  const names = readdirSync(folder).filter((name) => wanted.test(name));
  return names.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n');
}

t.test('every code that the core gives is produced by a test', async (t) => {
  const core = textOf(join(source, 'decide'), /\.ts$/) + textOf(source, /^amount-limits\.ts$/);
  const given = new Set(
    [...core.matchAll(/(?:rejection|refused)\(\s*'([a-z_]+)'/g)].map(([, code]) => code ?? ''),
  );
  // Reported by the front, in their place here.
  for (const code of ['secret_key_required', 'idempotency_key_invalid']) given.add(code);
  t.ok(given.size > 25, `${given.size} codes`);
  const tests = textOf(here, /^(?!every-code).*\.test\.ts$/);
  for (const code of given) {
    t.ok(code in ERROR_CODES, `${code} has a row`);
    t.match(tests, new RegExp(`'${code}'`), `${code} is produced by a test`);
  }
});
