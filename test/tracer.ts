// strace, with which tests read system calls, and make them slow or fail.

import { spawnSync } from 'node:child_process';

export const tracer = 'strace';

const canTrace = spawnSync(tracer, ['-qq', '-e', 'trace=none', process.execPath, '--version']).status === 0;

/** Of a test that needs it. */
export const traced = { skip: canTrace ? false : 'strace is not here, or may not trace' };
