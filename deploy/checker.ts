// The checker: decides after an incident whether the service told its callers the truth. A program of its own.
//
//   OPERATOR_TOKEN=… node_modules/.bin/node deploy/checker.ts --journal sent.jsonl --base-url http://… --operator-url http://…
//                          [--data-dir … --data-dir …]
//
// The journal has one line of JSON for each create call: what was sent, and the reply that was received:
//   {"account_id","secret_key","path","key","body","status","reply"}     status null: no reply was ever received
//
// What must hold:
//   - an acknowledged create (201) exists exactly once, as it was acknowledged; a refused one (4xx, 5xx) does not exist;
//     one without a reply exists at most once
//   - each transaction's ledger entries are what its status, amount and net say; each account's balances and its trial
//     balance are what the entries add up to, and that is zero
//   - the logs of all data directories have one hash chain per partition
//
// Exit status 0 only if all of it holds; 1 if not, also where some of it could not be found out; 2 if that is all there is to tell.

import { parseArgs } from 'node:util';
import { proveFiles } from '../src/damage/files-proof.ts';
import { printable } from '../wal/printable.ts';
import { assertGivenOnce, ownTerminal } from '../wal/tools/tool.ts';
import { noteUnreadable } from '../wal/unreadable.ts';
import { CouldNotTell, reasonOf } from './could-not-tell.ts';
import { checkJournal, type Service } from './journal-check.ts';
import { readJournal } from './journal-file.ts';
import { checkReplicas } from './log-comparison.ts';

const HELP = `node_modules/.bin/node deploy/checker.ts [--journal FILE --base-url URL --operator-url URL] [--data-dir DIR …]

Decides whether the service told its callers the truth: what was acknowledged exists once, what was refused does not
exist, entries are what their transactions say, balances are what the entries add up to, and the logs of all data directories
are one. The environment has OPERATOR_TOKEN; deploy/README.md has the journal's format.`;

const COULD_NOT_TELL = 2;
/** From the start on: a closed pipe is no finding, nor is a disk without room. */
const terminal = ownTerminal(COULD_NOT_TELL);

try {
  process.exitCode = await main();
} catch (error) {
  tellUntold(error);
  process.exitCode = COULD_NOT_TELL;
}

function tellUntold(error: unknown): void {
  terminal.err(printable(`Could not tell: ${reasonOf(error)}\n`));
}

async function main(): Promise<number> {
  const { values, tokens } = parseArgs({
    tokens: true,
    options: {
      journal: { type: 'string' },
      'base-url': { type: 'string' },
      'operator-url': { type: 'string' },
      'data-dir': { type: 'string', multiple: true, default: [] },
      help: { type: 'boolean', default: false },
    },
  });
  assertGivenOnce(tokens, 'data-dir');
  const directories = values['data-dir'];
  if (values.help || (values.journal === undefined && directories.length === 0)) {
    terminal.out(`${HELP}\n`);
    return values.help ? 0 : COULD_NOT_TELL;
  }
  const { journal: path } = values;
  const service = {
    baseUrl: values['base-url'] ?? 'http://127.0.0.1:8080',
    operatorUrl: values['operator-url'] ?? 'http://127.0.0.1:8081',
    // Not an argument: everybody on the machine reads those of a process.
    operatorToken: process.env['OPERATOR_TOKEN'] ?? '',
  };
  const checks: (() => Promise<Checked>)[] = [];
  if (path !== undefined) checks.push(() => journalChecked(path, service));
  if (directories.length > 0) checks.push(() => directoriesChecked(directories));
  let findings = 0;
  /** At once: what comes after it may take long. */
  const tellFound = (found: readonly string[]): void => {
    findings += found.length;
    for (const finding of found) terminal.out(`FOUND ${printable(finding)}\n`);
  };
  let isAllTold = true;
  for (const check of checks) {
    try {
      const { found, what } = await check();
      terminal.out(`${what}\n`);
      tellFound(found);
    } catch (error) {
      isAllTold = false;
      // What was found is told all the same, and what else there is to check is checked.
      if (error instanceof CouldNotTell) tellFound(error.findings);
      tellUntold(error);
    }
  }
  if (findings > 0) terminal.out(`Not sound: ${findings} findings.\n`);
  else if (isAllTold) terminal.out('Sound.\n');
  if (findings > 0) return 1;
  return isAllTold ? 0 : COULD_NOT_TELL;
}

interface Checked {
  readonly found: readonly string[];
  readonly what: string;
}

async function journalChecked(path: string, service: Service): Promise<Checked> {
  const journal = readJournal(path);
  // Of none nothing is known.
  if (journal.length === 0) throw new Error(`${path} has no creates`);
  return { found: await checkJournal(journal, service), what: `${journal.length} creates checked` };
}

async function directoriesChecked(directories: readonly string[]): Promise<Checked> {
  for (const directory of directories) await proveReadable(directory);
  const found = await checkReplicas(directories, (line) => terminal.out(printable(`${line}\n`)));
  return { found, what: `${directories.length} data directories compared` };
}

/** What LMDB finds in a damaged file would end this process without a word: known of, it is a finding like any other. */
async function proveReadable(directory: string): Promise<void> {
  const { unreadable, log } = await proveFiles(directory, null);
  if (log !== null) throw new Error(`the log in ${directory} cannot be opened (${log})`);
  noteUnreadable(directory, unreadable);
}
