// GET /openapi.json: the document of a surface, served by the surface itself. Rendered once, when it is first asked for.

import { Type } from './json-schema.ts';
import { openApiDocument, type DocumentInfo } from './openapi.ts';
import { JSON_TYPE, jsonAnswer, plainRoute, type PlainRoute, type Surface } from './route.ts';

/** The surface with one more route, which shows it. */
export function withOpenApi(surface: Surface, info: DocumentInfo): Surface {
  let text: string | undefined;
  const render = (): string => (text ??= JSON.stringify(openApiDocument(shown, info)));
  const shown: Surface = { ...surface, routes: [...surface.routes, openApiRoute(render)] };
  return shown;
}

function openApiRoute(text: () => string): PlainRoute {
  return plainRoute({
    method: 'GET',
    path: '/openapi.json',
    authorised: false,
    operationId: 'getOpenApi',
    tag: 'Document',
    summary: 'This document',
    description: 'OpenAPI 3.1.',
    parameters: {},
    query: null,
    body: null,
    bodyExamples: {},
    reply: {
      status: 200,
      description: 'An OpenAPI document.',
      contentType: JSON_TYPE,
      schema: Type.Object(
        { openapi: Type.String({ description: 'Version of OpenAPI.' }) },
        { title: 'OpenApiDocument', additionalProperties: true },
      ),
      examples: { beginning: { openapi: '3.1.0' } },
    },
    errors: ['method_not_allowed'],
    handle: () => jsonAnswer(200, text()),
  });
}
