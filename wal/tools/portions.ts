// Many batches in one transaction of LMDB, and not too many: for what is read from segments and written to a log.
import { WAL_LIMITS } from '../limits.ts';
import type { Batch } from '../types.ts';

export class Portions {
  readonly #write: (batches: readonly Buffer[]) => Promise<unknown>;
  #batches: Buffer[] = [];
  #bytes = 0;

  constructor(write: (batches: readonly Buffer[]) => Promise<unknown>) {
    this.#write = write;
  }

  async add({ bytes }: Batch): Promise<void> {
    this.#batches.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes >= WAL_LIMITS.bytesPerImport) await this.flush();
  }

  async flush(): Promise<void> {
    if (this.#batches.length === 0) return;
    const batches = this.#batches;
    this.#batches = [];
    this.#bytes = 0;
    await this.#write(batches);
  }
}
