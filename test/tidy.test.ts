// The tree keeps its own rules (test/tidy.ts), and each rule finds what it is for.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { findingsIn, lostHeadingsIn, lostReferencesIn, unexpectedAtTop } from './tidy.ts';
import type { SourceFile } from './tidy.ts';

const root = join(import.meta.dirname, '..');
const folders = ['src', 'actors', 'wal', 'bench', 'test', 'deploy'];

t.test('this tree keeps the rules', async (t) => {
  const files = folders
    .flatMap(filesIn)
    .filter((path) => path.endsWith('.ts'))
    .map(sourceFile);
  t.ok(files.length > 0, 'source files were found');
  const findings = findingsIn(files).map(({ path, line, problem }) => `${path}:${line}: ${problem}`);
  t.strictSame(findings, []);
});

t.test('the top level holds only what the README names', async (t) => {
  const ignored = readFileSync(join(root, '.gitignore'), 'utf8').split('\n');
  const names = readdirSync(root).filter((name) => !ignored.includes(name) && !ignored.includes(`${name}/`));
  t.strictSame(unexpectedAtTop(names), []);
});

t.test('every top-level folder has a README', async (t) => {
  for (const folder of folders) t.ok(existsSync(join(root, folder, 'README.md')), `${folder}/README.md`);
});

t.test('what the READMEs point to is there', async (t) => {
  const paths = ['README.md', 'LICENSE', ...folders.flatMap(filesIn)];
  const documents = paths.filter((path) => path.endsWith('.md')).map(sourceFile);
  const lost = [...lostReferencesIn(documents, paths), ...lostHeadingsIn(documents)].map(
    ({ path, line, problem }) => `${path}:${line}: ${problem}`,
  );
  t.strictSame(lost, []);
});

