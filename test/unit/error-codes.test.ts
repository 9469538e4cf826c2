// The one table of error codes, and the documents that repeat it: the README at the top and the OpenAPI document.
// test/api/errors.test.ts produces every code.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ERROR_CODES } from '../../src/domain/error-code.ts';
import { openApi } from '../api/openapi-check.ts';

const ROOT = join(import.meta.dirname, '../..');
const ROW = /^\| (\d{3}) +\| `([a-z_]+)` +\| (.+?) +\| (.+?) +\|$/;

interface Row {
  readonly status: number;
  readonly code: string;
  readonly meaning: string;
  readonly mend: string;
}

const table: readonly Row[] = Object.entries(ERROR_CODES).map(([code, facts]) => ({ ...facts, code }));

function rowsOf(path: string): Row[] {
  return readFileSync(join(ROOT, path), 'utf8')
    .split('\n')
    .map((line) => ROW.exec(line))
    .filter((match) => match !== null)
    .map(([, status, code, meaning, mend]) => ({
      status: Number(status),
      code: code!,
      meaning: meaning!,
      mend: mend!,
    }));
}

const byCode = (a: Row, b: Row): number => (a.code < b.code ? -1 : 1);

t.test('the README has every code, with its status, its meaning and its mend, and no other', async (t) => {
  t.strictSame(
    rowsOf('README.md').sort(byCode),
    table.map(({ code, status, meaning, mend }) => ({ status, code, meaning, mend })).sort(byCode),
  );
});

t.test('the OpenAPI document names every code and no other', async (t) => {
  const { enum: codes } = openApi.components.schemas['ErrorCode'] as { enum: string[] };
  t.strictSame(
    codes,
    table.map(({ code }) => code),
  );
});

t.test('codes are words, statuses are errors, texts are sentences', async (t) => {
  for (const { code, status, meaning, mend } of table) {
    t.match(code, /^[a-z]+(?:_[a-z]+)*$/);
    t.ok(status >= 400 && status < 600, code);
    for (const text of [meaning, mend]) t.match(text, /^[A-Z`].*\.$/, code);
  }
});
