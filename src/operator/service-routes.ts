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
import * as examples from './examples.ts';
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
      description:
        'Changes nothing. Each change is written before it is tried, and again with what came of it: `outcome` null, nobody saw ' +
        'the end of it, and the object says what is so.',
      answers: 'A page of the audit log.',
      examples: { page: examples.page(examples.auditEntry) },
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
      description:
        'Changes nothing. As the node that answers sees it, since it started; each node that calls providers counts for itself.',
      answers: 'The rails.',
      examples: { one: examples.list(examples.rail) },
      reply: replies.RailList,
      handle: async () => done({ object: 'list', data: context.rails().map(shown) }),
    }),
    operatorRoute(context, {
      method: 'GET',
      path: '/partitions',
      operationId: 'listPartitions',
      tag,
      summary: 'Who owns each partition, and where its log stands',
      description:
        'Changes nothing. In a cluster any node answers for all: what only the owner knows is null elsewhere.',
      answers: 'The partitions.',
      examples: { one: examples.list(examples.partition) },
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
      description:
        'The last step of an upgrade of a cluster, which cannot be taken back. Refused while a node reads an older format, and by ' +
        'a node that is a front alone. A service of one process writes the newest by itself: there it changes nothing.',
      answers: 'The format that is written from now on.',
      examples: { raised: examples.writeFormat },
      errors: ['conflict'],
      reply: replies.WriteFormat,
      handle: () => raiseWriteFormat(context),
    }),
    machineRoute({
      path: '/healthz',
      operationId: 'getHealth',
      summary: 'The process answers',
      description:
        'Changes nothing. 200 for as long as the process answers at all; whether it takes requests `/readyz` says.',
      contentType: JSON_TYPE,
      example: { status: 'ok' },
      handle: () => jsonAnswer(200, '{"status":"ok"}'),
    }),
    machineRoute({
      path: '/readyz',
      operationId: 'getReadiness',
      summary: 'The service takes requests',
      description:
        'Changes nothing. 200 while this node takes requests; otherwise 503, whose `message` says why not: send it none.',
      contentType: JSON_TYPE,
      example: { status: 'ready' },
      handle: () => readiness(context),
    }),
    machineRoute({
      path: '/metrics',
      operationId: 'getMetrics',
      summary: 'Metrics for Prometheus',
      description: 'Changes nothing. Of this node, in the text format of Prometheus.',
      contentType: context.metrics.contentType,
      example: '# TYPE daftari_ready gauge\ndaftari_ready 1\n',
      handle: async () => {
        const { contentType } = context.metrics;
        return { type: 'body', status: 200, contentType, body: await context.metrics.text() };
      },
    }),
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

interface MachineRoute extends Pick<PlainRoute, 'path' | 'operationId' | 'summary' | 'description'> {
  readonly contentType: string;
  readonly example: unknown;
  readonly handle: () => Answer | Promise<Answer>;
}

function machineRoute({ contentType, example, handle, ...route }: MachineRoute): PlainRoute {
  return plainRoute({
    ...route,
    description: `${route.description}\n\nWho may: anybody, without a token.`,
    method: 'GET',
    tag: 'Service',
    parameters: {},
    authorised: false,
    query: null,
    body: null,
    bodyExamples: {},
    reply: {
      status: 200,
      description: `${route.summary}.`,
      contentType,
      schema: contentType === JSON_TYPE ? replies.Health : Type.String(),
      examples: { usual: example },
    },
    errors: ['method_not_allowed'],
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
