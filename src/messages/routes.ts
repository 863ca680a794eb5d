import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { startBy } from '../http/deadline.ts';
import { errorResponses, jsonResponse, reference } from '../http/openapi.ts';
import { IdempotencyHeaders, idempotencyKeyOf } from '../idempotency/header.ts';
import type { MessageRepository } from './repository.ts';
import { Message, NewMessage } from './schemas.ts';

/** The getting-started example (interface: Quickstart messaging example). */
export const messageRoutes: FastifyPluginAsyncTypebox<{ messages: MessageRepository }> = async (
  app,
  { messages },
) => {
  app.post(
    '/messages',
    {
      schema: {
        operationId: 'createMessage',
        summary: 'Queue a message',
        tags: ['quickstart'],
        servers: [{ url: '/quickstart' }],
        headers: IdempotencyHeaders,
        body: reference(NewMessage),
        response: {
          202: jsonResponse('Message stored, and queued.', Message),
          ...errorResponses(400, 401, 413, 415, 422),
        },
      },
    },
    async (request, reply) => {
      const idempotencyKey = idempotencyKeyOf(request);
      const message = await messages.create(request.body.message, idempotencyKey, startBy(request));
      return reply.code(202).send(message);
    },
  );
};
