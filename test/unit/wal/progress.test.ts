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
