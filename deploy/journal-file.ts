// Reads a journal of creates. Whoever made the calls has written it, in a program of their own: what is not said as it must be would be
// passed over, and an acknowledged create whose status is a text would be held for a refused one.

import { readFileSync } from 'node:fs';
import type { JournalEntry } from './journal-check.ts';

/** Throws of the first line that is no create, and says what is wrong with it. */
export function readJournal(path: string): JournalEntry[] {
  const entries: JournalEntry[] = [];
  for (const [index, line] of readFileSync(path, 'utf8').split('\n').entries()) {
    if (line === '') continue;
    try {
      const entry: unknown = JSON.parse(line);
      const problem = problemOf(Object(entry) as Fields);
      if (problem !== null) throw new Error(problem);
      entries.push(entry as JournalEntry);
    } catch (error) {
      throw new Error(`line ${index + 1} of ${path}: ${(error as Error).message}`, { cause: error });
    }
  }
  return entries;
}

type Fields = Readonly<Record<string, unknown>>;

function problemOf(entry: Fields): string | null {
  const absent = ['account_id', 'secret_key', 'path', 'key'].find((name) => !isText(entry[name]));
  if (absent !== undefined) return `${absent} is no text`;
  const { status } = entry;
  if (!isStatus(status)) {
    return `status ${JSON.stringify(status)} is no answer to a create: 201, 400 to 599, or null where no reply came`;
  }
  const body = Object(entry['body']) as Fields;
  // What was refused may have been wrong in anything else.
  const told = status === 201 ? ['reference', 'amount', 'currency'] : ['reference'];
  const unsaid = told.find((name) => !isText(body[name]));
  if (unsaid !== undefined) return `the body's ${unsaid} is no text`;
  if (status === 201 && !isText((Object(entry['reply']) as Fields)['id'])) return 'the reply has no id';
  return null;
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

function isStatus(status: unknown): boolean {
  if (status === null || status === 201) return true;
  return Number.isInteger(status) && Number(status) >= 400 && Number(status) <= 599;
}
