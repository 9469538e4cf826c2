// Every bound of the product, with its unit and its reason. Nothing else in the product spells one.
// Relations between bounds are asserted at start (assertLimits, called by main).

export const LIMITS = {
  // Edge
  /** Largest request body. design.md §11. */
  bodyBytesMax: 64 * 1024,
  /** A request must be complete within this; a slower client is cut off. */
  requestReceiveMs: 15_000,
  /** How long a front waits for a reply before it closes the connection. */
  commandDeadlineMs: 15_000,
  /** Requests a front has open at once before it answers 503: 4 KiB each at most keeps memory bounded. */
  frontRequestsOpenMax: 20_000,

  // Actors
  /** Commands of one partition decided but not yet durable, before it answers `unavailable`. */
  mailboxMax: 8_192,
  /** Callers waiting for a rail's answer in one partition. */
  waitersMax: 16_384,
  /** Timer commands one partition may raise in one tick, so that a backlog cannot starve callers. */
  timersPerTickMax: 512,
  /** How often due timers are looked at. */
  timerTickMs: 50,

  // Log
  /** Records of one batch. */
  batchRecordsMax: 8_192,
  /** Payload of one batch; NATS carries at most 1 MiB in a message. */
  batchBytesMax: 900 * 1024,
  /** Writes handed to LMDB and not yet flushed, all partitions: lmdb-js blocks the thread beyond 300,000. */
  logWritesOutstandingMax: 100_000,
  /** Records the views may lag behind the log before commands are refused: bounds memory. */
  checkpointLagMax: 400_000,

  // Feed
  /** Decoded batches kept in memory for a subscriber that keeps up; a slower one reads the log. */
  feedTailBatchesMax: 64,

  // Configuration
  /** Partitions of a group: each has a mailbox, timers and, in the cluster, a stream of its own. */
  partitionsMax: 1_024,
  /** Cash-out requests of one account in a minute that can be allowed at all: their times are kept in memory. */
  cashOutPerMinuteMax: 100_000,
  /** Waits between the attempts of a webhook delivery; each attempt is kept with the delivery. */
  webhookRetriesMax: 15,

  // Operators
  /** Entries of one page of the operator API; as the merchant's lists. */
  operatorPageMax: 100,
  operatorPageDefault: 25,
  /** Accounts that were registered and not opened that are looked at in one round. */
  unopenedAccountsPerRoundMax: 100,
  /** Log lines waiting for stdout; beyond it lines are dropped, and counted, rather than memory used. */
  logBufferBytesMax: 8 * 1024 * 1024,
} as const;

export function assertLimits(): void {
  const holds = (condition: boolean, what: string): void => {
    if (!condition) throw new Error(`limits: ${what}`);
  };
  holds(
    LIMITS.batchRecordsMax <= LIMITS.logWritesOutstandingMax,
    'a batch fits what LMDB may have outstanding',
  );
  holds(LIMITS.batchBytesMax < 1024 * 1024, 'a batch fits one NATS message');
  holds(LIMITS.bodyBytesMax * 2 < LIMITS.batchBytesMax, 'a record of the largest body fits a batch');
  holds(LIMITS.mailboxMax <= LIMITS.checkpointLagMax, 'the mailbox fits the checkpoint lag');
}
