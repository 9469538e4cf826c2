// The machine's clock is set back while a webhooks partition runs: its time is ahead of the clock, and what is due
// by it goes out.

import t from 'tap';
import { createWebhooksGroup } from '../../actors/webhooks/group.ts';
import type { TakeEvents } from '../../actors/webhooks/message.ts';
import type { Views } from '../../wal/types.ts';

const NO_VIEWS: Views = { get: () => undefined, range: () => [] };
const NOW = 1_772_357_400_000;
const HOUR = 3_600_000;
const FIRST_RETRY_MS = 30_000;

void t.test('first attempts do not wait for the clock to catch up', (t) => {
  const group = createWebhooksGroup({ retryMs: [FIRST_RETRY_MS], retentionMs: 30 * 24 * HOUR });
  const logic = group.open(0, NO_VIEWS, { sequence: 0, timers: true });
  const [accountId, appId, eventId] = ['acc', 'app', 'evt'].map((prefix) => `${prefix}_${'0'.repeat(26)}`);
  const command: TakeEvents = {
    type: 'TakeEvents',
    deadline: NOW,
    afterSequence: 0,
    upstreamSequence: 1,
    endpoints: [
      {
        type: 'connected',
        appId: appId!,
        accountId: accountId!,
        url: 'https://shop.test',
        signingSecretSealed: 's',
      },
    ],
    events: [
      {
        id: eventId!,
        accountId: accountId!,
        transactionId: `chg_${'0'.repeat(26)}`,
        eventType: 'charge.successful',
        body: '{}',
        at: NOW,
        appIds: [appId!],
      },
    ],
  };
  const { record } = logic.decide(command, {
    now: NOW,
    freshBody: '0'.repeat(26),
    elapsedMs: 0,
    writeFormat: 1,
  });
  logic.evolve(record!, 1);
  const taken = logic.takeAttempts(NOW - HOUR, 10);
  t.equal(taken.length, 1);
  t.ok(logic.nextAttemptAt() > logic.timeAt(NOW - HOUR), 'and none is due twice');
  t.end();
});
