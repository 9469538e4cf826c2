// The rules of the tree that no other tool knows: who may import whom, where a package may be used, what a
// file must open with. Pure: files in, findings out. tidy.test.ts runs it on this tree and on bad examples.
//
// The tables come first; most changes to the rules are a line in a table.
import { matchesGlob, posix } from 'node:path';

export interface SourceFile {
  /** From the root of the repository, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

export interface Finding {
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly problem: string;
}

interface ImportRule {
  readonly from: string;
  readonly to: readonly string[];
}

const interfaces = ['wal/types.ts', 'src/bus/{bus,feed}.ts'];

/** Who may import which of our files. The first row that matches a file decides; `:group` is its own folder. */
const importRules: readonly ImportRule[] = [
  // Programs wire the parts together, as src/main.ts does.
  { from: 'src/main.ts', to: ['**'] },
  { from: 'src/wiring/**', to: ['**'] },
  { from: '{src,actors,wal}/**/cli.ts', to: ['**'] },
  { from: '{bench,deploy,test}/**', to: ['**'] },

  {
    // They read the log of every group, and rebuild state as the service does.
    from: 'src/log-tools/**',
    to: [
      'src/log-tools/**',
      'src/{domain,bus}/**',
      'src/limits.ts',
      'src/data-directory/identity.ts',
      'src/storage/{groups,view-threads}.ts',
      'actors/**',
      'wal/**',
    ],
  },

  { from: 'src/{limits,end-process,process-limits,node-http,pause,several-at-once}.ts', to: [] },
  { from: 'src/{limit-relations,jobs}.ts', to: ['src/limits.ts'] },
  { from: 'src/domain/**', to: ['src/domain/**'] },
  {
    from: 'src/observability/**',
    to: [
      'src/observability/**',
      'src/http/observer.ts',
      'src/domain/country.ts',
      'src/limits.ts',
      'wal/printable.ts',
    ],
  },
  { from: 'src/config.ts', to: ['src/domain/**', 'src/limits.ts', 'src/config/**'] },
  { from: 'src/config/**', to: ['src/domain/**', 'src/limits.ts', 'src/config/**', 'src/config.ts'] },
  { from: 'src/process-clock.ts', to: ['src/domain/assert.ts', 'src/limits.ts'] },
  {
    from: 'src/secrets.ts',
    to: ['src/config/**', 'src/limits.ts', 'wal/{make-with-parents,sync-directory,thrown}.ts'],
  },
  {
    from: 'src/data-directory/**',
    to: [
      'src/data-directory/**',
      'src/bus/bus.ts',
      'src/domain/{event-codec,record-format}.ts',
      'src/config.ts',
      'src/secrets.ts',
      'src/limits.ts',
      'src/observability/**',
      'wal/*.ts',
    ],
  },
  {
    from: 'src/damage/**',
    to: [
      'src/damage/**',
      'src/data-directory/**',
      'src/bus/bus.ts',
      'src/{end-process,limits,pause}.ts',
      'src/observability/**',
      'wal/*.ts',
    ],
  },
  {
    from: 'src/storage/**',
    to: [
      'src/storage/**',
      'actors/**',
      'wal/*.ts',
      'src/{bus,domain}/**',
      'src/damage/damage.ts',
      'src/data-directory/identity.ts',
      'src/{jobs,limits}.ts',
    ],
  },
  {
    // What NATS and the disk have in common is a partition's log.
    from: 'src/cluster/**',
    to: [
      'src/{cluster,storage,nats,bus,observability}/**',
      'actors/{pollers,webhooks}/**',
      'wal/*.ts',
      'src/{config,limits,pause,several-at-once}.ts',
    ],
  },
  {
    // Adapters between the bus's interfaces and the log's batches.
    from: 'src/nats/**',
    to: [
      'src/nats/**',
      'src/bus/**',
      'src/domain/**',
      'wal/*.ts',
      'src/{limits,pause}.ts',
      'src/observability/**',
    ],
  },
  {
    from: 'src/bus/**',
    to: ['src/bus/**', 'src/domain/**', 'src/limits.ts', 'src/observability/**'],
  },
  {
    from: 'src/http/**',
    to: ['src/http/**', 'src/domain/**', 'src/bus/**', 'src/{limits,node-http}.ts', 'src/observability/**'],
  },
  {
    from: 'src/operator/**',
    to: [
      'src/operator/**',
      'src/secrets.ts',
      'src/http/**',
      'src/domain/**',
      'src/bus/**',
      'src/limits.ts',
      'src/observability/**',
      'wal/{printable,thrown}.ts',
    ],
  },
  {
    // Reads the log as the log tools do.
    from: 'src/rails/tools/reconcile.ts',
    to: [
      'src/rails/statement{,-csv}.ts',
      'src/log-tools/data.ts',
      'src/domain/event-codec.ts',
      'actors/{accounts,runtime}/**',
      'wal/**',
    ],
  },
  {
    from: 'src/rails/**',
    to: ['src/rails/**', 'src/domain/**', 'src/{limits,node-http}.ts', 'src/observability/**'],
  },

  // Bytes in, bytes out.
  { from: 'wal/**', to: ['wal/**'] },

  // The runtime and the groups know the log and the bus by their interfaces; src/main.ts hands them the real ones.
  {
    from: 'actors/runtime/**',
    to: ['actors/runtime/**', ...interfaces, 'src/limits.ts', 'src/domain/{id,assert,time}.ts'],
  },
  {
    from: 'actors/pollers/**',
    to: ['actors/{pollers,runtime}/**', ...interfaces, 'src/limits.ts', 'src/domain/**', 'src/rails/rail.ts'],
  },
  {
    from: 'actors/*/**',
    to: ['actors/{:group,runtime}/**', ...interfaces, 'src/{limits,node-http,pause}.ts', 'src/domain/**'],
  },
];

/** Native and network packages: in each place named, one file of the product may import the package. */
const packagePlaces: Readonly<Record<string, readonly string[]>> = {
  'uWebSockets.js': ['src/http/**'],
  lmdb: ['wal/**'],
  '@node-rs/crc32': ['wal/**'],
  // Requests to providers, and deliveries to merchants.
  undici: ['src/rails/**', 'actors/webhooks/**'],
  pino: ['src/observability/**'],
  'prom-client': ['src/observability/**'],
  ajv: ['src/**'],
};

/** The adapters of the cluster share NATS: any file of this folder may import it, none elsewhere. */
const packageFolders: Readonly<Record<string, string>> = {
  nats: 'src/nats/**',
};

interface TextRule {
  readonly pattern: RegExp;
  readonly problem: string;
  /** Globs of the files the rule is not for. */
  readonly except?: readonly string[];
}

const programs = ['**/cli.ts', '**/long.ts', 'bench/**', 'deploy/cluster{,-run,-map,-nodes}.ts'];

/** Checked line by line. */
const textRules: readonly TextRule[] = [
  {
    pattern: /(?:^|[\s;({!?:])console\./,
    problem: 'console is for programs in a terminal; log through src/observability',
    except: programs,
  },
  { pattern: /^\s*export\s+default\b/, problem: 'a default export: name it' },
  { pattern: /^\s*export\s+\*/, problem: 'export *: import from the file that has it' },
  {
    pattern: /^\s*(?:export\s+)?(?:declare\s+)?(?:const\s+)?enum\s/,
    problem: 'an enum: use a union of strings',
  },
  {
    pattern: /\b(?:[T]ODO|[F]IXME)\b(?!\s*\([^)]+\))/,
    problem: 'no reason: say in parentheses what it waits for',
  },
  { pattern: /@ts-(?:ignore|nocheck)\b/, problem: 'types switched off: use @ts-expect-error with a reason' },
  {
    pattern: /(?:oxlint|eslint)-disable(?!.*\s--\s\S)/,
    problem: 'a lint rule switched off without a reason after " -- "',
  },
  {
    pattern: /^(?:import (?!type\b).*|\}) from 'node:http'/,
    problem: 'it loads undici, too: import `http` from src/node-http.ts',
    except: ['{bench,deploy,test}/**'],
  },
  { pattern: /\bt(?:est)?\.only\(/, problem: 'only() hides the other tests' },
  {
    // JSON Schema's own words are the specification's, as are the rules of the domain.
    pattern: /\b(?:\w+Max|\w+_MAX|max(?!Length|Items|Properties)[A-Z]\w*|MAX_\w+)\s*[:=]\s*\d[\d_]+/,
    problem: 'a bound: it belongs in src/limits.ts, with its unit and reason',
    except: [
      'src/limits.ts',
      'wal/limits.ts',
      'src/domain/**',
      '{bench,test,deploy}/**',
      // What three characters of an id can count to: its format, not a choice.
      'actors/runtime/fresh-id.ts',
    ],
  },
];

const linesMax = 600;

/** In a document: a link to a file of ours, or its path in backquotes. */
const references = /\]\((?!\w+:)(?<link>[^)#\s]+)|`(?<name>[\w./-]+\.(?:ts|md))`/g;
/** A link to a heading, of this document or of another. */
const headingLinks = /\]\((?!\w+:)(?<file>[^)#\s]*)#(?<heading>[^)\s]+)\)/g;

const allowedAtTop =
  /^(?:package(?:-lock)?\.json|tsconfig\.json|knip\.json|README\.md|CHANGELOG\.md|LICENSE|src|actors|wal|bench|test|deploy|\..+|.+\.config\.(?:ts|js|mjs|json))$/;

export function findingsIn(files: readonly SourceFile[]): Finding[] {
  return [
    ...files.flatMap(headerFindings),
    ...files.flatMap(textFindings),
    ...files.flatMap(importFindings),
    ...packageFindings(files),
  ];
}

/** What documents point to and is not there: links, and paths of our files in backquotes, from the root, from their folder, or by name
 *  somewhere below it. `paths`: all files. */
export function lostReferencesIn(documents: readonly SourceFile[], paths: readonly string[]): Finding[] {
  const known = new Set(paths);
  return documents.flatMap(({ path, text }) => {
    const folder = posix.dirname(path);
    const below = (name: string): boolean =>
      paths.some((each) => each.startsWith(`${folder}/`) && each.endsWith(`/${name}`));
    return text.split('\n').flatMap((content, index) => {
      const names = Array.from(
        content.matchAll(references),
        ({ groups }) => groups?.['link'] ?? groups?.['name'] ?? '',
      );
      return names
        .filter((name) => !known.has(name) && !known.has(posix.join(folder, name)))
        .filter((name) => name.includes('/') || !below(name))
        .map((name) => ({ path, line: index + 1, problem: `${name} is not there` }));
    });
  });
}

/** `names`: what is at the root of the repository, without what git ignores. */
export function unexpectedAtTop(names: readonly string[]): string[] {
  return names.filter((name) => !allowedAtTop.test(name));
}

/** What documents link to and is no heading of a document of ours. */
export function lostHeadingsIn(documents: readonly SourceFile[]): Finding[] {
  const headings = new Map(documents.map(({ path, text }) => [path, headingsOf(text)]));
  return documents.flatMap(({ path, text }) =>
    text.split('\n').flatMap((content, index) =>
      Array.from(content.matchAll(headingLinks), ({ groups }) => groups ?? {})
        .map(({ file = '', heading = '' }) => ({
          target: file === '' ? path : posix.join(posix.dirname(path), file),
          heading,
        }))
        .filter(({ target, heading }) => headings.get(target)?.has(heading) !== true)
        .map(({ target, heading }) => ({
          path,
          line: index + 1,
          problem: `${target} has no heading #${heading}`,
        })),
    ),
  );
}

/** As GitHub names them in links. */
function headingsOf(text: string): Set<string> {
  const prose = text.replace(/^```[^]*?^```/gm, '');
  return new Set(
    Array.from(prose.matchAll(/^#+ (.+)$/gm), ([, heading = '']) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

function headerFindings({ path, text }: SourceFile): Finding[] {
  const body = text.replace(/^#!.*\n/, '');
  const says = /^(?:\/\/.*\n?|\/\*[^]*?\*\/)+/.exec(body)?.[0].replace(/[/*\s]/g, '') ?? '';
  if (says.length >= 20) return [];
  return [{ path, line: 1, problem: 'no opening comment that says the role of the file' }];
}

function textFindings({ path, text }: SourceFile): Finding[] {
  const rules = textRules.filter(({ except = [] }) => !matchesAny(path, except));
  const lines = text.replace(/\n$/, '').split('\n');
  const findings = lines.flatMap((content, index) =>
    rules
      .filter(({ pattern }) => pattern.test(content))
      .map(({ problem }) => ({ path, line: index + 1, problem })),
  );
  if (lines.length > linesMax) {
    findings.push({ path, line: linesMax + 1, problem: `over ${linesMax} lines: does it hold one idea?` });
  }
  return findings;
}

function importFindings(file: SourceFile): Finding[] {
  const { path } = file;
  const rule = importRules.find(({ from }) => matchesGlob(path, from));
  if (rule === undefined) {
    return [
      { path, line: 1, problem: 'no import rule for this folder: add it to importRules in test/tidy.ts' },
    ];
  }
  const group = path.split('/')[1] ?? '';
  const allowed = rule.to.map((glob) => glob.replace(':group', group));

  return importsOf(file)
    .filter(({ specifier }) => specifier.startsWith('.'))
    .map(({ specifier, line }) => ({ line, target: posix.join(posix.dirname(path), specifier) }))
    .filter(({ target }) => !matchesAny(target, allowed))
    .map(({ target, line }) => ({ path, line, problem: `may not import ${target}` }));
}

function packageFindings(files: readonly SourceFile[]): Finding[] {
  const uses = files
    .filter(({ path }) => matchesAny(path, ['{src,actors,wal}/**']))
    .flatMap((file) => importsOf(file).map((use) => ({ ...use, path: file.path })));

  const findings: Finding[] = [];
  const firstIn = new Map<string, string>();
  for (const { path, line, specifier } of uses) {
    const name = packageOf(specifier);
    const folder = packageFolders[name];
    if (folder !== undefined && !matchesGlob(path, folder)) {
      findings.push({ path, line, problem: `${name} is imported in ${folder} only` });
    }
    const places = packagePlaces[name];
    if (places === undefined) continue;
    const place = places.find((glob) => matchesGlob(path, glob));
    if (place === undefined) {
      findings.push({ path, line, problem: `${name} is imported in ${places.join(' and ')} only` });
      continue;
    }
    const first = firstIn.get(`${name} ${place}`) ?? path;
    firstIn.set(`${name} ${place}`, first);
    if (first !== path) findings.push({ path, line, problem: `${name} is imported in ${first} already` });
  }
  return findings;
}

interface Import {
  readonly specifier: string;
  readonly line: number;
}

// TypeScript 7 has no compiler API; imports have few shapes, and the formatter keeps them at line starts.
const importShapes =
  /^(?:import|export)\b(?:[^'"`;=(]*?\bfrom)?\s*['"](?<a>[^'"]+)['"]|\bimport\(\s*['"](?<b>[^'"]+)['"]/gm;

function importsOf({ text }: SourceFile): Import[] {
  return Array.from(text.matchAll(importShapes), (match) => ({
    specifier: match.groups?.['a'] ?? match.groups?.['b'] ?? '',
    line: text.slice(0, match.index).split('\n').length,
  }));
}

/** `ajv/dist/2020.js` is ajv; `@node-rs/crc32` is itself. */
function packageOf(specifier: string): string {
  const parts = specifier.split('/');
  return parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/');
}

function matchesAny(path: string, globs: readonly string[]): boolean {
  return globs.some((glob) => matchesGlob(path, glob));
}
