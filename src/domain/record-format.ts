// The format of what nodes write into the log, as one number for the records of all groups. A record of any format from 1
// to `newest` is read, for ever (test/golden). In the cluster nodes of two versions read each other's records while
// one replaces the other, so nobody writes a format before the cluster has been told to (src/nats/write-format.ts).
//
// A change that older versions cannot read (a new event, field or layout) raises `newest` by one; `decide` makes what is
// new only when the tick's `writeFormat` is that high, and what older formats have until then.

//   1  the first
//   2  a withdrawal's first submit is recorded before it is made: WithdrawalCreated.unsent, SubmissionBegun
//   3  users are removed, and their roles changed: UserRoleChanged, UserRemoved
//   4  an account has the key that it was asked for with, an audit entry what was made: AccountRegistered.repeatable, AuditEnded.objectId

export interface RecordFormats {
  /** Written still, for a cluster that has not been told to go further. */
  readonly oldestWritten: number;
  /** Read and written. */
  readonly newest: number;
}

/** From this one on a withdrawal's first submit is recorded before it is made. */
export const SUBMISSION_BEGUN_FORMAT = 2;

/** From this one on users are removed, and their roles changed. */
export const USERS_CHANGED_FORMAT = 3;

/** From this one on an account has its idempotency key, and an audit entry what was made. */
export const MADE_KNOWN_FORMAT = 4;

/** Of this version. */
export const RECORD_FORMATS: RecordFormats = { oldestWritten: 1, newest: 4 };
