// What an operator asks of a tool is answered or refused, with status 2: no part of it is passed over without a word.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { proveFiles } from '../../src/damage/files-proof.ts';
import { encodeRecord } from '../../src/domain/event-codec.ts';
import { makeId } from '../../src/domain/id.ts';
import { LIMITS } from '../../src/limits.ts';
import { logTools } from '../../src/log-tools/commands.ts';
import { WriteAheadLog } from '../../wal/log.ts';
import { openLogDatabase } from '../../wal/lmdb.ts';
import { walTools } from '../../wal/tools/all.ts';
import { runTools } from '../../wal/tools/tool.ts';
import type { ReadUpTo } from '../../wal/unreadable.ts';
import { MINUTE, opened, START } from './domain/scenario.ts';
import { runTool } from './wal/run-tool.ts';
import { checkpointAll, next, write } from './wal/tool-logs.ts';

const tools = [...walTools, ...logTools];
const data = next();
const body = '01M7XZDPYD000C65AR95C6TF00';
const charge = ['--transaction', makeId('charge', body)];
const account = ['--account', makeId('account', body)];
const place = ['--group', 'accounts', '--partition', '1'];

t.before(() => write(data, 3));

const ofLog = (name: string, ...args: string[]) => runTool(tools, name, '--data', data, ...args);

const strays: [string, string[], RegExp][] = [
  ['inspect', [...charge, ...account], /--transaction goes without --account: ask for one at a time/],
  ['inspect', [...charge, ...place], /--transaction goes without --group and --partition/],
  ['inspect', [...charge, '--limit', '5'], /--transaction goes without --limit/],
  ['inspect', [...charge, '--raw'], /--transaction goes without --raw/],
  ['inspect', [...account, '--sequence', '1'], /--account goes without --sequence/],
  ['inspect', [...place, '--batch', '1', '--sequence', '1'], /--batch goes without --sequence/],
  ['inspect', [...place, '--batch', '1', '--sequence', '1', '--raw'], /--batch goes without --sequence/],
  ['inspect', [...place, '--limit', '5'], /--limit goes with --account/],
  ['inspect', ['--raw'], /--raw goes with --batch or --sequence/],
  ['replay', [...account, ...place], /--account goes without --group and --partition/],
  ['replay', ['--limit', '5'], /--limit goes with --account/],
  [
    'export',
    ['--to', next(), '--format', 'jsonl', '--from-sequence', '3', '--to-sequence', '2'],
    /--from-sequence 3 is behind --to-sequence 2/,
  ],
  [
    'verify',
    ['--partition', '1', '--partition', '2'],
    /--partition is given more than once: ask for one at a time/,
  ],
  ['replay', ['--until', '2026-01-01', '--until=2026-02-01'], /--until is given more than once/],
];
for (const [name, args, message] of strays) {
  t.test(`${name} ${args.join(' ')}`, async (t) => {
    const { status, out, err } = await ofLog(name, ...args);
    t.match(err, message);
    t.strictSame({ status, out }, { status: 2, out: '' });
  });
}

t.test('verify tells how far it is with the ledger, too, which takes longer than the log', async (t) => {
  const directory = next();
  await write(directory, 3);
  await checkpointAll(directory);
  let err = '';
  const terminal = { out: () => {}, err: (text: string) => void (err += text), errIsTty: true, env: {} };
  t.equal(await runTools('wal', tools, ['verify', '--data', directory, '--full-speed'], terminal), 0);
  t.match(err, /\rledger 50% \| 1 of 2 partitions \| \d+ s left/);
});

t.test('import brings nothing into a directory that has no place for it', async (t) => {
  const [from, to] = [next(), next()];
  t.hasStrict(await ofLog('export', '--to', from), { status: 0 });
  mkdirSync(to);
  const has = (partitions: number): void => {
    writeFileSync(join(to, 'daftari.json'), JSON.stringify({ format: 1, partitions }));
  };
  has(1);
  const asked = ['import', '--from', from, '--data', to] as const;
  t.match(await runTool(tools, ...asked), {
    status: 1,
    out: /^$/,
    err: /^import: accounts\/1 has no place in .*, whose daftari\.json says "partitions": 1: .* of another installation\?/,
  });
  t.strictSame(readdirSync(to), ['daftari.json']);
  has(2);
  t.match(await runTool(tools, ...asked), { status: 0, out: /^sound: [1-9]/ });
});

