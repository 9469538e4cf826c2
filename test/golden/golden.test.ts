// Today's code reads the log of every released version, byte for byte, and makes of it what that version made: the same for callers, and
// the same rows.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { AccountEvent, AccountRecord } from '../../src/domain/account-event.ts';
import { FIELDS_MAX, type PlatformRecord } from '../../actors/platform/record.ts';
import { FIELDS, type WebhookRecord } from '../../actors/webhooks/record.ts';
import { RECORD_FORMATS } from '../../src/domain/record-format.ts';
import { groupOf } from '../../src/log-tools/data.ts';
import { LogReader } from '../../wal/log-reader.ts';
import { verify } from '../../wal/tools/verify.ts';
import { type Rows, rowsOf } from './rows.ts';
import { type State, stateOf } from './state.ts';
import { quiet } from '../unit/wal/run-tool.ts';
import { imported, VERSIONS } from './versions.ts';
import { removeDirectory } from '../../deploy/remove-directory.ts';

function json<T>(version: string, name: string): T {
  return JSON.parse(readFileSync(join(import.meta.dirname, version, name), 'utf8')) as T;
}

async function directoryOf(version: string): Promise<string> {
  const directory = await imported(version);
  t.teardown(() => removeDirectory(directory));
  return directory;
}

for (const version of VERSIONS) {
  t.test(`the golden log ${version} is whole, and means what it meant`, async (t) => {
    const directory = await directoryOf(version);
    t.hasStrict(await verify.run({ directory, values: {}, progress: quiet }), { sound: true });
    t.strictSame(JSON.parse(JSON.stringify(await stateOf(directory))), json<State>(version, 'state.json'));
    const { beforeRetention } = json<{ beforeRetention: Record<string, number> }>(version, 'lived.json');
    const { deliveries } = await stateOf(directory, beforeRetention);
    t.strictSame(
      JSON.parse(JSON.stringify(deliveries)),
      json<State['deliveries']>(version, 'deliveries.json'),
    );
    // Where rows have changed on purpose: raise their group's viewsFormat, and let `long.ts rows` write these anew.
    t.strictSame(await rowsOf(directory), json<Rows>(version, 'rows.json'), 'and has the same rows');
  });
}

/** Every kind of record there is: a new one does not compile until it is here. */
const KINDS = {
  ChargeCreated: 'accounts',
  DepositCreated: 'accounts',
  PayoutCreated: 'accounts',
  WithdrawalCreated: 'accounts',
  WithdrawalApproved: 'accounts',
  WithdrawalRejected: 'accounts',
  SubmissionBegun: 'accounts',
  SubmissionAccepted: 'accounts',
  AnswerFixed: 'accounts',
  TransactionSucceeded: 'accounts',
  TransactionFailed: 'accounts',
  ChargeReleased: 'accounts',
  ChargeReversed: 'accounts',
  ReconciliationRaised: 'accounts',
  ReconciliationResolved: 'accounts',
  AccountOpened: 'accounts',
  AccountSettingsChanged: 'accounts',
  UserAdded: 'accounts',
  UserRoleChanged: 'accounts',
  UserRemoved: 'accounts',
  AppConnected: 'accounts',
  AppWebhookChanged: 'accounts',
  AppRemoved: 'accounts',
  WalletAdded: 'accounts',
  WalletApproved: 'accounts',
  WalletActivated: 'accounts',
  WalletRevoked: 'accounts',
  EventsTaken: 'webhooks',
  AttemptRecorded: 'webhooks',
  DeliveriesReplayed: 'webhooks',
  DeliveryCancelled: 'webhooks',
  DeliveriesRemoved: 'webhooks',
  AccountRegistered: 'platform',
  RegisteredAccountOpened: 'platform',
  AuditBegun: 'platform',
  AuditEnded: 'platform',
} as const satisfies Record<AccountEvent['type'] | WebhookRecord['type'] | PlatformRecord['type'], string>;

t.test(
  'the newest golden log has every kind of record, and they are still written as they are in it',
  async (t) => {
    const directory = await directoryOf(VERSIONS.at(-1) ?? '');
    const log = LogReader.openReader({ directory });
    t.equal(VERSIONS.at(-1), `v${RECORD_FORMATS.newest}`, 'it is of the newest record format');
    const found = new Set<string>();
    const fieldsOf: Record<string, number> = {};
    const namesOf: Record<string, string[]> = {};
    for (const { group, partition } of log.partitionNames()) {
      const format = groupOf(group);
      for (const { records } of log.read(group, partition, { fromSequence: 1 })) {
        for (const line of records) {
          const record = format.decode(line) as AccountRecord | WebhookRecord | PlatformRecord;
          for (const { type } of 'events' in record && !('type' in record) ? record.events : [record]) {
            found.add(`${group} ${(type as string | undefined) ?? ''}`);
          }
          if (group === 'platform') {
            const [letter, ...rest] = JSON.parse(line) as [string, ...unknown[]];
            fieldsOf[letter] = Math.max(fieldsOf[letter] ?? 0, rest.length + 1);
          }
          if (group === 'webhooks') {
            const { v: _, ...fields } = JSON.parse(line) as { v: number; type: string };
            namesOf[fields.type] = Object.keys(fields);
          }
          const written = format.encode(record as never);
          if (written !== line) t.equal(written, line);
        }
      }
    }
    await log.close();
    t.strictSame(fieldsOf, FIELDS_MAX, 'the platform has no field that came without a format');
    t.same(namesOf, FIELDS, 'nor have webhooks');
    t.strictSame(
      [...found].sort(),
      Object.entries(KINDS)
        .map(([type, group]) => `${group} ${type}`)
        .sort(),
    );
  },
);
