// The end of a process that cannot wait for its threads, as `process.exit` does: one whose disk does not answer, or one of
// lmdb-js that waits for the rest of a batch whose own thread has just been stopped, would keep it there for ever, with its port
// open and nobody behind it.

/** After the listeners of `exit` the process becomes one that only ends, with `status`; its threads are gone with that. Nothing
 *  else ends it at once and with a status, nor by a signal of its own where it is the first process of a container. */
export function endProcess(status: number): never {
  process.on('exit', () => {
    process.execve?.(process.execPath, [process.execPath, '--eval', `process.exit(${status})`], {});
  });
  process.exit(status);
}
