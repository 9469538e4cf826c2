// A callback that no poller takes: what has ended nobody asks the provider about, so a person is told.
import t from 'tap';
import { LocalBus } from '../../src/bus/local-bus.ts';
import { createLog } from '../../src/observability/log.ts';
import { sendHint } from '../../src/wiring/callbacks.ts';

t.test('is a line of the log that names its transaction', async (t) => {
  const lines: string[] = [];
  const log = createLog({ level: 'info', node: 'front1', stream: { write: (line) => lines.push(line) } });
  const bus = new LocalBus({ accounts: 1, webhooks: 1, pollers: 1, platform: 1 });
  const hint = {
    accountId: 'acc_01M83KVP0NCKCQJT8VCMGAG200',
    transactionId: 'chg_01M83MZX6N00095SSPRQBRF700',
  };
  bus.attach('pollers', 0, (_, onReply) => onReply({ type: 'done', body: '{}', replayed: false }));
  sendHint(bus, hint, log);
  t.strictSame(lines, [], 'taken');
  bus.attach('pollers', 0, undefined);
  sendHint(bus, hint, log);
  t.equal(lines.length, 1);
  t.match(JSON.parse(lines[0]!), {
    level: 'warn',
    transactionId: hint.transactionId,
    message: 'no poller took a callback: if its transaction had ended, ask its provider',
  });
});
