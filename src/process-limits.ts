// What the system gives a process at the most. Where no file can be opened any more, LMDB and Node end the process without a word, by
// SIGSEGV, or with a stack that says nothing of the reason. LMDB maps its files into far more address space than they fill; where it
// may not, lmdb-js ends the process by SIGSEGV, and a sound log would be called damaged. So whoever needs much asks first.

export interface Needs {
  /** Open at once. */
  readonly openFiles: number;
  /** Bytes, of which little is memory. */
  readonly addressSpace: number;
}

interface Limit {
  readonly soft: number | 'unlimited';
}

const GIB = 1024 ** 3;

/** What is wrong when `who` needs that much; null: it may have it. Needs no open file itself. */
export function processLimitsProblem(who: string, { openFiles, addressSpace }: Needs): string | null {
  const { userLimits } = process.report.getReport() as {
    readonly userLimits?: { readonly open_files?: Limit; readonly virtual_memory_bytes?: Limit };
  };
  // Node has raised it at its start as far as it may.
  const files = numberOf(userLimits?.open_files);
  if (files < openFiles) {
    return (
      `this process may have ${files} files open at once, and ${who} needs ${openFiles}: raise the limit (\`ulimit -n 65536\` in a ` +
      'shell, LimitNOFILE of systemd, nofile of a container)'
    );
  }
  const space = numberOf(userLimits?.virtual_memory_bytes);
  if (space < addressSpace) {
    return (
      `this process may have ${Math.floor(space / GIB)} GiB of address space, and ${who} needs ${Math.ceil(addressSpace / GIB)}, of ` +
      'which little is memory: raise the limit (`ulimit -v unlimited` in a shell, LimitAS of systemd)'
    );
  }
  return null;
}

function numberOf(limit: Limit | undefined): number {
  return limit === undefined || limit.soft === 'unlimited' ? Infinity : limit.soft;
}
