import type { FastifyReply, FastifyRequest } from 'fastify';

/** What is logged and measured as the status of a request whose client left before its answer did. */
const CLIENT_LEFT = 499;

/** The status of an answer that has ended, one way or the other. */
export function statusOf({ raw, statusCode }: FastifyReply): number {
  return raw.writableFinished ? statusCode : CLIENT_LEFT;
}

/** One line a request. It names the route, not the address, and of the key only its hint. */
export function logRequest(request: FastifyRequest, reply: FastifyReply): void {
  request.log.info(
    {
      method: request.method,
      route: request.routeOptions.url,
      status: statusOf(reply),
      durationMs: Math.round(reply.elapsedTime * 1000) / 1000,
      bytes: Number(reply.getHeader('content-length') ?? 0),
      key: request.apiKey?.hint,
    },
    'request',
  );
}
