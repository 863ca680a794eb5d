import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { sql } from 'kysely';
import { type MigrationProvider, Migrator } from 'kysely/migration';
import type { Database } from './database.ts';
import { codeOf } from './errors.ts';

const MIGRATIONS = new URL('../../migrations/', import.meta.url);
/** Those of this version: the files as they were when the process started. */
const MIGRATION_NAMES = readdirSync(MIGRATIONS)
  .filter((file) => file.endsWith('.sql'))
  .map((file) => file.slice(0, -'.sql'.length))
  .sort();
const UNDEFINED_TABLE = '42P01';

/** The schema of the database is not the one that this version of the service was written for. */
export class SchemaMismatch extends Error {}

/** Numbered `.sql` files, run in the order of their names. They only go forward. */
const sqlFiles: MigrationProvider = {
  async getMigrations() {
    const migrations = MIGRATION_NAMES.map(async (name) => {
      const text = await readFile(new URL(`${name}.sql`, MIGRATIONS), 'utf8');
      const up = async (db: Database) => void (await sql.raw(text).execute(db));
      return [name, { up }] as const;
    });
    return Object.fromEntries(await Promise.all(migrations));
  },
};

/**
 * Brings the schema up to date, all in one transaction and behind a lock, so that two may run at once.
 *
 * @returns the names of the migrations that were run
 * @throws SchemaMismatch where the database is ahead of this version
 */
export async function migrate(db: Database): Promise<string[]> {
  const unknown = (await schemaDifference(db)).unknown;
  if (unknown.length > 0) throw newerThanCode(unknown);
  const { error, results = [] } = await new Migrator({ db, provider: sqlFiles }).migrateToLatest();
  if (error !== undefined) throw error;
  return results.map((result) => result.migrationName);
}

/**
 * @param allowNewer true where the database may be ahead of this version by now: a migration keeps the schema usable for
 * the release before it, so that one runs on while the next takes its place
 * @throws SchemaMismatch unless the migrations of this version have been run, and no others
 */
export async function verifySchema(db: Database, { allowNewer = false } = {}): Promise<void> {
  const { pending, unknown } = await schemaDifference(db);
  if (unknown.length > 0 && !allowNewer) throw newerThanCode(unknown);
  if (pending.length > 0) {
    throw new SchemaMismatch(
      `the schema of the database is not current (${pending.join(', ')} pending): run "npm run migrate"`,
    );
  }
}

function newerThanCode(unknown: readonly string[]): SchemaMismatch {
  return new SchemaMismatch(
    `the schema of the database is newer than this version of the service (it has ${unknown.join(', ')})`,
  );
}

async function schemaDifference(db: Database): Promise<{ pending: string[]; unknown: string[] }> {
  const applied = await appliedMigrations(db);
  return {
    pending: MIGRATION_NAMES.filter((name) => !applied.includes(name)),
    unknown: applied.filter((name) => !MIGRATION_NAMES.includes(name)),
  };
}

async function appliedMigrations(db: Database): Promise<string[]> {
  try {
    const { rows } = await sql<{ name: string }>`SELECT name FROM kysely_migration ORDER BY name`.execute(db);
    return rows.map((row) => row.name);
  } catch (error) {
    if (codeOf(error) === UNDEFINED_TABLE) return [];
    throw error;
  }
}