t.test('what the log does not have is said in one way, however far from it', async (t) => {
  for (const raw of [[], ['--raw']]) {
    for (const asked of ['batch 5', 'batch 4000', 'sequence 10', 'sequence 11', 'sequence 4000']) {
      const [what = '', number = ''] = asked.split(' ');
      t.strictSame(
        await ofLog('inspect', ...place, `--${what}`, number, ...raw),
        {
          status: 2,
          out: '',
          err:
            `inspect: accounts/1 has no ${asked}: inspect --group accounts --partition 1 says what it has\n` +
            'See: wal inspect --help\n',
        },
        [asked, ...raw].join(' '),
      );
    }
    t.equal((await ofLog('inspect', ...place, '--sequence', '9', '--raw')).status, 0);
  }
});

t.test('and so is what was trimmed from it', async (t) => {
  const [trimmed, archive] = [next(), next()];
  await write(trimmed, 3, { atMs: Date.parse('2026-01-01T00:00:00Z') });
  await checkpointAll(trimmed);
  await runTool(walTools, 'archive', '--data', trimmed, '--to', archive);
  t.equal((await runTool(walTools, 'trim', '--data', trimmed, '--archive', archive, '--yes')).status, 0);
  for (const asked of ['batch 2', 'sequence 1']) {
    const [what = '', number = ''] = asked.split(' ');
    t.match(await runTool(walTools, 'inspect', '--data', trimmed, ...place, `--${what}`, number), {
      status: 2,
      err: `accounts/1 has no ${asked}: inspect`,
    });
  }
});

t.test('what is no backup is refused, by all that read one', async (t) => {
  const empty = next();
  mkdirSync(empty);
  for (const [from, words] of [
    [next(), 'no backup, archive or export'],
    [data, 'no backup, archive or export'],
    [empty, 'nothing has been written there yet, or it is not mounted'],
  ] as const) {
    for (const [name, ...args] of [
      ['restore', '--rehearse', '--from', from],
      ['import', '--data', data, '--from', from],
      ['trim', '--data', data, '--archive', from],
    ] as const) {
      const { status, err } = await runTool(tools, name, ...args);
      t.equal(status, 2, name);
      t.match(err, `${from} has no manifest.json: ${words}`);
    }
  }
});

t.test('restore takes no data directory: it reads a backup, and writes what --to says', async (t) => {
  t.notMatch((await runTool(tools, 'restore', '--help')).out, '--data');
  const { status, err } = await ofLog('restore', '--from', data, '--to', next());
  t.equal(status, 2);
  t.match(err, /Unknown option '--data'/);
});

t.test('a directory that does not say what it is hides nothing of what its log says', async (t) => {
  const damaged = next();
  await write(damaged, 3);
  writeFileSync(join(damaged, 'daftari.json'), '{"format": 1, "parti');
  const { status, out } = await runTool(tools, 'verify', '--data', damaged);
  t.equal(status, 1);
  t.match(out, /^sound: 3 partitions, 12 batches, 27 records/m);
  t.match(out, /^NOT SOUND: \S+daftari\.json is damaged: put the one back that was kept with the backup\.$/m);
  const json = await runTool(tools, 'verify', '--data', damaged, '--json');
  t.match(JSON.parse(json.out), {
    sound: false,
    faults: [],
    records: 27,
    identity: /daftari\.json is damaged/,
  });
  // Where a damaged file ends the tool that reads it, too: then every partition that there may be is looked for.
  const read: ReadUpTo[] = [];
  t.match(await proveFiles(damaged, null, (upTo) => read.push(upTo)), {
    unreadable: { places: [], views: null },
    log: null,
    unread: [],
  });
  const of = 2 * LIMITS.partitionsMax + 1;
  t.match(read[0], { group: 'accounts', partition: 0, batch: 0, nth: 1, of });
  t.match(read.at(-1), { group: 'webhooks', partition: LIMITS.partitionsMax - 1, batch: 1, nth: of, of });
  // Whose place is not known without it.
  t.match(await runTool(tools, 'inspect', '--data', damaged, ...charge), {
    status: 1,
    err: /daftari\.json is damaged: put the one back/,
  });
});

