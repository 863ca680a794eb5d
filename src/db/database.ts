import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import type { Tables } from './schema.ts';

/** The database, or a transaction on it: what every query function takes first. */
export type Database = Kysely<Tables>;

/** int8 is a bigint here, and only here: pg's own default for the process stays as it is. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    oid === pg.types.builtins.INT8 ? BigInt : pg.types.getTypeParser(oid, format),
};

/** Opens a pool; the first connection is made by the first query. End it with `destroy()`. */
export function openDatabase(
  config: Pick<Config, 'databaseUrl' | 'databasePoolSize' | 'databaseTimeoutMs'>,
  logger: Logger,
): Database {
  const pool = new pg.Pool({
    connectionString: config.databaseUrl,
    application_name: 'animal-store',
    max: config.databasePoolSize,
    connectionTimeoutMillis: config.databaseTimeoutMs,
    query_timeout: config.databaseTimeoutMs,
    keepAlive: true,
    types,
  });
  // Without a listener, the death of an idle connection would end the process.
  pool.on('error', (error) => logger.warn({ err: error }, 'an idle database connection was lost'));
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
}
