// A transaction's story: what operators did is part of it, also where that names it not; what a merchant chose cannot look like a line
// of it.
import t from 'tap';
import { encodePlatformRecord, type PlatformRecord } from '../../actors/platform/record.ts';
import { encodeWebhookRecord } from '../../actors/webhooks/record.ts';
import { makeId } from '../../src/domain/id.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { storyLines } from '../../src/log-tools/story-text.ts';
import type { Story } from '../../src/log-tools/story.ts';
import { openLogDatabase } from '../../wal/lmdb.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { ACCOUNT, APP, body, charge, merchant, MINUTE, outcome, START } from './domain/scenario.ts';
import { runTool } from './wal/run-tool.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const FORGED = 'top-up\n2026-11-24T00:00:00.000Z  accounts/1  sequence 9, batch 9';

t.test('texts of more than a word are quoted, on one line', async (t) => {
  const event = { type: 'ChargeCreated', at: 1, id: 'chg_1', description: FORGED, reference: 'order-1' };
  const status = { status: 'FAILED', at: 1, source: 'PROVIDER', providerStatus: null, message: FORGED };
  const place = { group: 'accounts', partition: 1, batch: 1, sequence: 1, at: 1 };
  const chapter = { ...place, events: [event], statuses: [status], journals: [] };
  const told = { transactionId: 'chg_1', accountId: 'acc_1', partition: 1, chapters: [chapter], faults: [] };
  const lines = storyLines({ ...told, detail: { transaction: {} } } as unknown as Story);
  t.strictSame(
    lines.filter((line) => line.includes('\n')),
    [],
  );
  t.strictSame(lines.slice(-2), [
    `    ChargeCreated: description ${JSON.stringify(FORGED)}, reference order-1`,
    `    → FAILED (PROVIDER: ${JSON.stringify(FORGED)})`,
  ]);
});

t.test('what operators asked for that made it, or sent its webhooks again, is in it', async (t) => {
  const directory = `${temporaryDirectory(t)}/data`;
  const account = merchant();
  const made = account.create(charge());
  const event = {
    id: makeId('event', body(2)),
    accountId: ACCOUNT,
    transactionId: made.id,
    eventType: 'deposit.failed',
    body: '{}',
    at: START,
    appIds: [APP],
  };
  const idBody = body(3);
  const taken = {
    type: 'EventsTaken',
    at: START,
    upstreamSequence: 9,
    idBody,
    endpoints: [],
    events: [event],
  };
  const deliveryIds = [makeId('delivery', `${idBody.slice(0, -2)}01`)];
  const replayed = { type: 'DeliveriesReplayed', at: START + 60_000, deliveryIds, by: 'amina' };
  const deposits = `/operator/v1/accounts/${ACCOUNT}/deposits`;
  const replays = (app: string): string => `/operator/v1/accounts/${ACCOUNT}/apps/${app}/replay_failed`;
  let number = 10;
  const asked = (at: number, target: string, ended: object | null): PlatformRecord[] => {
    const id = makeId('audit', body(number++));
    const text = JSON.stringify({ reference: made.reference });
    const begun = {
      type: 'AuditBegun',
      at,
      id,
      operator: `${number}`,
      action: 'POST',
      target,
      body: text,
    } as const;
    const end = {
      type: 'AuditEnded',
      at: at + 5,
      id,
      outcome: 'done',
      status: 201,
      code: null,
      objectId: null,
    } as const;
    return ended === null ? [begun] : [begun, { ...end, ...ended }];
  };
  const audits = [
    asked(START - 3, deposits, { objectId: made.id }),
    asked(START - 2, deposits, { objectId: makeId('deposit', body(4)) }),
    asked(START - 2, deposits, { outcome: 'refused' }),
    asked(START - 1, deposits, null),
    asked(START + 60_000 - 1, replays(APP), {}),
    asked(START + 60_000 - 1, replays(makeId('app', body(5))), {}),
    asked(START + 120_000, replays(APP), {}),
  ];
  const log = WriteAheadLog.open({
    directory,
    now: () => START - 60_000,
    onFailure: (error) => t.fail(error.message),
  });
  const lines = {
    accounts: account.lines,
    webhooks: [taken, replayed].map((record) => encodeWebhookRecord(record as never)),
    platform: audits.flat().map(encodePlatformRecord),
  };
  for (const [group, records] of Object.entries(lines)) {
    const partition = log.openPartition(group, 0, { epoch: 1, replica: null, onDurable: () => {} });
    for (const record of records) partition.append(record);
    await partition.drained();
  }
  await log.close();
  const inspect = (...args: string[]) =>
    runTool(logTools, 'inspect', '--transaction', made.id, '--data', directory, ...args);
  const { status, out } = await inspect('--json');
  t.equal(status, 0);
  const { chapters, ...whole } = JSON.parse(out) as Story;
  const told = chapters.filter(({ group }) => group === 'platform').flatMap(({ events }) => events);
  t.strictSame(told, [audits[0]![0], audits[3]![0], audits[0]![1], audits[4]![0], audits[4]![1]]);

  // Damage of one of its logs keeps nothing of the others from who looks for it.
  for (const [group, others] of [
    ['webhooks', ['accounts']],
    ['platform', ['accounts', 'webhooks']],
  ] as const) {
    const database = openLogDatabase({ directory });
    const key: [string, number, number] = [group, 0, 2];
    const sound = Buffer.from(database.getBinary(key)!);
    const damaged = Buffer.from(sound);
    damaged.writeUInt8(damaged.readUInt8(70) ^ 1, 70);
    await database.put(key, damaged);
    const shown = await inspect('--json');
    const fault = { group, partition: 0, batch: 2, problem: /CRC32C/ };
    t.match({ ...shown, ...JSON.parse(shown.out) }, { status: 1, ...whole, faults: [fault] });
    const ofOthers = (story: Pick<Story, 'chapters'>) =>
      story.chapters.filter((chapter) => others.some((other) => other === chapter.group));
    t.ok(ofOthers({ chapters }).length >= others.length);
    t.strictSame(ofOthers(JSON.parse(shown.out)), ofOthers({ chapters }), group);
    t.match(
      (await inspect()).out,
      new RegExp(`\\nNOT SOUND: ${group}/0 batch 2: .*\\nNext: day 4 of deploy/README\\.md\\.\\n$`),
    );
    await database.put(key, sound);
    await database.close();
  }
});