t.test('the lock file names no registry', async (t) => {
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
  t.notMatch(lock, /"resolved": "http/, 'set omit-lockfile-registry-resolved, as .npmrc does');
});

const header = '// Says what this file is for.\n';

// [rule, path of the file, its text under the header, the problem expected]
const broken: [string, string, string, RegExp][] = [
  ['the domain imports only itself', 'src/domain/a.ts', "import { b } from '../bus/bus.ts';", /src\/bus/],
  ['type imports count', 'src/domain/a.ts', "import type { B } from '../limits.ts';", /src\/limits/],
  ['re-exports count', 'src/domain/a.ts', "export { b } from '../limits.ts';", /src\/limits/],
  ['dynamic imports count', 'src/domain/a.ts', "const b = await import('../limits.ts');", /src\/limits/],
  ['long imports count', 'src/domain/a.ts', "import {\n  a,\n  b,\n} from '../limits.ts';", /src\/limits/],
  ['the log imports nothing of ours', 'wal/a.ts', "import { l } from '../src/limits.ts';", /src\/limits/],
  ['http imports no actors', 'src/http/a.ts', "import { g } from '../../actors/runtime/a.ts';", /actors/],
  ['http imports no log', 'src/http/a.ts', "import { g } from '../../wal/log.ts';", /wal\/log/],
  ['no group imports another', 'actors/webhooks/a.ts', "import { p } from '../pollers/a.ts';", /pollers/],
  ['only pollers know rails', 'actors/webhooks/a.ts', "import { r } from '../../src/rails/rail.ts';", /rail/],
  ['the runtime knows no group', 'actors/runtime/a.ts', "import { p } from '../pollers/a.ts';", /pollers/],
  [
    'actors know the log by its interface',
    'actors/runtime/a.ts',
    "import { l } from '../../wal/log.ts';",
    /log/,
  ],
  ['a new folder needs a rule', 'src/other/a.ts', '', /no import rule/],
  [
    'native packages have one place',
    'src/http/a.ts',
    "import { open } from 'lmdb';",
    /lmdb is imported in wal/,
  ],
  ['also their inner files', 'wal/a.ts', "import Ajv from 'ajv/dist/2020.js';", /ajv is imported in src/],
  ['NATS has one folder', 'src/bus/bus.ts', "import { connect } from 'nats';", /nats is imported in/],
  ['console', 'src/main.ts', "console.log('ready');", /console/],
  ['default export', 'src/main.ts', 'export default 1;', /default/],
  ['export *', 'src/http/a.ts', "export * from './b.ts';", /export \*/],
  ['enum', 'src/domain/a.ts', 'export const enum A { B }', /enum/],
  ['node:http', 'src/http/a.ts', "import { STATUS_CODES } from 'node:http';", /node-http/],
  ['unfinished work without a reason', 'src/main.ts', '// TO' + 'DO: later', /reason/],
  ['types switched off', 'src/main.ts', '// @ts-' + 'ignore', /types switched off/],
  [
    'lint switched off without a reason',
    'src/main.ts',
    '// oxlint-' + 'disable-next-line no-console',
    /reason/,
  ],
  ['tests hidden', 'test/unit/a.test.ts', 't.only' + "('a', async () => {});", /only/],
  ['a bound outside limits', 'src/http/a.ts', 'const bodyBytesMax = 65_536;', /bound/],
  ['a bound by another name', 'actors/runtime/a.ts', 'const MAX_WAITERS = 100;', /bound/],
  ['a long file', 'src/main.ts', 'a();\n'.repeat(600), /over 600 lines/],
];

t.test('each rule finds what it is for', async (t) => {
  for (const [rule, path, text, problem] of broken) {
    const [finding, ...others] = findingsIn([{ path, text: header + text }]);
    t.match(finding, { path, problem }, rule);
    t.strictSame(others, [], `${rule}: and nothing else`);
  }
  t.match(findingsIn([{ path: 'src/main.ts', text: 'start();\n' }]), [
    { line: 1, problem: /opening comment/ },
  ]);
  t.strictSame(unexpectedAtTop(['src', '.taprc', 'README.md', 'utils']), ['utils']);
});

t.test('a reference that leads nowhere is found', async (t) => {
  const paths = ['src/README.md', 'src/http/call.ts', 'wal/log.ts'];
  const found = [
    '[a](http/call.ts)',
    '`http/call.ts`',
    '`call.ts`',
    '`wal/log.ts`',
    '[x](https://a.example/b)',
  ];
  const lost = ['[a](http/none.ts)', '`http/none.ts`', '`none.ts`', '`wal/none.ts`', '`log.ts`'];
  const text = [...found, ...lost].join('\n');
  t.match(
    lostReferencesIn([{ path: 'src/README.md', text }], paths),
    lost.map((_, index) => ({ path: 'src/README.md', line: found.length + index + 1, problem: /not there/ })),
  );
});

t.test('a link to a heading that is not there is found', async (t) => {
  const text = '# Of `a.ts`, and b\n```\n# none\n```\n[x](#of-ats-and-b) [y](#none)\n';
  const other = '[x](README.md#of-ats-and-b) [y](README.md#c) [z](none.md#d) [e](https://a.example/b#c)';
  t.strictSame(
    lostHeadingsIn([
      { path: 'src/README.md', text },
      { path: 'src/other.md', text: other },
    ]).map(({ path, line, problem }) => `${path}:${line}: ${problem}`),
    [
      'src/README.md:5: src/README.md has no heading #none',
      'src/other.md:1: src/README.md has no heading #c',
      'src/other.md:1: src/none.md has no heading #d',
    ],
  );
});

t.test('a package has one file in its place', async (t) => {
  const text = header + "import { open } from 'lmdb';";
  t.match(
    findingsIn([
      { path: 'wal/a.ts', text },
      { path: 'wal/b.ts', text },
    ]),
    [{ path: 'wal/b.ts', line: 2, problem: /in wal\/a.ts already/ }],
  );
});

const allowed: [string, string][] = [
  ['src/main.ts', "import { log } from '../wal/log.ts';"],
  ['actors/pollers/a.ts', "import type { Rail } from '../../src/rails/rail.ts';"],
  ['actors/pollers/inner/a.ts', "import { b } from '../b.ts';"],
  ['actors/runtime/a.ts', "import type { Views } from '../../wal/types.ts';"],
  ['actors/accounts/a.ts', "import { group } from '../runtime/group.ts';"],
  ['src/nats/connection.ts', "import { connect } from 'nats';"],
  ['wal/cli.ts', "import { evolve } from '../src/domain/account.ts';\nconsole.log(evolve);"],
  ['src/http/schema.ts', 'const schema = { maxLength: 255 };'],
  ['src/main.ts', '// TO' + 'DO(nats 2.11 in Debian): drop this'],
  ['bench/a.ts', "import { connect } from 'nats';"],
];

t.test('what is allowed passes', async (t) => {
  for (const [path, text] of allowed) t.strictSame(findingsIn([{ path, text: header + text }]), [], path);
});

function filesIn(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(
    (name) => `${folder}/${name.replaceAll('\\', '/')}`,
  );
}

function sourceFile(path: string): SourceFile {
  return { path, text: readFileSync(join(root, path), 'utf8') };
}
