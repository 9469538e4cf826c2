// Schemas compiled to functions that answer with a rejection or null. The only file that knows ajv. A rejection names
// one field and says in words what is wrong with it.
//
// Formats used in our schemas: `amount` (minor units as a string), `moment` (a date or time of ISO 8601) and `date-time`,
// which are read alike, `cursor` (a transaction's id: a wrong one is `invalid_cursor`). `x-rule` in a schema is the
// sentence for people when a pattern or format fails; `x-shown` is what the document has of what the domain alone reads.

import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { isRejection, rejection, type Rejection } from '../domain/error-code.ts';
import { isTransactionId } from '../domain/id.ts';
import { parseAmount } from '../domain/money.ts';
import { parseTime } from '../domain/time.ts';
import { echoed, invalidField } from './echoed.ts';
import type { TObject, TSchema } from './json-schema.ts';
import { parseQuery } from './query.ts';

// What json-schema.ts made is a schema: proving that took 70 ms of a start. A test has the whole document linted.
const ajv = new Ajv({ verbose: true, strictTypes: false, validateSchema: false });
ajv.addVocabulary(['x-rule', 'x-shown', 'example']);
ajv.addFormat('amount', (text) => parseAmount(text) !== null);
for (const name of ['moment', 'date-time']) ajv.addFormat(name, (text) => parseTime(text) !== null);
ajv.addFormat('cursor', isTransactionId);

/** Compiled when it is first asked for: compiling all of them took 160 ms of a start, and a process is asked for a few. */
function compiled(schema: TSchema): () => ValidateFunction {
  let validate: ValidateFunction | undefined;
  return () => (validate ??= ajv.compile(schema));
}

export type ValidateBody = (body: unknown) => Rejection | null;

export function compileBody(schema: TSchema): ValidateBody {
  const validateOf = compiled(schema);
  return (body) => {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) {
      return rejection('invalid_json', 'The body must be a JSON object.');
    }
    const validate = validateOf();
    return validate(body) ? null : rejectionOf(validate);
  };
}

export interface ParsedQuery {
  readonly values: Record<string, unknown>;
  readonly problem: Rejection | null;
}

/** Parses and types a raw query. With a problem there are no values. */
export function compileQuery<Schema extends TObject>(schema: Schema): (raw: string) => ParsedQuery {
  const validateOf = compiled(schema);
  const properties: Readonly<Record<string, TSchema>> = schema.properties;
  const isAllOptional = ((schema.required ?? []) as readonly string[]).length === 0;
  return (raw) => {
    // As of most gets: nothing is looked at.
    if (raw === '' && isAllOptional) return { values: {}, problem: null };
    const pairs = parseQuery(raw);
    if (isRejection(pairs)) return { values: {}, problem: pairs };
    const values: Record<string, unknown> = {};
    for (const [name, text] of pairs) {
      if (!Object.hasOwn(properties, name)) {
        return { values: {}, problem: unknownParameter(name, Object.keys(properties)) };
      }
      values[name] = typed(properties[name], text);
    }
    const validate = validateOf();
    if (validate(values)) return { values, problem: null };
    return { values: {}, problem: rejectionOf(validate) };
  };
}

function unknownParameter(name: string, known: readonly string[]): Rejection {
  const takes = known.length === 0 ? 'It takes none.' : `It takes ${known.join(', ')}.`;
  const param = echoed(name);
  return rejection('unknown_parameter', `\`${param}\` is not a parameter of this path. ${takes}`, param);
}

/** Text that is not of the type stays text, and fails the schema. */
function typed(schema: TSchema | undefined, text: string): unknown {
  if (schema === undefined || !('type' in schema)) return text;
  if (schema.type === 'integer' && /^(?:0|-?[1-9][0-9]{0,14})$/.test(text)) return Number(text);
  if (schema.type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function rejectionOf(validate: ValidateFunction): Rejection {
  const [error] = validate.errors ?? [];
  if (error === undefined) return rejection('validation_failed');
  const path = pathOf(error);
  if (error.keyword === 'format' && error.params['format'] === 'cursor') {
    return rejection('invalid_cursor', null, echoed(path));
  }
  return invalidField(path, saying(error));
}

/** "metadata.colour". */
function pathOf(error: ErrorObject): string {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (error.keyword === 'additionalProperties') path.push(String(error.params['additionalProperty']));
  if (error.keyword === 'required') path.push(String(error.params['missingProperty']));
  if (error.propertyName !== undefined) path.push(error.propertyName);
  return path.join('.');
}

function saying(error: ErrorObject): string {
  const { params } = error;
  if (error.propertyName !== undefined) return 'is not allowed as a name';
  const rule: unknown = error.parentSchema?.['x-rule'];
  switch (error.keyword) {
    case 'required':
      return 'is required';
    case 'additionalProperties':
      return 'is not a field of this request';
    case 'type':
      return `must be ${typeWords(params['type'])}`;
    case 'enum':
      return `must be one of ${allowedWords(params['allowedValues'])}`;
    case 'maxLength':
      return `must be at most ${params['limit']} characters`;
    case 'minLength':
      return `must be at least ${params['limit']} characters`;
    case 'maxProperties':
      return `must have at most ${params['limit']} keys`;
    case 'minimum':
      return `must be at least ${params['limit']}`;
    case 'maximum':
      return `must be at most ${params['limit']}`;
    default:
      return typeof rule === 'string' ? rule : (error.message ?? 'is not valid');
  }
}

/** Null stands beside them where a field may be left out, which goes without saying. */
function allowedWords(values: readonly (string | null)[]): string {
  return values.filter((value) => value !== null).join(', ');
}

/** `type`: one, or a list of them. */
function typeWords(type: unknown): string {
  return String(type)
    .split(',')
    .map((name) => (/^[aeio]/.test(name) ? `an ${name}` : `a ${name}`))
    .join(' or ')
    .replace('a null', 'null');
}
