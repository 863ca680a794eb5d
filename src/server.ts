import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { buildApp } from './app.ts';
import type { Config } from './config.ts';
import { openDatabase } from './db/database.ts';
import { codeOf } from './db/errors.ts';
import { verifySchema } from './db/migrate.ts';
import { buildOpsApp, createRegistry } from './http/metrics.ts';

export interface Server {
  /** Where it listens, such as `http://127.0.0.1:3000`. */
  readonly address: string;
  /** Answers all requests for a pause, then takes no more, answers those under way, and lets go of the database. */
  stop(): Promise<void>;
}

/** An address cannot be listened on. `code` is that of the operating system, such as `EADDRINUSE`. */
export class ListenError extends Error {
  readonly code: string;
  /** The setting that has the port. */
  readonly portSetting: 'PORT' | 'OPS_PORT';

  constructor(cause: Error, portSetting: 'PORT' | 'OPS_PORT') {
    super(cause.message, { cause });
    this.code = codeOf(cause);
    this.portSetting = portSetting;
  }
}

/**
 * Serves, on a database that is reachable and whose schema is current.
 *
 * @throws where it cannot: see `describeStartupError`
 */
export async function startServer(config: Config, logger: Logger): Promise<Server> {
  const { host, port, opsPort } = config;
  const db = openDatabase(config, logger);
  const registry = createRegistry();
  const app = await buildApp({ config, db, logger, registry });
  const opsApp = buildOpsApp(registry);
  const stop = async () => {
    await app.close();
    await opsApp.close();
    await db.destroy();
  };
  try {
    await verifySchema(db);
    const opsAddress = await listen(opsApp, { host, port: opsPort }, 'OPS_PORT');
    const address = await listen(app, { host, port }, 'PORT');
    logger.info(`Metrics at ${opsAddress}/metrics`);
    return { address, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function listen(
  app: Pick<FastifyInstance, 'listen'>,
  address: { host: string; port: number },
  portSetting: ListenError['portSetting'],
): Promise<string> {
  try {
    return await app.listen(address);
  } catch (error) {
    throw error instanceof Error ? new ListenError(error, portSetting) : error;
  }
}
