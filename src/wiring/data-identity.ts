// What a data directory says of itself: its format, and its number of partitions, which never changes after it was made.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeWholeFile } from './whole-file.ts';

export const IDENTITY_FILE = 'daftari.json';

export interface DataIdentity {
  readonly format: number;
  readonly partitions: number;
}

/** What can be wrong with a data directory, for the person who starts the service. */
export class DataDirectoryError extends Error {
  override readonly name = 'DataDirectoryError';
}

/** Null: it says nothing. Throws DataDirectoryError when it cannot be understood. */
export function readIdentity(directory: string): DataIdentity | null {
  const file = join(directory, IDENTITY_FILE);
  if (!existsSync(file)) return null;
  const { format, partitions } = Object(parsedOrNull(readFileSync(file, 'utf8'))) as Record<string, unknown>;
  if (Number.isInteger(format) && Number.isInteger(partitions)) {
    return { format: format as number, partitions: partitions as number };
  }
  throw new DataDirectoryError(`${file} is damaged: put the one back that was kept with the backup.`);
}

export function writeIdentity(directory: string, identity: DataIdentity): void {
  writeWholeFile(join(directory, IDENTITY_FILE), `${JSON.stringify(identity, null, 2)}\n`);
}

function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
