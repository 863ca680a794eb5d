import type { FastifyInstance } from 'fastify';

const EXPOSED_HEADERS = 'Link, Location, Deprecation, Sunset, Retry-After, x-request-id';
const ALLOWED_HEADERS = 'Authorization, Content-Type, Idempotency-Key, x-request-id';
const ALLOWED_METHODS = 'GET, HEAD, POST';
const PREFLIGHT_MAX_AGE_SECONDS = '600';

/** Lets pages of the listed origins call the service. A preflight is answered here, before the key is asked for. */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  app.addHook('onRequest', (request, reply, next) => {
    reply.header('vary', 'Origin');
    const { origin, 'access-control-request-method': requestedMethod } = request.headers;
    if (origin === undefined || !origins.includes(origin)) return next();
    reply.headers({
      'access-control-allow-origin': origin,
      'access-control-expose-headers': EXPOSED_HEADERS,
    });
    if (request.method !== 'OPTIONS' || requestedMethod === undefined) return next();
    reply
      .code(204)
      .headers({
        'access-control-allow-methods': ALLOWED_METHODS,
        'access-control-allow-headers': ALLOWED_HEADERS,
        'access-control-max-age': PREFLIGHT_MAX_AGE_SECONDS,
      })
      .send();
  });
}
