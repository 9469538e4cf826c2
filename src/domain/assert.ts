// Assertions: what must hold if our own code is right. A failure is a bug of ours and stops the process;
// what a caller or the outside can cause is a rejection or a failure, never an assertion.

export class AssertionFailure extends Error {
  override readonly name = 'AssertionFailure';
}

/** Throws AssertionFailure when `condition` is false. `what` says the invariant, not the symptom. */
export function assert(condition: boolean, what: string): asserts condition {
  if (!condition) throw new AssertionFailure(what);
}
