// What must hold between bounds for each of them to be what it says; asserted at every start.

import { LIMITS } from './limits.ts';

function holds(condition: boolean, what: string): void {
  if (!condition) throw new Error(`limits: ${what}`);
}

export function assertLimits(): void {
  assertWebhookLimits();
  assertOpenFileLimits();
  assertOwnerLimits();
  holds(
    LIMITS.batchRecordsMax <= LIMITS.logWritesOutstandingMax,
    'a batch fits what LMDB may have outstanding',
  );
  holds(LIMITS.batchBytesMax < LIMITS.natsPayloadBytes, 'a batch fits one NATS message');
  holds(LIMITS.natsPayloadBytes < LIMITS.streamReadBytesMax, 'a read has room for any message');
  holds(LIMITS.bodyBytesMax * 2 < LIMITS.batchBytesMax, 'a record of the largest body fits a batch');
  for (const table of ['open', 'timer'] as const) {
    const { [table]: horizonMs } = LIMITS.timerHorizonMs;
    const { [table]: scanEveryMs } = LIMITS.timerScanEveryMs;
    holds(scanEveryMs * 4 < horizonMs, 'a scan for timers ends within its horizon');
    holds(
      LIMITS.clockStepMsMax + LIMITS.clockPaceMax * 60_000 < horizonMs - scanEveryMs,
      'the views may lag by a minute when the clock makes good what it is behind',
    );
  }
  holds(LIMITS.mailboxMax <= LIMITS.checkpointLagMax, 'the mailbox fits the checkpoint lag');
  holds(
    LIMITS.checkpointRoundMs < LIMITS.checkpointEveryMs,
    'the next checkpoints are not waited for with rests of the last ones',
  );
  holds(
    LIMITS.checkpointBytesPerCommitMax * 25 * LIMITS.checkpointsAtOnce < LIMITS.viewThreadBytes,
    'what a thread that makes views has in hand fits its memory',
  );
  holds(LIMITS.loopbackRememberedMax < LIMITS.loopbackAcceptedMax, 'loopback forgets before it is full');
  // A provider may hang up, and its callback is waited for nevertheless.
  holds(
    LIMITS.frontRequestsOpenMax + LIMITS.frontCallbacksWaitingMax < LIMITS.busRequestsOpenMax,
    'a full front fits the bus',
  );
  holds(
    LIMITS.frontCallbacksWaitingMax * 2 < LIMITS.frontRequestsOpenMax,
    'callbacks that wait leave merchants half of a front',
  );
  holds(
    LIMITS.frontKeyRequestsMax * 2 <=
      Math.min(LIMITS.mailboxMax, LIMITS.waitersMax, LIMITS.frontRequestsOpenMax),
    'one key leaves others half of a partition, and of a front',
  );
  holds(LIMITS.frontKeyBytesMax * 2 <= LIMITS.busCharactersOpenMax, 'one key leaves others half of the bus');
  holds(LIMITS.bodyBytesMax * 100 < LIMITS.frontBodiesBytesMax, 'one front takes many large bodies at once');
  holds(
    (LIMITS.busMessageCharactersMax + LIMITS.bodyBytesMax) * 3 < LIMITS.natsPayloadBytes,
    'a bus message fits one NATS message',
  );
  holds((LIMITS.listPageCharactersMax + 1024) * 3 < LIMITS.busReplyBytesMax, 'a page of a list fits the bus');
  // Besides the lists: settings, and what a wallet grows by when it becomes active.
  holds(
    LIMITS.accountListBytesMax * 3 + 100 * 1024 < LIMITS.busReplyBytesMax,
    'an account with its users, apps and wallets fits the bus',
  );
  holds(
    LIMITS.appsPerAccountMax * (LIMITS.webhookUrlLengthMax + 1024) <= LIMITS.accountListBytesMax,
    'the apps of an account may have the longest webhook URLs',
  );
  holds(
    LIMITS.busReplyBytesMax * 100 < LIMITS.frontAnswersBytesMax,
    'many clients take long answers from one front at once',
  );
  holds(
    Math.max(LIMITS.pollerNoteAfterMs * 2, LIMITS.pollerCommandDeadlineMs + LIMITS.pollerNoteAfterMs / 2) <
      LIMITS.commandDeadlineMs,
    'who hands on a callback hears in time that it was noted',
  );
  holds(
    LIMITS.toolAnswerMs > LIMITS.commandDeadlineMs,
    "a developer's tool hears that a front gave up waiting",
  );
  holds(LIMITS.busTickMs * LIMITS.busWheelSlots > LIMITS.commandDeadlineMs, 'the wheel covers the deadline');
  holds(
    LIMITS.railAnswerWaitMsMax + LIMITS.timerTickMs < LIMITS.busSilenceMs - LIMITS.busTickMs,
    'who waits for a rail is not asked for again meanwhile',
  );
  holds(
    LIMITS.busSilenceMs + 1_000 < Math.min(LIMITS.commandDeadlineMs, LIMITS.pollerCommandDeadlineMs),
    'what was lost is sent again before its deadline',
  );
}