t.test('verify names the partitions that a log with records has nothing of', async (t) => {
  const [lacking, young] = [next(), next()];
  await write(lacking, 3);
  await write(young, 0);
  const identify = (directory: string, partitions: number): void =>
    writeFileSync(join(directory, 'daftari.json'), JSON.stringify({ format: 1, partitions }));
  identify(lacking, 2);
  identify(young, 2);
  const verify = (directory: string, ...args: string[]) =>
    runTool(tools, 'verify', '--data', directory, ...args);
  // Whether it is a node's of a cluster, to which they need not be, is not known here.
  t.match(await verify(lacking), {
    status: 0,
    out: /^not in this log, of the partitions that daftari.json says: platform\/0, webhooks\/1\. A node/m,
  });
  t.match(JSON.parse((await verify(lacking, '--json')).out), {
    sound: true,
    absent: [
      { group: 'platform', partition: 0 },
      { group: 'webhooks', partition: 1 },
    ],
  });
  t.match((await verify(lacking, '--group', 'webhooks')).out, /^not in this log, .*: webhooks\/1\. /m);
  t.notMatch((await verify(lacking, '--partition', '0', '--group', 'accounts')).out, 'not in this log');
  t.notMatch((await verify(young)).out, 'not in this log');
  // Without what says how many there are.
  t.notMatch((await verify(data)).out, 'not in this log');
  identify(lacking, 1_000);
  const { out } = await verify(lacking);
  t.match(out, /^not in this log, .*: accounts\/2, accounts\/3, .* and 1948 more\. /m);
});

t.test('a replay up to a moment needs nothing of later batches, whichever of them is damaged', async (t) => {
  const directory = next();
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure, batchRecordsMax: 1 });
  const append = async (epoch: number, ...sequences: number[]): Promise<void> => {
    const partition = log.openPartition('accounts', 0, { epoch, replica: null, onDurable: () => {} });
    for (const n of sequences) {
      const accountId = makeId('account', `${body.slice(0, -1)}${n}`);
      partition.append(encodeRecord({ accountId, at: START + n * MINUTE, events: [opened] }));
    }
    await log.closePartition(partition);
  };
  await append(0, 1, 2, 3, 4, 5, 6, 7);
  // Opened by a batch without a record, which is not later than anything.
  await append(1, 8);
  await log.close();
  const ofDirectory = (...args: string[]) => runTool(tools, 'replay', '--data', directory, '--json', ...args);
  const replay = async (...args: string[]) => {
    const { status, out } = await ofDirectory(...args);
    const { partitions, faults } = JSON.parse(out);
    return { status, upTo: partitions[0]?.upTo, faults };
  };
  const until = (sequence: number) => replay('--until', `${START + sequence * MINUTE}`);
  for (const batch of [3, 4, 5, 6, 7, 9]) {
    const lost = Math.min(batch, 8);
    const database = openLogDatabase({ directory });
    const sound = Buffer.from(database.getBinary(['accounts', 0, batch])!);
    const broken = Buffer.from(sound);
    broken.writeUInt8(broken.readUInt8(80) ^ 1, 80);
    await database.put(['accounts', 0, batch], broken);
    t.match(await until(lost - 2), { status: 0, upTo: lost - 2 }, `before batch ${batch}`);
    const asFarAsItCanBeRead = { status: 1, upTo: lost - 1, faults: [{ batch }] };
    t.match(await until(lost - 1), asFarAsItCanBeRead, 'it may be of that moment, too');
    t.match(await until(9), asFarAsItCanBeRead);
    const account = ['--account', makeId('account', `${body.slice(0, -1)}1`)];
    const { out } = await ofDirectory(...account, '--until', `${START + lost * MINUTE}`);
    t.match(JSON.parse(out), { found: true, upTo: lost - 1, faults: [{ batch }] });
    t.match(await replay(), asFarAsItCanBeRead);
    await database.put(['accounts', 0, batch], sound);
    await database.close();
  }
});

