import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import { ConnectionPool } from './connection.ts';
import type { Tables } from './schema.ts';
import { type DatabaseLimits, requestLimits } from './time-limits.ts';

/** The database, or a transaction on it: what every query function takes first. */
export type Database = Kysely<Tables>;

const INT8_ARRAY = 1016;

/** int8 is a bigint here, alone and in arrays, and only here: pg's own default for the process stays as it is. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => {
    switch (Number(oid)) {
      case pg.types.builtins.INT8:
        return BigInt;
      case INT8_ARRAY:
        return parseBigints;
      default:
        return pg.types.getTypeParser(oid, format);
    }
  },
};

/** An array of one dimension, without NULLs, such as `{1,2}`. */
function parseBigints(text: string): bigint[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',').map(BigInt);
}

export type DatabaseConfig = Pick<
  Config,
  'databaseUrl' | 'databasePoolSize' | 'databasePreparedStatements' | 'requestDeadlineMs'
>;

/** Opens a pool, as a rule for requests; the first connection is made by the first query. End it with `destroy()`. */
export function openDatabase(
  config: DatabaseConfig,
  logger: Logger,
  limits: DatabaseLimits = requestLimits(config.requestDeadlineMs),
): Database {
  const pool = new pg.Pool({
    connectionString: withLibpqSemantics(config.databaseUrl),
    application_name: 'animal-store',
    max: config.databasePoolSize,
    connectionTimeoutMillis: limits.connect,
    statement_timeout: limits.statement,
    query_timeout: limits.silence,
    keepAlive: true,
    types,
  });
  // Without these listeners the death of a connection, idle or in use, would end the process. The error itself is not
  // logged: pg hangs the whole client on it.
  pool.on('error', ({ message }) => logger.warn({ reason: message }, 'an idle database connection was lost'));
  pool.on('connect', (client) => client.on('error', () => {})); // in use: its query fails, and is logged

  const { databasePreparedStatements: prepareStatements } = config;
  return new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: new ConnectionPool(pool, { prepareStatements }) }),
  });
}

/** Has `sslmode` mean what PostgreSQL's own documentation says; pg alone takes `require` for `verify-full`. */
function withLibpqSemantics(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  if (url.searchParams.has('sslmode')) url.searchParams.set('uselibpqcompat', 'true');
  return url.href;
}
