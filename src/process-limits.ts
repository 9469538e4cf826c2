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
  const files = openFilesMax();
  if (files < openFiles) {
    return (
      `this process may have ${files} files open at once, and ${who} needs ${openFiles}: raise the limit (\`ulimit -n 65536\` in a ` +
      'shell, LimitNOFILE of systemd, nofile of a container)'
    );
  }
  const space = numberOf(limits()?.virtual_memory_bytes);
  if (space < addressSpace) {
    return (
      `this process may have ${Math.floor(space / GIB)} GiB of address space, and ${who} needs ${Math.ceil(addressSpace / GIB)}, of ` +
      'which little is memory: raise the limit (`ulimit -v unlimited` in a shell, LimitAS of systemd)'
    );
  }
  return null;
}

/** Files and connections that this process may have open at once. Node has raised it at its start as far as it may. */
export function openFilesMax(): number {
  return numberOf(limits()?.open_files);
}

interface Limits {
  readonly open_files?: Limit;
  readonly virtual_memory_bytes?: Limit;
}

let known: Limits | undefined;

/** Read once: it takes as long as the start of a small program. */
function limits(): Limits | undefined {
  return (known ??= (process.report.getReport() as { readonly userLimits?: Limits }).userLimits);
}

function numberOf(limit: Limit | undefined): number {
  return limit === undefined || limit.soft === 'unlimited' ? Infinity : limit.soft;
}
