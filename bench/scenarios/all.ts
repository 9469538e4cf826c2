// The scenarios, in the order in which a run of all takes them.

import type { Scenario } from '../bench.ts';
import { bare } from './bare.ts';
import { charges } from './charges.ts';
import { cluster } from './cluster.ts';
import { failover } from './failover.ts';
import { floor } from './floor.ts';
import { hot } from './hot.ts';
import { lifecycle } from './lifecycle.ts';
import { lists } from './lists.ts';
import { mixed } from './mixed.ts';
import { payouts } from './payouts.ts';
import { reads } from './reads.ts';
import { recovery } from './recovery.ts';
import { tools } from './tools.ts';
import { webhooks } from './webhooks.ts';

export const SCENARIOS: readonly Scenario[] = [
  bare,
  floor,
  charges,
  payouts,
  reads,
  mixed,
  hot,
  lists,
  lifecycle,
  webhooks,
  recovery,
  tools,
  cluster,
  failover,
];
