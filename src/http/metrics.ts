import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import { statusOf } from './access-log.ts';
import { sendError } from './errors.ts';
import { routeUnknownPathsThrough } from './routing.ts';

const SECONDS_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** A place for the metrics of a process; those of Node itself are there already. */
export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}

/** Measures how long answers take, by operation and status. Requests of no operation are `other`. */
export function createRequestMeter(
  registry: Registry,
): (request: FastifyRequest, reply: FastifyReply) => void {
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the head of a request to the end of its answer.',
    labelNames: ['operation', 'status'] as const,
    buckets: SECONDS_BUCKETS,
    registers: [registry],
  });
  return ({ routeOptions }, reply) => {
    const operation = routeOptions.schema?.operationId ?? 'other';
    duration.labels(operation, `${statusOf(reply)}`).observe(reply.elapsedTime / 1000);
  };
}

/** The operations side, on a port of its own: `GET /metrics` for Prometheus. */
export function buildOpsApp(registry: Registry): FastifyInstance {
  const app = Fastify({ forceCloseConnections: true }); // nobody minds a lost scrape
  app.setErrorHandler(sendError);
  routeUnknownPathsThrough(app);
  app.get('/metrics', async (_request, reply) => {
    reply.type(registry.contentType);
    return registry.metrics();
  });
  return app;
}
