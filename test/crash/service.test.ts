// kill -9 at any moment loses nothing that was acknowledged and applies nothing twice. The long form:
// `npm run test:crash -- --cycles N --seed S`.

import t from 'tap';
import { runCycles } from './cycles.ts';
import { seedOf } from '../seed.ts';

void t.test('the service, killed under load again and again', { timeout: 380_000 }, async (t) => {
  const seed = seedOf(t);
  const report = await runCycles({ cycles: 3, seed, onProgress: (line) => t.comment(line) });
  t.same(report.faults, []);
  t.ok(report.acknowledged > 10, `${report.acknowledged} acknowledged`);
});
