// What ends the process of a tool is told by the one that watches it: damage, which is looked for and then passed over; a signal; or
// neither of these.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { LOG_UNSEARCHABLE, supervised, type Supervision } from '../../../wal/tools/supervised.ts';
import type { Unreadable } from '../../../wal/unreadable.ts';
import { temporaryDirectory } from '../../temporary-directory.ts';

const root = temporaryDirectory(t);
const program = join(root, 'program.mjs');
// Ends as its second argument says, of the first time and of the second, in which it knows what cannot be read; and with whoever
// started it: until then it listens.
writeFileSync(
  program,
  `process.on('message', ({ directory, unreadable }) => {
    const [, ends, ...others] = process.argv.slice(2);
    const end = ends.split(',')[unreadable === null ? 0 : 1];
    const temporary = others[others.indexOf('--temporary') + 1];
    const go = () => {
      if (directory !== 'the data') process.exit(99);
      if (/^[0-9]/.test(end)) process.exit(Number(end));
      process.kill(process.pid, end);
    };
    if (others.includes('--temporary')) process.send({ temporary }, go);
    else go();
  });`,
);

const DEATH = 'SIGUSR2';
const whole: Unreadable = { names: [], places: [], views: null };
const damaged: Unreadable = {
  names: [],
  places: [
    { group: 'accounts', partition: 1, batch: 0, ending: 'SIGBUS' },
    { group: 'accounts', partition: 2, batch: 7, ending: 'SIGABRT' },
  ],
  views: 'SIGSEGV',
};

interface Ran {
  readonly status: number;
  readonly said: readonly string[];
  /** What it was looked for in. */
  readonly proven: readonly string[];
  readonly endedBy: readonly NodeJS.Signals[];
}

async function run(
  args: readonly string[],
  unreadable: Unreadable = whole,
  log: string | null = null,
): Promise<Ran> {
  const [proven, endedBy]: [string[], NodeJS.Signals[]] = [[], []];
  const { status, said } = await saying(() =>
    supervised({
      ...supervisionOf(args),
      endBy: (signal) => void endedBy.push(signal),
      prove: async (directory) => {
        proven.push(directory);
        return { unreadable, log };
      },
    }),
  );
  return { status, said, proven, endedBy };
}

function supervisionOf(args: readonly string[]): Omit<Supervision, 'prove'> {
  return {
    program,
    args: [...args, '--data', 'the data'],
    stopSignals: ['SIGTERM', 'SIGINT'],
    left: { restore: 'it is no log', trim: 'run it again' },
    elsewhere: new Set(['restore']),
    endBy: (signal) => t.fail(signal),
    isDeath: (signal) => signal === DEATH,
  };
}

async function saying(act: () => Promise<number>): Promise<Pick<Ran, 'status' | 'said'>> {
  const written = t.capture(process.stderr, 'write', () => true);
  try {
    const status = await act();
    return { status, said: written.args().map(([text]) => String(text)) };
  } finally {
    written.restore();
  }
}

const quiet = { said: [], proven: [], endedBy: [] };

t.test('a tool that ends by itself is not spoken for', async (t) => {
  for (const status of [0, 1, 2]) t.strictSame(await run(['verify', `${status}`]), { ...quiet, status });
});

t.test('of one that damage has ended it is said what that is, and it runs without', async (t) => {
  const said = [
    `verify: it was ended by ${DEATH}: looking for what in the data cannot be read\n`,
    'verify: the log of accounts/1 cannot be read (SIGBUS)\n',
    'verify: the log of accounts/2 cannot be read, from batch 7 on (SIGABRT)\n',
    'verify: the views cannot be read (SIGSEGV)\n',
  ];
  const found = { ...quiet, said, proven: ['the data'] };
  // It may have met none of it this time.
  t.strictSame(await run(['verify', `${DEATH},0`], damaged), { ...found, status: 1 });
  t.strictSame(await run(['verify', `${DEATH},2`], damaged), { ...found, status: 2 });
  t.strictSame(await run(['verify', `${DEATH},${DEATH}`], damaged), {
    ...found,
    status: 1,
    said: [...said, `verify: it was ended by ${DEATH}: the data cannot be read, restore it from a backup\n`],
  });
  const ofViews = await run(['verify', `${DEATH},1`], { ...whole, views: 'SIGSEGV' });
  t.strictSame(ofViews, { ...found, status: 1, said: [said[0], said[3]] });
  t.strictSame(await run(['verify', `${LOG_UNSEARCHABLE},0`], whole), {
    ...found,
    status: 1,
    said: [
      'verify: the log cannot be searched: looking for what in the data cannot be read\n',
      'verify: pages that lead to partitions are damaged: what follows is of those that are found all the same, and others ' +
        'may be lost. Restore it from a backup\n',
    ],
  });
});