t.test('a partition of which every batch is damaged is not taken for an empty one', async (t) => {
  const directory = next();
  await write(directory, 3);
  const database = openLogDatabase({ directory });
  for (const batch of [1, 2, 3, 4]) await database.put(['accounts', 1, batch], Buffer.from('no batch'));
  await database.close();
  for (const until of [[], ['--until', '5'], ['--until', `${START}`], ['--until', '2099-01-01']]) {
    const args = ['--data', directory, '--json', ...place, ...until];
    const { status, out } = await runTool(tools, 'replay', ...args);
    t.equal(status, 1);
    t.match(JSON.parse(out), { sound: false, faults: [{ group: 'accounts', partition: 1, batch: 1 }] });
  }
});

t.test('a sequence in a last batch that is damaged is not taken for one behind the end', async (t) => {
  const directory = next();
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure });
  const partition = log.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable: () => {} });
  // Two batches.
  for (const sequences of [
    [1, 2],
    [3, 4, 5],
  ]) {
    for (const n of sequences) {
      const accountId = makeId('account', `${body.slice(0, -1)}${n}`);
      partition.append(encodeRecord({ accountId, at: START + n * MINUTE, events: [opened] }));
    }
    await partition.drained();
  }
  await log.close();
  const database = openLogDatabase({ directory });
  await database.put(['accounts', 0, 2], Buffer.from('no batch'));
  await database.close();
  const upTo = (until: number) => {
    const of = ['--group', 'accounts', '--partition', '0', '--until', String(until)];
    return runTool(tools, 'replay', '--data', directory, '--json', ...of);
  };
  t.match(await upTo(2), { status: 0 }, 'what is before it needs nothing of it');
  const amid = await upTo(START + 1.5 * MINUTE);
  t.match(JSON.parse(amid.out), { sound: true, partitions: [{ upTo: 1 }], faults: [] }, 'nor at a moment');
  for (const sequence of [3, 5, 6]) {
    const { status, out, err } = await upTo(sequence);
    t.equal(status, 1, err);
    t.match(JSON.parse(out || '{}'), { sound: false, partitions: [{ upTo: 2 }], faults: [{ batch: 2 }] });
  }
});

t.test('a replay goes as far as the record before one that it cannot apply, amid a batch too', async (t) => {
  const directory = next();
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory, now: Date.now, onFailure });
  const partition = log.openPartition('accounts', 0, { epoch: 0, replica: null, onDurable: () => {} });
  const idOf = (n: number) => makeId('account', `${body.slice(0, -1)}${n}`);
  for (const n of [1, 2, 3, 4]) {
    const record = encodeRecord({ accountId: idOf(n), at: START + n * MINUTE, events: [opened] });
    partition.append(n === 3 ? JSON.stringify([...JSON.parse(record).slice(0, 2), [999]]) : record);
  }
  await partition.drained();
  await log.close();
  const replay = async (...args: string[]) => {
    const { status, out, err } = await runTool(tools, 'replay', '--data', directory, '--json', ...args);
    t.equal(status, 1, err);
    return JSON.parse(out);
  };
  const faults = [{ batch: 1, sequence: 3, problem: /unknown event code 999: a newer version wrote it/ }];
  t.match(await replay(), { sound: false, records: 3, partitions: [{ upTo: 2 }], faults });
  t.match(await replay('--account', idOf(2)), { found: true, upTo: 2, faults });
  t.match(await replay('--account', idOf(4)), { found: false, upTo: 2, faults });
});
