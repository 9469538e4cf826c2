// Schemas are compiled when they are first asked for: here all of them are, so that none is found wrong by a caller.
import t, { type Test } from 'tap';
import * as typebox from 'typebox';
import { Type } from '../../src/http/json-schema.ts';
import type { Route } from '../../src/http/route.ts';
import { merchantSurface } from '../../src/http/routes.ts';
import { compileBody, compileQuery } from '../../src/http/validator.ts';
import type { OperatorContext } from '../../src/operator/context.ts';
import { operatorSurface } from '../../src/operator/surface.ts';

/** A schema with every builder, each bare and with options; what is optional here is required there. */
function everyBuilder(type: typeof Type) {
  const text = type.String({ pattern: '^a$' });
  return type.Object(
    {
      text,
      optionalText: type.Optional(text),
      plain: type.Object({
        a: type.String(),
        b: type.Integer(),
        c: type.Number(),
        d: type.Boolean(),
        e: type.Unknown(),
      }),
      numbers: type.Array(type.Integer({ minimum: 1 }), { maxItems: 2 }),
      number: type.Number({ maximum: 2 }),
      flag: type.Boolean({ description: 'd' }),
      literals: type.Array(
        type.Object({ a: type.Literal('a', { title: 't' }), b: type.Literal(1), c: type.Literal(true) }),
      ),
      anything: type.Unknown({ description: 'd' }),
      unsafe: type.Unsafe<string | null>({ type: ['string', 'null'] }),
      nothingRequired: type.Object({ a: type.Optional(type.Unsafe<string>({ type: 'string' })) }),
      empty: type.Object({}),
    },
    { title: 'Title', additionalProperties: false },
  );
}

void t.test('schemas are those that typebox makes', async (t) => {
  t.equal(JSON.stringify(everyBuilder(Type)), JSON.stringify(everyBuilder(typebox.Type)));
});

function checkBody(t: Test, route: Route): void {
  if (!('body' in route) || route.body === null) return;
  const validate = compileBody(route.body);
  t.equal(validate({ never_a_field: 1 })?.code, 'validation_failed', `${route.operationId}: body`);
  for (const [name, example] of Object.entries(route.bodyExamples)) {
    t.equal(validate(example), null, `${route.operationId}: its example ${name}`);
  }
}

function checkQuery(t: Test, route: Route): void {
  if (!('query' in route) || route.query === null) return;
  const parse = compileQuery(route.query);
  for (const parameter of Object.keys(route.query.properties)) {
    t.doesNotThrow(() => parse(`${parameter}=x`), `${route.operationId}: ${parameter}`);
  }
}

void t.test('a parameter that is required is missed also where there is no query', async (t) => {
  const parse = compileQuery(Type.Object({ since: Type.String(), limit: Type.Optional(Type.Integer()) }));
  for (const raw of ['', '&', 'limit=1']) {
    t.hasStrict(parse(raw).problem, { code: 'validation_failed', param: 'since' }, raw);
  }
  t.strictSame(parse('since=x'), { values: { since: 'x' }, problem: null });
});

// Nothing is called of it.
const context = { token: 'op_token', metrics: { contentType: 'text/plain' } } as OperatorContext;

for (const surface of [merchantSurface([]), operatorSurface(context)]) {
  void t.test(`${surface.name}: every schema compiles, and takes its examples`, async (t) => {
    for (const route of surface.routes) {
      checkBody(t, route);
      checkQuery(t, route);
    }
  });
}
