import type { FastifyReply, FastifyRequest } from 'fastify';

/** One line a request. It names the route, not the address, and of the key only its hint. */
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
