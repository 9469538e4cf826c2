// The bounds of the log itself, with unit and reason. What depends on the service (records and bytes of a batch)
// comes in as options; the values here are the defaults and the limits of the formats.

export const WAL_LIMITS = {
  /** Records of one batch, when the caller gives no bound. */
  batchRecordsMax: 8_192,
  /** Payload bytes of one batch, when the caller gives no bound: a NATS message carries at most 1 MiB. */
  batchBytesMax: 900 * 1024,
  /** Payload bytes that a reader believes at all: a broken length must not allocate gigabytes. */
  payloadBytesMax: 64 * 1024 * 1024,
  /** Records appended and not yet durable, all partitions: a caller that goes past it forgot its own bound. */
  recordsOutstandingMax: 300_000,
  /** Characters of a group's name: it has a fixed place in the header. */
  groupCharactersMax: 16,
  /** Partition numbers, exclusive: they have two bytes in the header. */
  partitionsMax: 65_536,
  /** A commit that takes longer is taken for failed: the disk is gone, or LMDB has lost the write. */
  commitMsMax: 60_000,
  /** How long another process may take to open LMDB's files, while nothing is committed: some milliseconds are usual. */
  openingMsMax: 5_000,
  /** Waited for the reason of a failed commit, which its own thread tells: nothing else says that the disk is full. */
  commitReasonMsMax: 1_000,
  /** Address space that LMDB reserves for the log; not disk. It grows beyond by itself. */
  logMapBytes: 256 * 1024 ** 3,
  /** The same for the views. */
  viewsMapBytes: 256 * 1024 ** 3,
  /** Free on a disk before LMDB makes files on it: they begin with some 30 KB, and others write there, too. */
  newFilesBytes: 1024 * 1024,
  /** Readers (threads and processes) open at once on one directory. */
  readersMax: 256,
  /** Bytes of a view key, table included: LMDB's bound with pages of 4 KiB is 1,978. */
  viewKeyBytesMax: 1_960,
  /** Batches removed in one transaction: trimming must not hold up the writer's flushes for long. */
  batchesPerTrim: 1_000,
  /** View rows removed in one transaction. */
  rowsPerDrop: 10_000,
  /** Files that a tool may have open at once, below which none begins: 30 are enough for each, half of them Node's own. */
  toolOpenFilesMin: 64,
  /** Milliseconds that a log tool rests at once where services want the cores: who reads its progress sees it go on. */
  toolRestMsMax: 1_000,
  /** Faults that verify tells of one partition before it goes on with the next. */
  faultsShownMax: 100,
  /** Times that a partition is read from its beginning because its log was written anew meanwhile, which take-overs do: one
   *  that never comes to rest is somebody else's trouble, and said to be. */
  rereadsMax: 10,
  /** Bytes that an import or restore appends in one transaction. */
  bytesPerImport: 16 * 1024 * 1024,
  /** Of a part of a manifest, from which on the next backup begins another: every backup reads and writes one. */
  manifestBytes: 1024 * 1024,
  /** Of the socket that a service listens on in its data directory: bytes of sun_path without its NUL on every system we run on. */
  socketPathBytesMax: 103,
  /** What the file has behind its pages (as a hole) before batches are removed; see makeRoom. */
  removalRoomBytes: 16 * 1024 * 1024,
} as const;
