import type { FastifyRequest } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    /** Milliseconds that authentication left for the last statement of the request to begin. */
    timeLeftMs: number;
  }
}

/**
 * When the statement of a handler must have begun, on the clock of `performance.now()`, so that the request ends within
 * its deadline. Call it once the body has arrived: the time for that is the client's, and has a time-out of its own.
 */
export function startBy({ timeLeftMs }: FastifyRequest): number {
  return performance.now() + timeLeftMs;
}
