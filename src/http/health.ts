import type { FastifyInstance } from 'fastify';
import type { Database } from '../db/database.ts';
import { verifySchema } from '../db/migrate.ts';
import { unavailable } from './errors.ts';

/** For orchestrators, without a key: whether the process lives, and whether it should be sent requests. */
export function registerHealth(app: FastifyInstance, db: Database, isDraining: () => boolean): void {
  app.get('/health/live', { schema: { hide: true } }, async () => ({ status: 'live' }));

  app.get('/health/ready', { schema: { hide: true } }, async (request) => {
    if (isDraining()) throw unavailable('The service is shutting down.');
    try {
      await verifySchema(db, { allowNewer: true });
    } catch (error) {
      request.log.warn({ err: error }, 'not ready');
      throw unavailable('The database cannot be reached, or its schema is not current.');
    }
    return { status: 'ready' };
  });
}
