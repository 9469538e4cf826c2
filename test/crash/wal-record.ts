// What the writer under test puts into the log at a place, so that a reader can tell whether it is all there.

/** Differs at every place, in length from 20 to some thousand bytes, and is not all ASCII. */
export function recordAt(partition: number, sequence: number): string {
  const length = (partition * 7919 + sequence * 104_729) % 900;
  const filler = sequence % 50 === 0 ? 'ü'.repeat(length * 4) : 'x'.repeat(length);
  return `{"at":"${partition}/${sequence}","filler":"${filler}"}`;
}
