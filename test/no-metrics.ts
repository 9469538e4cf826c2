// Metrics of webhooks for tests that look at none.

import type { WebhookMetrics } from '../actors/webhooks/metrics.ts';

export const noMetrics: WebhookMetrics = {
  firstAttempt: () => {},
  attempted: () => {},
  deadLettered: () => {},
  cancelled: () => {},
};
