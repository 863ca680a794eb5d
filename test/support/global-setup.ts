import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import type { TestProject } from 'vitest/node';
import { openDatabase } from '../../src/db/database.ts';
import { migrate } from '../../src/db/migrate.ts';
import { startPostgres } from '../../src/dev/postgres/embedded.ts';
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
  const embedded = given ? undefined : await startTemporaryPostgres();
  const serverUrl = given ?? embedded?.url ?? '';

  const prefix = `animal_store_test_${randomBytes(4).toString('hex')}`;
  const template = `${prefix}_template`;
  await inDatabase(serverUrl, (client) => client.query(`CREATE DATABASE ${template}`));
  const db = openDatabase(
    { databaseUrl: urlOf(serverUrl, template), databasePoolSize: 1, databaseTimeoutMs: 30_000 },
    pino({ level: 'silent' }),
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

async function startTemporaryPostgres() {
  const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-test-'));
  chmodSync(folder, 0o711); // as root, PostgreSQL runs as a user who must pass through
  const postgres = await startPostgres(folder, { fsync: 'off', max_connections: '200' });
  return {
    url: postgres.url('postgres'),
    stop: async () => {
      await postgres.stop();
      rmSync(postgres.folder, { recursive: true, force: true });
    },
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
