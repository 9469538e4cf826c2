// Cash-outs of an account within the last minute: each counts for a minute, whatever others do meanwhile.

import t from 'tap';
import { CashOutWindow, WINDOW_MS } from '../../actors/accounts/cash-out-window.ts';

void t.test('a request counts for a minute, and then room is free', async (t) => {
  const window = new CashOutWindow();
  t.equal(window.freesAt('a', 5, 3), 5, 'there is room at once');
  for (const now of [10, 20, 30]) window.add('a', now);
  t.equal(window.freesAt('a', 40, 4), 40, 'there is room for one more');
  t.equal(window.freesAt('a', 40, 3), 10 + WINDOW_MS);
  t.equal(window.freesAt('a', 40, 1), 30 + WINDOW_MS, 'the limit was lowered: most of them must go');
  t.equal(window.count('a', 9 + WINDOW_MS), 3);
  t.equal(window.count('a', 10 + WINDOW_MS), 2);
  t.equal(window.freesAt('a', 10 + WINDOW_MS, 2), 20 + WINDOW_MS);
  t.equal(window.count('b', 40), 0);
});

void t.test('when quiet accounts leave memory, one that asked within the minute stays', async (t) => {
  const window = new CashOutWindow();
  window.add('a', 0);
  window.add('a', WINDOW_MS - 1);
  window.add('b', WINDOW_MS);
  t.equal(window.count('a', WINDOW_MS), 1);
});

void t.test(
  'accounts that went quiet leave memory, a minute after they asked for the last time',
  async (t) => {
    const window = new CashOutWindow();
    /** Asked as of the time when the partition was opened: what is not in memory may have been before. */
    const isKept = (accountId: string): boolean => !window.lacksPast(accountId, 0);
    window.add('a', 0);
    window.recall('b', [-1]);
    window.recall('c', []);
    window.add('d', 1);
    window.add('e', WINDOW_MS - 1);
    t.ok(['a', 'b', 'c', 'd', 'e'].every(isKept), 'nobody looks more often than once in a minute');
    window.add('e', WINDOW_MS);
    t.strictSame(['a', 'b', 'c', 'd', 'e'].filter(isKept), ['d', 'e']);
    window.add('e', 2 * WINDOW_MS - 1);
    t.ok(isKept('d'));
    window.add('f', 2 * WINDOW_MS);
    t.strictSame(['d', 'e', 'f'].filter(isKept), ['e', 'f']);
  },
);

void t.test('what came before the partition was opened counts, too', async (t) => {
  const window = new CashOutWindow();
  t.ok(window.lacksPast('a', WINDOW_MS - 1));
  t.notOk(window.lacksPast('a', WINDOW_MS), 'it is over by now');
  window.recall('a', [-50_000, 0]);
  t.notOk(window.lacksPast('a', 0));
  t.equal(window.count('a', 9_999), 2);
  t.equal(window.count('a', 10_000), 1);
});
