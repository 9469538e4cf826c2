// After it a power cut takes no name from the directory that was in it, and brings none back.
import { open } from 'node:fs/promises';
import { naming } from './thrown.ts';

export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await naming(path, () => directory.sync());
  } finally {
    await directory.close();
  }
}
