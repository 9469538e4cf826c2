// The pollers' delays: how they grow, where they end, and what chance adds to them.
import t from 'tap';
import {
  afterExpiryGapMs,
  afterExpiryMsMax,
  enquiryGapMs,
  jittered,
  retryGapMs,
  TIMINGS,
} from '../../actors/pollers/schedule.ts';

const least = (): number => 0;
const most = (): number => 1;

t.test('delays double up to their bound, however often it was tried', async (t) => {
  const tries = [1, 2, 3, 6, 7, 8, 100, 100_000];
  t.strictSame(
    tries.map((each) => retryGapMs(TIMINGS, each, least) / 1_000),
    [1, 2, 4, 32, 60, 60, 60, 60],
  );
  const enquiries = [0, 1, 2, 3, 4, 5, 100, 100_000];
  t.strictSame(
    enquiries.map((each) => enquiryGapMs(TIMINGS, each, false, least) / 1_000),
    [10, 20, 40, 50, 50, 50, 50, 50],
  );
  t.strictSame(
    enquiries.map((each) => enquiryGapMs(TIMINGS, each, true, least) / 1_000),
    [10, 20, 40, 80, 160, 300, 300, 300],
  );
  const looks = [0, 1, 2, 3, 4];
  t.strictSame(
    looks.map((each) => afterExpiryGapMs(TIMINGS, each, least) / 60_000),
    [10, 40, 160, 640, 2_560],
  );
});

t.test('chance makes each up to a fifth longer, never shorter', async (t) => {
  t.strictSame(
    [0, 0.25, 0.5, 1].map((chance) => jittered(10_000, () => chance)),
    [10_000, 10_500, 11_000, 12_000],
  );
  t.equal(retryGapMs(TIMINGS, 1, most), 1_200);
  t.equal(enquiryGapMs(TIMINGS, 0, false, most), 12_000);
  t.equal(enquiryGapMs(TIMINGS, 5, false, most), 60_000, 'about a minute, as the specification has it');
  t.equal(afterExpiryGapMs(TIMINGS, 0, most), 720_000);
});

t.test('the last look at what has expired comes within three days', async (t) => {
  t.equal(afterExpiryMsMax(TIMINGS), 1.2 * (10 + 40 + 160 + 640 + 2_560) * 60_000);
});
