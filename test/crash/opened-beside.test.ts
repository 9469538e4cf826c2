// A process that opens the log and the views beside a service that writes them takes nothing from it, however long it stands still
// while it opens them: every tool does, and the service's own check of its log.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { waitFor } from '../../deploy/wait-for.ts';
import { traced, tracer } from '../tracer.ts';
import { answerTo, startProcess } from './service-process.ts';
import { temporaryDirectory } from '../temporary-directory.ts';

const CALLERS = 4;
/** Each, before and after. */
const SOME = 10;
/** As LMDB maps a file, it has read which transaction is its newest, and has yet to say so to the writer. */
const DELAY_US = 500_000;
const SETTLE_MS = 60_000;
/** The service ends a tool that stands still for 5 s, as it does also where the whole machine does. */
const TRIES = 3;

interface Create {
  readonly key: string;
  readonly body: string;
  readonly answer: string;
}

t.test('what is acknowledged meanwhile is kept', { ...traced, timeout: 240_000 }, async (t) => {
  const directory = temporaryDirectory(t);
  let service = await startProcess(directory);
  t.teardown(async () => {
    await service.end('SIGKILL');
  });

  const creates: Create[] = [];
  let isOver = false;
  const call = async (caller: number): Promise<void> => {
    for (let n = 0; !isOver; n++) {
      const key = `beside-${caller}-${n}`;
      const body = JSON.stringify({
        amount: '1000',
        currency: 'UGX',
        msisdn: '+256772000001',
        reference: key,
      });
      const { status, text: answer } = await answerTo(service, '/v1/charges', key, body);
      if (status !== 201) throw new Error(`${key}: ${answer}`);
      creates.push({ key, body, answer });
    }
  };
  const calling = Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));
  calling.catch(() => {});
  const someMore = async (): Promise<void> => {
    const { length } = creates;
    await waitFor('creates are acknowledged', SETTLE_MS, () => {
      if (service.gone) throw new Error('the service has ended');
      return creates.length > length + SOME * CALLERS;
    });
  };

  await someMore();
  const trace = join(directory, 'trace');
  const files = ['log', 'views'].map((name) => join(directory, name, 'data.mdb'));
  const slowly = ['-e', 'trace=mmap', '-e', `inject=mmap:delay_exit=${DELAY_US}`];
  const onThese = files.flatMap((file) => ['-P', file]);
  const verify = [process.execPath, 'wal/cli.ts', 'verify', '--data', directory, '--full-speed'];
  let status: number | null = null;
  for (let tries = 0; status === null && tries < TRIES; tries++) {
    const tool = spawn(tracer, ['-f', '-qq', '-o', trace, ...slowly, ...onThese, ...verify], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    [status] = (await once(tool, 'exit')) as [number | null];
  }
  t.equal(status, 0);
  t.ok(
    readFileSync(trace, 'utf8').split('DELAYED').length > files.length,
    'it stood still as it opened each',
  );
  await someMore();
  isOver = true;
  await calling;

  for (const when of ['by the service itself', 'after kill -9']) {
    for (const { key, body, answer } of creates) {
      const { replayed, text } = await answerTo(service, '/v1/charges', key, body);
      if (!replayed || text !== answer) t.strictSame([replayed, text], [true, answer], `${key} ${when}`);
    }
    t.pass(`${creates.length} creates are answered as before, ${when}`);
    await service.end('SIGKILL');
    service = await startProcess(directory);
  }
});