t.test('where another partition’s merchant has named it, it is found in its own', async (t) => {
  const directory = `${temporaryDirectory(t)}/data`;
  const account = merchant();
  const made = account.create(charge());
  // The next that is written there, much later.
  const other = merchant().later(60 * MINUTE);
  other.create(charge({ reference: made.id, metadata: { charge: made.id } }));
  const log = WriteAheadLog.open({
    directory,
    now: () => START,
    onFailure: (error) => t.fail(error.message),
  });
  for (const [partition, { lines }] of [other, account].entries()) {
    const opened = log.openPartition('accounts', partition, { epoch: 1, replica: null, onDurable: () => {} });
    for (const line of lines) {
      opened.append(line);
      await opened.drained();
    }
  }
  await log.close();
  const { status, out } = await runTool(logTools, 'inspect', '--transaction', made.id, '--data', directory);
  t.equal(status, 0, out);
  t.match(out, new RegExp(`^${made.id}  CHARGE of [^]* accounts/1  sequence `));
});

t.test('of what was trimmed it is not told, though what followed is there', async (t) => {
  const directory = `${temporaryDirectory(t)}/data`;
  const account = merchant();
  const made = account.create(charge());
  const created = account.lines.length;
  account.later(MINUTE).when(outcome(made.id, 'SUCCESSFUL'));
  const log = WriteAheadLog.open({
    directory,
    now: () => START,
    onFailure: (error) => t.fail(error.message),
  });
  const partition = log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
  for (const line of account.lines.slice(0, created)) partition.append(line);
  await partition.drained();
  for (const line of account.lines.slice(created)) partition.append(line);
  await partition.drained();
  await log.closePartition(partition);
  log.refresh();
  await log.trimBefore('accounts', 0, log.lastBatchNumber('accounts', 0));
  await log.close();
  t.match(await runTool(logTools, 'inspect', '--transaction', made.id, '--data', directory), {
    status: 1,
    out: /No record of .* Trimmed batches are in their archive: restore it/,
    err: '',
  });
});
