// The process of a tool for rails: ../cli.ts starts it. Puts files, network and terminal together; what a route is is in
// ../routes-file.ts, and what a statement means to the log in reconcile.ts.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseMasterKey } from '../../config/master-key.ts';
import { COUNTRY_FACTS } from '../../domain/country.ts';
import { endBySignals } from '../../end-process.ts';
import { createSecrets, MASTER_KEY_FILE } from '../../secrets.ts';
import { table } from '../../../wal/tools/partitions.ts';
import { begin, telling } from '../../../wal/tools/supervisee.ts';
import {
  ownTerminal,
  requiredString,
  runTools,
  stringOf,
  type Tool,
  type ToolInput,
  type ToolResult,
  UsageError,
} from '../../../wal/tools/tool.ts';
import type { CheckResult } from '../provider-rail.ts';
import { makeRail, onlyWayOf } from '../provider-routes.ts';
import { readRoutesFile, type Route } from '../routes-file.ts';
import { systemClock } from '../system-clock.ts';
import { reconcile } from './reconcile.ts';

const FILE_OPTION = { type: 'string', value: 'file', help: 'file of routes (also without --file)' } as const;

const check: Tool = {
  name: 'check',
  summary: 'Tries every route of a file: token, balance, and the look-up of a number',
  help: `
Reads the file as the service does (what is sealed with MASTER_KEY or, without it, with the key in the data directory), then
asks each provider for a token, for the balance, and, with --msisdn, whether the number has a wallet: only routes of the
number's country are asked. Nothing is moved. Sound when every route answers.

  npm run rails -- check rails.json --msisdn 256772000001`,
  options: {
    file: FILE_OPTION,
    msisdn: { type: 'string', value: 'digits', help: 'a number to look up, international, without +' },
    route: { type: 'string', value: 'id', help: 'this route alone' },
  },
  run: runCheck,
};

const seal: Tool = {
  name: 'seal',
  summary: 'Seals a secret with the master key, for {"sealed": …} in a file of routes',
  help: `
Reads the secret from standard input and prints what to write into the file. The key is MASTER_KEY or, without it, the one that
the service has made in its data directory.

  printf %s "$SUBSCRIPTION_KEY" | npm run --silent rails -- seal --data ./data`,
  options: {},
  run: runSeal,
};

// --- check ---------------------------------------------------------------------------------------------------------------

interface Checked extends CheckResult {
  readonly route: string;
}

async function runCheck({ directory, values, progress }: ToolInput): Promise<ToolResult> {
  const msisdn = stringOf(values, 'msisdn') ?? null;
  if (msisdn !== null && !/^[1-9]\d{9,14}$/.test(msisdn)) {
    throw new UsageError('--msisdn takes an international number without +, such as 256772000001');
  }
  const { routes: all } = readRoutesFile(requiredString(values, 'file'), secretSource(directory));
  const only = stringOf(values, 'route');
  const routes = only === undefined ? all : all.filter(({ id }) => id === only);
  if (routes.length === 0) throw new UsageError(`the file has no route ${only}`);

  const checked: Checked[] = [];
  progress.start('check', routes.length, 'routes');
  for (const route of routes) {
    checked.push(...(await checkRoute(route, msisdn)));
    progress.add(1, 0);
  }
  const failed = checked.filter(({ ok }) => !ok).length;
  const verdict = failed === 0 ? 'Every route works.' : `${failed} of ${checked.length} checks failed.`;
  return {
    sound: failed === 0,
    report: { checks: checked },
    lines: [
      ...table([
        ['route', 'what', '', 'found'],
        ...checked.map(({ route, what, ok, detail }) => [route, what, ok ? 'ok' : 'FAILED', detail]),
      ]),
      '',
      verdict,
    ],
  };
}

async function checkRoute(route: Route, msisdn: string | null): Promise<Checked[]> {
  const rail = makeRail(route, { clock: systemClock, callbackUrl: () => null, forgetful: false });
  const checked: Checked[] = [];
  const { dialingCode } = COUNTRY_FACTS[route.country];
  const isOfCountry = msisdn?.startsWith(dialingCode) === true;
  try {
    for await (const result of rail.check(isOfCountry ? msisdn : null)) {
      checked.push({ route: route.id, ...result });
    }
  } finally {
    await rail.close();
  }
  const only = onlyWayOf(route);
  if (only !== null) {
    const [what, lacks] =
      only === 'collect' ? ['payouts', 'no disbursement'] : (['charges', 'no collection'] as const);
    checked.push({ route: route.id, what, ok: true, detail: `refused: the route has ${lacks}` });
  }
  if (msisdn !== null && !isOfCountry) {
    const detail = `skipped: the number is not of ${route.country} (${dialingCode})`;
    checked.push({ route: route.id, what: 'wallet holder', ok: true, detail });
  }
  return checked;
}

function secretSource(directory: string) {
  const key = masterKey(directory);
  const secrets = key === null ? null : createSecrets(key);
  const openSealed =
    secrets === null ? null : (sealed: string): string => secrets.open('rail-credential', sealed);
  return { environment: process.env, openSealed };
}

/** As the service has it: MASTER_KEY, or what it made in its data directory. Null: neither, or it is not this user's to read. */
function masterKey(directory: string): Buffer | null {
  const given = process.env['MASTER_KEY'] ?? '';
  const text = given === '' ? textIn(join(directory, MASTER_KEY_FILE)) : given;
  if (text === null) return null;
  const key = parseMasterKey(text);
  const name = given === '' ? MASTER_KEY_FILE : 'MASTER_KEY';
  if (key === undefined) throw new UsageError(`${name}: takes 32 bytes in hex or base64`);
  return key;
}

function textIn(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return null;
  }
}

// --- seal ----------------------------------------------------------------------------------------------------------------

function runSeal({ directory }: ToolInput): Promise<ToolResult> {
  const key = masterKey(directory);
  if (key === null) {
    throw new UsageError(
      `MASTER_KEY is needed, or the data directory with the ${MASTER_KEY_FILE} of its service`,
    );
  }
  const secret = readFileSync(0, 'utf8').trim();
  if (secret === '') throw new UsageError('nothing came from standard input');
  const report = { sealed: createSecrets(key).seal('rail-credential', secret) };
  return Promise.resolve({ sound: true, report, lines: [JSON.stringify(report)] });
}

// --- Terminal ------------------------------------------------------------------------------------------------------------

/** `check rails.json` is `check --file rails.json`. */
function withFile([name = '--help', second, ...rest]: readonly string[]): string[] {
  if (second === undefined) return [name];
  if (name === 'check' && !second.startsWith('-')) return [name, '--file', second, ...rest];
  return [name, second, ...rest];
}

endBySignals();
await begin();
process.exitCode = await runTools(
  'npm run rails --',
  [check, reconcile, seal].map(telling),
  withFile(process.argv.slice(2)),
  ownTerminal(),
);
