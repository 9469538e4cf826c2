// Progress: share, rate and time left on standard error, and nothing of it when it is not asked for.
import t from 'tap';
import { Progress } from '../../../wal/tools/progress.ts';

t.test('a terminal sees one line that is written over, and then removed', async (t) => {
  let shown = '';
  const progress = new Progress({ write: (text) => void (shown += text), shown: true, overwrites: true });
  progress.start('verify', 400);
  progress.add(100, 5_000_000);
  t.match(shown, /^\rverify 25% \| 100 of 400 batches \| \d+\/s, [\d.]+ MB\/s \| \d+ s left/);
  const before = shown;
  progress.add(1, 1);
  t.equal(shown, before, 'a few times a second at most');
  progress.clear();
  t.ok(shown.endsWith('\r\x1b[K'));
});

t.test('a line is no wider than the terminal: one that wraps is not written over', async (t) => {
  const shownOn = (columns: number): string => {
    let shown = '';
    const write = (text: string): void => void (shown += text);
    const progress = new Progress({ write, shown: true, overwrites: true, columns: () => columns });
    progress.start('verify', 4_000_000);
    progress.add(1_000_000, 5_000_000);
    return shown;
  };
  t.equal(shownOn(40), '\rverify 25% | 1000000 of 4000000 batches\x1b[K');
  t.ok(shownOn(0).endsWith(' left\x1b[K'), 'all of it where the terminal does not say how wide it is');
});

t.test('a file sees no control characters, and silence is silence', async (t) => {
  let shown = '';
  const write = (text: string): void => void (shown += text);
  const silent = new Progress({ write, shown: false, overwrites: true });
  silent.start('verify', 10);
  silent.add(5, 5);
  silent.clear();
  const lines = new Progress({ write, shown: true, overwrites: false });
  lines.start('verify', 10);
  lines.add(5, 5);
  lines.clear();
  t.equal(shown, '', 'the first line comes after some seconds');
});

t.test('share, rate and time left are those of the piece of work, a line every few seconds', async (t) => {
  let nowMs = 1_000;
  t.intercept(performance, 'now', { value: () => nowMs });
  const shown: string[] = [];
  const options = { write: (text: string) => void shown.push(text), shown: true };
  const lines = new Progress({ ...options, overwrites: false });
  const after = (ms: number, batches: number, bytes: number): string[] => {
    nowMs += ms;
    lines.add(batches, bytes);
    return shown.splice(0);
  };
  lines.start('verify', 100_000);
  t.strictSame(after(4_999, 9, 9_000_000), []);
  t.strictSame(after(1, 1, 1_000_000), [
    'verify 0% | 10 of 100000 batches | 2/s, 2.0 MB/s | 13 h 53 min left\n',
  ]);
  t.strictSame(after(4_999, 989, 0), []);
  t.strictSame(after(1, 9_001, 0), [
    'verify 10% | 10000 of 100000 batches | 1000/s, 1.0 MB/s | 1 min 30 s left\n',
  ]);
  t.strictSame(after(5_000, 65_000, 0), [
    'verify 75% | 75000 of 100000 batches | 5000/s, 0.7 MB/s | 5 s left\n',
  ]);
  lines.start('backup', 7_201);
  t.strictSame(after(4_999, 0, 0), [], 'each begins anew');
  t.strictSame(after(1, 5, 0), ['backup 0% | 5 of 7201 batches | 1/s, 0.0 MB/s | 1 h 59 min left\n']);
  lines.start('nothing', 0);
  t.strictSame(after(5_000, 0, 0), ['nothing 0% | 0 of 0 batches | 0/s, 0.0 MB/s | 0 s left\n']);
  lines.start('minutes', 65);
  t.strictSame(after(5_000, 5, 0), ['minutes 7% | 5 of 65 batches | 1/s, 0.0 MB/s | 1 min 0 s left\n']);
  lines.start('hours', 3_605);
  t.strictSame(after(5_000, 5, 0), ['hours 0% | 5 of 3605 batches | 1/s, 0.0 MB/s | 1 h 0 min left\n']);

  const terminal = new Progress({ ...options, overwrites: true });
  terminal.start('verify', 100);
  for (const ms of [0, 199, 1, 200]) {
    nowMs += ms;
    terminal.add(1, 1);
  }
  t.equal(shown.length, 3, 'five times a second on a terminal');
  terminal.clear();
  t.strictSame(shown.splice(3), ['\r\x1b[K']);
  terminal.clear();
  t.equal(shown.length, 3, 'what is not there any more is not removed again');
});

t.test('a live log that has grown meanwhile is read in full, and no more than that', async (t) => {
  let nowMs = 1_000;
  t.intercept(performance, 'now', { value: () => nowMs });
  let shown = '';
  const write = (text: string): void => void (shown += text);
  const lines = new Progress({ write, shown: true, overwrites: false });
  lines.start('replay', 100);
  nowMs += 10_000;
  lines.add(150, 10_000_000);
  t.equal(shown, 'replay 100% | 150 of 150 batches | 15/s, 1.0 MB/s | 0 s left\n');
});
