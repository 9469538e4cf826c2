// The checkpoint thread stands still for those who answer callers, and not where there is no time for that.
import t from 'tap';
import { LIMITS } from '../../src/limits.ts';
import { CheckpointRests } from '../../src/storage/checkpoint-rests.ts';

const { checkpointStretchMs, checkpointRests, checkpointRoundMs } = LIMITS;

/** With a clock that only work and rests move. */
function resting() {
  let now = 1_000;
  const stood: number[] = [];
  const rests = new CheckpointRests({
    now: () => now,
    stand: (ms) => {
      stood.push(ms);
      now += ms;
    },
  });
  const work = (ms: number): void => {
    now += ms;
    rests.rest();
  };
  return { rests, work, stood };
}

t.test('after a stretch of work it stands still for some times that', async (t) => {
  const { rests, work, stood } = resting();
  rests.beginRound();
  rests.begin();
  work(checkpointStretchMs / 2);
  t.strictSame(stood, [], 'not after less');
  work(1);
  work(2);
  const worked = [checkpointStretchMs / 2 + 1, 2];
  t.match(
    stood.map((ms) => ms.toFixed(6)),
    worked.map((ms) => (ms * checkpointRests).toFixed(6)),
  );
});

t.test('what it did not work is not rested for', async (t) => {
  const { rests, work, stood } = resting();
  rests.beginRound();
  rests.begin();
  work(0);
  rests.begin();
  t.strictSame(stood, []);
  work(checkpointStretchMs);
  t.equal(stood.length, 1);
});

t.test('a round has its time, and works on without a rest when that is over', async (t) => {
  const { rests, work, stood } = resting();
  rests.beginRound();
  rests.begin();
  const worked = 10;
  for (let each = 0; each < checkpointRoundMs; each++) work(worked);
  const rested = stood.reduce((sum, ms) => sum + ms, 0);
  t.ok(rested < checkpointRoundMs, `stood for ${rested} ms`);
  t.ok(rested + stood.length * worked >= checkpointRoundMs, 'and up to there');
  rests.beginRound();
  work(worked);
  t.ok(stood.at(-1)! > 0, 'the next has its own');

  const late = resting();
  late.rests.beginRound();
  late.rests.begin();
  late.work(0.75 * checkpointRoundMs);
  t.strictSame(late.stood, [0.25 * checkpointRoundMs], 'a rest ends with it');
});

t.test('where somebody waits for it, it does not rest', async (t) => {
  const { rests, work, stood } = resting();
  rests.beginRound();
  rests.hurry();
  rests.begin();
  work(10);
  t.strictSame(stood, []);
});
