// Every bound of the product, with its unit and its reason. Nothing else in the product spells one.
// What must hold between them is in limit-relations.ts.

export const LIMITS = {
  // The process
  /** Nothing starts where a process may have fewer files and connections open. */
  openFilesMin: 256,
  /** Of those that it may have open, half are not for merchants' connections: providers, webhooks, operators and the log have them. So many
   *  at the least: a service that has just started has 48 (measured with 16 partitions and the simulator), a rail up to
   *  railConcurrencyDefault. */
  openFilesKeptMin: 192,
  /** And so many at the most. */
  openFilesKeptMax: 16_384,

  // Edge
  /** Largest request body. */
  bodyBytesMax: 64 * 1024,
  /** A request must be complete within this; a slower client is cut off. */
  requestReceiveMs: 15_000,
  /** How long a front waits for a reply before it closes the connection. */
  commandDeadlineMs: 15_000,
  /** How long the answer to a charge or deposit may wait for its rail (PROVIDER_ANSWER_WAIT_MS). */
  railAnswerWaitMsMax: 7_500,
  /** Requests a front has open at once before it answers 503: 4 KiB each, besides what has come of a body. */
  frontRequestsOpenMax: 20_000,
  /** Of those, the most of one key: half a partition's mailbox, so that whoever floods a front, or waits for a rail that hangs, leaves
   *  room for others. */
  frontKeyRequestsMax: 4_096,
  /** The same in bytes of bodies: a quarter of what the bus has under way. */
  frontKeyBytesMax: 4 * 1024 * 1024,
  /** Bodies that come in several packets and are not whole yet, all requests of a front together; for what does not fit those that have been
   *  coming longest are answered 503. Anybody may send a body, also without a key, and slowly. A thousand of the largest fit. */
  frontBodiesBytesMax: 64 * 1024 * 1024,
  /** What one of them takes at least. */
  frontBodyBytesMin: 1024,
  /** Bytes of a body too large that are still read, and thrown away, so that the client sees the 413: beyond it the
   *  connection is closed with the rest unread. */
  bodyDrainBytesMax: 1024 * 1024,
  /** A longer answer is made bytes before it is written; one up to this is handed on as text and, if its connection is closed behind it,
   *  whole. */
  answerAtOnceCharactersMax: 4 * 1024,
  /** Longer answers that clients have not taken yet, all connections of a front together; beyond it the oldest are cut short. Anybody may
   *  ask for the OpenAPI document, and read it slowly. */
  frontAnswersBytesMax: 256 * 1024 * 1024,
  /** Answers made in a row are sent together, unless the first of them has waited for this. */
  answersGatheredMs: 1,
  /** Lists of one key that a front has under way; more wait for these. A page may be a third of a megabyte. */
  keyListsAtOnceMax: 4,
  /** Providers' callbacks that wait in a front until a poller has looked into them; one more is answered 503, so that merchants keep their
   *  place. */
  frontCallbacksWaitingMax: 8_192,
  /** Authorization headers without requests under way whose hash a front remembers: 300 bytes each. */
  frontKeysKeptMax: 4_096,
  /** How often open requests are looked at for their deadline. */
  frontSweepMs: 250,
  /** How often a stopping front looks whether its last request is answered. */
  frontStopLookMs: 10,
  /** How long after its stop began a front lets clients go on taking long answers. */
  frontStopPourMs: 15_000,
  /** Characters of a caller's field name that an error repeats. */
  echoedNameMax: 128,
  /** Mistakes in the terms of an account that one error names; it says how many more there are. */
  termProblemsToldMax: 16,

  // Actors
  /** Commands of one partition decided but not yet durable, before it answers `unavailable`. */
  mailboxMax: 8_192,
  /** Callers waiting for a rail's answer in one partition. */
  waitersMax: 16_384,
  /** How many payouts, and how many withdrawals, of the minute before its partition was opened an account's first cash-out looks up. */
  cashOutsRecalledMax: 5_000,
  /** Timer commands one partition may raise in one tick, so that a backlog cannot starve callers. */
  timersPerTickMax: 128,
  /** By table of rows, ms: timers that fall due within this are kept in memory, later ones only in their rows. Most of what is in flight
   *  (`open`) is final long before it expires. Much waits for its release (`timer`), and all of that falls due. */
  timerHorizonMs: { open: 600_000, timer: 3_600_000 },
  /** Rows looked at in one tick of a scan for timers: about a millisecond. */
  timerRowsPerTickMax: 1_000,
  /** Rest between two scans, ms: several within a horizon. */
  timerScanEveryMs: { open: 60_000, timer: 600_000 },
  /** How often due timers are looked at. */
  timerTickMs: 50,
  /** What is done for every partition goes on in the next turn of the event loop after this: callers come between. */
  turnMs: 1,
  /** How fast the process's time follows a wall clock that is ahead: an hour in 20 minutes. So a clock that was set forward by mistake,
   *  and is soon set right, does little harm, and a row is in the views long before time has moved by a horizon. */
  clockPaceMax: 4,
  /** How slowly time goes while the wall clock is behind: an hour is made good in 20, and a wait is 5 % longer. */
  clockPaceMin: 0.95,
  /** The most that time moves between two readings, ms, however long the process did not run. */
  clockStepMsMax: 60_000,

  /** UNKNOWN_REFERENCE items of one partition that operators have yet to resolve. Each is kept for ever, and whoever knows the address in
   *  a provider's portal could raise any number; but a backup that was restored may lack as many payments. */
  unknownReferencesOpenMax: 10_000,

  /** Apps an account has connected at once: each event is a delivery to each of them, and the ids of one event's deliveries
   *  end at 1,023. */
  appsPerAccountMax: 100,
  /** Payout wallets that an account may ever have had. Those revoked are kept for ever: withdrawals name them, and who asks for another is
   *  told that they are not active. Each takes 240 bytes in the account's row, which is written after each of its payments; so many are half
   *  a megabyte, and a wallet a day for five years. */
  walletsPerAccountMax: 2_000,
  /** Bytes that an account's users may take in an answer; also its connected apps, and its payout wallets that are not revoked: some
   *  2,000 users, 1,000 wallets. One more is refused, since the bus must carry the account. */
  accountListBytesMax: 300 * 1024,

  // Log
  /** Records of one batch. */
  batchRecordsMax: 8_192,
  /** Payload of one batch; NATS carries at most 1 MiB in a message. */
  batchBytesMax: 900 * 1024,
  /** Writes handed to LMDB and not yet flushed, all partitions: lmdb-js blocks the thread beyond 300,000. */
  logWritesOutstandingMax: 100_000,
  /** Records the views of one process may lag behind its log, all partitions together, before commands are refused: 1 KiB each, bounds
   *  memory. At a third of it an alert tells (deploy/prometheus). */
  checkpointLagMax: 300_000,
  /** Records applied between two commits of the views: so few that their objects die in the young generation. */
  checkpointRecordsPerCommitMax: 3_000,
  /** The same in bytes of the log, for large records: their objects, rows and what LMDB keeps of them take some 25 times as much. */
  checkpointBytesPerCommitMax: 8 * 1024 * 1024,
  /** How often views are brought up to the log, ms: what is not in them is in memory. */
  checkpointEveryMs: 250,
  /** Partitions whose views are written at the same time: one is applied while the other waits for the disk. */
  checkpointsAtOnce: 2,
  /** Partitions that are brought up to date between two portions of a sweep, even if there is always another that waits. */
  checkpointsPerSweepPortion: 16,
  /** The checkpoint thread works for so long, ms, before it rests. */
  checkpointStretchMs: 0.2,
  /** For so many times what it worked. */
  checkpointRests: 4,
  /** And not any more when a round of checkpoints has taken so long, ms. */
  checkpointRoundMs: 200,
  /** Young generation of the checkpoint thread, MiB. */
  checkpointYoungGenerationMb: 96,
  /** Threads that make views of long logs, at a start or in a replay. */
  viewThreadsMax: 8,
  /** Records that are worth one more such thread: half a second's work, while its start takes a fifth of a second. */
  viewThreadRecordsMin: 60_000,
  /** Memory that one such thread may take. */
  viewThreadBytes: 512 * 1024 * 1024,
  /** How often a long start says how far it is. */
  catchUpSayEveryMs: 5_000,
  /** View rows removed in one transaction when their time is over. */
  retentionRowsPerCommitMax: 5_000,
  /** How long an idempotency key is kept at least, ms: 30 days (actors/runtime/retention.ts). */
  idempotencyRetentionMs: 30 * 86_400_000,
  /** How often the service looks whether a tool was killed while it read the log or the views, ms: until that is noticed their files grow
   *  with every commit, by some 20 KB each, and more where many partitions are written. */
  readersLookMs: 1_000,
  /** How late a nightly job may still begin, ms; later it waits for the next night. */
  nightlyLateMsMax: 3_600_000,

  // Data directory
  /** How often the disk's free space is looked at, ms: at most some 50 MB are written in between. */
  diskLookMs: 500,
  /** When a flush takes longer than this, ms, the disk counts as not answering, and /readyz says so. */
  diskStallMs: 4_000,
  /** When a flush takes longer than this, ms, a node of a cluster ends if others can take its partitions: callers still wait. */
  diskLostMs: 6_000,
  /** How long the mark of a start is kept after it has come through: in that time is read what callers ask for first. */
  startProvenMs: 60_000,
  /** How long the log and the views are read, to prove them, before they are used, if the start before did not come through. */
  filesReadMs: 60_000,
  /** Characters kept of what a process said before it ended. */
  lastWordsMax: 2_000,

  // Reads
  /** Rows that one page of a list may look at and skip. */
  listRowsScannedMax: 5_000,
  /** Characters of the transactions that one page of a merchant's list reads, also of those that do not match: fifteen milliseconds if
   *  none is ASCII. `listRowsScannedMax` of them without metadata have fewer, and a page of what matches ends before it. */
  listCharactersReadMax: 1536 * 1024,
  /** Characters of one page of a list, at most 3 bytes each: what the bus carries. A page that would be longer ends before its limit.
   *  Metadata may be nearly as large as a body, and a delivery may have many attempts. */
  listPageCharactersMax: 320 * 1024,

  // Feed
  /** Decoded batches kept in memory for a subscriber that keeps up; a slower one reads the log. */
  feedTailBatchesMax: 64,
  /** Records of the log handed to subscribers that catch up, in one turn of the event loop: a few milliseconds. */
  feedRecordsPerTurnMax: 512,
  /** The same in characters, for large records: with metadata a record may be a hundred times as long as another. */
  feedCharactersPerTurnMax: 1024 * 1024,

  // Configuration
  /** Characters of a setting's wrong value that are repeated. */
  settingRepeatedMax: 200,
  /** Partitions of a group: each has a mailbox, timers and, in the cluster, a stream of its own. */
  partitionsMax: 1_024,
  /** Cash-out requests of one account in a minute that can be allowed at all: their times are kept in memory. */
  cashOutPerMinuteMax: 100_000,
  /** Waits between the attempts of a webhook delivery; each attempt is kept with the delivery. */
  webhookRetriesMax: 15,
  /** How far each wait may be from its length, as a share of it. Specification part 6. */
  webhookRetryJitterMax: 0.1,

  // Operators
  /** Entries of one page of the operator API; as the merchant's lists. */
  operatorPageMax: 100,
  operatorPageDefault: 25,
  /** Pause before a step of an operator's change is tried again, if its partition was unavailable. */
  operatorResendMs: 100,
  /** How often whoever has the platform looks for accounts that were registered and not opened, ms: one look-up where there is none. */
  unopenedLookMs: 5_000,
  /** Accounts that were registered and not opened that are looked at in one round. */
  unopenedAccountsPerRoundMax: 100,
  /** Log lines waiting for stdout; beyond it lines are dropped, and counted, rather than memory used. */
  logBufferBytesMax: 8 * 1024 * 1024,
  /** Pause before what stdout did not take is tried again. */
  logRetryMs: 20,
  /** How long a process that exits waits for stdout to take its last lines. */
  logExitMs: 1_000,

  // NATS
  /** Bytes that a message may have: what nats-server takes unless it is told otherwise. A server that takes less is refused. */
  natsPayloadBytes: 1024 * 1024,
  /** Requests one caller has under way over the bus: a front's open requests, and room for its other users. */
  busRequestsOpenMax: 32_768,
  /** Characters of all of them together, at most 3 bytes each. If an owner does not take them, the nats-server keeps them for it; it
   *  closes the owner's connection at 64 MiB. */
  busCharactersOpenMax: 16 * 1024 * 1024,
  /** Characters of one bus message before the turn's rest goes into the next: at most 3 bytes each, under 1 MiB. */
  busMessageCharactersMax: 192 * 1024,
  /** Bytes of a reply, which may be a message of its own: what one NATS message carries (1 MiB), with its frame. */
  busReplyBytesMax: 1024 * 1024 - 1024,
  /** Recent bus messages whose contents are remembered, to find the requests that a "no responders" is about. */
  busMessagesRemembered: 4_096,
  /** Silence after which a repeatable request is sent again, although its owner still seems to be there. Longer than any wait for a
   *  rail's answer: otherwise every slow rail would double the load. */
  busSilenceMs: 8_500,
  /** Pause before a request that nobody decided is sent again. */
  busRetryMs: 50,
  /** Resolution of deadlines and resends. */
  busTickMs: 25,
  /** Slots of the wheel: busTickMs × this covers the command deadline. */
  busWheelSlots: 1_024,
  /** If all of a caller's requests come after their deadlines for this long, ms, its clock must differ. */
  busLateMs: 5_000,
  /** Such callers that an owner remembers; each life of a process is one. */
  busLateCallersMax: 1_024,
  /** Requests whose older attempts an owner refuses, each kept until its deadline. */
  busRefusedMax: 65_536,
  /** Pause between two attempts to reach a NATS server. */
  natsReconnectMs: 250,
  /** A server that answers no ping for two of these is left for another. */
  natsPingMs: 2_000,
  natsConnectMs: 5_000,
  /** Subjects that the servers do not let a node use, told until the next connection. */
  natsRefusalsToldMax: 100,
  /** How long a publish waits for JetStream's acknowledgement before it is asked after and sent again. */
  streamAckMs: 1_000,
  /** When a batch waits for JetStream longer than this, ms, /readyz says why: its partition answers nobody meanwhile. */
  streamStallMs: 4_000,
  /** How long a batch is tried before its writer gives up: longer than an election among nats-servers (4 to 9 s). */
  streamPublishMs: 20_000,
  /** Window in which JetStream recognises a batch sent twice. */
  streamDuplicateWindowMs: 120_000,
  /** Batches that REPLICATION=async may have on their way: what a crash of this machine can lose. */
  streamAsyncOutstandingMax: 32,
  /** Batches that a stream has had and lacks, given back to it by whoever takes the partition; of more its leader rather has a short copy.
   *  With those on their way they are no more than streamWarmUpMessages. */
  streamForgottenMax: 32,
  /** Messages before the one wanted that a reader in the middle of a stream looks at, to tell a replaced writer's
   *  leftovers from the log; such a writer leaves at most streamAsyncOutstandingMax. */
  streamWarmUpMessages: 64,
  /** Messages asked for at once from a stream, and the bytes after which the server stops earlier. */
  streamReadMessages: 256,
  streamReadBytesMax: 2 * 1024 * 1024,
  /** Readers that catch up at the same time. Leases and confirmations of batches come over the same connection, behind what these have
   *  asked for: 0.7 s at 100 Mbit/s. */
  streamReadsAtOnce: 4,
  /** A stream read that is silent for two of these is begun anew. */
  streamHeartbeatMs: 500,
  /** The same for logs that are followed: there are many, and a late sign of life costs less. */
  streamFollowHeartbeatMs: 2_000,
  /** A reader to which nothing comes asks this often, ms, whether its stream's leader has more. */
  streamEndLookMs: 10_000,
  /** How often what a server passes over is read at another one: of three two may lack it, and be drawn in turn. */
  streamHoleReadingsMax: 16,
  /** How long one read request stands at the server before it is renewed. */
  streamReadExpiresMs: 5_000,
  /** A node whose session was not seen renewed for this long, by the observer's own clock, may be replaced. */
  leaseMs: 2_500,
  /** How often a node renews its session. */
  leaseRenewMs: 500,
  /** What a node takes off its lease for clocks that run at different rates. */
  leaseMarginMs: 250,
  /** A front that has heard nothing of an owner for this long is not ready: whoever asks now gets no answer. Longer than an election
   *  among nats-servers (4 to 9 s), which callers sit out. */
  ownerSilentMs: 12_000,
  /** Whoever has not been answered for this long, ms, has what is known of owners read at another server, and again after as long: longer
   *  than a take-over, and so short that its caller is still answered. */
  routeDoubtMs: 5_000,
  /** How often ownership is looked at even if nothing was heard. */
  leaseLookMs: 200,
  /** A partition that is free for this long is taken by the node that is next in line, if it has a copy: the one that is to have it may have
   *  far to go, as an empty machine. Longer than an election among nats-servers (4 to 9 s), and less than a caller waits. */
  leaseLeftMs: 10_000,
  /** Who has failed to take a partition over for leaseLeftMs comes after all others for this long, ms: whenever it tries again its callers
   *  wait for a hand-over, and for the failure. */
  takeOverFailingMs: 600_000,
  /** Partitions that one node takes over at once, so that one large log does not hold up the rest. */
  takeOversMax: 16,
  /** Between two looks at streams that are in use, while one is due. */
  streamsLookMs: 5_000,
  /** Servers that are asked to lead a stream one after the other where each lacks what was acknowledged, before that has to wait for
   *  unprovenRetryMs each time. There are three, and NATS draws which. */
  streamLeadersAtOnce: 4,
  /** Between two looks at streams that have not taken what is written to them for streamStallMs. */
  streamsStalledLookMs: 1_000,
  /** Of those that are asked about at once: a node may have hundreds, and NATS is not well then. Who answers nothing holds up its place for
   *  natsConnectMs. */
  streamsStalledAtOnce: 32,
  /** Pause after a take-over that failed. */
  takeOverRetryMs: 500,
  /** The same if nothing proves the log of this node: then it takes a person, or a new snapshot. */
  unprovenRetryMs: 5_000,
  /** A partition is snapshotted again after so many batches, unless configured: an empty machine reads at most these and
   *  one interval. */
  snapshotEveryBatches: 50_000,
  /** How often it is looked at which have grown by that much. */
  snapshotLookMs: 20_000,
  /** How often the views of followed logs are brought to their ends: a take-over applies what is younger. */
  followedViewsEveryMs: 1_000,
  /** Characters of a snapshot handled at once. */
  snapshotChunkCharacters: 64 * 1024,
  /** Chunks of a snapshot, of 128 KiB, that are on their way to the object store: the log's batches stand behind them. */
  snapshotChunksUnderWayMax: 8,
  /** A snapshot of which nothing came for this long is read from the start. */
  snapshotSilenceMs: 15_000,
  /** Rows of one commit of a restore. */
  snapshotRowsPerCommit: 10_000,
  /** The same in bytes, for large rows: with metadata one may be a hundred times as long as another, and `takeOversMax` partitions may be
   *  restored at once. */
  snapshotBytesPerCommit: 8 * 1024 * 1024,
  /** How long a node that starts waits for NATS servers to be able to serve it: they may be starting too. */
  clusterJoinMs: 60_000,
  /** How long a node that stops waits for others to take its partitions. */
  drainMs: 30_000,
  /** How long it waits after that for its own writes to what nobody has taken, and for NATS to hear that it is free. */
  handOverMs: 40_000,

  // Outgoing connections
  /** Where a host has several addresses: how long one may take to accept before the next has its turn, ms. Node's own
   *  250 gives up on every host that is far away; more than half a connect would leave nothing to a second family. */
  connectAddressMs: 2_500,

  // Webhooks
  /** Longest webhook URL, characters. */
  webhookUrlLengthMax: 2_048,
  /** How long the service may take to answer a developer's tool, ms: longer than a front waits before it closes the connection. */
  toolAnswerMs: 20_000,
  /** A delivery attempt from its first DNS question to the last byte of the answer, ms. Specification part 6. */
  webhookAttemptMs: 10_000,
  /** Characters of an answer kept, each of one or two UTF-16 units. Specification part 6. */
  webhookExcerptLengthMax: 2_000,
  /** Bytes of the headers of an answer, and of its body, read before the connection is dropped: its status was seen by then. */
  webhookAnswerBytesMax: 64 * 1024,
  /** Bytes of it as they come, with heads, interim answers (1xx), framing and blank lines, of which there may be no end. */
  webhookReadBytesMax: 128 * 1024,
  /** Idle connections kept for the next delivery, all endpoints; beyond it a connection is used once. */
  webhookIdleSocketsMax: 4_096,
  /** How long one stays idle, ms: below the 60 s of common load balancers, which then drop it. */
  webhookIdleSocketMs: 15_000,
  /** How old a connection in use may grow, ms: a name that leads elsewhere by now is followed, as short-lived DNS records
   *  ask for. */
  webhookConnectionMs: 60_000,
  /** A kept connection that breaks this soon after a request, ms, had been closed while it was idle: a round trip, with room. The request is
   *  sent again on another at once. */
  webhookStaleMs: 1_000,
  /** DNS: one question's wait, ms, and how often it is asked. Two rounds fit the attempt. */
  webhookDnsMs: 2_000,
  webhookDnsTries: 2,
  /** How long name servers are believed to be those that the system names, ms: it is asked only when a resolver is made. */
  webhookResolverMs: 60_000,
  /** How long the answer for IPv6 may come after that for IPv4, ms. */
  webhookDnsIpv6Ms: 500,
  /** Addresses of a name that are looked at and tried, IPv4 first. Whoever has the name chooses how many there are: an answer of DNS carries
   *  thousands, and those that refuse are tried at once, one after the other. */
  webhookAddressesMax: 16,
  /** Attempts in flight to one endpoint that nothing is known of, and at the most, to one that answers within `webhookLateMs`: one
   *  more with each such answer while it has as many as it may (with as many answers, if they take over `webhookSlowMs`); half as
   *  many with any other end, down to the first of the two, or to 1 with failures; while it fails: 1. */
  webhookEndpointInFlightBegin: 8,
  webhookEndpointInFlightMax: 32,
  /** First attempts to healthy endpoints in flight, all endpoints. One open longer than `webhookSlowMs` counts as slow. */
  webhookFirstInFlightMax: 1_024,
  /** Retries, replays and attempts to failing endpoints in flight, all endpoints. */
  webhookRetryInFlightMax: 1_024,
  /** Slow attempts that no longer take the room of first attempts: with the two above the bound on sockets. What goes to an endpoint
   *  known to be slow begins here, in half of it; the rest is for attempts that turn out slow. */
  webhookSlowInFlightMax: 4_096,
  /** An attempt open this long, ms, makes way for other endpoints. */
  webhookSlowMs: 1_000,
  /** Who answers this late, ms, gets no more at once. An endpoint that works on one request after the other takes as much longer
   *  as it gets more: at twice this it would fail. */
  webhookLateMs: 5_000,
  /** Longest pause between retries to a failing endpoint, ms; and never over a tenth of the shortest wait of the
   *  schedule, so that it stays within the jitter of every row. */
  webhookPauseMsMax: 3_000,
  /** What is overdue by more than the whole schedule is given up at an endpoint that has failed this long, ms, and was never left in
   *  peace for as long meanwhile, nor since. */
  webhookGiveUpFailingMs: 3_600_000,
  /** How often what cannot be signed is looked at again, ms: only whether its app still hears and its time is not over. */
  webhookUnsignedLookMs: 3_600_000,
  /** How long after its last attempt an endpoint that failed is counted as failing, ms: as far as the alert looks back
   *  (DaftariWebhooksAllFail). Those that nobody speaks to any more would set it off whenever nothing else is to be sent. */
  webhookFailingShownMs: 900_000,
  /** Endpoints whose recent health is remembered; the idle ones are forgotten first. */
  webhookEndpointsKnownMax: 100_000,
  /** Deliveries of one log record; an event for more apps than this is a record of its own. */
  webhookDeliveriesPerRecordMax: 500,
  /** Bodies and endpoints of one log record, bytes: escaped into JSON it stays below batchBytesMax. */
  webhookRecordBytesMax: 256 * 1024,
  /** What an endpoint is counted as in it besides its URL, bytes: ids, sealed secret, names of fields. */
  webhookEndpointBytes: 512,
  /** Objects asked for at once while one batch of the feed is read: at first, while nothing is known of how long they are, and at the most;
   *  fewer where they would be longer than feedCharactersPerTurnMax together. */
  webhookObjectQueriesBegin: 32,
  webhookObjectQueriesMax: 512,
  /** Records of the feed read without anything to deliver before the cursor is logged. */
  webhookCursorLagMax: 10_000,
  /** Due deliveries of one endpoint of either kind (first attempts; retries and replays) that are queued: more than go out in a
   *  timerTickMs. The ids of the rest wait in line, 60 bytes each. */
  webhookEndpointQueuedMax: 500,
  /** Due deliveries queued, one process: beyond it the feed waits. 200 bytes each. */
  webhookQueuedMax: 2_000_000,
  /** Deliveries being cancelled at once because their apps have no webhook URL: a small part of a partition's mailbox. */
  webhookCancellingMax: 256,
  /** What cannot be signed and is looked at again in a timerTickMs, of one partition. */
  webhookUnsignedPerTickMax: 1_000,
  /** Attempts kept with one delivery, the newest: 8 of its schedule and those of replays. */
  webhookAttemptsKeptMax: 32,
  /** Deliveries replayed by one message. */
  webhookReplaysPerMessageMax: 500,
  /** Old deliveries removed by one record, and rows looked at for them or for one page of a list. */
  webhookRemovalsPerRecordMax: 500,
  webhookRowsScannedMax: 5_000,
  /** Characters of rows that one look for old deliveries reads; what is removed is read twice more. With what its endpoint answered to each
   *  attempt a row has many times the usual length, and what is not ASCII takes ten times as long. */
  webhookCharactersLookedMax: 2 * 1024 * 1024,
  /** How often old deliveries are looked for, and the pause between two looks, ms. */
  webhookRetentionEveryMs: 3_600_000,
  webhookRetentionPauseMs: 1_000,
  /** How long a stop waits for attempts in flight, ms: one attempt and a bit. */
  webhookStopMs: 11_000,
  /** The same for a partition that another process waits for: most are answered by then, what is not that one sends again. */
  webhookHandOverMs: 2_000,

  // Rails and pollers
  /** Transactions at rest that one partition's poller follows; those beyond are taken up again as these finish.
   *  About 0.3 KiB each, outside of the heap: 300 MiB for a million of 16 partitions. */
  pollerPendingMax: 60_000,
  /** The same where those beyond are of rails with fewer than another, which is to let go of its own: until then they are followed, too. */
  pollerPendingAtWorst: 120_000,
  /** Calls of each kind (submits, enquiries) that wait for one rail, of one account half as many; more wait their turn among the
   *  due times. */
  railQueueMax: 20_000,
  /** Callbacks about final transactions that one partition's poller looks into at once, and for as long as their provider does
   *  not answer; and what expired that it looks at on: those that expired last. */
  pollerLateMax: 5_000,
  /** What expired late, because nobody was there, is still looked at after a restart if it was late by less than this. */
  pollerExpiredLateMs: 86_400_000,
  /** What an operator said to have failed is still looked at after a restart if it was created less than this before that. */
  pollerSettledLateMs: 30 * 86_400_000,
  /** Callers that wait for one partition's poller to look into a callback; beyond it the one that has waited longest is told that nobody
   *  knows. */
  pollerWaitersMax: 10_000,
  /** A callback about what has ended is noted at its account if its provider has not said for this long what it was about. Nearly always
   *  it has, and the front that handed on the callback still waits. */
  pollerNoteAfterMs: 5_000,
  /** At a start the last look at what expired is made up for if it was due less than this ago: nobody may have been there for a day. */
  pollerMissedLooksMs: 86_400_000,
  /** Ended transactions one partition's poller remembers, so that callbacks that come twice cost no look-up; and resolved notes, of which
   *  the feed may tell late. */
  pollerRecentMax: 1_000,
  /** Due transactions one partition takes up in one tick, so that a backlog cannot block the loop. */
  pollerDuePerTickMax: 200,
  /** Of those that find no place in their rail's queue, how many of one partition try again in a second: a tenth of what is taken up in the
   *  same time, so that others are in time even if the tick is late. */
  pollerNoPlacePerSecondMax: 2_000,
  pollerTickMs: 10,
  /** The tick while nothing is followed: the first transaction waits longer than this for its first enquiry anyway. */
  pollerIdleTickMs: 100,
  /** Transactions in one page of recovery. */
  pollerScanPageMax: 500,
  /** How long a poller's command to an account may take. */
  pollerCommandDeadlineMs: 10_000,
  /** Times a poller sends one command before it asks the provider again. */
  pollerSendsMax: 8,
  /** How long a stop waits for calls in flight and their outcomes. */
  pollerStopMs: 10_000,
  /** Loopback answers at once, but for the numbers that answer late: these take a place each. */
  loopbackCallsMax: 10_000,
  /** Transactions loopback has accepted and not forgotten. About 0.3 KiB each. */
  loopbackAcceptedMax: 1_000_000,
  /** Of those, settled ones, kept so that a second enquiry gets the same answer. */
  loopbackRememberedMax: 50_000,
  loopbackTickMs: 20,

  // Providers
  /** Connections, and so requests at once, to one provider's host for one route, unless its route says otherwise. */
  railConcurrencyDefault: 128,
  railConcurrencyMax: 1_024,
  /** Body of a provider's answer, with what each piece of it costs: theirs are under 2 KiB, a firewall's page under 100. */
  railAnswerBytesMax: 256 * 1024,
  /** A provider must accept a connection within this. */
  railConnectMs: 5_000,
  /** A provider must have answered completely within this; then nobody knows. Networks answer in 1 to 10 s. */
  railAnswerMs: 15_000,
  /** The longest that a provider's Retry-After is waited for. One that says an hour, about one number or by mistake, may be well again long
   *  before, and a charge lives half of that. It is as slow as enquiries get while others wait for the rail. */
  railRetryAfterMsMax: 300_000,
  /** A provider's own word or code, as it is kept and shown, in characters: the longest that is listed has 49. */
  railWordLength: 64,
  /** Between two attempts to get a token after a refused one: a wrong key must not become a storm. */
  railTokenRetryMs: 1_000,
  /** How many tokens must have been refused, over how long, and none accepted, before our credentials count as wrong: processes that
   *  revoke each other's tokens have about every other one refused. */
  railTokensRefusedMin: 5,
  railTokensRefusedMs: 10_000,
  /** Lines of a statement, and movements of all routes in its period, in one run: they are kept in memory. */
  reconcileLinesMax: 5_000_000,
  /** A file of routes; real ones are under 10 KiB. */
  routesFileBytesMax: 1024 * 1024,

  // The provider simulator
  /** Payments that are not final, of which those that never will be are forgotten for others, oldest first. About 0.7 KiB each. */
  simulatorPendingMax: 200_000,
  /** Final payments it remembers, oldest forgotten first: more than a minute of the highest load. */
  simulatorFinishedMax: 60_000,
  simulatorBodyBytesMax: 64 * 1024,
  simulatorTokensMax: 10_000,
  /** Subscriptions, and applications. */
  simulatorAppsMax: 1_000,
  /** Six for each start of a node of a cluster. */
  simulatorUsersMax: 20_000,
  /** Answers that a test forces and that no call has used up yet; as many outcomes. */
  simulatorForcedMax: 1_000,
  simulatorCallbackConnectionsMax: 64,
  /** Callbacks that wait for a connection; further ones are lost, as the networks lose them. */
  simulatorCallbacksWaitingMax: 20_000,

  // Log tools
  /** Differences, and faults in the ledger, that a tool shows of one partition; it counts them all. */
  logToolDifferencesShownMax: 100,
  /** How often a thread of a replay says how far it is. */
  logToolThreadTellsMs: 100,
  /** Accounts whose balances are told at once. */
  logToolAccountsShownMax: 1_000,
  /** Transactions of an account that are told, unless asked otherwise. */
  logToolTransactionsShown: 20,
  /** Transactions that a damaged batch is said to concern. */
  logToolTransactionsNamedMax: 50,
  /** Partitions that a log has nothing of. */
  logToolPartitionsNamedMax: 50,
} as const;
