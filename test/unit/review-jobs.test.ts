// Jobs that must not stop: the machine's clock is set back while they run.

import t from 'tap';
import { Jobs } from '../../src/wiring/jobs.ts';

const HOUR = 3_600_000;
const RealDate = globalThis.Date;

/** What the machine's clock says when it was set back by an hour. */
class DateSetBack extends RealDate {
  constructor(time?: number) {
    super(time ?? RealDate.now() - HOUR);
  }
  static override now(): number {
    return RealDate.now() - HOUR;
  }
}

void t.test('what runs every second runs on when the clock is set back', async (t) => {
  const jobs = new Jobs();
  let runs = 0;
  let awaited = { count: 1, resolve: (): void => {} };
  jobs.everySecond(() => {
    if (++runs >= awaited.count) awaited.resolve();
  });
  t.teardown(async () => {
    globalThis.Date = RealDate;
    await jobs.stop();
  });
  const reach = (count: number): Promise<void> =>
    new Promise((resolve) => {
      awaited = { count, resolve };
    });
  await reach(1);
  globalThis.Date = DateSetBack as DateConstructor;
  await reach(3);
  t.pass('it ran twice more');
});
