import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, preHandlerAsyncHookHandler } from 'fastify';
import { ApiError } from './errors.ts';

const WINDOW_MS = 60_000;

/**
 * Counts the requests of each key in this process, in windows of a minute.
 *
 * @returns a hook that comes after authentication: it tells how much is left, and refuses what is too much
 */
export async function limitRate(
  app: FastifyInstance,
  requestsPerMinute: number,
): Promise<preHandlerAsyncHookHandler> {
  await app.register(rateLimit, {
    global: false,
    max: requestsPerMinute,
    timeWindow: WINDOW_MS,
    enableDraftSpec: true,
    keyGenerator: ({ apiKey }) => apiKey?.id ?? '',
    errorResponseBuilder: () =>
      new ApiError('rate_limited', `A key may make ${requestsPerMinute} requests a minute; try again later.`),
  });
  return app.rateLimit();
}