/** Of those who own partitions, and who asks them. */
function assertOwnerLimits(): void {
  holds(
    LIMITS.diskStallMs < LIMITS.diskLostMs && LIMITS.diskLostMs + LIMITS.leaseMs < LIMITS.commandDeadlineMs,
    'who waits for a node whose disk hangs is answered by the next one',
  );
  holds(
    LIMITS.leaseMs < LIMITS.ownerSilentMs && LIMITS.ownerSilentMs < LIMITS.commandDeadlineMs,
    'a front does not go while its callers are still answered',
  );
  // What it sends to endpoints, its last batch, whether NATS has forgotten one, and that the lease is free.
  holds(
    LIMITS.webhookHandOverMs +
      LIMITS.streamPublishMs +
      LIMITS.streamAckMs +
      LIMITS.natsConnectMs * 2 +
      LIMITS.streamAckMs * 3 <
      LIMITS.handOverMs && LIMITS.pollerStopMs < LIMITS.handOverMs,
    'a node that stops may try all that it tries for what it has',
  );
  holds(
    LIMITS.leaseMs < LIMITS.routeDoubtMs && LIMITS.routeDoubtMs < LIMITS.busSilenceMs,
    'owners are read anew when one is due, and before what was lost is sent again',
  );
}

function assertOpenFileLimits(): void {
  holds(
    LIMITS.railConcurrencyDefault + 64 <= LIMITS.openFilesKeptMin &&
      LIMITS.openFilesKeptMin < LIMITS.openFilesMin,
    'a rail has its open files, and leaves callers some',
  );
  holds(
    LIMITS.webhookIdleSocketsMax +
      LIMITS.webhookFirstInFlightMax +
      LIMITS.webhookRetryInFlightMax +
      LIMITS.webhookSlowInFlightMax +
      LIMITS.railConcurrencyMax * 4 <
      LIMITS.openFilesKeptMax,
    'webhooks and rails have files that merchants cannot take',
  );
}

function assertWebhookLimits(): void {
  holds(
    LIMITS.webhookDnsMs * LIMITS.webhookDnsTries < LIMITS.webhookAttemptMs,
    'a name can be resolved within an attempt',
  );
  holds(
    LIMITS.webhookSlowMs < LIMITS.webhookLateMs && LIMITS.webhookLateMs * 2 <= LIMITS.webhookAttemptMs,
    'an endpoint is late after it is slow, and long before it fails',
  );
  holds(
    LIMITS.connectAddressMs * 2 <= Math.min(LIMITS.railConnectMs, LIMITS.webhookAttemptMs / 2),
    'a second address has its turn within a connect, and its answer within an attempt',
  );
  holds(
    LIMITS.webhookAttemptsKeptMax * LIMITS.webhookExcerptLengthMax * 2 < LIMITS.listPageCharactersMax / 2,
    'a delivery fits the bus with all its attempts',
  );
  holds(
    LIMITS.appsPerAccountMax <= LIMITS.webhookDeliveriesPerRecordMax,
    'an event for every app of its account fits a record',
  );
  holds(
    LIMITS.appsPerAccountMax * LIMITS.webhookEndpointInFlightMax < LIMITS.webhookSlowInFlightMax,
    'the apps of one account that hang at once leave others their room',
  );
  holds(
    LIMITS.webhookEndpointQueuedMax * 1_000 < LIMITS.webhookQueuedMax,
    'a thousand endpoints with a backlog leave the feed room for others',
  );
  holds(
    LIMITS.webhookCancellingMax * 16 <= LIMITS.mailboxMax,
    'what is cancelled leaves others their place in a mailbox',
  );
  holds(LIMITS.webhookRecordBytesMax * 2 < LIMITS.batchBytesMax, 'a record of deliveries fits a batch');
  holds(
    LIMITS.webhookAnswerBytesMax < LIMITS.webhookReadBytesMax,
    'the longest answer that is read has room for its head',
  );
  holds(LIMITS.bodyBytesMax < LIMITS.webhookRecordBytesMax, 'a delivery fits a record');
}
