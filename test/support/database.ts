import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { pino } from 'pino';
import { inject } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { type Database, openDatabase } from '../../src/db/database.ts';
import { MIGRATION_LIMITS } from '../../src/db/time-limits.ts';
import { inDatabase, urlOf } from './postgres.ts';

/** The connection string of another database of the test server. */
export function urlOfDatabase(name: string): string {
  return urlOf(inject('serverUrl'), name);
}

/** Makes a database of its own for a test: a clone of the migrated template, or an empty one. */
export async function createDatabase(kind: 'migrated' | 'empty' = 'migrated'): Promise<string> {
  const template = inject('template');
  const name = template.replace('template', randomBytes(4).toString('hex'));
  await inDatabase(inject('serverUrl'), (client) =>
    client.query(`CREATE DATABASE ${name} TEMPLATE ${kind === 'migrated' ? template : 'template0'}`),
  );
  return urlOfDatabase(name);
}

/** Keeps everybody else from a table, until the function that it gives is called. */
export async function lockTable(databaseUrl: string, table: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  return () => client.end();
}

/** How many statements wait for a lock. */
export function statementsHeldUp(databaseUrl: string): Promise<number> {
  return inDatabase(databaseUrl, async (client) => {
    const { rowCount } = await client.query(
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    return rowCount ?? 0;
  });
}

export function connect(databaseUrl: string): Database {
  const config = loadConfig({ DATABASE_URL: databaseUrl });
  return openDatabase(config, pino({ level: 'silent' }), MIGRATION_LIMITS);
}
