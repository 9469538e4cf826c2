// How many files a process may have open at once. Where none is left, LMDB and Node end the process without a word, by SIGSEGV,
// or with a stack that says nothing of the reason: so whoever needs many asks first.

/** What is wrong when `who` needs `least`; null: it may have them. */
export function openFilesProblem(who: string, least: number): string | null {
  const limit = openFilesMax();
  if (limit >= least) return null;
  return (
    `this process may have ${limit} files open at once, and ${who} needs ${least}: raise the limit (\`ulimit -n 65536\` in a ` +
    'shell, LimitNOFILE of systemd, nofile of a container)'
  );
}

/** Node has raised it at its start as far as it may. Needs no open file itself. */
function openFilesMax(): number {
  const { userLimits } = process.report.getReport() as {
    readonly userLimits?: { readonly open_files?: { readonly soft: number | 'unlimited' } };
  };
  const soft = userLimits?.open_files?.soft ?? 'unlimited';
  return soft === 'unlimited' ? Infinity : soft;
}
