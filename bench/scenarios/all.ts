// The scenarios, in the order in which a run of all takes them.

import type { Scenario } from '../bench.ts';
import { bare } from './bare.ts';
import { charges } from './charges.ts';
import { mixed } from './mixed.ts';
import { payouts } from './payouts.ts';
import { reads } from './reads.ts';

export const SCENARIOS: readonly Scenario[] = [bare, charges, payouts, reads, mixed];
