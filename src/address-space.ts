// How much address space a process may have. LMDB maps its files into far more of it than they fill. Where the system does not allow
// that, lmdb-js ends the process by SIGSEGV: a sound log would be called damaged, and be restored from a backup.

const GIB = 1024 ** 3;

/** What is wrong when `who` needs `least` bytes; null: it may have them. */
export function addressSpaceProblem(who: string, least: number): string | null {
  const limit = addressSpaceMax();
  if (limit >= least) return null;
  return (
    `this process may have ${Math.floor(limit / GIB)} GiB of address space, and ${who} needs ${Math.ceil(least / GIB)}, of which little ` +
    'is memory: raise the limit (`ulimit -v unlimited` in a shell, LimitAS of systemd)'
  );
}

function addressSpaceMax(): number {
  const { userLimits } = process.report.getReport() as {
    readonly userLimits?: { readonly virtual_memory_bytes?: { readonly soft: number | 'unlimited' } };
  };
  const soft = userLimits?.virtual_memory_bytes?.soft ?? 'unlimited';
  return soft === 'unlimited' ? Infinity : soft;
}
