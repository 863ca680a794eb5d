import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import type { TestProject } from 'vitest/node';
import { loadConfig } from '../../src/config.ts';
import { openDatabase } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { MIGRATION_LIMITS } from '../../src/db/time-limits.ts';
import { startTemporaryPostgres } from '../../src/dev/postgres/temporary.ts';
import { inDatabase, urlOf } from './postgres.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** A connection string of the test server, as a user who may create databases. */
    serverUrl: string;
    /** A migrated, empty database that each test file clones. */
    template: string;
  }
}

/** One PostgreSQL server for the run: that of TEST_DATABASE_URL, or an embedded one that forgets everything. */
export default async function setup(project: TestProject) {
  const given = process.env.TEST_DATABASE_URL;
  const embedded = given ? undefined : await startTemporaryPostgres({ fsync: 'off', max_connections: '200' });
  const serverUrl = given ?? embedded?.url('postgres') ?? '';

  const prefix = `animal_store_test_${randomBytes(4).toString('hex')}`;
  const template = `${prefix}_template`;
  await inDatabase(serverUrl, (client) => client.query(`CREATE DATABASE ${template}`));
  const db = openDatabase(
    loadConfig({ DATABASE_URL: urlOf(serverUrl, template) }),
    pino({ level: 'silent' }),
    MIGRATION_LIMITS,
  );
  await migrate(db);
  await db.destroy();
  project.provide('serverUrl', serverUrl);
  project.provide('template', template);

  return async () => {
    await embedded?.stop();
    if (given) await dropDatabases(given, prefix);
  };
}

async function dropDatabases(serverUrl: string, prefix: string): Promise<void> {
  await inDatabase(serverUrl, async (client) => {
    const { rows } = await client.query('SELECT datname FROM pg_database WHERE starts_with(datname, $1)', [
      prefix,
    ]);
    for (const { datname } of rows) await client.query(`DROP DATABASE ${datname} WITH (FORCE)`);
  });
}
