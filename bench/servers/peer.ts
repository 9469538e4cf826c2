// The stack most teams would pick: Fastify and PostgreSQL. The same creates as the service, each one function call and
// one commit (peer.sql). It has no rail: the accepted submit is recorded with the create, which spares it the service's
// second record of a charge.
//
//   node peer.ts '{"socketDirectory":"…","connections":32}'      prints its port when it listens

import { createHash, randomBytes } from 'node:crypto';
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import pg from 'pg';
import { endWithParent } from './parent.ts';

const { socketDirectory, connections } = JSON.parse(process.argv[2]!) as {
  socketDirectory: string;
  connections: number;
};
const CREATED = 201;
const STATUSES: Readonly<Record<string, number>> = {
  created: CREATED,
  replayed: CREATED,
  key_reused: 422,
  invalid_key: 401,
};
const BODY = {
  type: 'object',
  required: ['amount', 'currency', 'msisdn', 'reference'],
  additionalProperties: false,
  properties: {
    amount: { type: 'string', pattern: '^[1-9][0-9]{0,15}$' },
    currency: { type: 'string', enum: ['UGX', 'KES', 'GHS'] },
    msisdn: { type: 'string', pattern: '^\\+256[0-9]{9}$' },
    reference: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  },
} as const;

interface Body {
  readonly amount: string;
  readonly currency: string;
  readonly msisdn: string;
  readonly reference: string;
}

endWithParent();
const pool = new pg.Pool({
  host: socketDirectory,
  user: 'postgres',
  database: 'postgres',
  max: connections,
  min: connections,
});
const app = Fastify({ logger: false });

for (const [path, statement, prefix] of [
  ['/v1/charges', 'create_charge', 'chg_'],
  ['/v1/payouts', 'create_payout', 'pyt_'],
] as const) {
  app.post<{ Body: Body }>(path, { schema: { body: BODY } }, (request, reply) =>
    create(statement, prefix, request, reply),
  );
}

async function create(
  statement: string,
  prefix: string,
  request: FastifyRequest<{ Body: Body }>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { authorization = '', 'idempotency-key': key = '' } = request.headers;
  const { amount, currency, msisdn, reference } = request.body;
  if (typeof key !== 'string' || key.length < 8) return reply.code(400).send();
  const { rows } = await pool.query<{ outcome: string; response: string }>({
    name: statement,
    text: `SELECT outcome, response FROM ${statement}($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    values: [
      hash(authorization.slice('Bearer '.length)),
      key,
      hash(JSON.stringify(request.body)),
      prefix + newId(),
      amount,
      currency,
      msisdn,
      `${msisdn.slice(1, 6)}****${msisdn.slice(-3)}`,
      reference,
    ],
  });
  const { outcome, response } = rows[0]!;
  if (outcome === 'replayed') reply.header('Idempotent-Replayed', 'true');
  return reply.code(STATUSES[outcome]!).type('application/json').send(response);
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** Ascending, as indexes like it: time, then randomness. */
function newId(): string {
  return (Date.now().toString(16).padStart(12, '0') + randomBytes(7).toString('hex')).toUpperCase();
}

const address = await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`listening ${new URL(address).port}\n`);
process.once('SIGTERM', () => {
  void app
    .close()
    .then(() => pool.end())
    .then(() => process.exit(0));
});
