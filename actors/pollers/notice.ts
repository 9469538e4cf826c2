// What pollers tell operators about: each is a line of the log and a count.

export const NOTICES = [
  'our_fault',
  'no_rail',
  'not_taken',
  'provider_forgot',
  'never_accepted',
  'no_outcome',
  'unknown_reference',
  'hint_lost',
  'follows_too_many',
] as const;

/** Something an operator should know. */
export interface Notice {
  readonly what: (typeof NOTICES)[number];
  readonly provider: string | null;
  readonly transactionId: string | null;
  readonly detail: string | null;
}
