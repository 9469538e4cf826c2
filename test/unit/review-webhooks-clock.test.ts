// The machine's clock is set back while a webhooks partition runs, or was ahead when it last did: its own time goes on, and
// what is due by that goes out.

import t from 'tap';
import { appId, delivered, DrivenWebhooks, failed } from './webhooks-driven.ts';

const HOUR = 3_600_000;
const RETRY_MS = 30_000;

function heard(): DrivenWebhooks {
  const driven = new DrivenWebhooks({ retryMs: [RETRY_MS] });
  driven.now = 10 * HOUR;
  driven.connect(appId(1), 'https://shop.test');
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  return driven;
}

void t.test('a first attempt does not wait for the clock to catch up, and none is due twice', (t) => {
  const driven = heard();
  driven.now -= HOUR;
  t.equal(driven.due().length, 1);
  t.equal(driven.due().length, 0);
  driven.takeEvent('SUCCESSFUL', [appId(1)]);
  t.equal(driven.due().length, 1, 'nor does one that came after');
  t.end();
});

void t.test('so it is for the node that opens the partition from its log or from its views', (t) => {
  for (const reopen of ['replayed', 'checkpointedAndReopened'] as const) {
    const driven = heard();
    driven.now -= HOUR;
    t.equal(driven[reopen]().due().length, 1, reopen);
  }
  t.end();
});

void t.test('a retry is due when its wait has passed, a little late at most', (t) => {
  const driven = heard();
  const [first] = driven.due();
  driven.now -= HOUR;
  driven.record(first!, failed, 0.5);
  driven.now += RETRY_MS * 0.9;
  t.equal(driven.due().length, 0, 'not before');
  driven.now += RETRY_MS * 0.2;
  const [retry] = driven.due();
  t.ok(retry);
  driven.record(retry!, delivered, 0.5);
  t.match(driven.list({}).data, [{ status: 'DELIVERED' }]);
  t.end();
});
