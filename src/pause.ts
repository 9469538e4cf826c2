// Waits, for whoever tries again later or looks now and then.

/** By the global timer, which tests may drive: that of node:timers/promises they cannot. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