t.test('one that cannot search the log the second time either is spoken for', async (t) => {
  const { status, said } = await run(['verify', `${LOG_UNSEARCHABLE},${LOG_UNSEARCHABLE}`], whole);
  t.equal(status, 1);
  t.equal(
    said.at(-1),
    'verify: the log cannot be searched: the data cannot be read, restore it from a backup\n',
  );
});

t.test('how far it was looked for is said now and then', async (t) => {
  let nowMs = 0;
  t.intercept(performance, 'now', { value: () => nowMs });
  const supervision: Supervision = {
    ...supervisionOf(['verify', `${DEATH},0`]),
    prove: async (_directory, onReading) => {
      for (const atMs of [4_999, 5_000, 9_999, 10_001]) {
        nowMs = atMs;
        onReading({ group: 'accounts', partition: 3, batch: atMs, nth: 4, of: 13 });
      }
      return { unreadable: damaged, log: null };
    },
  };
  const { said } = await saying(() => supervised(supervision));
  t.strictSame(said.slice(1, 3), [
    'verify: reading accounts/3 (4 of 13 partitions), batch 5000\n',
    'verify: reading accounts/3 (4 of 13 partitions), batch 10001\n',
  ]);
  t.match(said[3], 'accounts/1 cannot be read');
});

t.test('where nothing is found, or nothing can be opened, it does not run again', async (t) => {
  const first = `verify: it was ended by ${DEATH}: looking for what in the data cannot be read\n`;
  const ended = { ...quiet, status: 1, proven: ['the data'] };
  t.strictSame(await run(['verify', `${DEATH},9`]), {
    ...ended,
    said: [
      first,
      'verify: all of it can be read. Is there too little memory, or are other files damaged that it was given?\n',
    ],
  });
  t.strictSame(await run(['verify', `${DEATH},9`], damaged, 'MDB_INVALID'), {
    ...ended,
    said: [first, 'verify: the log in the data cannot be opened (MDB_INVALID): restore it from a backup\n'],
  });
});

t.test('of one that looks at no data directory none is looked at', async (t) => {
  t.strictSame(await run(['restore', `${DEATH},9`], damaged), {
    ...quiet,
    status: 1,
    said: [
      `restore: it was ended by ${DEATH}: is there too little memory, or is something wrong with the disk that it ` +
        'writes to? it is no log\n',
    ],
  });
});

t.test('one that is interrupted ends its watcher, too, and says what it leaves', async (t) => {
  const ofTerm = { ...quiet, status: 128 + 15, endedBy: ['SIGTERM'] };
  const said = ['trim: interrupted by SIGTERM: run it again\n'];
  t.strictSame(await run(['trim', 'SIGTERM']), { ...ofTerm, said });
  t.strictSame(await run(['trim', 'SIGTERM', '--help']), ofTerm, 'which leaves nothing');
  t.strictSame(await run(['verify', 'SIGTERM']), ofTerm, 'as does one that only looks');
  t.strictSame(await run(['trim', 'SIGKILL']), { ...quiet, status: 128 + 9, endedBy: ['SIGKILL'] });
});

t.test('what was temporary goes with one that a signal has ended', async (t) => {
  const temporary = join(root, 'temporary');
  for (const [end, isThere] of [
    ['SIGKILL', false],
    [`${DEATH},0`, false],
    ['1', true],
  ] as const) {
    mkdirSync(join(temporary, 'within'), { recursive: true });
    await run(['replay', end, '--temporary', temporary]);
    t.equal(existsSync(temporary), isThere, end);
  }
});
