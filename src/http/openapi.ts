import swagger from '@fastify/swagger';
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import type { FastifyInstance } from 'fastify';
import { payloadTooLarge } from './errors.ts';

/** A component, by its name: the document then refers to it instead of repeating it. */
export function reference<T extends TSchema>(component: T) {
  return Type.Unsafe<Static<T>>(Type.Ref(String(component.$id)));
}

/**
 * A response with a JSON body, for the `response` of an operation's schema.
 *
 * @param headers a description for each name
 */
export function jsonResponse<T extends TSchema>(
  description: string,
  component: T,
  headers: Readonly<Record<string, string>> = {},
) {
  const described = {
    'x-request-id': 'Identifies the request in the logs; a client may choose it.',
    ...headers,
  };
  return {
    description,
    headers: Object.fromEntries(
      Object.entries(described).map(([name, text]) => [name, { type: 'string', description: text }]),
    ),
    content: { 'application/json': { schema: reference(component) } },
  };
}

export const ErrorComponent = Type.Object(
  {
    code: Type.String({ description: 'Machine-readable error code.', examples: ['invalid_request'] }),
    message: Type.String({ description: 'Human-readable description.' }),
    status: Type.Integer({ description: 'The HTTP status code.', examples: [400] }),
  },
  { $id: 'Error' },
);

const ERROR_RESPONSES = {
  400: jsonResponse(
    'The query or the body is missing required fields or contains invalid values.',
    ErrorComponent,
  ),
  401: jsonResponse('Missing or invalid API key.', ErrorComponent, {
    'WWW-Authenticate': 'The scheme that is asked for (RFC 6750).',
  }),
  404: jsonResponse('The requested resource could not be found.', ErrorComponent),
  410: jsonResponse('The operation has been removed.', ErrorComponent),
  413: jsonResponse(payloadTooLarge().message, ErrorComponent),
  415: jsonResponse('The body is not plain application/json.', ErrorComponent),
  422: jsonResponse('The `Idempotency-Key` was used before, with another body.', ErrorComponent),
};

/** The error responses of an operation, and `default` for all others: they share one shape. */
export function errorResponses(...statuses: (keyof typeof ERROR_RESPONSES)[]) {
  return {
    ...Object.fromEntries(statuses.map((status) => [status, ERROR_RESPONSES[status]])),
    default: jsonResponse('Any other refusal.', ErrorComponent),
  };
}

/**
 * Describes the routes registered after it in an OpenAPI 3.1 document at `/openapi.json`, made from the very schemas
 * that requests are validated with. Routes hide themselves by `hide` in their schema.
 */
export async function documentRoutes(app: FastifyInstance, components: readonly TSchema[]): Promise<void> {
  for (const component of components) app.addSchema(component);

  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Animal Store',
        version: '1.0.0',
        description: 'An HTTP and JSON interface to a store of animals.',
      },
      servers: [{ url: '/v1' }],
      tags: [
        { name: 'animals', description: 'The animals in the store.' },
        { name: 'quickstart', description: 'The messaging example for getting started.' },
      ],
      components: { securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } } },
      security: [{ apiKey: [] }],
    },
    stripBasePath: true,
    transform: ({ schema, url }) => ({ schema, url: url.replace(/^\/quickstart(?=\/)/, '') }),
    refResolver: { buildLocalReference: (component) => String(component.$id) },
  });

  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
}
