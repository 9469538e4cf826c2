// Whether the master key is the one that secrets are sealed with, told by what is sealed: a data directory or a cluster made
// before the fingerprint of its key was noted says nothing else of it. The fingerprint is noted once this has said so: noted
// of a wrong key, it would refuse the right one for ever.

import type { WebhooksLogic } from '../../actors/webhooks/group.ts';
import { ClusterIdentityError } from '../nats/errors.ts';
import type { Log } from '../observability/log.ts';
import { CannotOpen, type Secrets } from '../secrets.ts';
import type { ClusterNats } from './cluster-nats.ts';
import { anotherMasterKey, type DataDirectory, noteMasterKey } from '../data-directory/data-directory.ts';
import { webhooksLogicOf } from '../storage/groups.ts';
import type { Ledger } from './ledger.ts';
import type { ServiceOptions } from './service-options.ts';
import type { Storage } from '../storage/storage.ts';

/** What the secrets of connected apps say. `both`: some were connected while another key was in use. */
type Verdict = 'nothing_sealed' | 'this_key' | 'another_key' | 'both';

class Evidence {
  readonly #secrets: Secrets;
  #opened = false;
  #refused = false;

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  look(partition: WebhooksLogic): void {
    for (const sealed of partition.sealedSecrets()) {
      try {
        this.#secrets.open('signing-secret', sealed);
        this.#opened = true;
      } catch (error) {
        if (!(error instanceof CannotOpen)) throw error;
        this.#refused = true;
      }
    }
  }

  get verdict(): Verdict {
    if (this.#opened && this.#refused) return 'both';
    if (this.#refused) return 'another_key';
    return this.#opened ? 'this_key' : 'nothing_sealed';
  }
}

function webhooksOf(storage: Storage): WebhooksLogic[] {
  return storage
    .hosted()
    .filter(({ group }) => group === 'webhooks')
    .map(({ partition }) => webhooksLogicOf(partition));
}

const OF_TWO_KEYS =
  'signing secrets are sealed with two master keys: webhooks of the apps of the other one cannot be signed; connect these anew';

const NOT_NOTED = 'the fingerprint of the master key could not be noted; the next start tries again';

/** Of a data directory that does not say its key; nothing has been sealed yet by this process. Throws DataDirectoryError, after
 *  `close`. */
export async function proveOwnKey(
  directory: DataDirectory,
  secrets: Secrets,
  { storage, damaged }: Ledger,
  log: Log,
  close: () => Promise<void>,
): Promise<void> {
  const evidence = new Evidence(secrets);
  for (const partition of webhooksOf(storage)) evidence.look(partition);
  const { verdict } = evidence;
  if (verdict === 'another_key') {
    await close();
    throw anotherMasterKey(directory.path, secrets.fingerprint);
  }
  if (verdict === 'both') return log.warn({}, OF_TWO_KEYS);
  // What is damaged may be of another.
  if (damaged.size > 0) return;
  try {
    noteMasterKey(directory, secrets);
  } catch (error) {
    // A full disk, for instance: what needs no room is served all the same.
    log.warn({ err: error }, NOT_NOTED);
  }
}

/** Of a cluster that does not say its key, by what this node has once it has all that it is to have: a partition alone may have
 *  the one app that was connected under another. The node ends where it has another key. Returns what to do each second. */
export function clusterKeyProof(
  { writeFormat }: Pick<ClusterNats, 'writeFormat'>,
  secrets: Secrets,
  storage: Storage,
  { isSettled, noteKey, log, onFailure }: ClusterProofOptions,
): () => void {
  const evidence = new Evidence(secrets);
  /** One a second: callers wait meanwhile. Null: it has not begun. */
  let left: WebhooksLogic[] | null = null;
  let isDone = false;
  const conclude = (): void => {
    switch (evidence.verdict) {
      case 'nothing_sealed':
        return;
      case 'both':
        return log.warn({}, OF_TWO_KEYS);
      case 'another_key':
        return onFailure(new ClusterIdentityError(ANOTHER_KEY));
      case 'this_key':
        void noteKey(secrets.fingerprint).catch((error: unknown) => {
          log.warn({ err: error }, NOT_NOTED);
        });
    }
  };
  return () => {
    isDone ||= writeFormat?.isMasterKeyNoted !== false;
    if (isDone || (left === null && !isSettled())) return;
    left ??= webhooksOf(storage);
    const next = left.pop();
    if (next !== undefined) return evidence.look(next);
    isDone = true;
    conclude();
  };
}

export interface ClusterProofOptions extends Pick<ServiceOptions, 'log' | 'onFailure'> {
  readonly isSettled: () => boolean;
  /** Resolves when the cluster says that this key is its own. */
  readonly noteKey: (fingerprint: string) => Promise<void>;
}

const ANOTHER_KEY =
  'MASTER_KEY is not the key that the secrets of the cluster are sealed with: no webhook could be signed. Set the one that it ' +
  'was begun with.';
