import type { FastifyInstance } from 'fastify';

const SWEEP_INTERVAL_MS = 50;

/**
 * Lets `close()` end as soon as the requests under way are answered. Node closes the connections that are idle when
 * it begins; those that become idle later would hold it up until their keep-alive runs out.
 */
export function closeIdleConnectionsWhileDraining(app: FastifyInstance): void {
  app.addHook('preClose', async () => {
    const sweep = setInterval(() => app.server.closeIdleConnections(), SWEEP_INTERVAL_MS);
    app.server.once('close', () => clearInterval(sweep));
  });
}
