// A storage without the service around it: opened over a directory, given commands, damaged.

import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { encodeIdempotency } from '../../actors/accounts/rows.ts';
import type { Message, Reply } from '../../src/bus/bus.ts';
import { DEFAULT_POLICY } from '../../src/domain/default-policy.ts';
import { encodeTime, makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import type { GroupPolicies } from '../../src/storage/groups.ts';
import { Storage, type StorageOptions } from '../../src/storage/storage.ts';
import type { Row } from '../../wal/types.ts';
import { byOperator, opened } from './domain/scenario.ts';

export const POLICIES: GroupPolicies = {
  accounts: DEFAULT_POLICY,
  webhooks: { retryMs: [], retentionMs: 0 },
};

export function openStorage(
  directory: string,
  onDamage: StorageOptions['onDamage'] = (_group, _partition, error) => {
    throw error;
  },
  clock: StorageOptions['clock'] = Date.now,
): Storage {
  return new Storage({
    directory,
    policies: POLICIES,
    observer: { decided: () => {} },
    clock,
    onFlush: () => {},
    onDamage,
    onFailure: (error) => {
      throw error;
    },
  });
}

export function serve(storage: Storage, partition: number): Promise<unknown> {
  return storage.openPartition('accounts', partition, { epoch: 1, replica: null, onFenced: null });
}

export function send(storage: Storage, partition: number, message: object): Promise<Reply> {
  return new Promise((resolve) => {
    const command = { ...byOperator, ...message } as unknown as Message;
    storage.inbox('accounts', partition)(command, resolve);
  });
}

export const OPEN_ACCOUNT = {
  type: 'OpenAccount',
  name: opened.name,
  country: opened.country,
  live: true,
  payoutsEnabled: true,
  withdrawalsEnabled: true,
};

/** Serves a partition and writes at least so many records, one an account. */
export async function fill(storage: Storage, partition: number, count: number): Promise<void> {
  await serve(storage, partition);
  await openAccounts(storage, partition, count);
}

/** At least so many, of a partition that is served. */
export async function openAccounts(storage: Storage, partition: number, count: number): Promise<void> {
  const deadline = Date.now() + 600_000;
  for (let done = 0; done < count; done += LIMITS.checkpointRecordsPerCommitMax) {
    const replies = Array.from({ length: LIMITS.checkpointRecordsPerCommitMax }, (_, i) => {
      const accountId = makeId('account', `${encodeTime(done + i)}${'0'.repeat(16)}`);
      return send(storage, partition, { ...OPEN_ACCOUNT, accountId, deadline });
    });
    for (const { type } of await Promise.all(replies)) if (type !== 'done') throw new Error(type);
  }
}

/** Rows of the idempotency keys of so many creates long ago, and of one on each of the days since by which their time is over. */
export function overdueKeys(count: number): { readonly overdue: Row[]; readonly recent: Row[] } {
  const rowOf = (key: string, madeAt: number): Row => {
    const transactionId = makeId('charge', `${encodeTime(madeAt)}${'0'.repeat(16)}`);
    return { table: 'idempotency', key, value: encodeIdempotency({ requestHash: '', transactionId }) };
  };
  const now = Date.now();
  return {
    overdue: Array.from({ length: count }, (_, n) => rowOf(String(n).padStart(6, '0'), 0)),
    recent: Array.from({ length: 30 }, (_, day) => rowOf(`+${day}`, now - day * 86_400_000)),
  };
}

/** Changes a batch as it lies on disk, also while somebody has it open: its records, unless `place` is in its header. Pages are copied
 *  when they are written: older copies may hold the batch, too. */
export function damageBatch(directory: string, bytes: Buffer, place = 80): void {
  const file = join(directory, 'log', 'data.mdb');
  const content = readFileSync(file);
  const descriptor = openSync(file, 'r+');
  for (let at = content.indexOf(bytes); at >= 0; at = content.indexOf(bytes, at + 1)) {
    writeSync(descriptor, Buffer.of(content[at + place]! ^ 0x04), 0, 1, at + place);
  }
  closeSync(descriptor);
}
