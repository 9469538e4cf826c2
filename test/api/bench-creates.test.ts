// Every scenario that creates, in its seconds-long form: it runs to its end over the real service and its checks pass.
// What it measures in so short a time means nothing, and is not looked at.

import t from 'tap';
import { smokeTest } from './bench-smoke.ts';

for (const name of ['bare', 'floor', 'charges', 'mixed', 'hot']) smokeTest(t, name);

// This checkout in turn with itself: of each side all is checked that is checked of one alone.
smokeTest(t, 'payouts', ['--against', '.']);
smokeTest(t, 'payouts', ['--against', '.', '--side-by-side']);
