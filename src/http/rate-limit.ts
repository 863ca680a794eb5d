import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';
import { ApiError } from './errors.ts';

const WINDOW_MS = 60_000;

/**
 * Counts the requests of each key in this process, in windows of a minute. After authentication it tells how much is
 * left, and refuses what is too much.
 */
export async function limitRate(app: FastifyInstance, requestsPerMinute: number): Promise<void> {
  await app.register(rateLimit, {
    global: false,
    max: requestsPerMinute,
    timeWindow: WINDOW_MS,
    enableDraftSpec: true,
    keyGenerator: ({ apiKey }) => apiKey?.id ?? '',
    errorResponseBuilder: () =>
      new ApiError('rate_limited', `A key may make ${requestsPerMinute} requests a minute; try again later.`),
  });
  const count = app.rateLimit();
  app.addHook('preParsing', async function (request, reply) {
    if (request.apiKey !== null) await count.call(this, request, reply);
  });
}
