import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/** One line a request. */
export function logRequests(app: FastifyInstance): void {
  app.addHook('onResponse', (request, reply, next) => {
    logRequest(request, reply);
    next();
  });
}

/** Names the route, not the address, and of the key only its hint. */
export function logRequest(request: FastifyRequest, reply: FastifyReply): void {
  request.log.info(
    {
      method: request.method,
      route: request.routeOptions.url,
      status: reply.statusCode,
      durationMs: Math.round(reply.elapsedTime * 1000) / 1000,
      bytes: Number(reply.getHeader('content-length') ?? 0),
      key: request.apiKey?.hint,
    },
    'request',
  );
}
