// Days 4 and 10 of deploy/README.md, pasted as a whole: after what has failed, nothing that follows is done.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { WriteAheadLog } from '../../wal/log.ts';
import { openMerchant } from './merchants.ts';
import { startService } from './start.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const repository = join(import.meta.dirname, '../..');
const runbook = readFileSync(join(repository, 'deploy/README.md'), 'utf8');
const root = temporaryDirectory(t);
const hasJq = spawnSync('jq', ['--version']).status === 0;

/** The lines of the runbook's day that have the word, as one pastes them. */
function pasted(day: number, word: string): string {
  const [, after = ''] = runbook.split(`\n### ${day}. `);
  const [chapter = ''] = after.split('\n### ');
  const blocks = [...chapter.matchAll(/^```\n(.*?)^```$/gms)].map(([, lines = '']) => lines);
  const found = blocks.filter((lines) => lines.includes(word));
  if (found.length !== 1) throw new Error(`day ${day} has ${found.length} blocks with ${word}`);
  return found[0]!;
}

/** What root does is noted, but for files. */
const ROOT = `
sudo() {
  case $1 in
    install) mkdir -p "\${@: -1}" ;;
    mv) "$@" ;;
    *) echo "$*" >> asked ;;
  esac
}
wal() { ${process.execPath} ${join(repository, 'wal/cli.ts')} "$@"; }
`;

/** In bash, which goes on after a line that fails, as a terminal's does. */
async function paste(lines: string, env: Record<string, string>) {
  const cwd = mkdtempSync(join(root, 'shell-'));
  const shell = spawn('bash', [], { cwd, env: { PATH: process.env['PATH'], ...env } });
  shell.stdin.end(ROOT + lines);
  const [out, err] = await Promise.all([text(shell.stdout), text(shell.stderr), once(shell, 'close')]);
  const asked = existsSync(join(cwd, 'asked')) ? readFileSync(join(cwd, 'asked'), 'utf8').trim() : '';
  return { cwd, out, err, asked: asked.split('\n') };
}

t.test(
  'day 10: nobody comes in before the payouts and withdrawals of all are off',
  { skip: hasJq ? false : 'jq is not here' },
  async (t) => {
    const service = await startService();
    let isStopped = false;
    t.teardown(() => (isStopped ? undefined : service.stop()));
    const merchants = [
      await openMerchant(service),
      await openMerchant(service, { payouts_enabled: false }),
      await openMerchant(service),
    ];
    const settings = async () =>
      Promise.all(
        merchants.map(async ({ accountId }) => {
          const { body } = await service.operator('GET', `/operator/v1/accounts/${accountId}`);
          return [body.payouts_enabled, body.withdrawals_enabled];
        }),
      );
    const { operator_url: url, operator_token: token } = service.demo;
    const header = join(root, 'header');
    writeFileSync(header, `Authorization: Bearer ${token}`);
    const env = { OP: `${url}/operator/v1`, TOKEN: `@${header}` };
    const off = pasted(10, 'accounts()')
      .replace('http://127.0.0.1:8081', url)
      .replace('limit=100', 'limit=1')
      .replace('--retry 600', '--retry 0');

    const { cwd, asked, err } = await paste(off, env);
    t.equal(err, '');
    t.strictSame(asked, ['systemctl stop nginx', 'systemctl start daftari', 'systemctl start nginx']);
    t.strictSame(
      await settings(),
      merchants.map(() => [false, false]),
    );
    const on = /`(while read -r id what; [^`]*)`/.exec(runbook)?.[1] ?? '';
    await paste(`cd ${cwd}\n${off}${on}`, env);
    t.strictSame(
      await settings(),
      [
        [true, true],
        [false, true],
        [true, true],
      ],
      'also where it was pasted twice',
    );

    await service.stop();
    isStopped = true;
    const closed = await paste(off, env);
    t.notOk(closed.asked.includes('systemctl start nginx'), closed.asked.join('; '));
  },
);

function restoreOf(place: string): string {
  return pasted(4, 'wal restore')
    .replaceAll('/mnt/backup', join(place, 'backup'))
    .replaceAll('/var/lib/daftari.mended', join(place, 'mended'))
    .replace('--retry 600', '--retry 0');
}

t.test('day 4: a directory stays where it is until the backup of it is restored', async (t) => {
  const place = t.testdir({ data: { 'daftari.json': '', 'master.key': '', 'operator.token': '' } });
  const { asked, err } = await paste(restoreOf(place), { DATA_DIR: join(place, 'data') });
  t.match(err, /restore: .* no backup/);
  t.notOk(readdirSync(place).includes('data.damaged'));
  t.notOk(asked.includes('systemctl start daftari'));
});

t.test('day 4: what was kept goes with it, also where the token is in the environment', async (t) => {
  const kept = ['daftari.json', 'master.key'];
  const place = t.testdir({ data: Object.fromEntries(kept.map((name) => [name, name])), backup: {} });
  const data = join(place, 'data');
  const onFailure = (error: Error): void => void t.fail(error.message);
  const log = WriteAheadLog.open({ directory: data, now: Date.now, onFailure });
  log.openPartition('accounts', 0, { epoch: 1, replica: null, onDurable: () => {} });
  await log.close();
  const backup = `wal backup --data ${data} --to ${join(place, 'backup/daftari')}`;
  const { asked, err } = await paste(`${backup}\n${restoreOf(place)}`, { DATA_DIR: data });
  t.strictSame(asked, ['systemctl start daftari'], err);
  t.strictSame(readdirSync(data).sort(), [...kept, 'log'].sort());
  t.ok(readdirSync(place).includes('data.damaged'));
});
