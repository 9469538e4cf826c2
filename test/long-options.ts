// Options of the long test runs: whole numbers, `--seed` among them. A run that was asked for wrongly must not pass.

import { parseArgs } from 'node:util';

/** Prints `usage` and ends the process: status 0 when help was asked for, 2 when an option is not a number or not known. */
export function readLongOptions<Name extends string>(
  usage: string,
  defaults: Readonly<Record<Name, number>>,
  args: readonly string[] = process.argv.slice(2),
): Record<Name, number> & { readonly seed: number } {
  const all = { ...defaults, seed: Date.now() % 1_000_000 };
  const options = Object.fromEntries(
    Object.entries<number>(all).map(([name, value]) => [
      name,
      { type: 'string' as const, default: String(value) },
    ]),
  );
  try {
    const parsed = parseArgs({
      args: [...args],
      options: { ...options, help: { type: 'boolean', short: 'h' } },
    });
    const values: Readonly<Record<string, unknown>> = parsed.values;
    if (values['help'] === true) end(usage, 0);
    const numbers = Object.keys(all).map((name) => [name, wholeNumber(name, String(values[name]))]);
    return Object.fromEntries(numbers) as typeof all;
  } catch (error) {
    return end(`${(error as Error).message}\n${usage}`, 2);
  }
}

function wholeNumber(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error(`--${name} is a whole number, not "${text}"`);
  // A run of nothing would find nothing.
  if (Number(text) === 0 && name !== 'seed') throw new Error(`--${name} is 1 at least`);
  return Number(text);
}

function end(text: string, status: 0 | 2): never {
  (status === 0 ? process.stdout : process.stderr).write(`${text}\n`);
  process.exit(status);
}
