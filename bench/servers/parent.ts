// For the bench's own servers: they end with it, however it ends. The service is started as production starts it, and does not.

/** `child.ts` holds the other end of our input: it closes with that process. */
export function endWithParent(): void {
  process.stdin.resume().once('close', () => process.exit(0));
}
