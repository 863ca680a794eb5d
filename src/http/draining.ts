import type { FastifyInstance } from 'fastify';

const SWEEP_INTERVAL_MS = 50;

/**
 * Lets `close()` end as soon as the requests under way are answered. Node closes the connections that are idle when
 * it begins; those that become idle later would hold it up until their keep-alive runs out. Its time-out of requests
 * that do not arrive ends there too: clients that never finish are cut off after the deadline.
 *
 * @param deadlineMs milliseconds that every honest request has ended in
 */
export function endConnectionsWhileDraining(app: FastifyInstance, deadlineMs: number): void {
  app.addHook('preClose', async () => {
    const sweep = setInterval(() => app.server.closeIdleConnections(), SWEEP_INTERVAL_MS);
    const deadline = setTimeout(() => app.server.closeAllConnections(), deadlineMs);
    app.server.once('close', () => {
      clearInterval(sweep);
      clearTimeout(deadline);
    });
  });
}
