import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { errorResponses, jsonResponse, reference } from '../http/openapi.ts';
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
        body: reference(NewMessage),
        response: {
          202: jsonResponse('Message stored, and queued.', Message),
          ...errorResponses(400, 401, 413, 415),
        },
      },
    },
    async ({ body }, reply) => {
      const message = await messages.create(body.message);
      return reply.code(202).send(message);
    },
  );
};
