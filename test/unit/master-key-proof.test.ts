// In a cluster that does not say its master key a node notes its own only where all that it has was sealed with that: noted of a wrong
// key, it would refuse the right one for ever.
import t from 'tap';
import type { Message, Reply } from '../../src/bus/bus.ts';
import { createSecrets } from '../../src/secrets.ts';
import { createLog } from '../../src/observability/log.ts';
import { clusterKeyProof } from '../../src/wiring/master-key-proof.ts';
import { temporaryDirectory } from '../temporary-directory.ts';
import { openStorage } from './storage-driven.ts';

const [own, other] = [1, 2].map((byte) => createSecrets(Buffer.alloc(32, byte))) as [Secrets, Secrets];
type Secrets = ReturnType<typeof createSecrets>;

const NOTHING = { noted: [], failures: [], lines: [] };
const noted = [own.fingerprint];

for (const [title, sealedWith, said] of [
  ['nothing is sealed, nothing is noted', [[], []], NOTHING],
  ['all of it with its own, which is noted', [[own], [own]], { ...NOTHING, noted }],
  ['all of it with another: it ends', [[other], []], { ...NOTHING, failures: ['ClusterIdentityError'] }],
  ['some of it with another: that is told', [[own], [other]], { ...NOTHING, lines: ['two master keys'] }],
  ['and in one partition, too', [[other, own], []], { ...NOTHING, lines: ['two master keys'] }],
  ['but not where it is of an app that was removed', [[own, 'removed'], []], { ...NOTHING, noted }],
] as const) {
  t.test(title, async (t) => {
    const storage = openStorage(temporaryDirectory(t));
    t.teardown(() => storage.close());
    for (const [number, keys] of sealedWith.entries()) {
      await storage.openPartition('webhooks', number, { epoch: 1, replica: null, onFenced: null });
      const endpoints = keys.flatMap((sealedWith, at) => {
        const appId = `app_${at}`;
        const secrets = sealedWith === 'removed' ? other : sealedWith;
        const signingSecretSealed = secrets.seal('signing-secret', 'whsec_x');
        const connected = { type: 'connected', appId, accountId: 'acc_1', url: null, signingSecretSealed };
        return sealedWith === 'removed' ? [connected, { type: 'removed', appId }] : [connected];
      });
      const command = { type: 'TakeEvents', afterSequence: 0, upstreamSequence: 1, endpoints, events: [] };
      const { type } = await new Promise<Reply>((resolve) => {
        const deadline = Date.now() + 60_000;
        storage.inbox('webhooks', number)({ ...command, deadline } as Message, resolve);
      });
      if (type !== 'done') throw new Error(type);
    }
    const found = { noted: [] as string[], failures: [] as string[], lines: [] as string[] };
    const log = createLog({
      level: 'warn',
      node: 'ledger',
      stream: { write: (line) => void found.lines.push(/two master keys/.exec(line)?.[0] ?? line) },
    });
    let isSettled = false;
    const options = {
      isSettled: () => isSettled,
      noteKey: async (fingerprint: string) => void found.noted.push(fingerprint),
      log,
      onFailure: ({ name }: Error) => void found.failures.push(name),
    };
    const notNoted = { isMasterKeyNoted: false } as never;
    const look = clusterKeyProof({ writeFormat: notNoted }, own, storage, options);
    for (let second = 0; second < 4; second++) look();
    t.strictSame(found, NOTHING, 'not before it has all that it is to have');
    isSettled = true;
    for (let second = 0; second < 9; second++) look();
    t.strictSame(found, said);

    const isNoted = { isMasterKeyNoted: true } as never;
    const lookAgain = clusterKeyProof({ writeFormat: isNoted }, own, storage, options);
    for (let second = 0; second < 9; second++) lookAgain();
    t.strictSame(found, said, 'where it is noted nothing is looked at');
  });
}
