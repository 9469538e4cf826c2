// What the checker could not find out, with what it had found until then: a lie that was found stays one when something else cannot
// be looked at.

export class CouldNotTell extends Error {
  readonly findings: readonly string[];

  /** `why`: in words, one for each thing that could not be looked at. */
  constructor(why: readonly string[], findings: readonly string[]) {
    super(why.join('; '));
    this.findings = findings;
  }
}

/** fetch tells why in its cause alone. */
export function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return message === 'fetch failed' && cause instanceof Error ? `${message}: ${cause.message}` : message;
}
