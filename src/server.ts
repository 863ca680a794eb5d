import type { Logger } from 'pino';
import { buildApp } from './app.ts';
import type { Config } from './config.ts';
import { openDatabase } from './db/database.ts';
import { codeOf } from './db/errors.ts';
import { verifySchema } from './db/migrate.ts';

export interface Server {
  /** Where it listens, such as `http://127.0.0.1:3000`. */
  readonly address: string;
  /** Takes no new connections, answers the requests under way, then ends the connections to the database. */
  stop(): Promise<void>;
}

/** The address of HOST and PORT cannot be listened on. `code` is that of the operating system, such as `EADDRINUSE`. */
export class ListenError extends Error {
  readonly code: string;

  constructor(cause: Error) {
    super(cause.message, { cause });
    this.code = codeOf(cause);
  }
}

/**
 * Serves, on a database that is reachable and whose schema is current.
 *
 * @throws where it cannot: see `describeStartupError`
 */
export async function startServer(config: Config, logger: Logger): Promise<Server> {
  const db = openDatabase(config, logger);
  try {
    await verifySchema(db);
    const app = await buildApp({ config, db, logger });
    const address = await listen(app, config);
    return {
      address,
      stop: async () => {
        await app.close();
        await db.destroy();
      },
    };
  } catch (error) {
    await db.destroy();
    throw error;
  }
}

async function listen(app: Awaited<ReturnType<typeof buildApp>>, { host, port }: Config): Promise<string> {
  try {
    return await app.listen({ host, port });
  } catch (error) {
    throw error instanceof Error ? new ListenError(error) : error;
  }
}
