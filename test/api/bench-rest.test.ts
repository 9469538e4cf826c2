// The other scenarios in their seconds-long form. PostgreSQL and a cluster are not started: npm does not install them.

import t from 'tap';
import { SCENARIOS } from '../../bench/scenarios/all.ts';
import { smokeTest } from './bench-smoke.ts';

for (const name of ['reads', 'lists', 'lifecycle', 'webhooks', 'recovery', 'tools']) smokeTest(t, name);

t.test('no scenario is forgotten', async (t) => {
  const names = SCENARIOS.filter(({ needs }) => needs === null).map(({ name }) => name);
  const tested = [
    'bare',
    'floor',
    'charges',
    'payouts',
    'mixed',
    'hot',
    'reads',
    'lists',
    'lifecycle',
    'webhooks',
    'recovery',
    'tools',
  ];
  t.strictSame(new Set(names), new Set(tested));
});
