// The operator API and /metrics of a running service.

import { parseMetrics, type Metric } from '../measure/metrics.ts';

export interface OperatorApi {
  metrics(): Promise<Metric[]>;
  /** `path` after /operator/v1. Throws what a refusal says. */
  operator(method: string, path: string, body?: object): Promise<unknown>;
}

export function operatorApi(url: string, token: string): OperatorApi {
  return {
    async metrics() {
      const response = await fetch(`${url}/metrics`);
      const text = await response.text();
      if (!response.ok) throw new Error(`GET /metrics: ${response.status} ${text}`);
      return parseMetrics(text);
    },
    async operator(method, path, body) {
      const response = await fetch(`${url}/operator/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return JSON.parse(text) as unknown;
    },
  };
}
