// `export` of a log that has lost its end, or a partition: what there is of it is written, and what is lost is told. What is whole
// before damage is had likewise, wherever that lies.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openLogDatabase } from '../../../wal/lmdb.ts';
import { bytesAt, checkpointAll, key, next, tips, tool, toolJson, write } from './tool-logs.ts';

/** With the first batches of accounts/1 alone. */
async function logWithout(...batches: number[]): Promise<string> {
  const data = next();
  await write(data, 3);
  await checkpointAll(data);
  const database = openLogDatabase({ directory: data });
  await database.batch(() => batches.forEach((batch) => void database.remove(key(batch))));
  await database.close();
  return data;
}

for (const [lost, at, sequence] of [
  [[3, 4], 3, 4],
  [[1, 2, 3, 4], 1, 1],
] as const) {
  const what = `${lost.length} batches of 4 lost`;

  t.test(`${what}: segments of all there is, and status 1`, async (t) => {
    const data = await logWithout(...lost);
    const [to, other] = [next(), next()];
    const { status, out } = await tool('export', '--data', data, '--to', to);
    t.equal(status, 1);
    t.match(
      out,
      new RegExp(`^accounts/1 batch ${at} sequence ${sequence}: .* the end of the log is lost`, 'm'),
    );
    t.match(out, /^NOT SOUND: what the log has is exported/m);
    t.equal((await tool('import', '--data', other, '--from', to)).status, 0);
    t.strictSame(await tips(other), await tips(data));
  });

  t.test(`${what}: lines likewise`, async (t) => {
    const data = await logWithout(...lost);
    const to = next();
    t.match(await toolJson('export', '--data', data, '--to', to, '--format', 'jsonl'), {
      status: 1,
      report: { sound: false, faults: [{ group: 'accounts', partition: 1, batch: at, sequence }] },
    });
    t.ok(readdirSync(to).includes('webhooks-0.jsonl'));
  });

  t.test(`${what}: who asks for others, or for what is before it, is given all`, async (t) => {
    const data = await logWithout(...lost);
    const before = ['--to-sequence', `${sequence - 1}`];
    for (const asked of [['--group', 'webhooks'], ['--partition', '0'], before]) {
      t.equal((await tool('export', '--data', data, '--to', next(), ...asked)).status, 0, asked.join(' '));
    }
    const alone = ['--group', 'accounts', '--partition', '1'];
    for (const upTo of [[], ['--to-sequence', `${sequence}`]]) {
      t.equal((await tool('export', '--data', data, '--to', next(), ...alone, ...upTo)).status, 1);
    }
  });
}

t.test('whichever batch is damaged, what is before it is exported, and shown', async (t) => {
  const data = next();
  // An epoch opens with a batch, and each of the others has three records.
  await write(data, 4);
  await checkpointAll(data);
  const of = ['--data', data, '--group', 'accounts', '--partition', '1'];
  for (const batch of [3, 4, 5]) {
    const database = openLogDatabase({ directory: data });
    const sound = bytesAt(database, batch);
    const broken = Buffer.from(sound);
    broken.writeUInt8(broken.readUInt8(80) ^ 1, 80);
    await database.put(key(batch), broken);
    const last = (batch - 2) * 3;
    const upTo = (sequence: number, to: string, ...format: string[]) =>
      tool('export', ...of, '--to', to, '--to-sequence', `${sequence}`, ...format);
    t.match(await upTo(last, next()), { status: 0, err: '' }, `segments before batch ${batch}`);
    const [to, lines] = [next(), ['--format', 'jsonl']];
    t.match(await upTo(last, to, ...lines), { status: 0, err: '' }, `lines before batch ${batch}`);
    t.equal(readFileSync(join(to, 'accounts-1.jsonl'), 'utf8').split('\n').length - 1, last);
    t.match(await upTo(last + 1, next(), ...lines), { status: 1, err: /log corrupt/ });
    t.match(await tool('inspect', ...of, '--sequence', '1'), { status: 0, out: /"sequence": 1,/ });
    t.match(await tool('inspect', ...of, '--sequence', `${last + 1}`), { status: 1, err: /log corrupt/ });
    await database.put(key(batch), sound);
    await database.close();
  }
});
