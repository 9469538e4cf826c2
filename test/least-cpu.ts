// What something costs, whoever else uses the machine: a time by the clock grows with what others do meanwhile.

const TRIES = 3;

/** Milliseconds of the processor that `act` takes at least. */
export function leastCpuMs(act: () => unknown): number {
  const tries = Array.from({ length: TRIES }, () => {
    const before = process.cpuUsage();
    act();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...tries);
}
