// The other scenarios in their seconds-long form. PostgreSQL and a cluster are not started: npm does not install them.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
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

t.test('the README has every scenario, in the order in which they run, and no other', async (t) => {
  const readme = readFileSync(join(import.meta.dirname, '../../bench/README.md'), 'utf8');
  const [, rows = ''] = /^\| scenario .*\n\| -.*\n((?:\|.*\n)*)/m.exec(readme) ?? [];
  const told = Array.from(rows.matchAll(/^\| `(.+?)`/gm), ([, name]) => name);
  t.strictSame(
    told,
    SCENARIOS.map(({ name }) => name),
  );
});
