// The benchmarks, at a terminal: npm run bench. Results go to stdout; progress, one line that is written over, to stderr.

import { accessSync, constants, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { StopAsked, stopSignal } from '../deploy/stop-signal.ts';
import { HELP, parseCommand, UsageError, type RunOptions } from './options.ts';
import { againstText, compareText } from './report/compare.ts';
import { htmlOf } from './report/html.ts';
import { reportText } from './report/table.ts';
import { profileText } from './report/profile.ts';
import { reportOf, type Report } from './result.ts';
import { run, type RunListener } from './run.ts';
import { SCENARIOS } from './scenarios/all.ts';

const FAILED = 1;
const WRONG_USAGE = 2;
const PLAIN_PROGRESS_EVERY_MS = 5_000;

// Its terminal may be closed, or who read its progress be gone: what it has started is to be ended all the same.
process.stderr.on('error', () => {});

try {
  process.exitCode = await obey(process.argv.slice(2));
} catch (error) {
  if (error instanceof StopAsked) {
    console.error(`Interrupted by ${error.signal}: nothing runs on, and what it has written is removed.`);
    // Whatever a scenario still waits for is of no use.
    process.exit(error.exitStatus);
  }
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\nnpm run bench -- --help says more.`);
  process.exitCode = WRONG_USAGE;
}

async function obey(args: readonly string[]): Promise<number> {
  const command = parseCommand(args);
  switch (command.type) {
    case 'help':
      console.log(HELP);
      return 0;
    case 'list':
      for (const { name, summary, needs } of SCENARIOS) {
        console.log(`${name.padEnd(12)}${summary}${needs === null ? '' : ` (needs ${needs})`}`);
      }
      return 0;
    case 'compare':
      console.log(compared(command.before, command.after));
      return 0;
    case 'profile':
      console.log(profileOf(command.file));
      return 0;
    case 'run':
      return runAndTell(command.options, args);
  }
}

async function runAndTell(options: RunOptions, args: readonly string[]): Promise<number> {
  // Before hours of load, not after them.
  const { json, html } = options;
  for (const file of [json, html]) {
    if (file !== null) usable(() => assertWritable(file));
  }
  const progress = progressLine();
  const listener: RunListener = {
    progress: (text) => progress.show(text),
    finished: (scenario, repeat) =>
      progress.tell(`${scenario}: repeat ${repeat + 1} of ${options.repeats} done`),
    failed: (scenario, error) => {
      progress.clear();
      console.error(`${scenario} could not be measured:`, error);
    },
  };
  const stop = stopSignal();
  stop.addEventListener('abort', () => progress.tell('stopping …'));
  const command = `npm run bench -- ${args.join(' ')}`;
  const { report, against } = await run(options, command, listener, stop).finally(() => progress.clear());
  console.log(reportText(report));
  if (against !== null) console.log(`\n${againstText(against, report)}`);
  const whole = against === null ? report : { ...report, against };
  const areKept = [
    json === null || isWritten(json, `${JSON.stringify(whole, null, 1)}\n`),
    html === null || isWritten(html, htmlOf(whole)),
  ];
  const scenarios = [...report.scenarios, ...(against?.scenarios ?? [])];
  const checks = scenarios.flatMap(({ repeats }) => repeats.flatMap((repeat) => repeat.checks));
  const isWhole = report.failures!.length === 0 && checks.every(({ passed }) => passed);
  return isWhole && areKept.every(Boolean) ? 0 : FAILED;
}

/** One that is not takes nothing from the other: what they tell was hours of load. */
function isWritten(file: string, text: string): boolean {
  try {
    writeFileSync(file, text);
    return true;
  } catch (error) {
    console.error(`The report is not in ${file}: ${(error as Error).message}`);
    return false;
  }
}

/** `after` null: the two checkouts of one run. */
function compared(before: string, after: string | null): string {
  const report = readReport(before);
  if (after !== null) return compareText(report, readReport(after));
  if (report.against === undefined) {
    throw new UsageError(
      `${before} is of one checkout: compare takes two reports, or one of a run with --against`,
    );
  }
  return againstText(report.against, report);
}

function assertWritable(file: string): void {
  accessSync(dirname(file), constants.W_OK);
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) throw new Error(`${file} is a directory: the report is a file`);
  if (found !== undefined) accessSync(file, constants.W_OK);
}

function profileOf(path: string): string {
  const text = usable(() => readFileSync(path, 'utf8'));
  return usable(() => profileText(text), `${path} is no CPU profile: `);
}

function readReport(path: string): Report {
  const text = usable(() => readFileSync(path, 'utf8'));
  return usable(() => reportOf(text), `${path} is no report: `);
}

/** For files that the command line names: one that cannot be used is wrong usage. */
function usable<T>(use: () => T, which = ''): T {
  try {
    return use();
  } catch (error) {
    throw new UsageError(`${which}${(error as Error).message}`);
  }
}

/** On a terminal one line, written over; elsewhere a line every few seconds, and what is told once. */
function progressLine(): { show(text: string): void; tell(text: string): void; clear(): void } {
  const { stderr } = process;
  let shownAt = -Infinity;
  if (!stderr.isTTY) {
    const tell = (text: string): void => {
      shownAt = performance.now();
      stderr.write(`${text}\n`);
    };
    const show = (text: string): void => {
      if (performance.now() - shownAt >= PLAIN_PROGRESS_EVERY_MS) tell(text);
    };
    return { show, tell, clear: () => {} };
  }
  const clear = (): void => void stderr.write('\r\u001b[K');
  const show = (text: string): void => void stderr.write(`\r\u001b[K${text.slice(0, stderr.columns - 1)}`);
  return { show, tell: show, clear };
}
