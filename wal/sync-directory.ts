// After it a power cut takes no name from the directory that was in it, and brings none back.
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { naming, namingNow } from './thrown.ts';

export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await naming(path, () => directory.sync());
  } finally {
    await directory.close();
  }
}

export function syncDirectoryNow(path: string): void {
  const directory = openSync(path, 'r');
  try {
    namingNow(path, () => fsyncSync(directory));
  } finally {
    closeSync(directory);
  }
}
