// JSON schemas as typebox writes them, with the types that it derives from them. What of it this service uses is written here
// in a few lines, since loading its 370 modules was a fifth of a start; a test holds each against typebox's own.

import type { Type as TypeBox } from 'typebox';

export type { Static, TObject, TProperties, TSchema } from 'typebox';

type Used =
  | 'Array'
  | 'Boolean'
  | 'Integer'
  | 'Literal'
  | 'Number'
  | 'Object'
  | 'Optional'
  | 'String'
  | 'Unknown'
  | 'Unsafe';

type Schema = Readonly<Record<string, unknown>>;

/** Marks a property that may be left out. Not enumerable: it is no part of the document. */
const OPTIONAL = Symbol('optional');

const builders = {
  Array: (items: Schema, options?: Schema) => ({ type: 'array', items, ...options }),
  Boolean: (options?: Schema) => ({ type: 'boolean', ...options }),
  Integer: (options?: Schema) => ({ type: 'integer', ...options }),
  Literal: (value: string | number | boolean, options?: Schema) => ({
    type: typeof value,
    const: value,
    ...options,
  }),
  Number: (options?: Schema) => ({ type: 'number', ...options }),
  Object: (properties: Readonly<Record<string, Schema>>, options?: Schema) => {
    const required = Object.keys(properties).filter((name) => !(OPTIONAL in (properties[name] ?? {})));
    return { type: 'object', ...(required.length > 0 && { required }), properties, ...options };
  },
  Optional: (schema: Schema) => Object.defineProperty({ ...schema }, OPTIONAL, { value: true }),
  String: (options?: Schema) => ({ type: 'string', ...options }),
  Unknown: (options?: Schema) => ({ ...options }),
  Unsafe: (schema: Schema) => ({ ...schema }),
};

/** Of what each builder takes and gives typebox's types say more than these do. */
export const Type = builders as unknown as Pick<typeof TypeBox, Used>;
