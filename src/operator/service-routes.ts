// The service itself: the audit log, rails, partitions and the format of records for operators; health, readiness and metrics for machines,
// which need no token.

import { Type } from '../http/json-schema.ts';
import type { Reply } from '../bus/bus.ts';
import { rejection } from '../domain/error-code.ts';
import { JSON_TYPE, jsonAnswer, plainRoute } from '../http/route.ts';
import type { Answer, PlainRoute } from '../http/route.ts';
import { askPlatform } from './context.ts';
import type { OperatorContext } from './context.ts';
import { done, operatorRoute, pageOf } from './route.ts';
import * as replies from './reply-schemas.ts';
import * as schemas from './schemas.ts';

export function serviceRoutes(context: OperatorContext): readonly PlainRoute[] {
  const tag = 'Service';
  return [
    operatorRoute(context, {
      method: 'GET',
      path: '/audit',
      operationId: 'listAudit',
      tag,
      summary: 'What operators changed, newest first',
      query: schemas.PageQuery,
      errors: ['invalid_cursor'],
      reply: replies.AuditPage,
      handle: ({ query }) => askPlatform(context, { type: 'GetAudit', ...pageOf(query) }),
    }),
    operatorRoute(context, {
      method: 'GET',
      path: '/rails',
      operationId: 'listRails',
      tag,
      summary: 'Health of each rail',
      reply: replies.RailList,
      handle: async () => done({ object: 'list', data: context.rails().map(shown) }),
    }),
    operatorRoute(context, {
      method: 'GET',
      path: '/partitions',
      operationId: 'listPartitions',
      tag,
      summary: 'Who owns each partition, and where its log stands',
      reply: replies.PartitionList,
      handle: async () => done({ object: 'list', data: context.partitions().map(shown) }),
    }),
    operatorRoute(context, {
      method: 'POST',
      path: '/write_format/raise',
      operationId: 'raiseWriteFormat',
      tag,
      summary:
        'Write records in the newest format, once every node reads it; older versions cannot join after that',
      errors: ['conflict'],
      reply: replies.WriteFormat,
      handle: () => raiseWriteFormat(context),
    }),
    machineRoute('/healthz', 'getHealth', 'The process answers', JSON_TYPE, () =>
      jsonAnswer(200, '{"status":"ok"}'),
    ),
    machineRoute('/readyz', 'getReadiness', 'The service takes requests', JSON_TYPE, () =>
      readiness(context),
    ),
    machineRoute(
      '/metrics',
      'getMetrics',
      'Metrics for Prometheus',
      context.metrics.contentType,
      async () => {
        const { contentType } = context.metrics;
        return { type: 'body', status: 200, contentType, body: await context.metrics.text() };
      },
    ),
  ];
}

async function raiseWriteFormat(context: OperatorContext): Promise<Reply | Answer> {
  const raise = await context.raiseWriteFormat();
  switch (raise.type) {
    case 'done':
      return done({ object: 'write_format', format: raise.format, message: raise.message });
    case 'refused':
      return { type: 'rejected', rejection: rejection('conflict', raise.reason) };
    case 'unknown':
      return raise;
  }
}

function readiness(context: OperatorContext): Answer {
  const problem = context.notReady();
  if (problem === null) return jsonAnswer(200, '{"status":"ready"}');
  return { type: 'rejected', rejection: rejection('service_unavailable', problem, null, 1) };
}

function machineRoute(
  path: string,
  operationId: string,
  summary: string,
  contentType: string,
  handle: () => Answer | Promise<Answer>,
): PlainRoute {
  return plainRoute({
    method: 'GET',
    path,
    operationId,
    tag: 'Service',
    summary,
    description: '',
    parameters: {},
    authorised: false,
    query: null,
    body: null,
    bodyExamples: {},
    reply: {
      status: 200,
      description: summary,
      contentType,
      schema: contentType === JSON_TYPE ? replies.Health : Type.String(),
      examples: {},
    },
    errors: [],
    handle,
  });
}

/** As everything on the wire: snake_case names, times in ISO 8601. */
function shown(row: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]: [string, unknown]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      name.endsWith('At') && typeof value === 'number' ? new Date(value).toISOString() : value,
    ]),
  );
}
